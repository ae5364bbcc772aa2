"""What others do to a task list's files: found by looking where something changed, many files in small steps.

Below it: the store, whose index knows what this process wrote itself, so that nothing of ours comes back as an echo.
Refuses to know who wrote and who must hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from teamwright.tasks.task_file import list_numbers, task_number
from teamwright.tasks.task_index import OnExternalChange
from teamwright.tasks.task_store import TaskStore

STEP = 32
"""So many files are looked at before others of the event loop have their turn."""


class ExternalChanges:
    """The changes of others in one list, told to `on_outside` from now on, each once, whoever comes upon it.

    Raises StorageError when the directory cannot be read.
    """

    def __init__(self, store: TaskStore, on_outside: OnExternalChange) -> None:
        self._store = store
        index = store.index
        index.on_change = None
        index.list_all()  # what is there now is nobody's news
        index.on_change = on_outside

    def close(self) -> None:
        """Nothing more is told."""
        self._store.index.on_change = None

    async def check_files(self, names: Iterable[str] | None = None) -> set[str]:
        """Look at the files of these names, or at all of them. Returns the ids of those that are not whole now.

        Raises StorageError.
        """
        index = self._store.index
        if names is None:
            numbers = list_numbers(self._store.directory) | index.numbers()
        else:
            numbers = {number for name in names if (number := task_number(name)) is not None}
        hurt: set[str] = set()
        for count, number in enumerate(sorted(numbers), 1):
            index.refresh_task(number, careful=True, patient=False)
            if index.is_damaged(number):
                hurt.add(str(number))
            if count % STEP == 0:
                await asyncio.sleep(0)
        return hurt
