"""What surfaces see: one union of events.

Logged events go to the session's event log and to every attached surface, numbered; live events (`TextDelta`,
`ToolStarted`, `AssistantText`) go to attached surfaces only and are never in the log. Files are the truth; an event
tells what changed. New kinds may come in a minor version: a `match` shows `case _`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from teamwright.protocol.live_events import AssistantText, BaseEvent, TextDelta, ToolStarted
from teamwright.protocol.request_events import RequestClosed, RequestOpened
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(BaseEvent):
    """A tool call ended. `call` is `cN`, the N-th call of the run; `use` the model's own id of it.

    `outcome` is done, failed or denied. A call that a kill cut off and that was run again has a later number too.
    `output` is cut to 4,000 characters; the transcript has the whole. `facts` are what the tool told programs (a
    changed file's `diff`, `added`, `removed`): for attached surfaces only, the log leaves them out.
    """

    KIND = "tool_called"
    call: str
    tool: str
    summary: str
    outcome: str
    seconds: float
    input: Mapping[str, Any]
    output: str = ""
    use: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)


ESTIMATED_COUNT = "estimated"
"""How the usage of a ModelCallEnded was `counted` where the service had not said all of it."""

FAILED_ATTEMPTS = "failed"
"""What a ModelCallEnded is aside that tells of tries that broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEnded(BaseEvent):
    """A model has answered: `tools` calls it asks for. `caller` started the sub-agent that it answered; `task` is what

    the agent worked on when it asked, and what this is booked to; both may be empty. `aside` says what it was asked
    beside its work (`compaction`), or `failed`: what broken tries had used. That is no round of a turn. `counted` is
    `estimated` where an answer was cut short before the service had counted all of it. `ms` is how long the model call
    took, in milliseconds.
    """

    KIND = "round_ended"
    usage: Usage
    model: str
    tools: int
    caller: str = ""
    task: str = ""
    aside: str = ""
    counted: str = ""
    ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(BaseEvent):
    """A member, or the lead, has answered what it was given: `text` is its final text.

    `stop` is done, failed or limit, with `detail`.
    """

    KIND = "turn_ended"
    stop: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """A file as an event left it: its path under the state root, size in bytes, mtime in nanoseconds since 1970.

    Whoever finds another state there has missed something, and looks at the files again.
    """

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent(BaseEvent):
    """A message is in an inbox (`member` wrote it). `message_id` is the entry's; `wire` the protocol type, if any."""

    KIND = "message_sent"
    to: str
    message_id: str
    summary: str
    wire: str = ""
    file: FileMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelivered(BaseEvent):
    """Messages are in the persisted transcript of `member`."""

    KIND = "message_seen"
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task as an event shows it; `budget` are its caps, where it has any."""

    id: str
    subject: str
    status: str
    owner: str | None = None
    blocked_by: tuple[str, ...] = ()
    budget: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged(BaseEvent):
    """A task was made or changed by `member`; `status` inside is `deleted` when it is gone.

    `change` is created, claimed, assigned, completed, released, deleted, updated, or lost (a claim that another
    won, with `detail`).
    """

    KIND = "task_changed"
    task: TaskInfo
    change: str
    detail: str = ""
    file: FileMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChanged(BaseEvent):
    """A member's state changed. `state` is one of the lifecycle's; `detail` says why or on what it waits.

    `effort` is how hard it thinks, empty where its model decides. `life` counts the lives of the name, `turn` the turns
    of that life (0: not told): what belongs to an older life or turn than the newest that was heard of came late, and
    changes nothing.
    """

    KIND = "member_changed"
    state: str
    detail: str = ""
    color: str | None = None
    model: str = ""
    effort: str = ""
    life: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentChanged(BaseEvent):
    """A sub-agent of `member` is in another state: `state` is running (its caller waits), background, completed, failed
    or killed. `agent` is its id, `kind` its type, `description` what it does; `name` where it was given one.
    """

    KIND = "agent_changed"
    agent: str
    state: str
    kind: str = ""
    description: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted(BaseEvent):
    """A conversation is made smaller: `state` is begun, done, or failed with `detail`; `trigger` is manual or auto,
    or clear where no summary stands for it.

    `before` and `after` are its tokens, of which those after are estimated.
    """

    KIND = "compacted"
    state: str
    trigger: str
    before: int = 0
    after: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged(BaseEvent):
    """A member, or the lead, is in another permission mode from now on; `by` is who changed it (`user`, a member)."""

    KIND = "mode_changed"
    mode: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChanged(BaseEvent):
    """A member, or the lead, runs on another model from its next call on; `by` is who changed it.

    `effort` is how hard it thinks there, empty where the model decides.
    """

    KIND = "model_changed"
    model: str
    before: str = ""
    by: str = ""
    effort: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded(BaseEvent):
    """Configuration was read again: `changed` are lines of what is different, `members` those whose prefix is new."""

    KIND = "reloaded"
    changed: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(BaseEvent):
    """What a member has been busy with for a second: told once a call, by a timer, never again and again.

    `doing` is model, tool, pause (it waits for a rate limit or another try), or empty (it is at work between calls);
    `since` in seconds since 1970. `stalled`: nothing came for the time that the settings state.
    """

    KIND = "underway"
    doing: str
    what: str = ""
    since: float = 0.0
    stalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamChanged(BaseEvent):
    """The session leads a team from now on (`change` is created or resumed), or no longer (deleted)."""

    KIND = "team_changed"
    team: str
    directory: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(BaseEvent):
    """A process drives the session from now on. Members of the process before it are gone until told otherwise."""

    KIND = "session_opened"
    pid: int
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(BaseEvent):
    """A cap is spent: `limit` is money, tokens, turns, time, spawns, members, depth or rate."""

    KIND = "limit_reached"
    limit: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(BaseEvent):
    """Something a person should know that is not a member's doing (`level` is info or warning).

    `shell`: the text is the person's own command with all that it printed.
    """

    KIND = "notice"
    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(BaseEvent):
    """A run is over. `stop` is done, failed, limit, cut_off or cancelled."""

    KIND = "run_ended"
    stop: str
    text: str
    usage: Usage
    detail: str = ""


TeamEvent: TypeAlias = (
    TextDelta
    | ToolStarted
    | AssistantText
    | ToolCalled
    | ModelCallEnded
    | TurnEnded
    | MessageSent
    | MessageDelivered
    | TaskChanged
    | MemberChanged
    | SubagentChanged
    | ModeChanged
    | ModelChanged
    | Reloaded
    | Compacted
    | Progress
    | TeamChanged
    | SessionOpened
    | RequestOpened
    | RequestClosed
    | LimitReached
    | Notice
    | RunEnded
)
"""Every event; `match` on it."""

Emit: TypeAlias = Callable[[TeamEvent], None]
"""How a room says that something happened. Never blocks, never raises."""

HasListeners: TypeAlias = Callable[[], bool]
"""Whether any surface wants live events: without one they need not even be made."""


def always_true() -> bool:
    """For an emit whose listeners are not known."""
    return True


LIVE = (TextDelta, ToolStarted, AssistantText)
"""Kinds that are never logged."""
