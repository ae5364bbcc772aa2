"""Frozen views of teams, members, tasks and mail on disk; no file is locked or changed.

An unreadable file is shown as damaged, never raised. Depends on the packages that own the formats. Sessions and their
logs are shown by `views`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from teamwright.mail.inbox import read_entries
from teamwright.protocol.errors import InvalidName, StorageError, TeamwrightError
from teamwright.protocol.ids import LEAD_ALIAS, display_name, inbox_stem
from teamwright.protocol.mail import InboxEntry, is_contentless, parse_protocol, wire_type
from teamwright.protocol.members import IN_PROCESS, MemberState, RosterMember, TeamConfig, parse_config
from teamwright.protocol.task import IntegrationState, Task, TaskStatus, open_blockers
from teamwright.requests.request_store import RequestStore
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.paths import Home, find_home
from teamwright.tasks.completion_conditions import task_notes
from teamwright.tasks.task_file import DamagedTaskFile, TaskFile, file_signature, list_numbers, read_task
from teamwright.tasks.task_rules import USER
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.team_state import Incarnation, TeamFile, is_lead_alive, process_directory, read_team_file
from teamwright.team_records.team_status import MemberStatus

LIVE, OPEN, FINISHED, FOREIGN, ARCHIVED = "live", "open", "finished", "foreign", "archived"
"""States of a team: its lead runs; its lead is gone and work is open; no work is open; another product's; deleted."""


class OpenReview(Struct, frozen=True):
    """The review of a task that waits for it: the member that did the work, and the reviewer that is asked.

    `round` counts the submissions. `since` is when the reviewer was asked, in seconds since 1970; 0 before that.
    """

    author: str
    reviewer: str
    round: int
    since: float

    @property
    def is_for_person(self) -> bool:
        """True when a person is asked."""
        return self.reviewer == USER


class TaskView(Struct, frozen=True):
    """One task. `waits_for` are its open blockers; `damaged` is the problem of its file.

    `unverified`: it is completed, and no check of it succeeded in our processes. `check` is the task's own check.
    """

    id: str
    subject: str = ""
    status: str = "pending"
    owner: str | None = None
    waits_for: tuple[str, ...] = ()
    description: str = ""
    damaged: str = ""
    unverified: bool = False
    check: str = ""
    integration: str = ""
    """The state of its commit, for a task whose owner works in a worktree."""
    writes: tuple[str, ...] = ()
    """The path patterns that it changes."""
    notes: tuple[str, ...] = ()
    """Texts about its review, and about tasks at work that change the same paths."""
    review: OpenReview | None = None
    """Its review, while finished work waits for the answer."""
    created_at: int = 0
    """The time of its creation, in ms since 1970; 0 when its file does not say."""
    updated_at: int = 0
    """The time of its last change, in ms since 1970; 0 when its file does not say."""

    @property
    def open(self) -> bool:
        """True when it is not finished; a damaged file may be."""
        return self.status != TaskStatus.COMPLETED or self.integration == IntegrationState.QUEUED


class MailView(Struct, frozen=True):
    """One entry of an inbox. `kind` is the type of a protocol message, empty for plain text."""

    sender: str
    text: str
    summary: str
    timestamp: str
    read: bool
    kind: str = ""
    id: str = ""


_MEMBER_KEYS = ("name", "agent_type", "model", "state", "joined_at", "unread", "messages", "mode", "place")
"""The keys of a member in JSON output."""


class TeamView(Struct, frozen=True):
    """One team. Times in milliseconds since 1970; `damaged` names the damaged file and the reason; other values are
    then guesses.

    `state` is live, open (no process leads it, and tasks or requests are open, or messages unread), finished, archived,
    or foreign (another product's).
    """

    name: str
    directory: str
    state: str
    description: str = ""
    created_at: int = 0
    session: str = ""
    lead_pid: int = 0
    log: str = ""
    members: tuple[MemberStatus, ...] = ()
    tasks: tuple[TaskView, ...] = ()
    damaged: str = ""
    path: Path = field(default_factory=Path)

    def as_json(self) -> dict[str, Any]:
        """Return the team as JSON output contains it."""
        members = [{key: getattr(member, key) for key in _MEMBER_KEYS} for member in self.members]
        return asdict(self) | {"members": members}

    @property
    def member_names(self) -> list[str]:
        """The names of the members."""
        return [member.name for member in self.members]

    @property
    def open_tasks(self) -> int:
        """The number of tasks that are not completed."""
        return sum(task.open for task in self.tasks)

    @property
    def unread(self) -> int:
        """The number of unread messages of all members."""
        return sum(max(member.unread, 0) for member in self.members)


