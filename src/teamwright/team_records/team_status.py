"""The status of a team and of each member, as every view shows it: one fold of events for all displays.

The process that runs the team folds live events; other processes read the newest snapshot of the log and fold later
events, with the same result. Nothing is probed here; `views` and `member_state` add what files and processes say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct, field

from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.events import (
    Compacted,
    MemberChanged,
    MessageDelivered,
    MessageSent,
    ModeChanged,
    ModelCallEnded,
    ModelChanged,
    Progress,
    RequestClosed,
    RequestOpened,
    RunEnded,
    SessionOpened,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import IN_PROCESS, MemberState, parse_state
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.usage import Usage
from teamwright.storage.event_log import RecentEvents
from teamwright.team_records.life_cycle import INCARNATION_ENDS

WAITING_STATES = frozenset({MemberState.WAITING, MemberState.AWAITING, MemberState.BLOCKED, MemberState.STOPPING})
"""States whose reason is what the member waits for."""


class MemberStatus(Struct):
    """One member. Times in seconds since 1970, 0 when unknown.

    The fields up to `failed` are folded from events, and a snapshot of the log keeps them: `state` is there the
    lifecycle's. `lost`: another process replaced the member's process and has not reported the member yet, or its
    process is known to be gone. `doing`, `what` and `own_server` come from the last Progress event; `wrote_to` are
    members whose answer it may wait for. `failed` says why its last turn failed; the end of a later turn clears it.

    The other fields are what a view adds, as far as it shows them: `reason` is what the member waits for or does.
    `pending_request` is the open request that it waits for; `blockers` are the open tasks, with their owners in words,
    that block all its own open tasks; `awaited_answer` are recipients of its messages that have not answered. `unread`
    and `messages` count its inbox, -1 when that cannot be read. `joined_at` is in milliseconds. `place` is its backend:
    `in-process`, or a backend and the member's id there (`tmux %3`); empty for a lead. `note` says how to see it there.
    `open_tasks` are ids, `task` is the one in progress.
    """

    name: str
    state: MemberState = MemberState.PENDING
    detail: str = ""
    incarnation: int = 0
    turn: int = 0
    since: float = 0.0
    active: float = 0.0
    doing: str = ""
    what: str = ""
    doing_since: float = 0.0
    stalled: bool = False
    own_server: bool = False
    lost: bool = False
    model: str = ""
    effort: str = ""
    mode: str = ""
    color: str | None = None
    model_calls: int = 0
    context: int = 0
    usage: Usage = field(default_factory=Usage)
    wrote_to: tuple[str, ...] = ()
    failed: str = ""
    reason: str = ""
    pending_request: str = ""
    blockers: str = ""
    awaited_answer: str = ""
    agent_type: str = ""
    joined_at: int = 0
    unread: int = 0
    messages: int = 0
    place: str = ""
    note: str = ""
    open_tasks: tuple[str, ...] = ()
    task: TaskInfo | None = None

    @property
    def has_ended(self) -> bool:
        """True when this incarnation has ended."""
        return self.state in INCARNATION_ENDS

    @property
    def is_waiting(self) -> bool:
        """True when `reason` is what it waits for."""
        return self.state in WAITING_STATES

    @property
    def has_own_process(self) -> bool:
        """True when it runs outside the lead's process."""
        return self.place not in {"", IN_PROCESS}

    @property
    def tokens(self) -> int:
        """The tokens of its usage."""
        return self.usage.tokens

    @property
    def usd(self) -> float | None:
        """The money of its usage; None for an unknown price."""
        return self.usage.usd

    def clear_activity(self) -> None:
        """Clear the member's activity."""
        self.doing = self.what = ""
        self.doing_since = 0.0
        self.stalled = self.own_server = False

    def as_json(self) -> dict[str, Any]:
        """Return its line in a snapshot."""
        out: dict[str, Any] = {name: getattr(self, name) for name in _SNAPSHOT_FIELDS}
        out["usage"] = usage_to_json(self.usage)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemberStatus:
        """Return the member from its snapshot line; keys of a newer version are ignored. Raises TypeError, KeyError."""
        data = {_NAMES_OF_VERSION_1.get(key, key): value for key, value in data.items()}
        known = {key: value for key, value in data.items() if key in _SNAPSHOT_FIELDS}
        known["state"] = parse_state(data.get("state", MemberState.PENDING))
        known["usage"] = usage_from_json(data.get("usage") or {})
        known["wrote_to"] = tuple(data.get("wrote_to") or ())
        return cls(**known)


_NAMES_OF_VERSION_1 = {"life": "incarnation", "rounds": "model_calls"}

_SNAPSHOT_FIELDS = (
    *("name", "state", "detail", "incarnation", "turn", "since", "active", "doing", "what", "doing_since", "stalled"),
    *("own_server", "lost", "model", "effort", "mode", "color", "model_calls", "context", "usage", "wrote_to"),
    "failed",
)
"""The fields that a snapshot keeps, in its order."""


VERSION = 2
"""The version of the state in a snapshot; a newer version is not read."""

