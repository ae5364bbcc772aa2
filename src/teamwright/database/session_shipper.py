"""Shipping of a session's files to the database while it runs: soon after each event, and at the end.

Every write of the process ships them too. Depends on the database. A database that does not answer delays shipping,
never an agent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from teamwright.database.connection import Database
from teamwright.protocol.errors import TeamwrightError

SHIP_PAUSE_S = 0.2
"""Seconds for which changes are collected before they are sent together, at least."""

_AGAIN_S = 2.0


class SessionShipper:
    """A task that ships the files of the session of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pause_s = SHIP_PAUSE_S
        self._changed = asyncio.Event()
        self._worker = asyncio.create_task(self._work(), name="ship session files")

    def note_change(self) -> None:
        """Record that a file of the session changed."""
        self._changed.set()

    def set_pause(self, pause_s: float) -> None:
        """Collect changes for so many seconds, at least SHIP_PAUSE_S."""
        self._pause_s = max(SHIP_PAUSE_S, pause_s)

    async def close(self) -> None:
        """Ship the rest, and end. What cannot be sent now stays in the local files, which a resume here reads."""
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        with suppress(TeamwrightError):
            await self._database.ship()

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._pause_s)
            self._changed.clear()
            try:
                await self._database.ship()
            except TeamwrightError as problem:
                if problem.slug == "fenced":
                    return
                self._changed.set()
                await asyncio.sleep(_AGAIN_S)
