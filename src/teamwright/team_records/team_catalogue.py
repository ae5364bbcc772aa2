"""The teams on disk: found by the name inside their files, created, and archived when finished.

Depends on rosters, team files, tasks and the archive. Two names never share a directory. The probe of a process is a
parameter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, cast

from msgspec import Struct

from teamwright.mail.inbox import read_entries
from teamwright.protocol.errors import InvalidName, StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD, agent_id, directory_name, session_list_name, team_dir, team_name
from teamwright.protocol.mail import InboxEntry, is_contentless, parse_entry
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.protocol.task import Task
from teamwright.requests.request_store import RequestStore
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.files import remove_old_pending_files, write_atomic
from teamwright.storage.paths import Home
from teamwright.tasks.task_store import TaskSnapshot
from teamwright.team_records.archive import archive_entry, archive_queue, archive_team
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.roster import BRIEF_PATIENCE_S, rebuilt_roster
from teamwright.team_records.team_state import LeadLease, TeamFile, is_lead_alive, lead_of_session, take_lead


class NewTeam(Struct, frozen=True):
    """The values of a new team. `now` is in milliseconds since 1970; `lead` names the leading process."""

    name: str
    lead: LeadLease
    cwd: str
    model: str
    now: int
    description: str | None = None
    agent_type: str = LEAD
    log: str = ""
    task_list: str = ""
    """The shared list that the team uses instead of a private one."""


class TeamOnDisk(Struct, frozen=True):
    """A team as stored on disk."""

    directory: str
    config: TeamConfig


class CreatedTeam(Struct, frozen=True):
    """A created team. `archived` are the entries of a finished team of its name or of old tasks; `taken_over` are the
    open tasks of the session's own list, which are now the team's.
    """

    directory: str
    config: TeamConfig
    file: TeamFile
    archived: tuple[Path, ...] = ()
    taken_over: tuple[Task, ...] = ()


class UnfinishedWork(Struct, frozen=True):
    """The unfinished work of a team: live members, open tasks, unread messages, requests that a resume takes up."""

    members: tuple[str, ...]
    tasks: tuple[str, ...]
    unread_messages: int
    requests: int = 0

    @property
    def is_finished(self) -> bool:
        """True when no work is left."""
        return not (self.members or self.tasks or self.unread_messages or self.requests)

    def __str__(self) -> str:
        """Return one line for people."""
        counts = (
            (len(self.members), "live member"),
            (len(self.tasks), "open task"),
            (self.unread_messages, "unread message"),
            (self.requests, "open request"),
        )
        parts = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
        return ", ".join(parts) or "nothing open"


class Teams:
    """All teams of a home.

    `is_alive` returns True for a live lead; `is_member_alive` returns True when a member outlived its lead in a
    separate process (by default none does).
    """

    def __init__(
        self,
        home: Home,
        is_alive: Callable[[LeadLease], bool] = is_lead_alive,
        is_member_alive: Callable[[str, RosterMember], bool] | None = None,
    ) -> None:
        self.home = home
        self._stores = FileStores(home)
        self._is_alive = is_alive
        self._is_member_alive = is_member_alive

    # ── queries ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def list(self) -> list[TeamOnDisk]:
        """Return all teams with a readable roster, by directory. Names that are invalid here are left out."""
        found: list[TeamOnDisk] = []
        for directory in self._directories():
            with suppress(TeamwrightError, NotADirectoryError):
                found.append(TeamOnDisk(directory, await self._stores.roster(directory).read()))
        return found

    def _directories(self) -> list[str]:
        parent = self.home.shared / "teams"
        return sorted(place.name for place in parent.iterdir()) if parent.is_dir() else []

    async def find_led_by(self, session: str) -> TeamOnDisk | None:
        """Return the team that a session leads, or led when it ended; the newest of several. None without one."""
        led: list[TeamOnDisk] = []
        for directory in self._directories():
            with suppress(TeamwrightError, NotADirectoryError):
                file = self._stores.read_state(directory)
                if file is not None and file.lead.session == session:
                    led.append(TeamOnDisk(directory, await self._roster_of(directory, file)))
        return max(led, key=lambda team: team.config.created_at, default=None)

    async def _roster_of(self, directory: str, file: TeamFile) -> TeamConfig:
        """Return the roster of a team led here. A damaged one is rebuilt from its other files, and not written.

        Raises StorageError.
        """
        try:
            return await self._stores.roster(directory).read(patience_s=BRIEF_PATIENCE_S)
        except StorageError as problem:
            if problem.slug != "damaged-file":
                raise
            return rebuilt_roster(self.home, directory, file)

    def is_lead_alive(self, directory: str) -> bool:
        """Return True when a process leads the team now. A team of another product under its root counts as led."""
        file = self._stores.read_state(directory)
        if file is None:
            return self.home.is_foreign
        return self._is_alive(file.lead)

    async def unfinished_work(self, directory: str) -> UnfinishedWork:
        """Return the unfinished work of a team. An unreadable inbox counts as one unread message."""
        config = await self._stores.roster(directory).read()
        lead = self.is_lead_alive(directory)
        alive = self._is_member_alive
        members = tuple(m.name for m in config.teammates if lead or (alive and alive(directory, m)))
        found = TaskSnapshot() if self._stores.is_shared(directory) else await self._stores.tasks(directory).read()
        listed = [t for t in found.tasks if not t.is_internal]
        open_tasks = tuple(t.id for t in listed if not t.is_finished)
        open_tasks += tuple(t.id for t in found.damaged)
        unread = sum(_count_unread_in(path) for path in sorted((self.home.team(directory) / "inboxes").glob("*.json")))
        requests = RequestStore.of_team(self.home, directory).count_asked_again()
        return UnfinishedWork(members, open_tasks, unread, requests)

    # ── creation ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, new: NewTeam) -> CreatedTeam:
        """Create a team by name; the open tasks of the session's own list become its tasks with their numbers.

        A finished team of the name is archived silently; a directory that merely collides gets `-2`. Raises TeamRefused
        (the name is live, its dead team has unfinished work, or the session leads already), InvalidName.
        """
        name = team_name(new.name)
        await self._refuse_second(new, name)
        archived: list[Path] = []
        parts = await self._find_interrupted(new, name)
        while parts is None:
            archived += await self._archive_finished(name)
            parts = await self._write(new, name, await self._free_directory(name))
        directory, config, file = parts
        tasks = self._stores.tasks(directory)
        old = archive_entry(self.home, directory)
        if archive_queue(self.home, directory, old) | await tasks.archive_all(old / "tasks"):
            archived.append(old)
        own = session_list_name(new.lead.session)
        moves = own != directory and not new.task_list
        adopted_tasks = await tasks.adopt_open_tasks(self._stores.tasks(own)) if moves else []
        return CreatedTeam(directory, config, file, tuple(archived), tuple(adopted_tasks))

    async def create_implicit(self, new: NewTeam) -> CreatedTeam:
        """Create the session's own team, or lead it again; its task list is the session's, unchanged.

        `new.name` is not used. Raises TeamRefused when another session's team has the name.
        """
        name = session_list_name(new.lead.session)
        parts = await self._write(new, name, name)
        if parts is not None:
            return CreatedTeam(*parts)
        config = await self._stores.roster(name).read()
        if config.lead_session_id != new.lead.session:
            raise _running_team_error(name, self.home.team(name))
        if self._stores.read_state(name) is None:
            self._write_team_file(new, name, config)
        return CreatedTeam(name, config, await take_lead(self._stores.state(name), new.lead, new.log))

    async def delete(self, directory: str) -> Path:
        """Move the team and its tasks into the archive, even with live members. Returns the entry."""
        return await archive_team(self.home, directory)

    async def find_without_lead(self, name: str) -> list[str]:
        named = [team.directory for team in await self.list() if team.config.name == name]
        return [directory for directory in named if not self.is_lead_alive(directory)]

    async def take_over(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """See TeamCatalogue. Removes what dead processes left. Raises TeamRefused for another product's team too."""
        state = self._stores.state(directory)
        place = self.home.team(directory)
        if not state.path.exists():
            raise TeamRefused(
                "team-refused",
                f"the team in {directory} is another product's: it has no team.json",
                looked_at=[("team", str(place))],
                do=["make a team of your own"],
                note="nothing was changed",
            )
        self._stores.remove_dead_locks(directory)
        file = await take_lead(state, lead, log)
        TeamDoorbells(self.home, directory).remove_unused()
        requests = RequestStore.of_team(self.home, directory)
        tasks = self._stores.task_directory(directory)
        remove_old_pending_files(place, place / "inboxes", requests.directory, tasks)
        return file

    async def adopt_open_tasks(self, directory: str, session_list: str) -> None:
        await self._stores.tasks(directory).adopt_open_tasks(self._stores.tasks(session_list))

    async def replace_team(self, old: str, new: str, session: str) -> bool:
        """See TeamCatalogue. A task whose number is taken in `new` stays where it is."""
        file = self._stores.read_state(old) if old != new else None
        if file is None or file.lead.session != session:
            return False
        left, right = (self._stores.mailbox(place, LEAD) for place in (old, new))
        for entry in await left.unread():
            if entry.msg_id and not await right.contains(entry.msg_id):
                await right.put(entry, runtime=True)
        found = await self._stores.tasks(old).read()
        if all(task.is_finished or task.is_internal for task in found.tasks) and not found.damaged:
            await archive_team(self.home, old)
        return True

    async def archive(self, directory: str) -> list[InboxEntry]:
        return archived_lead_mail(await self.delete(directory))

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _refuse_second(self, new: NewTeam, name: str) -> None:
        for team in await self.list():
            if team.config.lead_session_id != new.lead.session or team.config.name == name:
                continue
            implicit = team.directory == session_list_name(new.lead.session)
            if self.is_lead_alive(team.directory) and (team.config.teammates or not implicit):
                raise TeamRefused(
                    "team-refused",
                    f'this session leads "{team.config.name}" already',
                    do=["use that team", "delete it first: TeamDelete"],
                    note="nothing was created",
                )

    async def _archive_finished(self, name: str) -> list[Path]:
        """Archive a finished team of exactly this name; refuse when it is not finished."""
        same = [team for team in await self.list() if team.config.name == name]
        for team in same:
            place = self.home.team(team.directory)
            if self.is_lead_alive(team.directory) or self._is_being_created(team):
                raise _running_team_error(name, place)
            left = await self.unfinished_work(team.directory)
            if not left.is_finished:
                raise TeamRefused(
                    "team-refused",
                    f'a team "{name}" whose lead is gone has {left}',
                    looked_at=[("team", str(place)), ("tasks", str(self._stores.task_directory(team.directory)))],
                    do=[
                        f"continue it: teamwright resume {quote(name)}, or teamwright teams adopt {quote(name)}",
                        f"put it into the archive: teamwright teams rm {quote(name)} --force",
                        "choose another name",
                    ],
                    note="nothing was created",
                )
        return [await archive_team(self.home, team.directory) for team in same]

    def _is_being_created(self, team: TeamOnDisk) -> bool:
        """Return True when a living process has written the roster of this team, and its team file not yet."""
        leads = [entry for entry in team.config.members if entry.name == LEAD]
        if not leads or self._stores.read_state(team.directory) is not None:
            return False
        session = team.config.lead_session_id
        return self._is_alive(lead_of_session(session, self.home.session(Path(leads[0].cwd), session)))

    async def _free_directory(self, name: str) -> str:
        base = team_directory_name(name)
        number = 2
        directory = base
        while self._stores.roster(directory).exists or self._stores.is_shared(directory):
            directory = f"{base}-{number}"
            number = number + 1
        return directory

    async def _write(self, new: NewTeam, name: str, directory: str) -> tuple[str, TeamConfig, TeamFile] | None:
        """Write roster and team file; None when another process created a team there first."""
        id = agent_id(LEAD, name)
        lead = RosterMember(
            id, LEAD, agent_type=new.agent_type, model=new.model, joined_at=new.now, pane_id="", cwd=new.cwd
        )
        config = TeamConfig(name, id, new.lead.session, new.now, new.description or None, (lead,))
        if not self._stores.roster(directory).create(config):
            return None
        return directory, config, self._write_team_file(new, directory, config)

    def _write_team_file(self, new: NewTeam, directory: str, config: TeamConfig) -> TeamFile:
        file = TeamFile.new(new.lead, new.log).with_task_list(new.task_list).with_roster(config)
        write_atomic(self._stores.state(directory).path, file.encode())
        return file

    async def _find_interrupted(self, new: NewTeam, name: str) -> tuple[str, TeamConfig, TeamFile] | None:
        """Return the team of that name that this session was creating when it was killed: only its roster exists."""
        for team in await self.list():
            if team.config.name != name or team.config.lead_session_id != new.lead.session:
                continue
            if not self.home.is_foreign and self._stores.read_state(team.directory) is None:
                return team.directory, team.config, self._write_team_file(new, team.directory, team.config)
        return None


def team_directory_name(name: str) -> str:
    """Return the directory of a team: as observed, but with `team` before a name that is invalid in a path."""
    directory = team_dir(name)
    try:
        return directory_name(directory)
    except InvalidName:
        return directory_name(f"team-{directory}")


def archived_lead_mail(entry: Path) -> list[InboxEntry]:
    """Return the mail of the lead in an entry of the archive. Raises StorageError."""
    return read_entries(entry / "inboxes" / f"{LEAD}.json")


def _running_team_error(name: str, directory: Path) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f'a team "{name}" is at work',
        looked_at=[("team", str(directory))],
        do=["choose another name", "end that team first, where it runs"],
        note="nothing was created",
    )


def _count_unread_in(path: Path) -> int:
    try:
        loaded: Any = json.loads(path.read_bytes())
        entries = [parse_entry(e) for e in cast("list[dict[str, Any]]", loaded)]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return 1
    return sum(not entry.read and not is_contentless(entry.text) for entry in entries)
