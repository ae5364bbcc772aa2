"""What fills the window of one agent: its prompt, tools, instructions, skills, memory, messages, and what is left.

The sum is what the service counted with the last answer, where it told it, and bytes / 4 for what came since; the parts
are their shares of the bytes. Reads the prefix that is really sent. Changes nothing; prints nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.context_size import BYTES_PER_TOKEN, answer_tokens, measure_context, total_tokens
from teamwright.models.model import Prefix
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.messages import encode
from teamwright.protocol.values import dataclass

SYSTEM, TOOLS, SERVED, INSTRUCTIONS = "system prompt", "tools", "tools of MCP servers", "instructions"
SKILLS, MEMORY, MESSAGES = "skills", "memory", "messages"
PARTS = (SYSTEM, TOOLS, SERVED, INSTRUCTIONS, SKILLS, MEMORY, MESSAGES)
"""In the order in which they are shown."""

_HEADINGS = {
    "# Skill ": SKILLS,
    "# Your memory": MEMORY,
    "# Where you are": SYSTEM,
    "# Instructions of the user and the project": INSTRUCTIONS,
}
_HEADING = re.compile("^(" + "|".join(map(re.escape, _HEADINGS)) + ")", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One thing that stands in the window, in tokens."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextView:
    """The window of one agent, in tokens. `used` is the sum of the parts, `free` what is left of the window.

    `measured`: the service counted the sum with the last answer, but for what came since; else all is bytes / 4.
    `compacts_at` is the sum at which the conversation is compacted by itself, None: only when the service says that it
    is full.
    """

    member: str
    model: str
    window: int
    parts: tuple[ContextPart, ...]
    measured: bool
    compacts_at: int | None

    @property
    def used(self) -> int:
        """What is in the window."""
        return sum(part.tokens for part in self.parts)

    @property
    def free(self) -> int:
        """What is left of it."""
        return max(0, self.window - self.used)

    @property
    def left(self) -> int | None:
        """How many tokens more until it is compacted by itself; None: that is not known."""
        return None if self.compacts_at is None else max(0, self.compacts_at - self.used)


def agent_context(agent: Agent) -> ContextView:
    """The window of this agent as it is now."""
    conversation, card = agent.conversation, agent.model.card
    total, (counted, tokens) = measure_context(conversation, agent.compaction), conversation.reported_tokens
    measured = bool(tokens) and counted <= len(conversation.items)
    return ContextView(
        LEAD_ALIAS if agent.name == LEAD else agent.name,
        card.name,
        card.context_tokens,
        _parts(agent, total),
        measured,
        agent.compaction.threshold(card, answer_tokens(conversation.prefix)),
    )


def _parts(agent: Agent, total: int) -> tuple[ContextPart, ...]:
    """The parts as shares of the whole, which they add up to."""
    sizes = dict.fromkeys(PARTS, 0) | _sizes(agent.conversation.prefix)
    sizes[MESSAGES] = total_tokens(agent.conversation.items) * BYTES_PER_TOKEN
    every, made, told = max(1, sum(sizes.values())), list[ContextPart](), 0
    for name in PARTS[:-1]:
        tokens = total * sizes[name] // every
        told += tokens
        if tokens:
            made.append(ContextPart(name, tokens))
    return (*made, ContextPart(MESSAGES, total - told)) if sizes[MESSAGES] else _filled(made, total - told)


def _filled(parts: list[ContextPart], left: int) -> tuple[ContextPart, ...]:
    """What rounding lost goes to the first."""
    return (ContextPart(parts[0].name, parts[0].tokens + left), *parts[1:]) if parts else ()


def _sizes(prefix: Prefix) -> dict[str, int]:
    """Bytes of what stands before the conversation, as it is sent."""
    fields = cast("dict[str, Any]", json.loads(b"{" + prefix.head + b"}"))
    sizes: dict[str, int] = {}
    for block in fields.pop("system", ()):
        for name, text in _sections(str(block.get("text", ""))):
            sizes[name] = sizes.get(name, 0) + len(encode({"text": text}))
    for tool in fields.pop("tools", ()):
        called = str(tool.get("name", ""))
        name = SERVED if called.startswith("mcp__") or called == "McpCall" else SKILLS if called == "Skill" else TOOLS
        sizes[name] = sizes.get(name, 0) + len(encode(tool))
    return sizes


def _sections(text: str) -> list[tuple[str, str]]:
    """The system prompt in pieces by what they are; what follows the heading of the instructions is all theirs."""
    found: list[tuple[str, str]] = []
    name, begun = SYSTEM, 0
    for heading in _HEADING.finditer(text):
        found.append((name, text[begun : heading.start()]))
        name, begun = _HEADINGS[heading[1]], heading.start()
        if name == INSTRUCTIONS:
            break
    return [*found, (name, text[begun:])]
