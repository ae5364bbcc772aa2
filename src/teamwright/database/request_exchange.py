"""The requests and answers that other processes of the person store in the database, for the process of the lead.

They become files where the lead looks for them, and its answers are shipped soon. Depends on the session's files and
its connection.
"""

from __future__ import annotations

import asyncio

from teamwright.database.connection import Database
from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import SessionFiles, requests_topic
from teamwright.database.session_shipper import GATHER_S, SessionShipper
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, inbox_stem
from teamwright.storage.doorbell import ring

_AGAIN_S = 2.0


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
                await asyncio.sleep(_AGAIN_S)
                continue
            if (directory := self._files.requests_directory) is not None:
                ring(directory.parent / "bells" / inbox_stem(LEAD))
            while self._files.awaits_answer and not self._changed.is_set():
                self._shipper.note_change()
                await asyncio.sleep(GATHER_S)
