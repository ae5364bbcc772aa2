"""One agent as a value: its model, conversation, tools and limits, and how its turns end.

Handed to the loop and to whatever asks its model; it does nothing by itself. Knows the contracts of this room and of
`models`; knows no tool, no team, no screen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from teamwright.agent.activity import AgentActivity
from teamwright.agent.agent_hooks import NO_HOOKS, AgentHooks
from teamwright.agent.compaction.compaction_state import Compaction
from teamwright.agent.conversation import Conversation
from teamwright.agent.plan_mode import PlanMode
from teamwright.agent.reminders import Remind, no_reminder
from teamwright.agent.toolbox import NO_TOOLS, Toolbox
from teamwright.models.effort import Effort, supported_effort
from teamwright.models.model import Failure, Meter, Model, Prefix, Reply
from teamwright.permissions.decide import Policy
from teamwright.protocol.events import (
    ESTIMATED_COUNT,
    FAILED_ATTEMPTS,
    AssistantText,
    Emit,
    HasListeners,
    ModelCallEnded,
    always_true,
)
from teamwright.protocol.message_xml import RuntimeTags
from teamwright.protocol.messages import Block
from teamwright.protocol.usage import NO_USAGE, Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class SteeringInput:
    """What arrived between rounds: texts and the ids they carry; `seen` is called once the transcript has them."""

    texts: tuple[Block, ...]
    ids: tuple[str, ...]
    on_delivered: Callable[[], Awaitable[None]] | None = None


class Steering(Protocol):
    """The port through which mail and notices reach a busy agent."""

    async def next_input(self) -> SteeringInput | None:
        """What to tell before the next model call, or None. Cheap when there is nothing."""
        ...


class NoSteering:
    """For agents that nobody writes to."""

    async def next_input(self) -> SteeringInput | None:
        """Nothing, ever."""
        return None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended: `done`, `failed`, `limit`. `text` is the final text; `failure` says why it failed.

    `limit` names the cap that was hit, and `reason` says in a sentence whose it is and how much was spent: a budget is
    exceeded, and what was said so far is the partial result.
    """

    stop: str
    text: str = ""
    usage: Usage = NO_USAGE
    model_calls: int = 0
    failure: Failure | None = None
    limit: str = ""
    tool_calls: int = 0
    reason: str = ""
    answer_end: str = ""
    """How the newest answer ended (`models.ends.End`); empty where there was none."""

    @property
    def explanation(self) -> str:
        """Why it is not done; empty when it is."""
        if self.failure is not None:
            return self.failure.sentence
        reason = self.reason or f"the cap on {self.limit} is spent"
        return f"budget_exceeded: {reason}" if self.is_capped else reason if self.stop == "limit" else ""

    @property
    def is_capped(self) -> bool:
        """True when a cap ended it that a larger budget would raise."""
        return self.stop == "limit" and self.limit != REPEATED_CALLS


def always_false() -> bool:
    """Never so."""
    return False


REPEATED_CALLS = "repeats"
"""The limit of a turn that ended because it repeated itself; no budget gives it more."""

_NO_PREFIX = Prefix("", b"")


@dataclass(slots=True, weakref_slot=True)
class Agent:
    """Everything one agent is: handed to `run_turn` as a value. `rounds_left` None means no cap of its own.

    `policy` is what its gate decides by; `remind` goes behind whatever it is told. `effort` is how hard it
    thinks where its model documents that; None: its model decides.
    """

    name: str
    agent_id: str
    model: Model
    conversation: Conversation
    toolbox: Toolbox
    meter: Meter
    emit: Emit
    steering: Steering = field(default_factory=NoSteering)
    model_calls_left: int | None = None
    parent_call: str | None = None
    has_listeners: HasListeners = always_true
    activity: AgentActivity = field(default_factory=AgentActivity)
    remind: Remind = no_reminder
    caller: str = ""
    hooks: AgentHooks = field(default_factory=lambda: NO_HOOKS)
    policy: Policy = field(default_factory=Policy)
    plan: PlanMode | None = None
    compaction: Compaction = field(default_factory=Compaction)
    effort: Effort | None = None
    wants_hour_cache: Callable[[], bool] = always_false
    """True while its turns are far apart: its prompt is then cached for an hour, where the service offers that."""
    watched_directories: Callable[[], Sequence[Path]] = tuple
    """Directories beside its own in which a change counts for its work: those of tasks."""
    _deferred_changes: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    @property
    def prefix(self) -> Prefix:
        """The prefix of its next request."""
        prefix = self.conversation.prefix
        return (
            replace(prefix, wants_hour_cache=True) if self.model.card.hour_cache and self.wants_hour_cache() else prefix
        )

    @property
    def tags(self) -> RuntimeTags:
        """The tags in which the runtime speaks to it."""
        return self.conversation.tags

    def change_between_calls(self, change: Callable[[], None]) -> bool:
        """Make a change that no model call may see half of: now, or before its next one while it is in a turn.

        Whether it was made. Raises what the change raises, when it is made now.
        """
        if self.compaction.turn_lock.locked():
            self._deferred_changes.append(change)
            return False
        change()
        return True

    def apply_deferred_changes(self) -> None:
        """Make the changes that wait, between two model calls."""
        while self._deferred_changes:
            self._deferred_changes.pop(0)()

    def without_history(self) -> Agent:
        """The same agent when its life is over: what tells of it, and nothing of what it held (history, tools)."""
        lived = self.conversation
        conversation = Conversation(lived.path, _NO_PREFIX, lived.header, lines=lived.lines)
        told = (self.model, conversation, NO_TOOLS, self.meter, self.emit)
        return Agent(self.name, self.agent_id, *told, effort=self.effort)

    @property
    def effort_text(self) -> str:
        """Its effort as people read it, empty where its model decides."""
        effort = supported_effort(self.model.card, self.effort)
        return "" if effort is None else str(effort)

    def report_model_call(self, answer: Reply, calls: int, task: str, *, aside: str = "") -> None:
        """Tell what an answer cost, and to whom it was booked. `aside`: what it was asked beside its work."""
        used, model, caller = answer.usage, answer.model, self.caller
        made = ModelCallEnded(
            member=self.name,
            usage=used,
            model=model,
            tools=calls,
            caller=caller,
            task=task,
            aside=aside,
            counted=ESTIMATED_COUNT if answer.is_estimated else "",
            ms=answer.ms,
        )
        self.emit(made)

    def report_failed_attempts(self, answer: Reply | Failure, task: str) -> None:
        """Tell what broken tries of a call had used: it is paid, and no round."""
        if answer.failed_usage.requests:
            model = answer.model if isinstance(answer, Reply) else self.model.card.wire
            made = ModelCallEnded(
                member=self.name, usage=answer.failed_usage, model=model, tools=0, caller=self.caller, task=task
            )
            self.emit(replace(made, aside=FAILED_ATTEMPTS))

    def emit_message(self, role: str, content: Sequence[Block], answer: Reply | None = None) -> None:
        """Tell surfaces of a line that was stored, without the key of the runtime's tags. `answer`: a model's."""
        if not self.has_listeners():
            return
        content = self.tags.without_key(content)
        self.emit(
            AssistantText(
                member=self.name,
                agent_id=self.agent_id,
                message={"role": role, "content": content},
                parent_call=self.parent_call,
                usage=None if answer is None else answer.usage,
                model=self.model.card.wire,
                id="" if answer is None else answer.id,
                stop_reason="" if answer is None else answer.stop_reason,
            )
        )
