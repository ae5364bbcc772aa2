"""One inbox file and its lock: changes are plain code, run on the array while the lock is held.

Here, and only here, a file is judged damaged: under the lock, after waiting for a stranger who may be writing.
Knows `layout` and `salvage`; does not know who writes to whom.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from teamwright.mail.layout import Item, encode, split
from teamwright.mail.salvage import salvage, set_aside
from teamwright.protocol.errors import LockLost
from teamwright.storage.array import ArrayFile, NotAnArray, Stamp, joined, read_stamped
from teamwright.storage.atomic import storage_error
from teamwright.storage.lock import FileLock, Held, lock_for

R = TypeVar("R")

RETRIES = 3
RETRY_S = 0.002

OnDamage = Callable[[Path, Path, int], None]
"""Told after a repair: the inbox, the copy of its damaged bytes, and how many entries were saved."""


class Box:
    """An inbox file with its lock."""

    __slots__ = ("_guard", "_inboxes", "_lock", "on_damage", "path")

    def __init__(self, path: Path, guard: Path, on_damage: OnDamage | None) -> None:
        self.path = path
        self._inboxes = str(path.parent)
        self._guard = guard
        self._lock: FileLock | None = None
        self.on_damage = on_damage

    async def change(self, work: Callable[[ArrayFile], R]) -> R:
        """Run `work` on the array under the lock and give its result.

        When `work` meets what is no array it is run again three times, 2 ms apart; then the file is repaired first.
        Raises LockTimeout, LockLost, StorageError.
        """
        for _ in range(RETRIES):
            try:
                async with self._hold() as held:
                    return self._run(work, held)
            except NotAnArray:
                await asyncio.sleep(RETRY_S)
        async with self._hold() as held:
            return self._run_repairing(work, held)

    async def change_surely(self, work: Callable[[ArrayFile], R]) -> R:
        """`change` for work that may be done twice: when the lock is lost it is run again. Raises StorageError."""
        for _ in range(RETRIES):
            with contextlib.suppress(LockLost):
                return await self.change(work)
        return await self.change(work)

    async def look(self) -> tuple[Stamp | None, list[Item]]:
        """State and elements, read without the lock; under it when what was read is no array."""
        for left in range(RETRIES, -1, -1):
            found = read_stamped(self.path)
            if found is None:
                return None, []
            try:
                return found[0], split(found[1])
            except NotAnArray:
                if left:
                    await asyncio.sleep(RETRY_S)
        return await self.change_surely(lambda file: (file.stamp, split(file.read()) if file.stamp else []))

    def _hold(self) -> Held:
        """The first letter makes the directory of inboxes; nothing makes that of a team that was removed."""
        if not os.path.exists(self._inboxes):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.mkdir(self._inboxes, 0o700)
                os.chmod(self._inboxes, 0o700)  # whatever the umask
        if self._lock is None:
            self._lock = lock_for(self.path, self._guard)
        return self._lock.hold()

    def _run(self, work: Callable[[ArrayFile], R], held: Held) -> R:
        try:
            with ArrayFile(self.path, held) as file:
                if held.recovered and file.stamp is not None:
                    split(file.read(), whole=True)  # its writer was killed: look before building on it
                return work(file)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem

    def _run_repairing(self, work: Callable[[ArrayFile], R], held: Held) -> R:
        try:
            return self._run(work, held)
        except NotAnArray:
            with ArrayFile(self.path, held) as file:
                self._repair(file)
                return work(file)

    def _repair(self, file: ArrayFile) -> None:
        content = file.read()
        copy = set_aside(self.path, content)
        saved = salvage(content)
        file.replace(joined([encode(entry) for entry in saved]))
        if self.on_damage is not None:
            self.on_damage(self.path, copy, len(saved))
