"""Changes of a task list by other processes, found by comparing its files, in small steps when there are many.

Depends on the store, whose index knows the writes of this process, so that they are not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from teamwright.protocol.task import Task
from teamwright.tasks.task_file import list_numbers, task_number
from teamwright.tasks.task_index import OnExternalChange
from teamwright.tasks.task_store import TaskStore

STEP = 32
"""The number of files that are checked before other tasks of the event loop may run."""


class ExternalChanges:
    """A watcher that reports changes by other processes to `on_outside`, each once.

    Raises StorageError when the directory cannot be read.
    """

    def __init__(self, store: TaskStore, on_outside: OnExternalChange) -> None:
        self._store = store
        self._on_outside = on_outside
        index = store.index
        index.on_change = None
        index.list_all()  # existing tasks are not reported
        index.on_change = self._report
        self._damaged = set(index.damaged_numbers())
        """Numbers of existing tasks that were damaged from the beginning: once repaired, they are no new tasks."""

    def close(self) -> None:
        """Stop reporting changes."""
        self._store.index.on_change = None

    def _report(self, before: Task | None, after: Task | None) -> None:
        if before is None and after is not None and after.number in self._damaged:
            self._damaged.discard(after.number)
            before = after  # its earlier state is not known
        self._on_outside(before, after)

    async def check_files(self, names: Iterable[str] | None = None) -> set[str]:
        """Check the files with these names, or all files. Return the ids of those that are damaged now.

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
