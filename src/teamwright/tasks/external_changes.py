"""Changes of a task list by other processes, found by comparing its files, in small steps when there are many.

Depends on the files, whose index knows the writes of this process, so that they are not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from teamwright.protocol.task import Task
from teamwright.tasks.task_file import list_numbers, task_number
from teamwright.tasks.task_list_files import TaskFiles
from teamwright.tasks.task_store import DamagedTask, ExternalTaskChange, OnExternalChange

STEP = 32
"""The number of files that are checked before other tasks of the event loop may run."""


class ExternalChanges:
    """A watcher that reports changes by other processes to `on_outside`, each once.

    Raises StorageError when the directory cannot be read.
    """

    def __init__(self, files: TaskFiles, on_outside: OnExternalChange) -> None:
        self._files = files
        self._on_outside = on_outside
        index = files.index
        index.list_all()  # existing tasks are not reported
        self._unwatch = index.watch(self._report)
        self._damaged = set(index.damaged_numbers())
        """Numbers of existing tasks that were damaged from the beginning: once repaired, they are no new tasks."""

    def close(self) -> None:
        """Stop reporting changes."""
        self._unwatch()

    def _report(self, before: Task | None, after: Task | None) -> None:
        if before is None and after is not None and after.number in self._damaged:
            self._damaged.discard(after.number)
            before = after  # its earlier state is not known
        self._on_outside(ExternalTaskChange(before, after))

    async def check_files(self, names: Collection[str] | None = None) -> dict[str, DamagedTask]:
        """Check the files with these names, or all files. Return those that are damaged now, by id.

        Raises StorageError.
        """
        index = self._files.index
        if names is None:
            numbers = list_numbers(self._files.directory) | index.numbers()
        else:
            numbers = {number for name in names if (number := task_number(name)) is not None}
        hurt: set[str] = set()
        for count, number in enumerate(sorted(numbers), 1):
            index.refresh_task(number, careful=True, patient=False)
            if index.is_damaged(number):
                hurt.add(str(number))
            if count % STEP == 0:
                await asyncio.sleep(0)
        return {one.id: one for one in self._files.damaged_tasks() if one.id in hurt} if hurt else {}
