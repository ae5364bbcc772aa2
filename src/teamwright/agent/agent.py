"""An agent as a value: its model, conversation, tools and limits, the end of a turn, and the input that waits for it.

The loop and the model call receive an `Agent` as a parameter. Its `InputQueue` is drained between turns and between
model calls; `SOURCES` has the order of all sources, mail included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import AgentActivity
from teamwright.agent.agent_hooks import NO_HOOKS, AgentHooks
from teamwright.agent.compaction_state import Compaction
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.plan_mode import PlanMode, Remind, no_reminder
from teamwright.agent.toolbox import NO_TOOLS, Toolbox
from teamwright.models.effort import Effort, supported_effort
from teamwright.models.model import NOT_CONTINUED, REQUEST_ID, Failure, Meter, Model, Prefix, Reply, is_same_model
from teamwright.permissions.permission_decision import Policy
from teamwright.protocol.events import (
    ESTIMATED_COUNT,
    FAILED_ATTEMPTS,
    AssistantText,
    Emit,
    HasListeners,
    ModelCallEnded,
    Notice,
    always_false,
    always_true,
)
from teamwright.protocol.ids import message_id
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.runtime_tags import RuntimeTags, TaskEnd, escape_tags
from teamwright.protocol.usage import NO_USAGE, Usage

_NO_PREFIX = Prefix("", b"")


class Agent(Struct, weakref=True):
    """All parts of one agent, passed to `run_turn` as a value. `model_calls_left` None means that it has no cap.

    `policy` is the permission policy of its gate. `remind` gives the reminder that is appended to each user message.
    `effort` is the reasoning effort, for models that document one; None leaves it to the model.
    """

    name: str
    agent_id: str
    model: Model
    conversation: Conversation
    toolbox: Toolbox
    meter: Meter
    emit: Emit
    model_calls_left: int | None = None
    model_calls_cap: int | None = None
    """The cap that `model_calls_left` starts from; None without one."""
    parent_call: str | None = None
    has_listeners: HasListeners = always_true
    activity: AgentActivity = field(default_factory=AgentActivity)
    remind: Remind = no_reminder
    session_note: Callable[[], str] = str
    """Return the note at the beginning of its conversation: who and where it is, and its instructions.

    It is empty for a fork, which has its caller's.
    """
    lacks_session_note: bool = True
    """True until it is known that the conversation has a session note."""
    is_session_note_changed: bool = False
    """True after a reload until the next message: the note is given again if its text is another one."""
    caller: str = ""
    hooks: AgentHooks = field(default_factory=lambda: NO_HOOKS)
    policy: Policy = field(default_factory=Policy)
    plan: PlanMode | None = None
    compaction: Compaction = field(default_factory=Compaction)
    effort: Effort | None = None
    wants_hour_cache: Callable[[], bool] = always_false
    """Return True while its turns are far apart. Its prompt is then cached for an hour, if the service offers that."""
    watched_directories: Callable[[], Sequence[Path]] = tuple
    """Return the directories besides the working directory in which a change counts as progress: those of tasks."""
    fallback: Fallback | None = None
    """The models that are used when the agent's model is not available; None without one."""
    searched_refused_tools: bool = False
    """True when its tools were tried one after the other, because its service refused a request."""
    refused_tools: set[str] = field(default_factory=set[str])
    """Names of tools whose schema its service refuses. A new prefix, as after a compaction, has them again."""
    _other_models: set[str] = field(default_factory=set[str])
    """Names of other models that were mentioned already."""
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
        """The tags that mark the runtime's texts in its conversation."""
        return self.conversation.tags

    def use_model(self, model: Model, prefix: Prefix) -> None:
        """Send the next request to this model, with this prefix; the transcript does not record the change."""
        self.model = model
        self.conversation.replace_prefix(prefix)

    def renew_session_note(self) -> None:
        """Give the session note again with the next message, if its text is another one by now."""
        self.lacks_session_note = self.is_session_note_changed = True

    def renew_model_calls(self) -> None:
        """Let the agent make as many model calls as at its start, for a new prompt of a client."""
        self.model_calls_left = self.model_calls_cap

    def change_between_calls(self, change: Callable[[], None]) -> bool:
        """Make a change that must not happen during a model call: now, or before the next call of a running turn.

        Return True when the change was made now; errors of the change are raised then.
        """
        if self.compaction.turn_lock.locked():
            self._deferred_changes.append(change)
            return False
        change()
        return True

    def apply_deferred_changes(self) -> None:
        """Make the deferred changes, between two model calls."""
        while self._deferred_changes:
            self._deferred_changes.pop(0)()

    def without_history(self) -> Agent:
        """Return a copy of a terminated agent for reports, without its history and tools."""
        history = self.conversation
        conversation = Conversation(history.path, _NO_PREFIX, history.header, lines=history.lines)
        return Agent(
            self.name, self.agent_id, self.model, conversation, NO_TOOLS, self.meter, self.emit, effort=self.effort
        )

    @property
    def effort_text(self) -> str:
        """The effort as text for people; empty when the model decides."""
        effort = supported_effort(self.model.card, self.effort)
        return "" if effort is None else str(effort)

    def report_model_call(self, answer: Reply, calls: int, task: str, *, aside: str = "") -> None:
        """Report the cost of an answer and the task that it was charged to.

        `aside` names a purpose other than the agent's work.
        """
        event = ModelCallEnded(
            member=self.name,
            usage=answer.usage,
            model=answer.model,
            tools=calls,
            caller=self.caller,
            task=task,
            aside=aside,
            counted=ESTIMATED_COUNT if answer.is_estimated else "",
            seconds=answer.seconds,
            first_part_s=answer.first_part_s,
            end=answer.end,
            request_id=answer.request_id,
        )
        self.emit(event)

    def mention_other_model(self, answered: str) -> None:
        """Emit a notice, once, when an answer names another model than the requested one: a gateway may replace it."""
        card = self.model.card
        if not card.usd_in or answered in self._other_models or is_same_model(card.wire, answered):
            return  # a free server names its models as it likes
        self._other_models.add(answered)
        text = f"{card.provider} answered with the model {answered[:80]} in place of {card.wire}: the price may differ"
        self.emit(Notice(member=self.name, text=text, level="warning"))

    def report_failed_attempts(self, answer: Reply | Failure, task: str, seconds: float = 0.0) -> None:
        """Report a call that failed after `seconds`, or the usage of the failed attempts before an answer.

        The usage is charged, but does not count as a model call.
        """
        failure = answer if isinstance(answer, Failure) else None
        if failure is None and not answer.failed_usage.requests:
            return
        event = ModelCallEnded(
            member=self.name,
            usage=answer.failed_usage,
            model=answer.model if isinstance(answer, Reply) else self.model.card.wire,
            tools=0,
            caller=self.caller,
            task=task,
            aside=FAILED_ATTEMPTS,
            seconds=0.0 if failure is None else seconds,
            request_id="" if failure is None else dict(failure.looked_at).get(REQUEST_ID, ""),
            error="" if failure is None else failure.slug,
        )
        self.emit(event)

    def emit_message(self, role: str, content: Sequence[Block], answer: Reply | None = None) -> None:
        """Emit an event for a stored message, without the key of the runtime's tags.

        `answer` is the model's answer that has this message.
        """
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
                uuid=self.conversation.newest_uuid,
            )
        )


