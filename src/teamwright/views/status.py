"""The status of a team: the state of every member, its tasks, pending requests, mail and cost.

The log has the members' activity, the files have the rest, and the lead's lease shows whether a process leads the team.
Also here: the status of one member for its own terminal.
"""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name, now_ms
from teamwright.protocol.members import MemberState
from teamwright.protocol.pending_request import REQUEST_KINDS, PendingRequest
from teamwright.requests.request_store import RequestStore
from teamwright.sandbox.policy import SandboxReport
from teamwright.saved.teams import find_team_view
from teamwright.session.process_state import ServerStatus, read_sandbox, read_servers
from teamwright.storage.event_log import LogTail, read_recent
from teamwright.storage.paths import Home
from teamwright.tasks.task_file import TaskFile
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.snapshots import ARCHIVED, FOREIGN, LIVE, TaskView, TeamView, team_view, team_views
from teamwright.team_records.team_status import MAX_WHAT, MemberStatus, TeamStatus
from teamwright.teams.member_state import OpenTask, with_state
from teamwright.teams.plan_requests import PLAN_KIND as PLAN
from teamwright.views.cost import CostView, cost_of_totals
from teamwright.views.live_status import SessionRow, TaskBoard, known_status
from teamwright.views.log import LogView

if TYPE_CHECKING:
    from teamwright.member_process.terminal_control import OwnTerminalControl


