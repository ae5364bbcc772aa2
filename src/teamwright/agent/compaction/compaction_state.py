"""What one agent's compaction remembers: its settings, what was asked for by hand, and when to try again.

Values and two ports; what is done with them is in `compact`. Knows prefixes; does not know the agent that it is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from typing import Protocol

from teamwright.agent.tool import AnyTool
from teamwright.models.model import Failure, ModelCard, Prefix
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass

AUTO, MANUAL, CLEAR = "auto", "manual", "clear"
"""What began a compaction; the last one writes no summary."""


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """When a conversation is made smaller by itself."""

    at: float | None = 0.8
    """The share of its model's window at which an agent's conversation is compacted; None: only when the service says
    that it is full, and by hand."""


class CompactionContext(Protocol):
    """The port to what stands beside a conversation: filled in `app`."""

    async def wait_until_marked_read(self) -> None:
        """Return when everything that the agent was told is marked as read. Raises TeamwrightError."""
        ...

    async def status_text(self) -> str:
        """How things stand, for an agent that goes on from a summary: team, tasks, requests, mode, jobs."""
        ...


class NoCompactionContext:
    """For agents that nobody writes to and that are part of nothing."""

    async def wait_until_marked_read(self) -> None:
        """Nothing is to be flagged."""

    async def status_text(self) -> str:
        """Nothing is to be told."""
        return ""


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction came to. `before` and `after` are tokens, estimated where no service told them.

    Not `done`: nothing was changed, and `why` says what was in the way; `limit` names the cap where a budget was,
    `failure` is the service's. `usage` is spent all the same.
    """

    done: bool
    before: int = 0
    after: int = 0
    why: str = ""
    summary: str = ""
    limit: str = ""
    failure: Failure | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class CompactRequest:
    """A compaction that was asked for by hand: `keep` says what matters in particular."""

    keep: str
    result: asyncio.Future[CompactResult]


@dataclass(slots=True)
class Compaction:
    """The compaction of one agent. `turn` is held while a turn runs, and while a conversation at rest is compacted.

    `fresh` makes the prefix that a new conversation of this agent would have. `again_at`: below so many tokens it is
    not tried again by itself. `measured` is how many messages were counted so far, and their tokens.
    """

    settings: CompactSettings = field(default_factory=CompactSettings)
    context: CompactionContext = field(default_factory=NoCompactionContext)
    make_prefix: Callable[[], Prefix] | None = None
    on_forgotten: Callable[[], None] | None = None
    """Called when the agent forgot all but a summary: what is told once is told once more."""
    make_tools: Callable[[], Awaitable[Sequence[AnyTool]]] | None = None
    """Makes the tools that this agent would be born with today."""
    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    request: CompactRequest | None = None
    retry_at: int = 0
    warned_small_window: bool = False
    """Whether it was said that the window is small."""
    measured_context: tuple[int, int] = (0, 0)

    def release(self) -> None:
        """The agent's life is over: its parts that are kept here are not."""
        self.context, self.make_prefix, self.on_forgotten, self.make_tools = NoCompactionContext(), None, None, None

    def threshold(self, card: ModelCard, answer_tokens: int) -> int | None:
        """At how many tokens a conversation is compacted: the stated share, and always with room for the answer."""
        share = self.settings.at
        if share is None:
            return None
        return min(int(card.context_tokens * share), prompt_room(card, answer_tokens))


def prompt_room(card: ModelCard, answer_tokens: int) -> int:
    """What a prompt may have of a window, with the answer's part kept free: a quarter of the window at most."""
    return card.context_tokens - min(answer_tokens, card.context_tokens // 4)
