"""What surfaces see: one union of events.

Logged events go to the session's event log and to every attached surface, numbered; live events (`TextDelta`,
`ToolStarted`, `Spoken`) go to attached surfaces only and are never in the log. Files are the truth; an event
tells what changed. New kinds may come in a minor version: a `match` shows `case _`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeAlias, cast

from teamwright.protocol.blocks import Block
from teamwright.protocol.usage import Usage

SCHEMA = 1
"""Version of the event log's lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """`member` is the member's name (`team-lead` for the lead), or the id of a sub-agent."""

    KIND: ClassVar[str] = ""
    member: str
    at: float = field(default_factory=time.time)


# ── live only ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(_Event):
    """Some text of the answer that is being written."""

    KIND = "text_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_Event):
    """A tool call begins to run."""

    KIND = "tool_started"
    call: str
    tool: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken(_Event):
    """A whole line of a conversation was stored: what the model said, or what it was told.

    `parent_call` is the tool call id that started a sub-agent; `message` is `{"role", "content"}` and must not
    be changed by the reader.
    """

    KIND = "spoken"
    agent_id: str
    message: Mapping[str, Any]
    parent_call: str | None = None
    usage: Usage | None = None
    model: str = ""

    @property
    def content(self) -> list[Block]:
        """The blocks of the message."""
        return cast("list[Block]", self.message["content"])


# ── logged ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(_Event):
    """A tool call ended. `call` is `cN`, the N-th call of the run; `outcome` is done, failed or denied.

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
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEnded(_Event):
    """One model call and its tool calls are over."""

    KIND = "round_ended"
    usage: Usage
    model: str
    tools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(_Event):
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
class MessageSent(_Event):
    """A message is in an inbox (`member` wrote it). `message_id` is the entry's; `wire` the protocol type, if any."""

    KIND = "message_sent"
    to: str
    message_id: str
    summary: str
    wire: str = ""
    file: FileMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSeen(_Event):
    """Messages are in the persisted transcript of `member`."""

    KIND = "message_seen"
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task as an event shows it."""

    id: str
    subject: str
    status: str
    owner: str | None = None
    blocked_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged(_Event):
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
class MemberChanged(_Event):
    """A member's state changed. `state` is one of the lifecycle's; `detail` says why or on what it waits.

    `life` counts the lives of the name, `turn` the turns of that life (0: not told): what belongs to an older life or
    turn than the newest that was heard of came late, and changes nothing.
    """

    KIND = "member_changed"
    state: str
    detail: str = ""
    color: str | None = None
    model: str = ""
    life: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway(_Event):
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
class TeamChanged(_Event):
    """The session leads a team from now on (`change` is created or resumed), or no longer (deleted)."""

    KIND = "team_changed"
    team: str
    directory: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(_Event):
    """A process drives the session from now on. Members of the process before it are gone until told otherwise."""

    KIND = "session_opened"
    pid: int
    session: str = ""


class Responder(Protocol):
    """Answers an open request; the first answer counts. Returns whether this one was first."""

    async def __call__(self, request_id: str, answer: RequestAnswer, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswer:
    """`verdict` is allow or deny; `always` stores the offered rule; `text` is the reason, or a question's answer."""

    verdict: str
    always: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOpened(_Event):
    """Somebody waits for a person: a permission or a question.

    `always` says what "always" would store, and where; empty when nothing could be stored.
    """

    KIND = "request_opened"
    request: str
    kind: str
    tool: str
    what: str
    rule: str = ""
    always: str = ""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: tuple[str, ...] = ()
    responder: Responder | None = field(default=None, compare=False, repr=False)

    async def allow(self, *, always: bool = False) -> bool:
        """Let it run; with `always` store the offered rule. Returns False when somebody else was first."""
        return await self._respond(RequestAnswer(verdict="allow", always=always))

    async def deny(self, reason: str = "") -> bool:
        """Refuse, with a reason that the model reads."""
        return await self._respond(RequestAnswer(verdict="deny", text=reason))

    async def answer(self, text: str) -> bool:
        """Answer a question with words."""
        return await self._respond(RequestAnswer(verdict="allow", text=text))

    async def _respond(self, answer: RequestAnswer) -> bool:
        return False if self.responder is None else await self.responder(self.request, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClosed(_Event):
    """A request was answered; `by` is terminal, policy, program, deadline, or cancelled (whoever asked was stopped)."""

    KIND = "request_closed"
    request: str
    verdict: str
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached(_Event):
    """A cap is spent: `limit` is money, tokens, turns, time, spawns, members, depth or rate."""

    KIND = "limit_reached"
    limit: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(_Event):
    """Something a person should know that is not a member's doing (`level` is info or warning)."""

    KIND = "notice"
    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """A run is over. `stop` is done, failed, limit, cut_off or cancelled."""

    KIND = "run_ended"
    stop: str
    text: str
    usage: Usage
    detail: str = ""


TeamEvent: TypeAlias = (
    TextDelta
    | ToolStarted
    | Spoken
    | ToolCalled
    | RoundEnded
    | TurnEnded
    | MessageSent
    | MessageSeen
    | TaskChanged
    | MemberChanged
    | Underway
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

Attended: TypeAlias = Callable[[], bool]
"""Whether any surface wants live events: without one they need not even be made."""


def always() -> bool:
    """For an emit whose listeners are not known."""
    return True


LIVE = (TextDelta, ToolStarted, Spoken)
_NOT_LOGGED = frozenset({"at", "responder", "facts"})
"""Fields that `to_json` writes first by itself, or that only live surfaces get."""

_LOGGED: dict[str, type[_Event]] = {
    cls.KIND: cls
    for cls in (
        ToolCalled,
        RoundEnded,
        TurnEnded,
        MessageSent,
        MessageSeen,
        TaskChanged,
        MemberChanged,
        Underway,
        TeamChanged,
        SessionOpened,
        RequestOpened,
        RequestClosed,
        LimitReached,
        Notice,
        RunEnded,
    )
}


def to_json(event: TeamEvent) -> dict[str, Any]:
    """The event as an object: `type`, `at`, `member`, then its own fields."""
    out: dict[str, Any] = {"type": event.KIND, "at": round(event.at, 3)}
    names, values = _own(type(event))
    out.update(zip(names, values(event), strict=True))
    if isinstance(event, RoundEnded | RunEnded):
        out["usage"] = usage_to_json(event.usage)
    elif isinstance(event, TaskChanged | MessageSent):
        mark = event.file
        if mark is None:
            del out["file"]
        else:
            out["file"] = {"name": mark.name, "size": mark.size, "mtime_ns": mark.mtime_ns}
        if isinstance(event, TaskChanged):
            out["task"] = {name: getattr(event.task, name) for name in _TASK_FIELDS}
    return out


_TASK_FIELDS = tuple(item.name for item in fields(TaskInfo))


@cache
def _own(kind: type[_Event]) -> tuple[tuple[str, ...], Callable[[TeamEvent], tuple[Any, ...]]]:
    """What a kind of event writes behind `type` and `at`: the names, `member` first, and how to get their values."""
    names = tuple(item.name for item in fields(kind) if item.name not in _NOT_LOGGED)
    return names, cast("Callable[[TeamEvent], tuple[Any, ...]]", attrgetter(*names))


def from_json(data: Mapping[str, Any]) -> TeamEvent | None:
    """The event of a log line, or None for a kind that this version does not know."""
    cls = _LOGGED.get(str(data.get("type")))
    if cls is None:
        return None
    known = {f.name for f in fields(cls)} - {"responder", "facts"}
    values = {key: value for key, value in data.items() if key in known}
    if isinstance(values.get("usage"), dict):
        values["usage"] = usage_from_json(values["usage"])
    if isinstance(values.get("task"), dict):
        task = cast("dict[str, Any]", values["task"])
        task["blocked_by"] = tuple(task.get("blocked_by", ()))
        values["task"] = TaskInfo(**task)
    if "file" in values:
        values["file"] = _mark(values["file"])
    for key in ("message_ids", "options"):
        if key in values:
            values[key] = tuple(values[key])
    try:
        return cast("TeamEvent", cls(**values))
    except TypeError:
        return None


def _mark(data: Any) -> FileMark | None:
    try:
        return FileMark(name=str(data["name"]), size=int(data["size"]), mtime_ns=int(data["mtime_ns"]))
    except (KeyError, TypeError, ValueError):
        return None


def usage_to_json(usage: Usage) -> dict[str, Any]:
    """A usage with its requests and its money, as the log writes it."""
    return {**usage.as_json(), "requests": usage.requests, "usd": usage.usd}


def usage_from_json(data: Mapping[str, Any]) -> Usage:
    """What `usage_to_json` wrote."""
    return Usage(
        input_tokens=data.get("input_tokens", 0),
        output_tokens=data.get("output_tokens", 0),
        cache_read=data.get("cache_read_input_tokens", 0),
        cache_write=data.get("cache_creation_input_tokens", 0),
        requests=data.get("requests", 0),
        usd=data.get("usd"),
    )
