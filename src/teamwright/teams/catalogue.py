"""The teams on disk: found by the name inside their files, made, and archived when they are finished.

Below it: rosters, team files, tasks, the archive. Two names never share a directory. Refuses to know how a
process is probed: whoever makes a catalogue says how.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, cast

from teamwright.protocol.errors import InvalidName, StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD, agent_id, dir_stem, nearest, team_dir, team_name
from teamwright.protocol.mail import parse_entry, says_nothing
from teamwright.protocol.roster import Member, TeamConfig
from teamwright.protocol.task import Task, TaskStatus
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import write_atomic
from teamwright.storage.paths import Home
from teamwright.tasks.shared import is_shared
from teamwright.tasks.task_list import TaskList
from teamwright.teams.archive import archive_entry, archive_team
from teamwright.teams.roster import Roster
from teamwright.teams.team_file import LeadLease, TeamFile, lead_lives, read_team_file, take_lead


@dataclass(frozen=True, slots=True)
class NewTeam:
    """What a team begins with. `now` in milliseconds since 1970; `lead` says which process leads it."""

    name: str
    lead: LeadLease
    cwd: str
    model: str
    now: int
    description: str | None = None
    agent_type: str = LEAD
    log: str = ""
    task_list: str = ""
    """The shared list that the team uses in the place of its own."""


@dataclass(frozen=True, slots=True)
class TeamOnDisk:
    """A team as it lies there."""

    directory: str
    config: TeamConfig


@dataclass(frozen=True, slots=True)
class CreatedTeam:
    """A new team, and what making it did: `archived`, where a finished one of its name or old tasks went;
    `taken_over`, the open tasks of the session's own list that are the team's now."""

    directory: str
    config: TeamConfig
    file: TeamFile
    archived: tuple[Path, ...] = ()
    taken_over: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What keeps a team from being finished: live members, open tasks, unread messages."""

    members: tuple[str, ...]
    tasks: tuple[str, ...]
    unread: int

    @property
    def finished(self) -> bool:
        """Whether nothing is left."""
        return not (self.members or self.tasks or self.unread)

    def __str__(self) -> str:
        """One line for people."""
        counts = ((len(self.members), "live member"), (len(self.tasks), "open task"), (self.unread, "unread message"))
        parts = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
        return ", ".join(parts) or "nothing open"


def session_list(session: str) -> str:
    """The directory of a session's own task list, and the name of its implicit team."""
    return f"session-{session[:8]}"


def _meant(name: str, teams: Sequence[TeamOnDisk]) -> list[str]:
    """What a name that no team has may stand for: a member, by its address, or what comes nearest; three at most."""
    addresses = [(m.name, f"{m.name}@{t.config.name}") for t in teams for m in t.config.members if m.name != LEAD]
    close = nearest(name, [*(t.config.name for t in teams), *dict(addresses)])
    wanted = name.lower() if any(name.lower() == member.lower() for member, _ in addresses) else close
    found = [address for member, address in addresses if wanted is not None and member.lower() == wanted.lower()]
    return found[:3] or ([close] if close else [])


