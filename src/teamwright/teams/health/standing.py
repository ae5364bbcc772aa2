"""What the events add up to: who is in the team, what each member does, what is open. One fold for all surfaces.

The process that runs the team folds events as they come, others read the newest snapshot of the log and fold what
came behind it: both see the same. Knows events; knows neither files nor processes, and probes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, cast

from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.events import (
    FAILED,
    Compacted,
    MemberChanged,
    MessageSeen,
    MessageSent,
    ModeChanged,
    ModelChanged,
    RequestClosed,
    RequestOpened,
    RoundEnded,
    RunEnded,
    SessionOpened,
    TaskChanged,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
    Underway,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass
from teamwright.storage.log_reader import Recent
from teamwright.teams.lifecycle import GONE, State

VERSION = 1
"""Of the state in a snapshot; one of a newer version is not read."""

OPEN_MOST = 1_000
"""Open tasks that a snapshot lists: the files have them all."""

GONE_MOST = 64
"""Members that are gone and still remembered."""

SUSPENDED = "suspended"
"""The state of a member whose session ended in order: the life goes on when the session does."""

_GONE = frozenset(str(state) for state in GONE) - {SUSPENDED}


@dataclass(slots=True)
class MemberStanding:
    """One member. Times in seconds since 1970.

    `state` is the lifecycle's word; `lost` says that the process it lived in was followed by another one, which has not
    told of it yet. `doing` and `what` are what Underway said last; `wrote_to` are those whose answer it may wait for.
    `failed` says why its last turn failed; the end of a later turn clears it.
    """

    name: str
    state: str = str(State.PENDING)
    detail: str = ""
    life: int = 0
    turn: int = 0
    since: float = 0.0
    active: float = 0.0
    doing: str = ""
    what: str = ""
    doing_since: float = 0.0
    stalled: bool = False
    lost: bool = False
    model: str = ""
    effort: str = ""
    mode: str = ""
    color: str | None = None
    rounds: int = 0
    context: int = 0
    usage: Usage = field(default_factory=Usage)
    wrote_to: tuple[str, ...] = ()
    failed: str = ""

    @property
    def gone(self) -> bool:
        """Whether this life is over."""
        return self.state in _GONE

    def settles(self) -> None:
        """Whatever it was busy with is over."""
        self.doing = self.what = ""
        self.doing_since = 0.0
        self.stalled = False

    def as_json(self) -> dict[str, Any]:
        """Its line in a snapshot."""
        out: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        out["usage"] = usage_to_json(self.usage)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemberStanding:
        """What `as_json` wrote; keys of a newer version are passed over. Raises TypeError, KeyError."""
        known = {key: value for key, value in data.items() if key in _FIELDS}
        known["usage"] = usage_from_json(data.get("usage") or {})
        known["wrote_to"] = tuple(data.get("wrote_to") or ())
        return cls(**known)


_FIELDS = tuple(item.name for item in fields(MemberStanding))


@dataclass(frozen=True, slots=True)
class Asked:
    """An open request: who asks, for what kind of answer, since when and until when (seconds since 1970; 0: for ever).

    `owner` is the member that is held up by it; a sub-agent asks in its name.
    """

    member: str
    kind: str
    tool: str
    what: str
    at: float
    owner: str = ""
    deadline: float = 0.0

    def holds_up(self, name: str) -> bool:
        """Whether the member of this name waits for it."""
        return (self.owner or self.member) == name


@dataclass(slots=True)
class Standing:
    """The state after event number `n`. `team` is None while no event said which team is led, empty after a delete.

    `open` holds open tasks with status and owner, `completed` counts the others; `others` is what sub-agents used.
    """

    n: int = 0
    team: str | None = None
    directory: str = ""
    pid: int = 0
    opened: float = 0.0
    ended: str = ""
    ended_at: float = 0.0
    completed: int = 0
    members: dict[str, MemberStanding] = field(default_factory=dict[str, MemberStanding])
    requests: dict[str, Asked] = field(default_factory=dict[str, Asked])
    open: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    others: Usage = field(default_factory=Usage)

    def note(self, number: int, event: TeamEvent) -> None:
        """Take a logged event in. What is of an older life or turn of a member came late and changes nothing."""
        self.n = number
        match event:
            case ToolCalled() | RoundEnded() | TurnEnded() | Underway() | Compacted():
                self._worked(event)
            case MemberChanged():
                self._changed(event)
            case ModeChanged() | ModelChanged():
                self._set(event)
            case MessageSent():
                self._wrote(event)
            case MessageSeen():
                self._active(event)
            case TaskChanged():
                self._active(event)
                self._task(event)
            case RequestOpened():
                self._active(event)
                what, until = event.what[:200], event.deadline
                self.requests[event.request] = Asked(
                    event.member, event.kind, event.tool, what, event.at, event.owner, until
                )
            case RequestClosed():
                self._active(event)
                self.requests.pop(event.request, None)
            case TeamChanged() | SessionOpened() | RunEnded():
                self._whole(event)
            case _:
                pass

    @property
    def tokens(self) -> int:
        """All tokens of all agents so far."""
        return self.usage.tokens

    @property
    def usage(self) -> Usage:
        """What all agents used so far, members that are gone and sub-agents included."""
        return sum((member.usage for member in self.members.values()), self.others)

    @classmethod
    def of(cls, recent: Recent) -> Standing:
        """The state at the end of a log: the newest snapshot, and what came behind it."""
        snapshot = recent.snapshot
        made = cls.from_json(snapshot.n, snapshot.state) if snapshot is not None else None
        made = made or cls()
        for number, event in recent.events:
            made.note(number, event)
        return made

    # ── one event ────────────────────────────────────────────────────────────────────────────────────────────

    def _active(self, event: TeamEvent) -> MemberStanding | None:
        member = self.members.get(event.member)
        if member is not None and event.at > member.active:
            member.active = event.at
        return member

    def _worked(self, event: ToolCalled | RoundEnded | TurnEnded | Underway | Compacted) -> None:
        member = self._active(event)
        if isinstance(event, RoundEnded):
            if member is None:
                self.others += event.usage
                return
            member.usage += event.usage
            member.rounds += not event.aside
            member.context = member.context if event.aside == FAILED else event.usage.tokens
        if member is None:
            return
        if isinstance(event, Compacted):
            member.context = event.after if event.state == "done" else member.context
        elif not isinstance(event, Underway):
            member.settles()
            if isinstance(event, TurnEnded):
                member.failed = (event.detail or "its turn failed") if event.stop == "failed" else ""
        elif member.state not in {str(State.IDLE), *_GONE}:
            member.doing, member.what, member.doing_since = event.doing, event.what[:200], event.since
            member.stalled = event.stalled

    def _changed(self, event: MemberChanged) -> None:
        member = self.members.get(event.member)
        if member is None:
            member = self.members[event.member] = MemberStanding(event.member)
        elif event.life < member.life or (event.life == member.life and self._late(member, event)):
            return
        if event.life > member.life:
            usage, rounds = member.usage, member.rounds
            member = self.members[event.member] = MemberStanding(event.member, usage=usage, rounds=rounds)
        if event.turn > member.turn:
            member.wrote_to = ()
        state = event.state
        if event.member == LEAD and self.opened and not event.turn:
            state = str(State.IDLE)  # it leads a team, and has had no turn in this process yet
        if state != member.state or member.lost:
            member.since = event.at
        member.state, member.detail = state, event.detail
        member.life, member.turn, member.lost = event.life, event.turn, False
        member.active = max(member.active, event.at)
        if event.model:
            member.model, member.effort = event.model, event.effort
        member.color = event.color or member.color
        member.settles()
        if member.gone:
            self._forget_old()

    def _set(self, event: ModeChanged | ModelChanged) -> None:
        if event.member == LEAD and LEAD not in self.members:
            self.members[LEAD] = MemberStanding(LEAD, str(State.IDLE), since=event.at)  # it has had no turn yet
        if (member := self._active(event)) is not None:
            if isinstance(event, ModelChanged):
                member.model, member.effort = event.model, event.effort
            else:
                member.mode = event.mode

    def _late(self, member: MemberStanding, event: MemberChanged) -> bool:
        """Whether the event tells of a turn before the newest, or of a life that has ended."""
        return event.turn < member.turn or (member.gone and event.life > 0 and event.state not in _GONE)

    def _wrote(self, event: MessageSent) -> None:
        member = self._active(event)
        reader = self.members.get(event.to)
        if reader is not None and event.member in reader.wrote_to:
            reader.wrote_to = tuple(name for name in reader.wrote_to if name != event.member)
        if member is not None and not event.wire and event.to != event.member:
            member.wrote_to = tuple(dict.fromkeys((*member.wrote_to, event.to)))

    def _task(self, event: TaskChanged) -> None:
        task = event.task
        was_open = self.open.pop(task.id, None) is not None
        if task.status == "deleted":
            self.completed -= not was_open and self.completed > 0
        elif task.status == "completed":
            self.completed += was_open
        else:
            reopened = not was_open and event.change not in {"created", "lost"}
            self.completed -= reopened and self.completed > 0
            self.open[task.id] = (task.status, task.owner or "")

    def _whole(self, event: TeamChanged | SessionOpened | RunEnded) -> None:
        if isinstance(event, RunEnded):
            self.ended, self.ended_at = event.stop, event.at
        elif isinstance(event, SessionOpened):
            self.pid, self.opened, self.ended = event.pid, event.at, ""
            self.requests.clear()
            for member in self.members.values():
                member.turn, member.lost = 0, not member.gone and member.state != SUSPENDED
                member.settles()
        elif event.change == "deleted":
            self._leave("", "")
            self.open.clear()
            self.completed = 0
        elif self.directory != event.directory:
            self._leave(event.team, event.directory)
        else:
            self.team = event.team

    def _leave(self, team: str, directory: str) -> None:
        """Another team, or none: only the lead goes along."""
        for name in [name for name in self.members if name != LEAD]:
            self.others += self.members.pop(name).usage
        self.team, self.directory = team, directory

    def _forget_old(self) -> None:
        if len(self.members) <= GONE_MOST:
            return
        gone = [name for name, member in self.members.items() if member.gone]
        for name in gone[: max(0, len(gone) - GONE_MOST)]:
            self.others += self.members.pop(name).usage

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────

    def as_json(self) -> dict[str, Any]:
        """The state, as a snapshot of the log holds it."""
        tasks = list(self.open.items())
        statuses = [status for status, _ in self.open.values()]
        return {
            "standing": VERSION,
            "team": self.team,
            "directory": self.directory,
            "pid": self.pid,
            "opened": self.opened,
            "ended": self.ended,
            "ended_at": self.ended_at,
            "members": [member.as_json() for member in self.members.values()],
            "requests": {id: {name: getattr(one, name) for name in _ASKED_FIELDS} for id, one in self.requests.items()},
            "tasks": {
                "pending": statuses.count("pending"),
                "in_progress": statuses.count("in_progress"),
                "completed": self.completed,
                "open": {id: list(one) for id, one in tasks[-OPEN_MOST:]},
            },
            "others": usage_to_json(self.others),
        }

    @classmethod
    def from_json(cls, n: int, data: Mapping[str, Any]) -> Standing | None:
        """The state of a snapshot; None for one of a newer version, and for one that is damaged."""
        try:
            if int(data["standing"]) > VERSION:
                return None
            tasks = cast("Mapping[str, Any]", data["tasks"])
            members = [MemberStanding.from_json(one) for one in data["members"]]
            return cls(
                n=n,
                team=data["team"],
                directory=str(data["directory"]),
                pid=int(data["pid"]),
                opened=float(data["opened"]),
                ended=str(data["ended"]),
                ended_at=float(data["ended_at"]),
                completed=int(tasks["completed"]),
                members={member.name: member for member in members},
                requests={id: Asked(**one) for id, one in data["requests"].items()},
                open={id: (str(status), str(owner)) for id, (status, owner) in tasks["open"].items()},
                others=usage_from_json(data["others"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


_ASKED_FIELDS = tuple(item.name for item in fields(Asked))
