"""A document in memory, for tests of teams without files. Depends on the port of documents.

Several documents on one cell act like several processes on one file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct, field

from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.roster import TeamConfig
from teamwright.storage.file_watcher import Watcher

T = TypeVar("T")


class MemoryCell(Struct, Generic[T]):
    """The value of one document, None at first, and the callbacks of those who follow it."""

    value: T | None = None
    followers: list[tuple[object, Callable[[], None]]] = field(default_factory=list[tuple[object, Callable[[], None]]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MemoryDocument(Generic[T]):
    """A document; see Document."""

    def __init__(self, cell: MemoryCell[T], place: str = "memory") -> None:
        self._cell = cell
        self._place = place

    @property
    def place(self) -> str:
        """See Document."""
        return self._place

    async def read(self) -> T | None:
        """See Document."""
        await asyncio.sleep(0)
        return self._cell.value

    async def change(self, change: Callable[[T], T]) -> T:
        """See Document."""
        async with self._cell.lock:
            await asyncio.sleep(0)
            if self._cell.value is None:
                raise StorageError("damaged-file", f"{self.place} is missing")
            before = self._cell.value
            self._cell.value = after = change(before)
        for document, notify in list(self._cell.followers) if after != before else ():
            if document is not self:
                notify()
        return after

    def mark(self) -> None:
        """See Document."""

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See Document. The watcher, which watches files, is not used."""
        self._cell.followers.append(followed := (self, on_change))
        return lambda: self._cell.followers.remove(followed)


class MemoryRoster(MemoryDocument[TeamConfig]):
    """A roster in memory; see RosterDocument. Nothing damages it, so that nothing is restored."""

    @property
    def exists(self) -> bool:
        """See RosterDocument."""
        return self._cell.value is not None

    async def read(self) -> TeamConfig:
        """See RosterDocument."""
        config = await super().read()
        if config is None:
            raise TeamwrightError("unknown-team", f"there is no team in {self.place}")
        return config
