"""The process of a lead that the database shows, which may run on another machine. Depends on the database alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from teamwright.database.connection import Database
from teamwright.database.session_connection import fence_out
from teamwright.database.team_rows import session_lease
from teamwright.protocol.time_limit import time_limit


class LeadElsewhere:
    """The process of a lead that a copy shows. It may run on another machine, so that its pid names nothing here."""

    def __init__(self, database: Database, session: str, pid: int) -> None:
        self._database = database
        self._session = session
        self.pid = pid
        self._ended = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_alive(self) -> bool:
        """True until the database has shown its end."""
        return not self._ended.is_set()

    def on_end(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back once it has ended; return the function that removes the callback."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    async def wait_for_end(self, within_s: float) -> bool:
        """Return True when it has ended within that many seconds."""
        try:
            async with time_limit(within_s):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def force_end(self) -> str:
        """Fence the process out: it can change nothing from now on, and ends itself once it notices."""
        await self._database.write(lambda connection: fence_out(connection, session_lease(self._session)))
        self.note_end()
        return "fenced"

    def note_end(self) -> None:
        """Record its end."""
        self._ended.set()
        for listener in tuple(self._listeners):
            listener()

    def close(self) -> None:
        """Forget all callbacks."""
        self._listeners.clear()
