"""Events: the union of everything that clients of a session are shown.

Logged events go to the session's event log and to every subscriber, numbered. Live events (`TextDelta`,
`ThinkingDelta`, `ToolStarted`, `AssistantText`) go to subscribers only and are never in the log. The state files are
authoritative; an event reports a change. New kinds may appear in a minor version: a `match` needs `case _`.

An open request can be answered where it is shown: the owner of the subscription sets the responder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.live_events import AssistantText, BaseEvent, TextDelta, ThinkingDelta, ToolStarted
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import IntegrationState, ReviewState
from teamwright.protocol.usage import Usage


class ToolCalled(BaseEvent, frozen=True, kw_only=True):
    """A tool call ended. `call` is `cN`, the N-th call of the run; `use` the model's own id of it.

    `outcome` is done, failed or denied. A call that a kill interrupted gets another, later number when it runs again.
    `output` is cut to 4,000 characters; the transcript has all of it. `facts` are the tool's data for programs (a
    changed file's `diff`, `added`, `removed`): subscribers receive them, the log leaves them out. The call began
    `seconds` before `at`; the time includes its hooks and its permission request.
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
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


ESTIMATED_COUNT = "estimated"
"""The value of `counted` in a ModelCallEnded whose usage the service reported only in part."""

FAILED_ATTEMPTS = "failed"
"""The value of `aside` in a ModelCallEnded that reports failed attempts."""

_LEFT_OUT_IF_EMPTY = frozenset(
    {"caller", "task", "aside", "counted", "seconds", "first_part_s", "end", "request_id", "error"}
)
"""Fields of a model call that are left out when they are empty or 0."""


class ModelCallEnded(BaseEvent, frozen=True, kw_only=True):
    """A model answered with `tools` tool calls.

    `caller` started the sub-agent that received the answer. `task` is the task that the agent worked on, to which the
    usage is charged; both may be empty. `aside` names a call outside the agent's work (`compaction`, `hook`, `sampling`
    for an MCP server, `search`, `side question`), or is `failed` for failed attempts; neither is a model call of a
    turn. `counted` is `estimated` for an answer that ended before the service had counted all of it. `seconds` is the
    time from the request to the last part of the answer, its retries included, `first_part_s` the time to the first
    part of its content (0: none came). `end` is how the answer ended (`models.model`), `request_id` the service's id of
    the request. `error` is the slug of the failure that ended the call.
    """

    KIND = "model_call_ended"
    usage: Usage
    model: str
    tools: int
    caller: str = ""
    task: str = ""
    aside: str = ""
    counted: str = ""
    seconds: float = 0.0
    first_part_s: float = 0.0
    end: str = ""
    request_id: str = ""
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold, without empty fields; the keys are those of the log."""
        out = BaseEvent.as_json(self) | {"usage": self.usage.as_priced_json()}
        return {name: value for name, value in out.items() if value or name not in _LEFT_OUT_IF_EMPTY}


class SideCallEnded(BaseEvent, frozen=True, kw_only=True):
    """A call beside the work of `member` ended, which its conversation does not contain: `text` is the answer.

    `purpose` is what it was for (`side question` …) and `question` what was asked; `by` is who asked. `detail` says why
    there is no text. The usage is in `model_call_ended` with the same purpose as `aside`.
    """

    KIND = "side_call_ended"
    purpose: str
    question: str = ""
    text: str = ""
    by: str = ""
    detail: str = ""


class HookEnded(BaseEvent, frozen=True, kw_only=True):
    """A hook of settings ended: `hook` is its event, `what` the beginning of its command, question or address.

    `kind` is command, http, prompt, agent or mcp_tool; `use` is the model's id of the tool call it belongs to, if any.
    The hook began `seconds` before `at`. `blocked`: it refused what it was asked about. `detail` says why its answer
    does not count.
    """

    KIND = "hook_ended"
    hook: str
    kind: str
    what: str
    seconds: float
    use: str = ""
    blocked: bool = False
    detail: str = ""


class TurnEnded(BaseEvent, frozen=True, kw_only=True):
    """The turn of a member, or of the lead, ended: `text` is its final text.

    `stop` is done, failed or limit, with `detail`.
    """

    KIND = "turn_ended"
    stop: str
    text: str
    detail: str = ""


class FileMark(Struct, frozen=True, kw_only=True):
    """The state in which an event left a file: path under the state root, size in bytes, mtime in ns since 1970.

    A reader that finds another state missed a change, and reads the files again.
    """

    name: str
    size: int
    mtime_ns: int

    def as_json(self) -> dict[str, Any]:
        """Return the state as an object that JSON can hold."""
        return {"name": self.name, "size": self.size, "mtime_ns": self.mtime_ns}


def _with_file(out: dict[str, Any], file: FileMark | None) -> dict[str, Any]:
    """Return the object with the state of the event's file, or without one."""
    del out["file"]
    return out if file is None else out | {"file": file.as_json()}


