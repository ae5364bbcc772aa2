"""The stores of teams in memory, for tests of whole teams without files. Depends on the port of a team's stores.

Several objects on one `MemoryHome` act like several processes on one home.
"""

from __future__ import annotations

from teamwright.protocol.roster import TeamConfig
from teamwright.teams.roster import OnRestored
from teamwright.teams.stored_teams import StoredTeams
from teamwright.teams.team_file import TeamFile
from teamwright.testing.memory_document import MemoryCell, MemoryDocument, MemoryRoster
from teamwright.testing.memory_mail import MemoryMailbox, MemoryMailTable
from teamwright.testing.memory_tasks import MemoryTaskStore, MemoryTaskTable
from teamwright.testing.memory_teams import MemoryTeams


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