def resolve_home(root: str | None, *, unreadable: bool = False) -> Home:
    """Return the named home, else that of the environment, else the user's. Creates nothing.

    Raises CannotStart (`read-only-home`) when it cannot be read, unless `unreadable` allows that.
    """
    home = find_home(root)
    return home if unreadable else home.require_readable()


# ── teams ────────────────────────────────────────────────────────────────────────────────────────────────────


def team_views(home: Home) -> list[TeamView]:
    """Return all teams on disk, the newest first."""
    found = [team_view(home, directory) for directory in _directories(home.shared / "teams")]
    return sorted(found, key=lambda team: (-team.created_at, team.directory))


def archived_teams(home: Home) -> list[TeamView]:
    """Return the deleted teams in the archive, the newest first."""
    entries = [name for name in _directories(home.archive) if (home.archive / name / "config.json").exists()]
    found = [_view(home, home.archive / name, name, archived=True) for name in entries]
    return sorted(found, key=lambda team: -_modified(team.path))


def team_view(home: Home, directory: str, known: dict[str, TaskFile] | None = None) -> TeamView:
    """Return the team in one directory under `teams/`. `known` are read task files, kept from one view to the next."""
    return _view(home, home.shared / "teams" / directory, directory, known=known)


def _view(
    home: Home, path: Path, directory: str, *, archived: bool = False, known: dict[str, TaskFile] | None = None
) -> TeamView:
    config, damage = _config(path / "config.json")
    ours, our_damage = _team_file(path / "team.json")
    own = path / "tasks" if archived else home.shared / "tasks" / directory
    tasks = task_views(_shared_list(home, ours) or own, known, queue=home.integration(directory))
    live = not archived and ours is not None and is_lead_alive(ours.lead)
    entries = config.members if config is not None else ()
    incarnations: Mapping[str, Incarnation] = ours.incarnation_records if ours is not None else {}
    states = {
        m.name: MemberState.GONE if archived else _member_state(m, incarnations.get(m.name.lower()), live=live)
        for m in entries
    }
    members = tuple(_member(path, member, states[member.name]) for member in entries)
    view = TeamView(
        name=config.name if config is not None else directory,
        directory=directory,
        state=FOREIGN,
        description=(config.description or "") if config is not None else "",
        created_at=config.created_at if config is not None else 0,
        session=config.lead_session_id if config is not None else ours.lead.session if ours is not None else "",
        lead_pid=ours.lead.pid if ours is not None and live else 0,
        log=ours.log if ours is not None else "",
        members=members,
        tasks=tasks,
        damaged="; ".join(word for word in (damage, our_damage) if word),
        path=path,
    )
    state = ARCHIVED if archived else _state(view, ours is not None or bool(our_damage), live=live)
    if state == FINISHED and _has_requests(home, directory):
        state = OPEN
    return replace(view, state=state)


def _has_requests(home: Home, directory: str) -> bool:
    """Return True when a resume takes up requests of the team; also when they cannot be read."""
    try:
        return RequestStore.of_team(home, directory).count_asked_again() > 0
    except TeamwrightError:
        return True


def _shared_list(home: Home, ours: TeamFile | None) -> Path | None:
    """Return the shared list that a team uses, if any."""
    with suppress(InvalidName):
        return FileStores(home).task_directory(ours.task_list) if ours is not None and ours.task_list else None
    return None


def _state(view: TeamView, ours: bool, *, live: bool) -> str:
    if live:
        return LIVE
    if not ours:
        return FOREIGN
    unreadable = view.damaged or any(member.unread < 0 for member in view.members)
    return OPEN if view.open_tasks or view.unread or unreadable else FINISHED


def _member(team: Path, member: RosterMember, state: MemberState) -> MemberStatus:
    try:
        entries = read_entries(team / "inboxes" / f"{inbox_stem(member.name)}.json")
        unread = sum(not entry.read and not is_contentless(entry.text) for entry in entries)
        messages = len(entries)
    except (TeamwrightError, OSError):
        unread = -1
        messages = -1
    return MemberStatus(
        name=LEAD_ALIAS if member.is_lead else member.name,
        agent_type=member.agent_type,
        model=member.model or "",
        state=state,
        joined_at=member.joined_at,
        unread=unread,
        messages=messages,
        mode=member.mode or "",
        place=_place_of(member),
    )


def _place_of(member: RosterMember) -> str:
    kind = member.backend_type or ""
    return "" if member.is_lead else kind if member.pane_id in {"", kind} else f"{kind} {member.pane_id}".strip()


_REPORTED_STATES = {True: MemberState.REPORTS_WORKING, False: MemberState.REPORTS_IDLE, None: MemberState.UNKNOWN}
"""The state of another product's member, by what its roster entry says."""