class MessageSent(BaseEvent, frozen=True, kw_only=True):
    """A message is in an inbox (`member` sent it). `message_id` is the entry's; `wire` the protocol type, if any."""

    KIND = "message_sent"
    to: str
    message_id: str
    summary: str
    wire: str = ""
    file: FileMark | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold; the keys are those of the event log."""
        return _with_file(BaseEvent.as_json(self), self.file)


class MessageDelivered(BaseEvent, frozen=True, kw_only=True):
    """Messages are in the persisted transcript of `member`."""

    KIND = "message_delivered"
    message_ids: tuple[str, ...]


class TaskInfo(Struct, frozen=True, kw_only=True):
    """A task as an event shows it; `budget` contains its caps, if any.

    `integration` is the state of its commit on the team's branch, for a task whose owner works in a worktree. `writes`
    are the path patterns that it changes; `review` is the state of its review, and `reviewer` is asked now.
    """

    id: str
    subject: str
    status: str
    owner: str | None = None
    blocked_by: tuple[str, ...] = ()
    budget: Mapping[str, Any] | None = None
    integration: IntegrationState | None = None
    writes: tuple[str, ...] = ()
    review: ReviewState | None = None
    reviewer: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the task as an object that JSON can hold."""
        out = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            name: value for name, value in out.items() if value is not None or name not in {"budget", "integration"}
        }


