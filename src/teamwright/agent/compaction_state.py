"""The state of one agent's compaction: settings, pending request, and the size of the conversation in tokens.

The size is the service's count where there is one, and an estimate by bytes for the rest; each message is counted
once. The algorithm is in `compaction`, which few runs need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Struct, field

from teamwright.models.model import Failure, ModelCard, Prefix
from teamwright.models.token_estimate import TokenRatio
from teamwright.protocol.setting_types import Setting, Share
from teamwright.protocol.usage import Usage

if TYPE_CHECKING:  # settings are declared here, and a command that reads them needs no conversation
    from teamwright.agent.conversation import Conversation
    from teamwright.agent.plan_mode import PlanMode
    from teamwright.agent.tool import AnyTool
    from teamwright.agent.toolbox import Toolbox
    from teamwright.models.effort import Effort
    from teamwright.models.model import Model
    from teamwright.permissions.permission_decision import Policy


AUTO = "auto"
MANUAL = "manual"
CLEAR = "clear"
"""The triggers of a compaction. `clear` writes no summary."""


class CompactSettings(Struct, frozen=True):
    """The condition for automatic compaction."""

    at: Annotated[
        Share | None,
        Setting(
            "compact_at",
            "The share of its window at which a conversation is compacted; null: only when the window is full.",
        ),
    ] = 0.8
    """None: only on request, or when the service reports a full window."""


class CompactedAgent(Protocol):
    """An agent as the ports of its compaction see it."""

    name: str
    agent_id: str
    model: Model
    toolbox: Toolbox
    policy: Policy
    plan: PlanMode | None
    effort: Effort | None


class CompactionContext(Protocol):
    """The port to the state around an agent's conversation, implemented in `teams`."""

    async def wait_until_marked_read(self, agent: CompactedAgent, /) -> None:
        """Wait until all delivered mail is marked as read. Raises TeamwrightError."""

    async def status_text(self, agent: CompactedAgent, /) -> str:
        """Return the current status for an agent that continues from a summary: team, tasks, requests, mode, jobs."""
        ...


class NoCompactionContext:
    """The port for agents without mail and without a team."""

    async def wait_until_marked_read(self, agent: CompactedAgent, /) -> None:
        """Return immediately: there is no mail."""

    async def status_text(self, agent: CompactedAgent, /) -> str:
        """Return an empty text."""
        return ""


class CompactResult(Struct, frozen=True):
    """The result of a compaction. `before` and `after` are tokens, estimated when the service gave no count.

    When `done` is false nothing was changed and `why` has the reason: `limit` names the cap of an exceeded budget,
    `failure` is the service's. `usage` is charged in every case.
    """

    done: bool
    before: int = 0
    after: int = 0
    why: str = ""
    summary: str = ""
    limit: str = ""
    failure: Failure | None = None
    usage: Usage = field(default_factory=Usage)


class CompactRequest(Struct):
    """A compaction on request. `keep` names the facts that the summary must keep."""

    keep: str
    result: asyncio.Future[CompactResult]


class Compaction(Struct):
    """The compaction state of one agent.

    `turn_lock` is held during a turn, and while an idle conversation is compacted. `make_prefix` returns the prefix
    that a new conversation of the agent would have. `retry_at` is the number of tokens below which no automatic
    attempt is made. `measured_context` is the number of messages counted so far, and their tokens.
    """

    settings: CompactSettings = field(default_factory=CompactSettings)
    context: CompactionContext = field(default_factory=NoCompactionContext)
    make_prefix: Callable[[CompactedAgent], Prefix] | None = None
    make_tools: Callable[[ModelCard], Awaitable[Sequence[AnyTool]]] | None = None
    """Return the tools that a new agent of this type and model would get now."""
    turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    request: CompactRequest | None = None
    retry_at: int = 0
    warned_small_window: bool = False
    """True after the warning about a small window."""
    measured_context: tuple[int, int] = (0, 0)
    ratio: TokenRatio = field(default_factory=TokenRatio)
    """The bytes of a token of the agent's model, as its service has counted so far."""

    def change_settings(self, settings: CompactSettings) -> None:
        """Compact by these settings from the next model call on."""
        self.settings = settings

    def release(self) -> None:
        """Release the references of a terminated agent."""
        self.context = NoCompactionContext()
        self.make_prefix = None
        self.make_tools = None

    def threshold(self, card: ModelCard, answer_tokens: int) -> int | None:
        """Return the size in tokens that starts a compaction: the set share, with room left for the answer."""
        share = self.settings.at
        if share is None:
            return None
        return min(int(card.context_tokens * share), prompt_room(card, answer_tokens))


def prompt_room(card: ModelCard, answer_tokens: int) -> int:
    """Return the tokens of the window that a prompt may use.

    The answer keeps its part, at most a quarter of the window.
    """
    return card.context_tokens - min(answer_tokens, card.context_tokens // 4)


def measure_context(conversation: Conversation, compaction: Compaction) -> int:
    """Return the size of the next request in tokens, without the answer.

    Only messages since the last call are counted.
    """
    number, tokens = conversation.reported_tokens
    if not tokens or number > len(conversation.items):
        number = 0
        tokens = compaction.ratio.prefix_tokens(conversation.prefix)
    known = compaction.measured_context
    if number < known[0] <= len(conversation.items):
        number, tokens = known
    tokens += compaction.ratio.total_tokens(conversation.items[number:])
    compaction.measured_context = (len(conversation.items), tokens)
    return tokens


def learn_ratio(conversation: Conversation, compaction: Compaction, prompt_tokens: int) -> None:
    """Learn from the service's count of the tokens of the newest request, before its answer is appended."""
    number, tokens = conversation.reported_tokens
    if tokens and number <= len(conversation.items):
        compaction.ratio.learn(conversation.items[number:], prompt_tokens - tokens)
    else:
        compaction.ratio.learn([conversation.prefix.head, *conversation.items], prompt_tokens)
    compaction.measured_context = (0, 0)
