"""The catalogue of teams on stores without files. Depends on the port of tables of teams, and on the team's stores.

A table does each step at once, so that no kill leaves half a team.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, agent_id, session_list_name, team_name
from teamwright.protocol.mail import InboxEntry, is_contentless
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.requests.request_store import count_asked_again
from teamwright.team_records.team_catalogue import CreatedTeam, NewTeam, TeamOnDisk, UnfinishedWork, team_directory_name
from teamwright.team_records.team_state import LeadLease, TeamFile
from teamwright.team_records.team_stores import TeamStores


class StoredTeam(Struct, frozen=True):
    """A team with its roster and its state. `has_lead`: a process leads it now."""

    directory: str
    config: TeamConfig
    file: TeamFile
    has_lead: bool


class TeamTable(Protocol):
    """The teams of a store without files. Every call is one step, and raises StorageError."""

    async def list(self) -> list[StoredTeam]:
        """Return all teams, by directory."""
        ...

    async def add(self, directory: str, config: TeamConfig, file: TeamFile) -> bool:
        """Add a team. Return False, without a change, when there is one in that directory."""
        ...

    async def take_lead(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """Set the lead, and fence the former one out. Raises TeamRefused while another process leads the team."""
        ...

    async def adopt_open_tasks(self, list: str, other: str) -> None:
        """Move the open tasks of the list `other` into a list, under their numbers. A taken number stays."""

    async def requests(self, directory: str) -> list[bytes]:
        """Return the requests of a team that are not closed, answered or not."""
        ...

    async def archive(self, directory: str) -> list[InboxEntry]:
        """Archive a team with its tasks and mail. Return the mail of its lead."""
        ...


class StoredTeams:
    """The teams of a store without files; see TeamCatalogue."""

    def __init__(self, table: TeamTable, stores: TeamStores) -> None:
        self._table = table
        self._stores = stores

    async def find_led_by(self, session: str) -> TeamOnDisk | None:
        led = [team for team in await self._table.list() if team.file.lead.session == session]
        found = max(led, key=lambda team: team.config.created_at, default=None)
        return TeamOnDisk(found.directory, found.config) if found is not None else None

    async def find_without_lead(self, name: str) -> list[str]:
        return [team.directory for team in await self._table.list() if team.config.name == name and not team.has_lead]

    async def unfinished_work(self, directory: str) -> UnfinishedWork:
        found = next((team for team in await self._table.list() if team.directory == directory), None)
        members = tuple(m.name for m in found.config.teammates) if found is not None and found.has_lead else ()
        tasks = (await self._stores.tasks(directory).read()).tasks
        still_open = tuple(t.id for t in tasks if not t.is_finished and not t.is_internal)
        unread = 0
        for name in await self._stores.mailbox_names(directory):
            entries = await self._stores.mailbox(directory, name).unread()
            unread += sum(not is_contentless(entry.text) for entry in entries)
        return UnfinishedWork(members, still_open, unread, count_asked_again(await self._table.requests(directory)))

    async def create(self, new: NewTeam) -> CreatedTeam:
        name = team_name(new.name)
        own = session_list_name(new.lead.session)
        self._refuse_second(await self._table.list(), new, name)
        while True:
            teams = await self._table.list()
            for team in [team for team in teams if team.config.name == name]:
                await self._archive_finished(team)
            created_team = await self._add(new, name, _free_directory(name, teams))
            if created_team is not None:
                break
        if own != created_team.directory:
            await self._table.adopt_open_tasks(created_team.directory, own)
        return created_team

    async def create_implicit(self, new: NewTeam) -> CreatedTeam:
        name = session_list_name(new.lead.session)
        if (created_team := await self._add(new, name, name)) is not None:
            return created_team
        config = await self._stores.roster(name).read()
        if config is None or config.lead_session_id != new.lead.session:
            raise _name_in_use_error(name)
        return CreatedTeam(name, config, await self.take_over(name, new.lead, new.log))

    async def take_over(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        return await self._table.take_lead(directory, lead, log)

    async def adopt_open_tasks(self, directory: str, session_list: str) -> None:
        await self._table.adopt_open_tasks(directory, session_list)

    async def replace_team(self, old: str, new: str, session: str) -> bool:
        file = await self._stores.state(old).read() if old != new else None
        if file is None or file.lead.session != session:
            return False
        left, right = (self._stores.mailbox(place, LEAD) for place in (old, new))
        for entry in await left.unread():
            if entry.msg_id and not await right.contains(entry.msg_id):
                await right.put(entry, runtime=True)
        tasks = (await self._stores.tasks(old).read()).tasks
        if all(task.is_finished or task.is_internal for task in tasks):
            await self._table.archive(old)
        return True

    async def archive(self, directory: str) -> list[InboxEntry]:
        return await self._table.archive(directory)

    async def _add(self, new: NewTeam, name: str, directory: str) -> CreatedTeam | None:
        id = agent_id(LEAD, name)
        lead = RosterMember(
            id, LEAD, agent_type=new.agent_type, model=new.model, joined_at=new.now, pane_id="", cwd=new.cwd
        )
        config = TeamConfig(name, id, new.lead.session, new.now, new.description or None, (lead,))
        file = TeamFile.new(new.lead, new.log).with_roster(config)
        return CreatedTeam(directory, config, file) if await self._table.add(directory, config, file) else None

    async def _archive_finished(self, team: StoredTeam) -> None:
        """Archive a finished team. Raises TeamRefused for one that is led, or has unfinished work."""
        name = team.config.name
        if team.has_lead:
            raise _name_in_use_error(name)
        left = await self.unfinished_work(team.directory)
        if not left.is_finished:
            raise TeamRefused(
                "team-refused",
                f'a team "{name}" whose lead is gone has {left}',
                do=[f"continue it: teamwright resume {team.file.lead.session[:8]}", "choose another name"],
                note="nothing was created",
            )
        await self._table.archive(team.directory)

    def _refuse_second(self, teams: list[StoredTeam], new: NewTeam, name: str) -> None:
        own = session_list_name(new.lead.session)
        for team in teams:
            if team.file.lead.session != new.lead.session or team.config.name == name or not team.has_lead:
                continue
            if team.config.teammates or team.directory != own:
                raise TeamRefused(
                    "team-refused",
                    f'this session leads "{team.config.name}" already',
                    do=["use that team", "delete it first: TeamDelete"],
                    note="nothing was created",
                )


def _free_directory(name: str, teams: list[StoredTeam]) -> str:
    used_directories = {team.directory for team in teams if team.config.name != name}
    base = team_directory_name(name)
    number = 2
    directory = base
    while directory in used_directories:
        directory = f"{base}-{number}"
        number = number + 1
    return directory


def _name_in_use_error(name: str) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f'a team "{name}" is at work',
        do=["choose another name", "end that team first, where it runs"],
        note="nothing was created",
    )
