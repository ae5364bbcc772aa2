"""Whole teams in memory, for tests of teams without files. Depends on the port of tables of teams.

Several sessions in one process share it; a session whose lead was recorded counts as alive until another takes over.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.roster import TeamConfig
from teamwright.protocol.task import TaskStatus
from teamwright.storage.lease import process_exists
from teamwright.teams.stored_teams import StoredTeam
from teamwright.teams.team_file import LeadLease, TeamFile
from teamwright.testing.memory_document import MemoryCell
from teamwright.testing.memory_mail import MemoryMailTable
from teamwright.testing.memory_tasks import MemoryTaskTable


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
            if task.status is not TaskStatus.COMPLETED and id not in ours.tasks:
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