class TaskChanged(BaseEvent, frozen=True, kw_only=True):
    """A task was created or changed by `member`; the `status` of a deleted task is `deleted`.

    `change` is created, claimed, assigned, completed, released, deleted, updated, or lost (another member won the
    claim, with `detail`).
    """

    KIND = "task_changed"
    task: TaskInfo
    change: str
    detail: str = ""
    file: FileMark | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold; the keys are those of the event log."""
        return _with_file(BaseEvent.as_json(self) | {"task": self.task.as_json()}, self.file)


class IntegrationChanged(BaseEvent, frozen=True, kw_only=True):
    """A commit of `member` was queued for the team's branch `onto`, is being checked there, was merged or was returned.

    `tip` is the commit, `entry` its id in the queue, `task` the number of the completed task. `commit` is the commit of
    the team's branch; `paths` are the files in conflict, and `detail` says why the commit was returned.
    """

    KIND = "integration_changed"
    entry: str
    state: IntegrationState
    onto: str
    tip: str
    task: str = ""
    commit: str = ""
    paths: tuple[str, ...] = ()
    detail: str = ""


class MemberChanged(BaseEvent, frozen=True, kw_only=True):
    """A member's state changed. `state` is one of the lifecycle's; `detail` says why, or what the member waits for.

    `effort` is its thinking effort, empty where its model decides. `incarnation` counts the starts of the name, `turn`
    the turns since that start (0: unknown). An event of an older incarnation or turn than the newest known one came
    late, and changes nothing.
    """

    KIND = "member_changed"
    state: MemberState
    detail: str = ""
    color: str | None = None
    model: str = ""
    effort: str = ""
    incarnation: int = 0
    turn: int = 0


class SubagentChanged(BaseEvent, frozen=True, kw_only=True):
    """A sub-agent of `member` changed its state: running (its caller waits), background, completed, failed or killed.

    `agent` is its id, `kind` its type, `description` what it does; `name` is set if it was given one.
    """

    KIND = "subagent_changed"
    agent: str
    state: str
    kind: str = ""
    description: str = ""
    name: str = ""


class Compacted(BaseEvent, frozen=True, kw_only=True):
    """A conversation is compacted: `state` is begun, done, or failed with `detail`; `trigger` is manual or auto, or
    clear where no summary replaces it.

    `before` and `after` are its tokens; `after` is estimated.
    """

    KIND = "compacted"
    state: str
    trigger: str
    before: int = 0
    after: int = 0
    detail: str = ""


class ModeChanged(BaseEvent, frozen=True, kw_only=True):
    """The permission mode of a member, or of the lead, changed; `by` is who changed it (`user`, a member)."""

    KIND = "mode_changed"
    mode: str
    by: str = ""


FALLBACK = "fallback"
"""The author of the change to a fallback model, because the model before was not available."""


class ModelChanged(BaseEvent, frozen=True, kw_only=True):
    """The model of a member, or of the lead, changed from its next call; `by` is who changed it.

    `effort` is its thinking effort there, empty where the model decides.
    """

    KIND = "model_changed"
    model: str
    before: str = ""
    by: str = ""
    effort: str = ""


class Reloaded(BaseEvent, frozen=True, kw_only=True):
    """Configuration was read again: `changed` are lines about the differences, `members` those whose prefix is new."""

    KIND = "reloaded"
    changed: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


class Progress(BaseEvent, frozen=True, kw_only=True):
    """The activity of a member after a second: a timer reports it once a call.

    `doing` is model, prompt (a server of the user has the prompt and has not answered yet; `what` is the share that it
    has read, where it says so), tool, pause (it waits for a rate limit, a slot or a retry), or empty (it works between
    calls); `since` in seconds since 1970. `stalled`: no data arrived for the time in the settings. `own_server`: the
    model runs on a server of the user, which may compute for minutes. A prompt is reported in steps of 5 %.
    """

    KIND = "progress"
    doing: str
    what: str = ""
    since: float = 0.0
    stalled: bool = False
    own_server: bool = False


def reading_text(share: str) -> str:
    """Return what a server of the user does that has not answered yet; `share` is empty where it does not say."""
    return f"reads the prompt {share}" if share else "waits for the answer to begin"


class TeamChanged(BaseEvent, frozen=True, kw_only=True):
    """The session starts to lead a team (`change` is created or resumed), or stops (deleted)."""

    KIND = "team_changed"
    team: str
    directory: str
    change: str


class SessionOpened(BaseEvent, frozen=True, kw_only=True):
    """A new process drives the session. Members of the previous process count as gone until an event reports them.

    `traceparent` is the span of the program that started it, where spans are exported.
    """

    KIND = "session_opened"
    pid: int
    session: str = ""
    traceparent: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold, without an empty `traceparent`."""
        out = BaseEvent.as_json(self)
        return out if self.traceparent else {name: value for name, value in out.items() if name != "traceparent"}


class RequestAnswer(Struct, frozen=True, kw_only=True):
    """An answer. `verdict` is allow or deny; `always` stores the offered rule; `text` is the reason, or a question's
    answer.

    `input` replaces the requested input; `updates` are grants along with a yes, in the wire format; `by` is the
    approver, when it was not the client that the request was shown on.
    """

    verdict: str
    always: bool = False
    text: str = ""
    input: Mapping[str, Any] | None = None
    updates: tuple[Mapping[str, Any], ...] = ()
    by: str = ""


class Responder(Protocol):
    """A function that answers an open request; the first answer counts. Returns True when this answer was the first."""

    async def __call__(self, request_id: str, answer: RequestAnswer, /) -> bool: ...


