"""Exchange what a lead has with other processes by rows of the database, also of other machines.

Requests and answers of the person's other processes become files where the lead looks for them. `LeadElsewhere` is a
lead's process as the database shows it. `WireTunnel` carries the IPC between a lead and a member on another machine:
each end has a local socket, so neither machine listens on a network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from teamwright.database.connection import Database
from teamwright.database.session_connection import SessionConnection, fence_out
from teamwright.database.session_files import SessionFiles, requests_topic
from teamwright.database.session_shipper import SHIP_PAUSE_S, SessionShipper
from teamwright.database.team_rows import session_lease
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import ring

_RETRY_PAUSE_S = 2.0


class RequestExchange:
    """A task that fetches the requests for one session. `close` ends it."""

    def __init__(
        self, database: Database, connection: SessionConnection, files: SessionFiles, shipper: SessionShipper
    ) -> None:
        self._database = database
        self._files = files
        self._shipper = shipper
        self._changed = asyncio.Event()
        topic = requests_topic(files.session)
        self._unsubscribe = connection.subscribe(topic, lambda _detail: self._changed.set())
        self._worker = asyncio.create_task(self._work(), name="requests of other processes")

    async def close(self) -> None:
        """End it."""
        self._unsubscribe()
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._database.read(self._files.fetch_requests)
            except TeamwrightError:
                self._changed.set()
                await asyncio.sleep(_RETRY_PAUSE_S)
                continue
            if (directory := self._files.requests_directory) is not None:
                ring(directory.parent / "bells" / inbox_stem(LEAD))
            while self._files.awaits_answer and not self._changed.is_set():
                self._shipper.note_change()
                await asyncio.sleep(SHIP_PAUSE_S)


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