class TurnEnd(Struct, frozen=True):
    """The end of a turn: `done`, `failed` or `limit`. `text` is the final text; `failure` says why it failed.

    `limit` names the cap that was reached. `reason` is a sentence with the cap's owner and the amount used. When a
    budget is exceeded, the text so far is the partial result.
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
    """The end of the newest answer (`models.model.AnswerEnd`); empty without an answer."""

    @property
    def explanation(self) -> str:
        """The reason why the turn is not done; empty when it is."""
        if self.failure is not None:
            return self.failure.sentence
        reason = self.reason or f"the cap on {self.limit} is spent"
        return f"budget_exceeded: {reason}" if self.is_capped else reason if self.stop == "limit" else ""

    @property
    def is_capped(self) -> bool:
        """True when a cap ended the turn that a larger budget would raise."""
        return self.stop == "limit" and is_cap(self.limit)


REPEATED_CALLS = "repeats"
"""The limit of a turn that ended because of repeated calls. A larger budget does not raise it."""


def is_cap(limit: str) -> bool:
    """Return True for a limit that a larger budget raises."""
    return limit not in {REPEATED_CALLS, NOT_CONTINUED}


class Steering(Protocol):
    """The port through which mail and notices reach a working agent."""

    async def next_input(self) -> UserMessage | None:
        """Return the input to deliver before the next model call, or None. The call is cheap when there is none."""
        ...


class NoSteering:
    """The port for agents that receive no mail and no notices."""

    async def next_input(self) -> UserMessage | None:
        """Return None always."""
        return None


NO_STEERING = NoSteering()


class Fallback(Protocol):
    """The port to the models that an agent uses when its own one is not available."""

    async def next_model(self, agent: Agent) -> Model | None:
        """Return the model that would be used after the present one; None without one."""
        ...

    async def switch(self, agent: Agent, failure: Failure) -> bool:
        """Make the next call with the next model, after this failure. Return False without one."""
        ...


class CommandMode(StrEnum):
    """The way in which a queued command is processed."""

    PROMPT = "prompt"
    """Text that is delivered unchanged."""

    BASH = "bash"
    """A shell command of the user. It runs between turns; its output is delivered with the next prompt."""

    TASK_NOTIFICATION = "task-notification"
    """A notice of the runtime, mostly that a command or a sub-agent has ended."""

    ORPHANED_PERMISSION = "orphaned-permission"
    """An answer to a request that no longer exists. Nothing runs because of it; the agent is notified."""


class CommandPriority(IntEnum):
    """The priority of a source."""

    NOW = 0
    NEXT = 1
    LATER = 2


class SourceOrder(Struct, frozen=True):
    """The mode and priority of one source."""

    mode: CommandMode
    priority: CommandPriority


SOURCES: Mapping[str, SourceOrder] = {
    "user": SourceOrder(CommandMode.PROMPT, CommandPriority.NOW),
    "shell": SourceOrder(CommandMode.BASH, CommandPriority.NOW),
    "shutdown": SourceOrder(CommandMode.PROMPT, CommandPriority.NOW),
    "lead": SourceOrder(CommandMode.PROMPT, CommandPriority.NEXT),
    "peer": SourceOrder(CommandMode.PROMPT, CommandPriority.NEXT),
    "permission": SourceOrder(CommandMode.ORPHANED_PERMISSION, CommandPriority.NEXT),
    "notice": SourceOrder(CommandMode.TASK_NOTIFICATION, CommandPriority.LATER),
    "task": SourceOrder(CommandMode.PROMPT, CommandPriority.LATER),
}
"""Sources in delivery order: `now` before `next` before `later`, and in this order among equal priorities.

