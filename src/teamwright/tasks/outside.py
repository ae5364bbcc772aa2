"""What others do to a task list's files: found by looking where something changed, many files in small steps.

Below it: the store, whose index knows what this process wrote itself, so that nothing of ours comes back as an echo.
Refuses to know who wrote and who must hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from teamwright.tasks.files import number_of, numbers_in
from teamwright.tasks.index import OnOutside
from teamwright.tasks.store import TaskStore

STEP = 32
"""So many files are looked at before others of the event loop have their turn."""


class Outside:
    """The changes of others in one list, told to `on_outside` from now on, each once, whoever comes upon it.

    Raises StorageError when the directory cannot be read.
    """

    def __init__(self, store: TaskStore, on_outside: OnOutside) -> None:
        self._store = store
        index = store.index
        index.on_outside = None
        index.list_all()  # what is there now is nobody's news
        index.on_outside = on_outside

    def close(self) -> None:
        """Nothing more is told."""
        self._store.index.on_outside = None

    async def look(self, names: Iterable[str] | None = None) -> set[str]:
        """Look at the files of these names, or at all of them. Returns the ids of those that are not whole now.

        Raises StorageError.
        """
        index = self._store.index
        if names is None:
            numbers = numbers_in(self._store.directory) | index.numbers()
        else:
            numbers = {number for name in names if (number := number_of(name)) is not None}
        hurt: set[str] = set()
        for count, number in enumerate(sorted(numbers), 1):
            index.look(number, careful=True, patient=False)
            if index.is_damaged(number):
                hurt.add(str(number))
            if count % STEP == 0:
                await asyncio.sleep(0)
        return hurt
