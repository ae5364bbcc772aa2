"""The connection of a lead to a member on another machine: its bytes travel through rows of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.session_connection import SessionConnection
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import short_address
from teamwright.storage.paths import make_private

_CHUNK = 256 * 1024


_MOST_QUEUED = 64


_REOPEN_PAUSE_S = 1.0


class WireTunnel:
    """One end of the connections of one start order. `to_lead`: this end belongs to the member.

    `path` is the socket of the lead, to which the lead's end connects, or the one at which the member's end listens.
    """

    def __init__(
        self, database: Database, session: SessionConnection, order: int, path: Path, *, to_lead: bool
    ) -> None:
        self._database = database
        self._session = session
        self._order = order
        self._path = path
        self._to_lead = to_lead
        self._links: dict[int, asyncio.StreamWriter] = {}
        self._newest = 0
        self._frames = asyncio.Queue[tuple[int, bytes]](_MOST_QUEUED)
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Begin to carry, and to listen at the member's end. Raises StorageError, OSError."""
        self._unsubscribe = self._session.subscribe(self._topic(not self._to_lead), lambda _detail: self._arrived.set())
        self._arrived.set()
        self._start(self._send(), "send")
        self._start(self._receive(), "receive")
        if self._to_lead:
            make_private(self._path.parent)
            self._path.unlink(missing_ok=True)
            with short_address(self._path) as short:
                self._server = await asyncio.start_unix_server(self._on_connection, short)

    async def close(self) -> None:
        """End all connections. What the local process sent before is carried, when the server answers."""
        self._unsubscribe()
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        with suppress(TimeoutError):
            async with time_limit(2.0):
                await self._frames.join()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()

    def cut(self) -> None:
        """Close the local connections: the process at the other end is gone."""
        for writer in self._links.values():
            writer.close()
        self._links.clear()

    def _topic(self, to_lead: bool) -> str:
        return f"wire:{self._order}:{'lead' if to_lead else 'member'}"

    def _start(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"wire of order {self._order}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._newest += 1
        self._links[self._newest] = writer
        await self._pump(self._newest, reader)

    async def _pump(self, link: int, reader: asyncio.StreamReader) -> None:
        """Carry what the local process sends; an empty frame is the end."""
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._frames.put((link, chunk))
        await self._frames.put((link, b""))

    async def _send(self) -> None:
        while True:
            batch = [await self._frames.get()]
            while not self._frames.empty():
                batch.append(self._frames.get_nowait())
            await self._store(batch)
            for _ in batch:
                self._frames.task_done()

    async def _store(self, batch: list[tuple[int, bytes]]) -> None:
        async def work(connection: Connection) -> None:
            await connection.executemany(
                "insert into wire_frames (start_order, to_lead, link, body) select $1, $2, $3, $4 "
                "where exists (select 1 from start_orders where id = $1)",
                [(self._order, self._to_lead, link, body) for link, body in batch],
            )
            await self._database.notify(connection, self._topic(self._to_lead))

        while True:
            try:
                await self._database.write(work, durable=False)
                return
            except TeamwrightError as problem:
                if problem.slug == "fenced":
                    return
                await asyncio.sleep(_REOPEN_PAUSE_S)

    async def _receive(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                frames = await self._take()
            except TeamwrightError as problem:
                if problem.slug == "fenced":
                    return
                self._arrived.set()
                await asyncio.sleep(_REOPEN_PAUSE_S)
                continue
            for link, body in frames:
                await self._hand_over(link, body)

    async def _take(self) -> list[tuple[int, bytes]]:
        """Take the frames of the other end, once the requests that they speak of are here."""
        rows = await self._database.write(
            lambda connection: connection.fetch(
                "with taken as (delete from wire_frames where start_order = $1 and to_lead = $2 "
                "returning id, link, body) select link, body from taken order by id",
                *(self._order, not self._to_lead),
            ),
            durable=False,
        )
        if rows and self._database.files is not None:
            await self._database.read(self._database.files.fetch_requests)
        return [(int(row["link"]), bytes(row["body"])) for row in rows]

    async def _hand_over(self, link: int, body: bytes) -> None:
        writer = self._links.get(link)
        if writer is None and body and not self._to_lead and link > self._newest:
            self._newest = link
            writer = await self._connect(link)
        if writer is None:
            return
        if body:
            writer.write(body)
            return
        if self._to_lead:
            self._links.pop(link, None)
            writer.close()
        elif writer.can_write_eof():
            writer.write_eof()

    async def _connect(self, link: int) -> asyncio.StreamWriter | None:
        """Connect to the lead's socket for a new link of the member; None while nothing listens."""
        try:
            with short_address(self._path) as short:
                reader, writer = await asyncio.open_unix_connection(short)
        except OSError:
            await self._frames.put((link, b""))
            return None
        self._links[link] = writer
        self._start(self._pump(link, reader), f"link {link}")
        return writer
