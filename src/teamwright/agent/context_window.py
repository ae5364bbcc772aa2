"""The use of an agent's context window: prompt, tools, instructions, skills, memory, messages and free space.

The sum is the service's count with the last answer where there is one, and bytes / 4 for later messages. The parts are
shares of the sum by bytes. The figures describe the prefix and the session note that are sent. Read-only.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from msgspec import Struct

from teamwright.agent.agent import Agent
from teamwright.agent.compaction_state import measure_context
from teamwright.agent.prompt import received_session_notes
from teamwright.models.model import Prefix
from teamwright.models.token_estimate import BYTES_PER_TOKEN, answer_tokens, total_tokens
from teamwright.protocol.ids import display_name
from teamwright.protocol.messages import encode

SYSTEM, TOOLS, SERVED, INSTRUCTIONS = "system prompt", "tools", "tools of MCP servers", "instructions"
SKILLS, MEMORY, MESSAGES = "skills", "memory", "messages"
PARTS = (SYSTEM, TOOLS, SERVED, INSTRUCTIONS, SKILLS, MEMORY, MESSAGES)
"""The parts in display order."""

_SERVER_TOOLS = frozenset({"McpCall", "ListMcpResources", "ReadMcpResource"})

_HEADINGS = {
    "# Skill ": SKILLS,
    "# Your memory": MEMORY,
    "# Where you are": SYSTEM,
    "# Instructions of the user and the project": INSTRUCTIONS,
}
_HEADING = re.compile("^(" + "|".join(map(re.escape, _HEADINGS)) + ")", re.MULTILINE)


class ContextPart(Struct, frozen=True):
    """One part of the window, in tokens."""

    name: str
    tokens: int


class ContextView(Struct, frozen=True):
    """The window of one agent, in tokens. `used` is the sum of the parts, `free` the rest of the window.

    `measured`: the service counted the sum with the last answer; later messages are estimated by bytes / 4, and so is
    all without a count. `compacts_at` is the sum at which automatic compaction starts. None: only when the service
    reports a full window.
    """

    member: str
    model: str
    window: int
    parts: tuple[ContextPart, ...]
    measured: bool
    compacts_at: int | None

    @property
    def used(self) -> int:
        """The tokens in the window."""
        return sum(part.tokens for part in self.parts)

    @property
    def free(self) -> int:
        """The tokens that are free."""
        return max(0, self.window - self.used)

    @property
    def left(self) -> int | None:
        """The tokens left until automatic compaction; None when that is not known."""
        return None if self.compacts_at is None else max(0, self.compacts_at - self.used)


def agent_context(agent: Agent) -> ContextView:
    """Return the current window of this agent."""
    conversation = agent.conversation
    card = agent.model.card
    total = measure_context(conversation, agent.compaction)
    note = "".join(str(block["text"]) for block in received_session_notes(agent))
    if not conversation.items:
        note = agent.session_note()  # the first message brings it
        total += len(encode(note)) // BYTES_PER_TOKEN
    counted, tokens = conversation.reported_tokens
    measured = bool(tokens) and counted <= len(conversation.items)
    return ContextView(
        display_name(agent.name),
        card.name,
        card.context_tokens,
        _parts(agent, note, total),
        measured,
        agent.compaction.threshold(card, answer_tokens(conversation.prefix)),
    )


def _parts(agent: Agent, note: str, total: int) -> tuple[ContextPart, ...]:
    """Return the parts as shares of the total, which has the session note. They add up to it."""
    sizes = dict.fromkeys(PARTS, 0) | _sizes(agent.conversation.prefix)
    sizes[MESSAGES] = total_tokens(agent.conversation.items) * BYTES_PER_TOKEN
    for name, text in _sections(note):
        size = len(encode({"text": text}))
        sizes[name] += size
        sizes[MESSAGES] = max(0, sizes[MESSAGES] - size)
    every = max(1, sum(sizes.values()))
    parts = list[ContextPart]()
    listed_tokens = 0
    for name in PARTS[:-1]:
        tokens = total * sizes[name] // every
        listed_tokens += tokens
        if tokens:
            parts.append(ContextPart(name, tokens))
    return (
        (*parts, ContextPart(MESSAGES, total - listed_tokens))
        if sizes[MESSAGES]
        else _filled(parts, total - listed_tokens)
    )


def _filled(parts: list[ContextPart], left: int) -> tuple[ContextPart, ...]:
    """Add the rounding difference to the first part."""
    return (ContextPart(parts[0].name, parts[0].tokens + left), *parts[1:]) if parts else ()


def _sizes(prefix: Prefix) -> dict[str, int]:
    """Return the bytes of each part that is sent before the conversation."""
    fields = cast("dict[str, Any]", json.loads(b"{" + prefix.head + b"}"))
    sizes: dict[str, int] = {}
    for block in fields.pop("system", ()):
        for name, text in _sections(str(block.get("text", ""))):
            sizes[name] = sizes.get(name, 0) + len(encode({"text": text}))
    for tool in fields.pop("tools", ()):
        called = str(tool.get("name", ""))
        name = (
            SERVED if called.startswith("mcp__") or called in _SERVER_TOOLS else SKILLS if called == "Skill" else TOOLS
        )
        sizes[name] = sizes.get(name, 0) + len(encode(tool))
    return sizes


def _sections(text: str) -> list[tuple[str, str]]:
    """Split a system prompt or a session note into parts. The instructions are the last one."""
    found: list[tuple[str, str]] = []
    name, begun = SYSTEM, 0
    for heading in _HEADING.finditer(text):
        found.append((name, text[begun : heading.start()]))
        name, begun = _HEADINGS[heading[1]], heading.start()
        if name == INSTRUCTIONS:
            break
    return [*found, (name, text[begun:])]
