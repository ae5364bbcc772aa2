"""The stores of teams on files: the module that knows which file of a home belongs to which store.

Depends on the layout of the home and on the file implementations of the stores.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import TeamConfig, parse_config
from teamwright.storage.paths import Home
from teamwright.team_records.team_state import TeamFile, TeamStateFile, read_team_file

if TYPE_CHECKING:
    from teamwright.mail.inbox import Inbox
    from teamwright.storage.locks import FileLock
    from teamwright.tasks.file_task_store import FileTaskStore
    from teamwright.team_records.roster import OnRestored, RosterFile
    from teamwright.worktrees.integration_store import FileIntegrationStore


class FileStores:
    """The stores of the teams in one home, without their catalogue; see TeamStores."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def tasks(self, name: str) -> FileTaskStore:
        from teamwright.tasks.file_task_store import FileTaskStore

        return FileTaskStore(self._home.tasks(name), self._home.guard)

    def task_directory(self, name: str) -> Path:
        """Return the directory of a task list."""
        return self._home.tasks(name)

    def is_shared(self, name: str) -> bool:
        """Return True for a task list that several sessions share."""
        from teamwright.tasks.shared_task_lists import is_shared

        return is_shared(self._home.tasks(name))

    def share_tasks(self, name: str) -> None:
        """Create the task list if it does not exist, and mark it as shared. Raises StorageError."""
        from teamwright.tasks.shared_task_lists import create_shared_list

        create_shared_list(self._home.tasks(name))

    def mailbox(self, directory: str, name: str) -> Inbox:
        from teamwright.mail.inbox import inbox_for

        return inbox_for(*self.inbox_paths(directory, name))

    def inbox_paths(self, directory: str, name: str) -> tuple[Path, Path, Path]:
        """Return the inbox of a member, its guard and its archive."""
        path = self._home.inbox(directory, name)
        return path, self._home.guard(path), self._home.inbox_archive(directory, name)

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> RosterFile:
        from teamwright.team_records.roster import RosterFile

        return RosterFile(self._home, directory, on_restored)

    def read_roster(self, directory: str) -> TeamConfig:
        """Return the roster as it is in its file now. Raises OSError, StorageError."""
        return parse_config(self._home.config(directory).read_bytes())

    def lock(self, path: Path) -> FileLock:
        """Return the lock of a file of a team."""
        from teamwright.storage.locks import lock_for

        return lock_for(path, self._home.guard(path))

    def remove_dead_locks(self, directory: str) -> list[Path]:
        """Remove locks of dead owners on the roster, the inboxes and the tasks of a team. Returns the files freed."""
        from teamwright.storage.locks import remove_dead_locks

        team = self._home.team(directory)
        places = (team, team / "inboxes", self.task_directory(directory))
        return [file for place in places for file in remove_dead_locks(place, self._home.guard)]

    def state(self, directory: str) -> TeamStateFile:
        return TeamStateFile(self._home, directory)

    def read_state(self, directory: str) -> TeamFile | None:
        """Return the state of a team as it is now; None without one. Raises StorageError."""
        return read_team_file(self._home.team_file(directory))

    def integration(self, directory: str) -> FileIntegrationStore:
        from teamwright.worktrees.integration_store import FileIntegrationStore

        return FileIntegrationStore(self._home.integration(directory))

    async def mailbox_names(self, directory: str) -> list[str]:
        return sorted(path.stem for path in self._home.inbox(directory, LEAD).parent.glob("*.json"))
