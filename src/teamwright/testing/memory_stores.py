"""The stores and the teams of one home in memory, for tests of whole teams without files.

Several objects on one `MemoryHome` act like several processes on one home. A session whose lead was recorded counts as
alive until another takes over. Depends on the ports of a team's stores.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.roster import TeamConfig
from teamwright.storage.lease import process_exists
from teamwright.teams.roster import OnRestored
from teamwright.teams.stored_teams import StoredTeam, StoredTeams
from teamwright.teams.team_file import LeadLease, TeamFile
from teamwright.testing.memory_document import MemoryCell, MemoryDocument, MemoryRoster
from teamwright.testing.memory_mail import MemoryMailbox, MemoryMailTable
from teamwright.testing.memory_tasks import MemoryTaskStore, MemoryTaskTable


class MemoryTeams:
    """The teams in these tables; see TeamTable."""

    def __init__(
        self,
        rosters: dict[str, MemoryCell[TeamConfig]],
        states: dict[str, MemoryCell[TeamFile]],
        tasks: dict[str, MemoryTaskTable],
        mail: dict[tuple[str, str], MemoryMailTable],
    ) -> None:
        self._rosters = rosters
        self._states = states
        self._tasks = tasks
        self._mail = mail

    async def list(self) -> list[StoredTeam]:
        """See TeamTable."""
        await asyncio.sleep(0)
        found: list[StoredTeam] = []
        for directory, cell in sorted(self._states.items()):
            roster = self._rosters.get(directory)
            if cell.value is not None and roster is not None and roster.value is not None:
                found.append(StoredTeam(directory, roster.value, cell.value, process_exists(cell.value.lead.pid)))
        return found

    async def add(self, directory: str, config: TeamConfig, file: TeamFile) -> bool:
        """See TeamTable."""
        await asyncio.sleep(0)
        roster = self._rosters.setdefault(directory, MemoryCell())
        if roster.value is not None:
            return False
        roster.value = config
        self._states.setdefault(directory, MemoryCell()).value = file
        return True

    async def take_lead(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """See TeamTable."""
        await asyncio.sleep(0)
        cell = self._states.get(directory)
        if cell is None or cell.value is None:
            raise StorageError("damaged-file", f"there is no team {directory}")
        cell.value = replace(cell.value, lead=lead, log=log or cell.value.log)
        return cell.value

    async def adopt_open_tasks(self, list: str, other: str) -> None:
        """See TeamTable."""
        await asyncio.sleep(0)
        ours, theirs = (self._tasks.setdefault(name, MemoryTaskTable()) for name in (list, other))
        for id, task in [*theirs.tasks.items()]:
            if not task.is_finished and id not in ours.tasks:
                ours.tasks[id] = theirs.tasks.pop(id)
        ours.highest = max(ours.highest, theirs.highest)

    async def archive(self, directory: str) -> list[InboxEntry]:
        """See TeamTable. Nothing keeps an archived team in memory."""
        await asyncio.sleep(0)
        lead = self._mail.get((directory, LEAD))
        for cells in (self._rosters, self._states):
            if (cell := cells.get(directory)) is not None:
                cell.value = None
        self._tasks.pop(directory, None)
        for key in [key for key in self._mail if key[0] == directory]:
            del self._mail[key]
        return [*lead.entries.values()] if lead is not None else []


class MemoryHome:
    """The content of the stores: task lists by name, mailboxes by team and name, rosters and states by team."""

    def __init__(self) -> None:
        self.tasks: dict[str, MemoryTaskTable] = {}
        self.mail: dict[tuple[str, str], MemoryMailTable] = {}
        self.rosters: dict[str, MemoryCell[TeamConfig]] = {}
        self.states: dict[str, MemoryCell[TeamFile]] = {}


class MemoryStores:
    """The stores of the teams of one process; see TeamStores."""

    def __init__(self, content: MemoryHome | None = None) -> None:
        self._content = content or MemoryHome()

    @property
    def teams(self) -> StoredTeams:
        """See TeamStores."""
        content = self._content
        return StoredTeams(MemoryTeams(content.rosters, content.states, content.tasks, content.mail), self)

    def tasks(self, name: str) -> MemoryTaskStore:
        """See TeamStores."""
        return MemoryTaskStore(self._content.tasks.setdefault(name, MemoryTaskTable()))

    def mailbox(self, directory: str, name: str) -> MemoryMailbox:
        """See TeamStores."""
        return MemoryMailbox(self._content.mail.setdefault((directory, name.lower()), MemoryMailTable(name)))

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> MemoryRoster:
        """See TeamStores. Nothing in memory is damaged, so nothing is restored."""
        return MemoryRoster(self._content.rosters.setdefault(directory, MemoryCell()), directory)

    def state(self, directory: str) -> MemoryDocument[TeamFile]:
        """See TeamStores."""
        return MemoryDocument(self._content.states.setdefault(directory, MemoryCell()), directory)

    async def mailbox_names(self, directory: str) -> list[str]:
        """See TeamStores."""
        return sorted(
            table.reader for (team, _), table in self._content.mail.items() if team == directory and table.entries
        )
