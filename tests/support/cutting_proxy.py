"""A proxy between a machine and a server that cuts, heals, delays or stalls the network of the machine."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from tests.support.waits import WAIT_S

_CHUNK = 256 * 1024


class CuttingProxy:
    """A proxy on a free port of 127.0.0.1, in a separate thread.

    While the network is cut, nothing is forwarded, and a new connection hangs. The machine notices nothing. With
    `server_notices` the server sees its ends closed at once, as its keepalive would find them after 25 s.
    """

    def __init__(self, port: int, delay_s: float = 0.0) -> None:
        """Create it before the server at `port`. Every piece of data arrives `delay_s` later, in both directions."""
        self.port = 0
        self._delay_s = delay_s
        self._to = port
        self._open = asyncio.Event()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._start())

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> asyncio.Server:
        self._open.set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def cut(self, *, server_notices: bool = True) -> None:
        """Forward nothing from now on."""
        self._call(self._cut(server_notices))

    async def _cut(self, server_notices: bool) -> None:
        self._open.clear()
        if server_notices:
            for _, upward in self._pairs:
                upward.transport.abort()

    def stall(self) -> None:
        """Forward nothing until `release`. Both sides keep their connections and notice nothing."""
        self._call(self._cut(server_notices=False))

    def release(self) -> None:
        """Forward everything that was kept back by `stall`, on the same connections."""
        self._loop.call_soon_threadsafe(self._open.set)

    def heal(self) -> None:
        """Forward new connections again. The former ones are closed: the machine learns it now."""
        self._call(self._heal())

    async def _heal(self) -> None:
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()
        self._open.set()

    def close(self) -> None:
        """End the proxy."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        await self._heal()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            there, upward = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, upward)
        self._pairs.add(pair)
        try:
            with suppress(asyncio.CancelledError):  # the proxy ends
                await asyncio.gather(self._pump(reader, upward), self._pump(there, writer))
        finally:
            self._pairs.discard(pair)
            for one in pair:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        if not self._open.is_set():
            await self._open.wait()  # the end of a connection is not forwarded either
        with suppress(OSError, RuntimeError):
            writer.write_eof()
