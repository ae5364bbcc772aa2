"""The stores of teams on files: the module that knows which file of a home belongs to which store.

Depends on the layout of the home and on the file implementations of the stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.protocol.events import FileMark
from teamwright.storage.file_mark import file_mark
from teamwright.storage.paths import Home
from teamwright.tasks.shared_list import create_shared_list, is_shared

if TYPE_CHECKING:
    from teamwright.tasks.file_task_store import FileTaskStore


class FileStores:
    """The stores of the teams in one home; see TeamStores."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def tasks(self, name: str) -> FileTaskStore:
        """See TeamStores."""
        from teamwright.tasks.file_task_store import FileTaskStore

        return FileTaskStore(self._home.tasks(name), self._home.guard)

    def is_shared(self, name: str) -> bool:
        """Return True for a task list that several sessions share."""
        return is_shared(self._home.tasks(name))

    def share_tasks(self, name: str) -> None:
        """Create the task list if it does not exist, and mark it as shared. Raises StorageError."""
        create_shared_list(self._home.tasks(name))

    def task_mark(self, name: str, id: str) -> FileMark | None:
        """See TeamStores."""
        return file_mark(self._home, f"{self._home.tasks(name)}/{id}.json")
