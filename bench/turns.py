"""What is done in W4: the tools, the calls, the rules, and a model that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from teamwright.models.model import ModelCard, Part, Reply, Request, TextPart
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage

TOOL = "python__look_up"
"""The tool that is called each turn; it does nothing, so that only the runtime is measured."""

ANSWER = "That is all there is to say about these lines."

HIDDEN = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "AskUserQuestion", "Agent", "ListAgents", "TaskGet",
          "EnterPlanMode", "ExitPlanMode", "TaskOutput", "TaskStop")  # fmt: skip
"""Denied as a whole: with them gone a teammate has ten tools."""

ALLOWED = (TOOL,)

RULES_ALLOW = (
    *ALLOWED,
    *(f"Bash({command}:*)" for command in ("git status", "git log", "git diff", "ls", "pytest", "make test")),
    *("Read(src/**)", "Read(docs/**)", "Edit(src/**)", "WebFetch(domain:docs.example.org)"),
)
RULES_DENY = (
    *("Read(**/.env)", "Read(//etc/**)", "Edit(**/*.lock)", "Edit(.github/**)"),
    *("Bash(rm:*)", "Bash(git push:*)", "Bash(curl:*)", "WebFetch(domain:example.com)", "python__drop_table"),
)
"""Twenty rules, none of which is about the call but the one that allows it."""


def tool_input(number: int) -> dict[str, Any]:
    """The arguments of the N-th call."""
    return {"path": f"src/module_{number % 100}/file.py", "first_line": 120, "last_line": 180}


async def look_up(path: str, first_line: int, last_line: int = 0) -> str:
    """Look up the lines of a file."""
    return f"{path}:{first_line}-{last_line}: 61 lines, the last one is a return statement of one value."


async def find_name(name: str) -> str:
    """Find where a name is defined."""
    return name


async def count_words(text: str, least: int = 1) -> str:
    """Count the words of a text."""
    return f"{len(text.split())} {least}"


FUNCTIONS: tuple[Callable[..., Any], ...] = (look_up, find_name, count_words)


class InstantModel:
    """Answers each request at once: a call of TOOL until its asker has made `turns` of them, then text."""

    def __init__(self, turns: int) -> None:
        self.card = ModelCard("bench", "bench", "bench", usd_in=1.0, usd_out=5.0)
        self.turns = turns
        self._made: dict[str, int] = {}
        self._usage = Usage(120, 40, 2_000, 100, 1, 0.001)

    def begin(self, turns: int) -> None:
        """From now on everybody makes that many calls, whatever it made before."""
        self.turns = turns
        self._made.clear()

    async def aclose(self) -> None:
        """Nothing is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """One answer, after one turn of the event loop: as a network would, it lets others run."""
        await asyncio.sleep(0)
        made = self._made.get(request.agent_name, 0)
        self._made[request.agent_name] = made + 1
        if made < self.turns:
            call = {"type": "tool_use", "id": f"toolu_b_{made:06d}", "name": TOOL, "input": tool_input(made)}
            yield Reply([text_block("I look."), call], "tool_use", self._usage, "bench")
        else:
            yield TextPart(ANSWER)
            yield Reply([text_block(ANSWER)], "end_turn", self._usage, "bench")
