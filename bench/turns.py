"""The work of W4: tools, calls, permission rules, and a model that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from teamwright.models.model import ModelCard, Part, Reply, Request, TextPart
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage

TOOL = "python__look_up"
"""The tool of every call. It does nothing, so that only the runtime is measured."""

ANSWER = "That is all there is to say about these lines."

HIDDEN = ("Bash", "Edit", "Write", "NotebookEdit", "WebFetch", "AskUserQuestion", "Agent", "ListAgents", "TaskGet",
          "EnterPlanMode", "ExitPlanMode", "TaskOutput", "TaskStop")  # fmt: skip
"""Tools that are denied: a teammate has ten tools without them."""

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
"""Twenty rules. One of them allows the call; the others do not match it."""


def tool_input(number: int) -> dict[str, Any]:
    """Return the arguments of the N-th call."""
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
    """A model without waiting: it answers each prompt with `calls` calls of TOOL, one a request, then with text."""

    def __init__(self, calls: int) -> None:
        self.card = ModelCard("bench", "bench", "bench", usd_in=1.0, usd_out=5.0)
        self.calls = calls
        self._requests: dict[str, int] = {}
        self._usage = Usage(120, 40, 2_000, 100, 1, 0.001)

    def begin(self, calls: int) -> None:
        """Answer each further prompt with that many calls."""
        self.calls = calls
        self._requests.clear()

    async def aclose(self) -> None:
        """Nothing is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield one answer after one turn of the event loop: others run, as during a request over a network."""
        await asyncio.sleep(0)
        number = self._requests.get(request.agent_name, 0)
        self._requests[request.agent_name] = number + 1
        if number % (self.calls + 1) < self.calls:
            call = {"type": "tool_use", "id": f"toolu_b_{number:06d}", "name": TOOL, "input": tool_input(number)}
            yield Reply([text_block("I look."), call], "tool_use", self._usage, "bench")
        else:
            yield TextPart(ANSWER)
            yield Reply([text_block(ANSWER)], "end_turn", self._usage, "bench")