class AnswerMethods:
    """The methods that answer a request, wherever it is shown."""

    __slots__ = ()

    async def allow(
        self,
        *,
        always: bool = False,
        input: Mapping[str, Any] | None = None,
        updates: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Allow the request; with `always` store the offered rule, with `input` run that instead, grant `updates` too.

        Return True when this answer counts, False when another one was first or nothing waits any more.
        """
        return await self._respond(RequestAnswer(verdict="allow", always=always, input=input, updates=tuple(updates)))

    async def deny(self, reason: str = "") -> bool:
        """Deny the request, with a reason that the model reads. Return True when this answer counts."""
        return await self._respond(RequestAnswer(verdict="deny", text=reason))

    async def answer(self, text: str) -> bool:
        """Answer a question with text. Return True when this answer counts."""
        return await self._respond(RequestAnswer(verdict="allow", text=text))

    async def _respond(self, answer: RequestAnswer) -> bool:
        raise NotImplementedError


class RequestOpened(AnswerMethods, BaseEvent, frozen=True, kw_only=True):
    """A request waits for a person: `kind` is permission, question, plan, budget or review.

    `always` describes the rule that "always" would store and, in brackets, where; empty when nothing could be stored.
    `owner` is the member that waits for it. `deadline` is the time at which it is denied without an answer, in seconds
    since 1970 (0: never). `suggestions` are the possible grants along with a yes, in the wire format.
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
    owner: str = ""
    deadline: float = 0.0
    suggestions: tuple[Mapping[str, Any], ...] = ()
    tool_use_id: str = ""
    """The model's id of the call. Only live subscribers receive it."""
    responder: Responder | None = None

    async def _respond(self, answer: RequestAnswer) -> bool:
        return False if self.responder is None else await self.responder(self.request, answer)


class RequestClosed(BaseEvent, frozen=True, kw_only=True):
    """A request was closed.

    `by` is terminal, another terminal, program, hook, policy, lead, deadline, or cancelled (the requester was stopped,
    or is gone).
    """

    KIND = "request_closed"
    request: str
    verdict: str
    by: str
    reason: str = ""


class SandboxRefused(BaseEvent, frozen=True, kw_only=True):
    """The sandbox refused acts of a command, as far as its output shows them. `call` is `cN`.

    `refused` are texts such as "write ~/.zshrc"; `policy` is read or work; `allow` says what a person can do to allow
    them.
    """

    KIND = "sandbox_refused"
    call: str
    policy: str
    refused: tuple[str, ...]
    allow: str


class LimitReached(BaseEvent, frozen=True, kw_only=True):
    """A limit ended a turn of the lead. `limit` is money, tokens, turns, calls, time, or repeats (equal tool calls)."""

    KIND = "limit_reached"
    limit: str
    detail: str


class Notice(BaseEvent, frozen=True, kw_only=True):
    """A fact that a person should know and that is not an act of a member (`level` is info or warning).

    level `shell`: the text is the person's own command with all its output.
    """

    KIND = "notice"
    text: str
    level: str = "info"


class RunEnded(BaseEvent, frozen=True, kw_only=True):
    """A run ended. `stop` is done, failed, limit, cut_off, cancelled or suspended."""

    KIND = "run_ended"
    stop: str
    text: str
    usage: Usage
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold; the keys are those of the event log."""
        return BaseEvent.as_json(self) | {"usage": self.usage.as_priced_json()}


TeamEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolStarted
    | AssistantText
    | ToolCalled
    | ModelCallEnded
    | SideCallEnded
    | HookEnded
    | TurnEnded
    | MessageSent
    | MessageDelivered
    | TaskChanged
    | IntegrationChanged
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
    | SandboxRefused
    | LimitReached
    | Notice
    | RunEnded
)
"""Every event; `match` on it."""

Emit: TypeAlias = Callable[[TeamEvent], None]
"""A function that reports an event. Never blocks, never raises."""

HasListeners: TypeAlias = Callable[[], bool]
"""A function that returns True when a subscriber wants live events: otherwise they need not be constructed."""


def always_true() -> bool:
    """Return True, for an emit function whose listeners are not known."""
    return True


def always_false() -> bool:
    """Return False, for a question that a program without the feature never asks."""
    return False


LIVE = (TextDelta, ThinkingDelta, ToolStarted, AssistantText)
"""Kinds that are never logged."""