MAX_OPEN_TASKS = 1_000
"""Open tasks that a snapshot lists: the files have them all."""

MAX_WHAT = 200
"""Characters of a request's `what` that the state keeps."""

MAX_ENDED_MEMBERS = 64
"""Ended members that are still remembered."""


class TeamStatus(Struct):
    """The state after event number `event_number`. `team` is None before the first event about a team, empty after a
    delete.

    `open_tasks` contains open tasks with status and owner, `completed` counts the others; `other_usage` is that of
    sub-agents.
    """

    event_number: int = 0
    team: str | None = None
    directory: str = ""
    pid: int = 0
    opened_at: float = 0.0
    ended: str = ""
    ended_at: float = 0.0
    completed: int = 0
    members: dict[str, MemberStatus] = field(default_factory=dict[str, MemberStatus])
    requests: dict[str, PendingRequest] = field(default_factory=dict[str, PendingRequest])
    open_tasks: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    other_usage: Usage = field(default_factory=Usage)

    def apply(self, number: int, event: TeamEvent) -> None:
        """Apply a logged event. A late event of an earlier incarnation or turn of a member changes nothing."""
        self.event_number = number
        match event:
            case ToolCalled() | ModelCallEnded() | TurnEnded() | Progress() | Compacted():
                self._apply_work(event)
            case MemberChanged():
                self._apply_member(event)
            case ModeChanged() | ModelChanged():
                self._apply_settings(event)
            case MessageSent():
                self._apply_message(event)
            case MessageDelivered():
                self._touch(event)
            case TaskChanged():
                self._touch(event)
                self._apply_task(event)
            case RequestOpened():
                self._touch(event)
                self.requests[event.request] = PendingRequest.from_event(event, max_what=MAX_WHAT)
            case RequestClosed():
                self._touch(event)
                self.requests.pop(event.request, None)
            case TeamChanged() | SessionOpened() | RunEnded():
                self._apply_session(event)
            case _:
                pass

    @property
    def tokens(self) -> int:
        """The tokens of all agents so far."""
        return self.usage.tokens

    @property
    def usage(self) -> Usage:
        """The usage of all agents so far, ended members and sub-agents included."""
        return sum((member.usage for member in self.members.values()), self.other_usage)

    @classmethod
    def from_log(cls, recent: RecentEvents) -> TeamStatus:
        """Return the state at the end of a log: the newest snapshot, and the later events."""
        snapshot = recent.snapshot
        status = cls.from_json(snapshot.number, snapshot.state) if snapshot is not None else None
        status = status or cls()
        for number, event in recent.events:
            status.apply(number, event)
        return status

    # ── one event ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _touch(self, event: TeamEvent) -> MemberStatus | None:
        member = self.members.get(event.member)
        if member is not None and event.at > member.active:
            member.active = event.at
        return member

    def _apply_work(self, event: ToolCalled | ModelCallEnded | TurnEnded | Progress | Compacted) -> None:
        member = self._touch(event)
        if isinstance(event, ModelCallEnded):
            if member is None:
                self.other_usage += event.usage
                return
            member.usage += event.usage
            member.model_calls += not event.aside
            member.context = member.context if event.aside else event.usage.tokens
        if member is None:
            return
        if isinstance(event, Compacted):
            member.context = event.after if event.state == "done" else member.context
        elif not isinstance(event, Progress):
            member.clear_activity()
            if isinstance(event, TurnEnded):
                member.failed = (event.detail or "its turn failed") if event.stop == "failed" else ""
        elif member.state not in {MemberState.IDLE, *INCARNATION_ENDS}:
            member.doing = event.doing
            member.what = event.what[:200]
            member.doing_since = event.since
            member.stalled = event.stalled
            member.own_server = event.own_server

    def _apply_member(self, event: MemberChanged) -> None:
        member = self.members.get(event.member)
        if member is None:
            member = self.members[event.member] = MemberStatus(event.member)
        elif event.incarnation < member.incarnation or (
            event.incarnation == member.incarnation and self._is_outdated(member, event)
        ):
            return
        if event.incarnation > member.incarnation:
            member = self.members[event.member] = MemberStatus(
                event.member, usage=member.usage, model_calls=member.model_calls
            )
        if event.turn > member.turn:
            member.wrote_to = ()
        state = event.state
        if event.member == LEAD and self.opened_at and not event.turn:
            state = MemberState.IDLE  # it leads a team, and has had no turn in this process yet
        if state != member.state or member.lost:
            member.since = event.at
        member.state = state
        member.detail = event.detail
        member.incarnation = event.incarnation
        member.turn = event.turn
        member.lost = False
        member.active = max(member.active, event.at)
        if event.model:
            member.model = event.model
            member.effort = event.effort
        member.color = event.color or member.color
        member.clear_activity()
        if member.has_ended:
            self._forget_ended()

    def _apply_settings(self, event: ModeChanged | ModelChanged) -> None:
        if event.member == LEAD and LEAD not in self.members:
            self.members[LEAD] = MemberStatus(LEAD, MemberState.IDLE, since=event.at)  # it has had no turn yet
        if (member := self._touch(event)) is not None:
            if isinstance(event, ModelChanged):
                member.model = event.model
                member.effort = event.effort
            else:
                member.mode = event.mode

    def _is_outdated(self, member: MemberStatus, event: MemberChanged) -> bool:
        """Return True when the event is from a turn before the newest, or from an incarnation that has ended."""
        return event.turn < member.turn or (
            member.has_ended and event.incarnation > 0 and event.state not in INCARNATION_ENDS
        )

    def _apply_message(self, event: MessageSent) -> None:
        member = self._touch(event)
        reader = self.members.get(event.to)
        if reader is not None and event.member in reader.wrote_to:
            reader.wrote_to = tuple(name for name in reader.wrote_to if name != event.member)
        if member is not None and not event.wire and event.to != event.member:
            member.wrote_to = tuple(dict.fromkeys((*member.wrote_to, event.to)))

    def _apply_task(self, event: TaskChanged) -> None:
        task = event.task
        was_open = self.open_tasks.pop(task.id, None) is not None
        if task.status == "deleted":
            self.completed -= not was_open and self.completed > 0
        elif task.status == "completed":
            self.completed += was_open
        else:
            reopened = not was_open and event.change not in {"created", "lost"}
            self.completed -= reopened and self.completed > 0
            self.open_tasks[task.id] = (task.status, task.owner or "")

    def _apply_session(self, event: TeamChanged | SessionOpened | RunEnded) -> None:
        if isinstance(event, RunEnded):
            self.ended = event.stop
            self.ended_at = event.at
        elif isinstance(event, SessionOpened):
            self.pid = event.pid
            self.opened_at = event.at
            self.ended = ""
            self.requests.clear()
            for member in self.members.values():
                member.turn = 0
                member.lost = not member.has_ended and member.state != MemberState.SUSPENDED
                member.clear_activity()
        elif event.change == "deleted":
            self._change_team("", "")
            self.open_tasks.clear()
            self.completed = 0
        elif self.directory != event.directory:
            self._change_team(event.team, event.directory)
        else:
            self.team = event.team

    def _change_team(self, team: str, directory: str) -> None:
        """Switch to another team, or none: only the lead stays."""
        for name in [name for name in self.members if name != LEAD]:
            self.other_usage += self.members.pop(name).usage
        self.team = team
        self.directory = directory

    def _forget_ended(self) -> None:
        if len(self.members) <= MAX_ENDED_MEMBERS:
            return
        ended_names = [name for name, member in self.members.items() if member.has_ended]
        for name in ended_names[: max(0, len(ended_names) - MAX_ENDED_MEMBERS)]:
            self.other_usage += self.members.pop(name).usage

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────

    def as_json(self) -> dict[str, Any]:
        """Return the state as a snapshot of the log."""
        tasks = list(self.open_tasks.items())
        statuses = [status for status, _ in self.open_tasks.values()]
        return {
            "version": VERSION,
            "team": self.team,
            "directory": self.directory,
            "pid": self.pid,
            "opened": self.opened_at,
            "ended": self.ended,
            "ended_at": self.ended_at,
            "members": [member.as_json() for member in self.members.values()],
            "requests": {id: request.select(_REQUEST_KEYS) for id, request in self.requests.items()},
            "tasks": {
                "pending": statuses.count("pending"),
                "in_progress": statuses.count("in_progress"),
                "completed": self.completed,
                "open": {id: list(one) for id, one in tasks[-MAX_OPEN_TASKS:]},
            },
            "others": usage_to_json(self.other_usage),
        }

    @classmethod
    def from_json(cls, number: int, data: Mapping[str, Any]) -> TeamStatus | None:
        """Return the state of a snapshot; None for a newer version or a damaged one."""
        try:
            if int(data.get("version", 1)) > VERSION:
                return None
            tasks = cast("Mapping[str, Any]", data["tasks"])
            members = [MemberStatus.from_json(one) for one in data["members"]]
            return cls(
                event_number=number,
                team=data["team"],
                directory=str(data["directory"]),
                pid=int(data["pid"]),
                opened_at=float(data["opened"]),
                ended=str(data["ended"]),
                ended_at=float(data["ended_at"]),
                completed=int(tasks["completed"]),
                members={member.name: member for member in members},
                requests={id: _parse_request(id, one) for id, one in data["requests"].items()},
                open_tasks={id: (str(status), str(owner)) for id, (status, owner) in tasks["open"].items()},
                other_usage=usage_from_json(data["others"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


_REQUEST_KEYS = {
    **{"member": "asker", "kind": "kind", "tool": "tool", "what": "what", "at": "opened_at"},
    **{"owner": "owner", "deadline": "deadline"},
}
"""The keys of a request in a snapshot, and the attributes that they store."""


def _parse_request(id: str, data: Mapping[str, Any]) -> PendingRequest:
    return PendingRequest(id=id, **{_REQUEST_KEYS[key]: value for key, value in data.items()})