class Teams:
    """All teams of a home.

    `lives` tells whether a lead is there; `alive` whether a member of a team whose lead is gone lives on in a process
    of its own (by default none does).
    """

    def __init__(
        self,
        home: Home,
        lives: Callable[[LeadLease], bool] = lead_lives,
        alive: Callable[[str, Member], bool] | None = None,
    ) -> None:
        self.home = home
        self._lives = lives
        self._alive = alive

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    async def list(self) -> list[TeamOnDisk]:
        """All teams with a readable roster, by directory. Names that could not be ours are left out."""
        found: list[TeamOnDisk] = []
        parent = self.home.shared / "teams"
        for place in sorted(parent.iterdir()) if parent.is_dir() else ():
            try:
                found.append(TeamOnDisk(place.name, await Roster(self.home, place.name).read()))
            except (TeamwrightError, NotADirectoryError):
                continue
        return found

    async def find(self, name: str) -> TeamOnDisk:
        """The team of that name, by the name inside its file, else in any case, else by its directory.

        Raises TeamwrightError (`unknown-team`) naming the nearest; of a member's name the address with its team.
        """
        teams = await self.list()
        exact = [t for t in teams if t.config.name == name]
        loose = [t for t in teams if t.config.name.lower() == name.lower() or t.directory == name]
        if found := exact or loose:
            return found[0]
        do = [f"did you mean {one}?" for one in _meant(name, teams)] or ["teamwright teams"]
        raise TeamwrightError("unknown-team", f'there is no team "{name[:100]}"', do=do)

    async def led_by(self, session: str) -> TeamOnDisk | None:
        """The team that a session leads, or led when it ended; the newest of several. None: it has none."""
        led: list[TeamOnDisk] = []
        for team in await self.list():
            with suppress(StorageError):
                file = read_team_file(self.home.team_file(team.directory))
                if file is not None and file.lead.session == session:
                    led.append(team)
        return max(led, key=lambda team: team.config.created_at, default=None)

    def lead_lives(self, directory: str) -> bool:
        """Whether a process leads the team now. A team of another product under its root counts as led."""
        file = read_team_file(self.home.team_file(directory))
        if file is None:
            return self.home.foreign
        return self._lives(file.lead)

    async def leftovers(self, directory: str) -> Leftovers:
        """What is open in a team. An inbox that cannot be read counts as one unread message."""
        config = await Roster(self.home, directory).read()
        lead = self.lead_lives(directory)
        alive = self._alive
        members = tuple(m.name for m in config.teammates if lead or (alive and alive(directory, m)))
        place = self.home.tasks(directory)
        tasks = TaskList(place, self.home.guard)
        listed = [] if is_shared(place) else await tasks.all()
        open_tasks = tuple(t.id for t in listed if t.status is not TaskStatus.COMPLETED)
        open_tasks += tuple(t.id for t in tasks.store.damaged_tasks())
        return Leftovers(members, open_tasks, _unread(self.home.team(directory) / "inboxes"))

    # ── making ───────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, new: NewTeam) -> CreatedTeam:
        """Make a team by name; the open tasks of the session's own list become its tasks, numbers kept.

        A finished team of the name is archived in silence; a directory that merely collides gets `-2`. Raises
        TeamRefused (the name is live, its dead team has something open, or the session leads already), InvalidName.
        """
        name = team_name(new.name)
        await self._refuse_second(new, name)
        archived: list[Path] = []
        made = await self._begun(new, name)
        while made is None:
            archived += await self._make_way(name)
            made = await self._write(new, name, await self._free_directory(name))
        directory, config, file = made
        tasks = TaskList(self.home.tasks(directory), self.home.guard)
        old = archive_entry(self.home, directory)
        if await tasks.reset_into_archive(old / "tasks"):
            archived.append(old)
        own = TaskList(self.home.tasks(session_list(new.lead.session)), self.home.guard)
        moves = own.directory != tasks.directory and not new.task_list
        taken = await tasks.take_over(own) if moves else []
        return CreatedTeam(directory, config, file, tuple(archived), tuple(taken))

    async def create_implicit(self, new: NewTeam) -> CreatedTeam:
        """Make the session's own team, or lead it again; its task list is the session's, untouched.

        `new.name` is not used. Raises TeamRefused when another session's team has the name.
        """
        name = session_list(new.lead.session)
        made = await self._write(new, name, name)
        if made is not None:
            return CreatedTeam(*made)
        config = await Roster(self.home, name).read()
        if config.lead_session_id != new.lead.session:
            raise _live(name, self.home.team(name))
        if read_team_file(self.home.team_file(name)) is None:
            self._write_ours(new, name, config)
        return CreatedTeam(name, config, await take_lead(self.home, name, new.lead, new.log))

    async def delete(self, directory: str) -> Path:
        """Move the team and its tasks into the archive, whoever is alive. Returns the entry."""
        return await archive_team(self.home, directory)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _refuse_second(self, new: NewTeam, name: str) -> None:
        for team in await self.list():
            if team.config.lead_session_id != new.lead.session or team.config.name == name:
                continue
            implicit = team.directory == session_list(new.lead.session)
            if self.lead_lives(team.directory) and (team.config.teammates or not implicit):
                raise TeamRefused(
                    "team-refused",
                    f'this session leads "{team.config.name}" already',
                    do=["use that team", "delete it first: TeamDelete"],
                    note="nothing was created",
                )

    async def _make_way(self, name: str) -> list[Path]:
        """Archive a finished team of exactly this name; refuse when it is not finished."""
        same = [team for team in await self.list() if team.config.name == name]
        for team in same:
            place = self.home.team(team.directory)
            if self.lead_lives(team.directory):
                raise _live(name, place)
            left = await self.leftovers(team.directory)
            if not left.finished:
                raise TeamRefused(
                    "team-refused",
                    f'a team "{name}" whose lead is gone has {left}',
                    looked_at=[("team", str(place)), ("tasks", str(self.home.tasks(team.directory)))],
                    do=[
                        f"continue it: teamwright resume {quote(name)}, or teamwright teams adopt {quote(name)}",
                        f"put it into the archive: teamwright teams rm {quote(name)} --force",
                        "choose another name",
                    ],
                    note="nothing was created",
                )
        return [await archive_team(self.home, team.directory) for team in same]

    async def _free_directory(self, name: str) -> str:
        base, number = directory_for(name), 2
        directory = base
        while self.home.config(directory).exists() or is_shared(self.home.tasks(directory)):
            directory, number = f"{base}-{number}", number + 1
        return directory

    async def _write(self, new: NewTeam, name: str, directory: str) -> tuple[str, TeamConfig, TeamFile] | None:
        """Write roster and team file; None when somebody else made a team there meanwhile."""
        id = agent_id(LEAD, name)
        lead = Member(id, LEAD, agent_type=new.agent_type, model=new.model, joined_at=new.now, pane_id="", cwd=new.cwd)
        config = TeamConfig(name, id, new.lead.session, new.now, new.description or None, (lead,))
        if not Roster(self.home, directory).create(config):
            return None
        return directory, config, self._write_ours(new, directory, config)

    def _write_ours(self, new: NewTeam, directory: str, config: TeamConfig) -> TeamFile:
        file = TeamFile.new(new.lead, new.log).on_list(new.task_list).with_roster(config)
        write_atomic(self.home.team_file(directory), file.encode())
        return file

    async def _begun(self, new: NewTeam, name: str) -> tuple[str, TeamConfig, TeamFile] | None:
        """The team of that name that this very session was making when it was killed: its roster is there, no more."""
        for team in await self.list():
            if team.config.name != name or team.config.lead_session_id != new.lead.session:
                continue
            if not self.home.foreign and read_team_file(self.home.team_file(team.directory)) is None:
                return team.directory, team.config, self._write_ours(new, team.directory, team.config)
        return None


def directory_for(name: str) -> str:
    """The directory of a team: as observed, but with `team` before one that no path may begin with or be."""
    directory = team_dir(name)
    try:
        return dir_stem(directory)
    except InvalidName:
        return dir_stem(f"team-{directory}")


def _live(name: str, place: Path) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f'a team "{name}" is at work',
        looked_at=[("team", str(place))],
        do=["choose another name", "end that team first, where it runs"],
        note="nothing was created",
    )


def _unread(inboxes: Path) -> int:
    return sum(_unread_in(path) for path in sorted(inboxes.glob("*.json")))


def _unread_in(path: Path) -> int:
    try:
        loaded: Any = json.loads(path.read_bytes())
        entries = [parse_entry(e) for e in cast("list[dict[str, Any]]", loaded)]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return 1
    return sum(not entry.read and not says_nothing(entry.text) for entry in entries)