class StatusView(Struct, frozen=True):
    """The status of one team at the time `at`. `state` as in TeamView; `ended` is how the last run ended, if it did.

    `resume` is the command that resumes the team once its lead is gone; `in_order` says that the lead closed the
    session.
    """

    name: str
    state: str
    directory: str
    description: str = ""
    at: float = 0.0
    session: str = ""
    lead_pid: int = 0
    resume: str = ""
    ended: str = ""
    in_order: bool = False
    members: tuple[MemberStatus, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    requests: tuple[PendingRequest, ...] = ()
    servers: tuple[ServerStatus, ...] = ()
    sandbox: SandboxReport | None = None
    unread: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    damaged: str = ""
    log: str = ""
    completed: int = 0

    @property
    def commits(self) -> dict[str, int]:
        """The number of tasks whose commit is in each state of its integration."""
        return dict(Counter(task.integration for task in self.tasks if task.integration))

    def as_json(self) -> dict[str, Any]:
        """Return the status as JSON output contains it."""
        members = [{key: getattr(member, name) for key, name in _MEMBER_KEYS.items()} for member in self.members]
        requests = [request.select(_REQUEST_KEYS) for request in self.requests]
        sandbox = None if self.sandbox is None else asdict(self.sandbox)
        return asdict(self) | {"members": members, "requests": requests, "sandbox": sandbox}

    @property
    def live(self) -> bool:
        """True when a process leads the team."""
        return self.state == LIVE


_MEMBER_KEYS = {
    "name": "name",
    "state": "state",
    "on": "reason",
    "since": "since",
    "active": "active",
    "open_tasks": "open_tasks",
    "unread": "unread",
    "agent_type": "agent_type",
    "model": "model",
    "turns": "turn",
    "tokens": "tokens",
    "context": "context",
    "usd": "usd",
    "mode": "mode",
    "effort": "effort",
    "place": "place",
    "note": "note",
}
"""The keys of a member in JSON output, with the fields that they show."""

_REQUEST_KEYS = {
    "id": "id",
    "member": "asker",
    "kind": "kind",
    "what": "what",
    "at": "opened_at",
    "owner": "owner",
    "tool": "tool",
    "deadline": "deadline",
}
"""The keys of a request in JSON output, with the attributes that they show."""


def status_views(home: Home, cwd: Path, name: str | None = None) -> list[StatusView]:
    """Return the team of that name, else the live teams of this directory, else the newest team here or anywhere.

    Raises TeamwrightError (`unknown-team`) with the most similar name.
    """
    if name is not None:
        return [read_status(home, name)]
    teams = team_views(home)
    here = [team for team in teams if team.session and home.transcript(cwd, team.session).exists()] or teams
    live = [team for team in here if team.state == LIVE]
    return [StatusReader(home, team.directory).read() for team in live or here[:1]]


def read_status(home: Home, name: str, *, archived: bool = False) -> StatusView:
    """Return the status of the team of that name; with `archived` one in the archive too.

    Raises TeamwrightError (`unknown-team`) with the nearest name.
    """
    team = find_team_view(home, name, archived=archived)
    if team.state == ARCHIVED:
        log = TeamStatus.from_log(read_recent(Path(team.log))) if team.log else TeamStatus()
        return status_of(home, team, log, closed=True)
    return StatusReader(home, team.directory).read()


class StatusReader:
    """A reader of one team's status that reads only new lines of the log."""

    def __init__(self, home: Home, directory: str) -> None:
        self.home = home
        self.directory = directory
        self._log: str = ""
        self._tail: LogTail | None = None
        self._team_status = TeamStatus()
        self._tasks: dict[str, TaskFile] = {}

    def read(self) -> StatusView:
        """Return the present status of the team."""
        team = team_view(self.home, self.directory, self._tasks)
        self._read_log(team.log)
        closed = self._tail is not None and self._tail.closed
        return status_of(self.home, team, self._team_status, closed=closed)

    def _read_log(self, log: str) -> None:
        if not log:
            return
        if log != self._log or self._tail is None:
            self._log = log
            self._tail = LogTail.at_end(Path(log))
            recent = read_recent(Path(log))
            self._team_status = TeamStatus.from_log(recent)
            closed = recent.snapshot is not None and recent.snapshot.is_closed and not recent.events
            self._tail.skip_to(self._team_status.event_number, closed=closed)
        while batch := self._tail.read():
            for number, event in batch:
                self._team_status.apply(number, event)


def status_of(home: Home, team: TeamView, team_status: TeamStatus, *, closed: bool = False) -> StatusView:
    """Return the status of a team from its files and the state of its log. `closed`: the log was closed in order."""
    live = team.state == LIVE
    if team_status.team is not None and team_status.directory != team.directory:
        team_status = replace(team_status, members={}, requests={})  # the session leads another team, or none
    tasks = {
        task.id: OpenTask((task.owner or "").partition("@")[0], task.waits_for) for task in team.tasks if task.open
    }
    reader = _MemberReader(
        team, team_status, tasks, live=live, closed=closed, notes=_place_notes(home, team) if live else {}
    )
    listed = {_real_name(member.name) for member in team.members}
    gone = [one for one in team_status.members.values() if one.name not in listed and one.has_ended]
    members = [reader.member(_real_name(m.name), m) for m in team.members] + [reader.member(one.name) for one in gone]
    usage = team_status.usage
    return StatusView(
        name=team.name,
        state=team.state,
        directory=team.directory,
        description=team.description,
        at=time.time(),
        session=team.session,
        lead_pid=team.lead_pid,
        resume="" if live or team.state == FOREIGN else home.name_in(_resume_command(team)),
        ended=team_status.ended,
        in_order=closed,
        members=tuple(members),
        tasks=team.tasks,
        requests=tuple(_pending_requests(home, team, team_status)) if live else (),
        servers=read_servers(Path(team.log).parent) if live and team.log else (),
        sandbox=read_sandbox(Path(team.log).parent, team.lead_pid) if live and team.log else None,
        unread=team.unread,
        tokens=usage.tokens,
        usd=usage.usd,
        damaged=team.damaged,
        log=team.log,
        completed=sum(not task.open for task in team.tasks),
    )


def _resume_command(team: TeamView) -> str:
    """Return the command that resumes the team, without the model when it is a script that needs values."""
    lead = next((member.model for member in team.members if member.name == LEAD_ALIAS), "")
    script = lead.removeprefix("scripted:")
    model = " --model MODEL" if script != lead and _needs_values(script) else ""
    return f"teamwright resume {shlex.quote(team.name)}{model}"


@lru_cache(maxsize=8)
def _needs_values(script: str) -> bool:
    from teamwright.models.scripted.scripted_model import Script

    try:
        return bool(Script.load(Path(script)).required_names)
    except TeamwrightError:
        return True


# ── members ────────────────────────────────────────────────────────────────────────────────────────────────────

_STARTING_MOST_MS = 60_000
"""Milliseconds that a member on the roster may take until its first event."""


class _MemberReader(Struct, frozen=True):
    """The sources that are shared by all members of one team."""

    team: TeamView
    team_status: TeamStatus
    tasks: Mapping[str, OpenTask]
    live: bool
    closed: bool
    notes: Mapping[str, str]
    """Notes on how to see members in backends, by name in lower case."""

    def member(self, name: str, entry: MemberStatus | None = None) -> MemberStatus:
        """Return a member from the state of the log and its entry on the roster, if there is one."""
        known = self.team_status.members.get(name)
        status = self._with_state(name, known, entry)
        entry = entry or MemberStatus(name)
        return replace(
            status,
            name=display_name(name),
            open_tasks=tuple(id for id, task in self.tasks.items() if task.owner.lower() == name.lower()),
            unread=entry.unread,
            agent_type=entry.agent_type,
            model=status.model or entry.model,
            mode=_mode_of(name, known, entry),
            place=entry.place,
            note=self.notes.get(name.lower(), ""),
        )

    def _with_state(self, name: str, known: MemberStatus | None, entry: MemberStatus | None) -> MemberStatus:
        why = "" if self.live else "the lead's process is gone"
        if known is not None and self._log_decides(name, entry):
            return with_state(known, self.team_status, self.tasks, gone=why)
        state, reason = self._state_without_log(name, entry, why)
        return replace(known or MemberStatus(name), state=state, reason=reason)

    def _log_decides(self, name: str, entry: MemberStatus | None) -> bool:
        """Return True when the log says more about a member than the files."""
        waits = entry is not None and entry.state is MemberState.WAITING_FOR_LEAD
        return not (self.team.state == FOREIGN or waits or self._is_closed_lead(name))

    def _is_closed_lead(self, name: str) -> bool:
        return name == LEAD and not self.live and self.closed

    def _state_without_log(self, name: str, entry: MemberStatus | None, why: str) -> tuple[MemberState, str]:
        if self.team.state == FOREIGN:
            if entry is not None and entry.state in {MemberState.REPORTS_WORKING, MemberState.REPORTS_IDLE}:
                return MemberState.UNKNOWN, entry.state
            return MemberState.UNKNOWN, "another product's: its state is not known"
        if self._is_closed_lead(name):
            ended = self.team_status.ended
            return MemberState.COMPLETED, f"its run ended: {ended}" if ended else "its session was left"
        if entry is not None and entry.state is MemberState.WAITING_FOR_LEAD:
            return MemberState.WAITING, f"its lead: {why}"
        if not self.live:
            return (MemberState.SUSPENDED, "its session was left") if self.closed else (MemberState.DEAD, why)
        if entry is not None and LEAD in self.team_status.members and now_ms() - entry.joined_at < _STARTING_MOST_MS:
            return MemberState.WORKING, "starts"
        return MemberState.UNKNOWN, "the log does not mention it" if self.team.log else "there is no log"


def _place_notes(home: Home, team: TeamView) -> dict[str, str]:
    try:
        file = FileStores(home).read_state(team.directory)
    except TeamwrightError:
        return {}
    if file is None:
        return {}
    incarnations = file.incarnation_records.items()
    return {name: str(one.place.get("note", "")) for name, one in incarnations if one.place is not None}


def _mode_of(name: str, known: MemberStatus | None, entry: MemberStatus | None) -> str:
    """Return the mode in the log, or the mode on the roster for a member whose mode never changed."""
    if name == LEAD:
        return (known.mode or Mode.DEFAULT) if known is not None else ""
    mode = (known.mode if known is not None else "") or (entry.mode if entry is not None else "")
    return "" if mode == Mode.BUBBLE else mode


def _real_name(shown: str) -> str:
    return LEAD if shown == LEAD_ALIAS else shown


# ── requests of the team ───────────────────────────────────────────────────────────────────────────────────────


def _pending_requests(home: Home, team: TeamView, team_status: TeamStatus) -> list[PendingRequest]:
    """Return the open requests for a person by the log, and those that only files have, such as shutdown requests."""
    requests = [
        replace(request, asker=display_name(request.asker), owner=display_name(request.owner or request.asker))
        for request in team_status.requests.values()
    ]
    on_disk = _unanswered(RequestStore.of_team(home, team.directory).directory)
    requests += [request for request in on_disk if request.id not in team_status.requests]
    return sorted(requests, key=lambda request: request.opened_at)


def _unanswered(directory: Path) -> list[PendingRequest]:
    try:
        names = {path.name for path in directory.iterdir() if path.suffix == ".json"}
    except OSError:
        return []
    requests = [name for name in names if not name.endswith(".answer.json")]
    left = [name for name in requests if f"{name.removesuffix('.json')}.answer.json" not in names]
    return [one for name in left if (one := _request_of_file(directory / name)) is not None]


def _request_of_file(path: Path) -> PendingRequest | None:
    """Return the request in a file; None when it was answered since."""
    try:
        body = cast("dict[str, Any]", json.loads(path.read_bytes()))
        at, until = (float(body.get(key) or 0) / 1000 for key in ("opened_at", "deadline"))
        kind = str(body["kind"])
        owner = str(body["requester" if kind in {*REQUEST_KINDS, PLAN} else "target"] or "")
        what = str(body.get("plan" if kind == PLAN else "what" if kind in REQUEST_KINDS else "reason") or "")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return PendingRequest(path.stem, "damaged", "", "", "", "the file is not a whole request")
    return PendingRequest(
        id=str(body.get("id", path.stem)),
        kind=kind,
        owner=display_name(owner),
        asker=display_name(str(body.get("asker") or owner)),
        tool=str(body.get("tool") or ""),
        what=what[:MAX_WHAT],
        opened_at=at,
        deadline=until,
    )


# ── one member at its own terminal ─────────────────────────────────────────────────────────────────────────────


class MemberScreen(Struct, frozen=True):
    """The status of one member at its own terminal, a `StatusSource`."""

    seat: OwnTerminalControl

    def members(self, board: TaskBoard, /) -> list[MemberStatus]:
        """Implement `StatusSource.members` with the member alone."""
        teammate = self.seat.member.teammate
        team = self.seat.member.team
        status = team.status if self.seat.requests else replace(team.status, requests={})  # others are closed
        row = with_state(known_status(team, teammate), status, board.open_tasks_by_id())
        return [replace(row, color=teammate.color, task=board.task_of(teammate.name))]

    def now(self, board: TaskBoard, /) -> SessionRow:
        """Implement `StatusSource.now` with the member's model, mode, window and money."""
        seat = self.seat
        known = known_status(seat.member.team, seat.member.teammate)
        budget_tracker = seat.member.agent_factory.budget_tracker
        return SessionRow(
            model=seat.model,
            mode=seat.mode,
            context=known.context or budget_tracker.context.get(seat.name, 0),
            window=seat.agent.model.card.context_tokens,
            usd=known.usage.usd,
            usd_cap=budget_tracker.cap_of(seat.name).usd,
            tokens=known.usage.tokens,
            requests=seat.requests,
            done=board.done,
            tasks=board.done + len(board.open),
            alone=not seat.is_lead_reachable,
        )

    async def read(self, board: TaskBoard, /) -> None:
        await board.read(self.seat.member.team)


async def member_cost(control: OwnTerminalControl) -> CostView:
    """Return the cost of the member and its sub-agents in this process. Raises StorageError."""
    member = control.member
    books = member.agent_factory.budget_tracker.books
    subjects = {(books.list, task.id): task.subject for task in await control.tasks()}
    return cost_of_totals(books, subjects, LogView(member.log.path, member.spawn.session, member.team.name))