A `notice` (a job or a sub-agent has ended) comes after texts. A free `task` is claimed when nothing else waits.
"""


_RANK = {source: (row.priority, place) for place, (source, row) in enumerate(SOURCES.items())}


def source_rank(source: str) -> tuple[int, int]:
    """Return the sort key of a source. The lowest key is delivered first."""
    return _RANK[source]


class QueuedCommand(Struct, frozen=True):
    """One queued input. The transcript stores `id`, so it is delivered once. `text` is a shell command."""

    source: str
    id: str
    blocks: tuple[Block, ...] = ()
    text: str = ""

    @property
    def mode(self) -> CommandMode:
        """The mode of its source."""
        return SOURCES[self.source].mode

    @property
    def priority(self) -> CommandPriority:
        """The priority of its source."""
        return SOURCES[self.source].priority


class InputQueue(Struct):
    """The input that waits for one agent. Entries of one source are delivered first in, first out."""

    _waiting: list[QueuedCommand] = field(default_factory=list[QueuedCommand])

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, source: str, blocks: Sequence[Block], id: str) -> None:
        """Queue a text or blocks for the agent."""
        self._waiting.append(QueuedCommand(source, id, tuple(blocks)))

    def put_notice(self, tags: RuntimeTags, notice: str | TaskEnd, key: str = "") -> None:
        """Queue the end of a command or a sub-agent, or another notice. Its id in the transcript is `notice:<key>`."""
        self.put("notice", (text_block(tags.notice(notice)),), f"notice:{key or message_id()}")

    def put_late_answer(self, tags: RuntimeTags, text: str) -> None:
        """Queue an answer to a request that no longer exists. It is delivered before notices."""
        self.put("permission", (tags.note(escape_tags(text)),), f"notice:{message_id()}")

    def put_shell_command(self, command: str) -> None:
        """Queue a shell command of the user."""
        self._waiting.append(QueuedCommand("shell", f"shell:{message_id()}", text=command))

    def texts_in_order(self) -> list[QueuedCommand]:
        """Return the queued input that is to be delivered, in order."""
        return sorted(
            (one for one in self._waiting if one.mode is not CommandMode.BASH), key=lambda one: source_rank(one.source)
        )

    def next_shell_command(self) -> QueuedCommand | None:
        """Return the oldest queued shell command."""
        return next((one for one in self._waiting if one.mode is CommandMode.BASH), None)

    def has(self, id: str) -> bool:
        """Return True when input with this id is queued."""
        return any(one.id == id for one in self._waiting)

    def remove(self, commands: Iterable[QueuedCommand]) -> None:
        """Remove commands that the transcript has, or that have run."""
        removed_ids = {one.id for one in commands}
        self._waiting = [one for one in self._waiting if one.id not in removed_ids]

    def withdraw(self, id: str) -> bool:
        """Withdraw input that is not delivered yet. Return True when it was queued."""
        found = self.has(id)
        self._waiting = [one for one in self._waiting if one.id != id]
        return found


def to_user_message(commands: Sequence[QueuedCommand]) -> UserMessage:
    """Return the commands as one user message."""
    return UserMessage(tuple(block for one in commands for block in one.blocks), tuple(one.id for one in commands))