def _member_state(member: RosterMember, incarnation: Incarnation | None, *, live: bool) -> MemberState:
    """Return the state from files alone: a member in the lead's process lives with that process,
    another by its lease.
    """
    if incarnation is not None and incarnation.crashed:
        return MemberState.CRASHED
    if live:
        return MemberState.LIVE
    if (
        incarnation is not None
        and incarnation.place is not None
        and lease_held(lease_path(process_directory(Path(incarnation.transcript))))
    ):
        return MemberState.WAITING_FOR_LEAD
    if member.is_lead or member.backend_type == IN_PROCESS or incarnation is not None:
        return MemberState.NOT_RUNNING
    return _REPORTED_STATES[member.is_active]


def _config(path: Path) -> tuple[TeamConfig | None, str]:
    try:
        return parse_config(path.read_bytes()), ""
    except FileNotFoundError:
        return None, "config.json is missing"
    except (OSError, TeamwrightError) as problem:
        return None, f"config.json: {_reason(problem)}"


def _team_file(path: Path) -> tuple[TeamFile | None, str]:
    try:
        return read_team_file(path), ""
    except TeamwrightError as problem:
        return None, f"team.json: {_reason(problem)}"


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


def task_views(
    directory: Path, known: dict[str, TaskFile] | None = None, *, queue: Path | None = None
) -> tuple[TaskView, ...]:
    """Return the tasks in a directory, in numeric order, without other products' bookkeeping files.

    A file that is unchanged since `known` is not read again; new readings are added there. `queue` is the directory of
    the team's integration queue.
    """
    known = {} if known is None else known
    try:
        numbers = sorted(list_numbers(directory))
    except StorageError as problem:
        return (TaskView("0", damaged=_reason(problem)),)
    read = {str(number): _read_task(directory, str(number), known) for number in numbers}
    whole = {id: task for id, task in read.items() if isinstance(task, Task)}
    views: list[TaskView] = []
    for id, task in read.items():
        if isinstance(task, str):
            views.append(TaskView(id, damaged=task))
        elif task is not None and not task.is_internal:
            waits = () if task.status is TaskStatus.COMPLETED else tuple(open_blockers(task, whole))
            fields = (task.subject, str(task.status), task.owner, waits, task.description)
            state = task.integration.state if task.integration is not None else ""
            state = IntegrationState.MERGED if _is_merged_outside(task, queue) else state
            views.append(
                TaskView(
                    id,
                    *fields,
                    unverified=task.is_unverified,
                    check=task.check,
                    integration=str(state),
                    writes=task.writes,
                    notes=task_notes(task, whole.values()),
                    review=_open_review(task),
                    created_at=task.created_ms,
                    updated_at=task.changed_ms,
                )
            )
    return tuple(views)


def _is_merged_outside(task: Task, queue: Path | None) -> bool:
    """Return True when `teamwright integrate` merged the task's queued commit; the lead notes that when it resumes."""
    if queue is None or task.integration is None or not task.awaits_integration:
        return False
    from teamwright.worktrees.integration_store import read_entry, task_entry_id

    with suppress(StorageError):
        entry = read_entry(queue, task_entry_id(task.id, task.integration))
        return entry is not None and entry.state is IntegrationState.MERGED
    return False


def _open_review(task: Task) -> OpenReview | None:
    note = task.review_note if task.in_review else None
    if note is None:
        return None
    author, reviewer = (display_name(name) for name in (note.author, note.reviewer))
    return OpenReview(author, reviewer, note.round, note.asked_at / 1000)


def _read_task(directory: Path, id: str, known: dict[str, TaskFile]) -> Task | str | None:
    """Return the task, the problem of its file, or None for a file that is gone."""
    path = f"{directory}/{id}.json"
    last = known.get(path)
    try:
        if last is not None and last.is_stable and file_signature(path) == last.signature:
            return last.task
        found = read_task(path, id, last)
    except StorageError as problem:
        return _reason(problem)
    if isinstance(found, DamagedTaskFile):
        return f"{directory / id}.json is not a whole task: {found.reason}"
    if found is None:
        return None
    known[path] = found
    return found.task


# ── mail ─────────────────────────────────────────────────────────────────────────────────────────────────────


def mail_views(inbox: Path) -> list[MailView]:
    """Return the mail in an inbox, the oldest first, without marking it as read. Raises StorageError."""
    return [_mail(entry) for entry in read_entries(inbox)]


def _mail(entry: InboxEntry) -> MailView:
    known = parse_protocol(entry.text)
    return MailView(
        sender=display_name(entry.sender),
        text=entry.text,
        summary=entry.summary or "",
        timestamp=entry.timestamp or "",
        read=entry.read,
        kind="" if known is None else wire_type(known),
        id=entry.msg_id or "",
    )


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _directories(parent: Path) -> Iterator[str]:
    try:
        names = sorted(entry.name for entry in parent.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return
    yield from names


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _reason(problem: BaseException) -> str:
    if isinstance(problem, TeamwrightError):
        return problem.what
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
