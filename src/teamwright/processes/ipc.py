"""IPC between two Teamwright processes: notes, and calls with replies, in the order in which they were sent.

One JSON object a line over a stream socket. A connection ends when either process ends, in any way, and the other
process notices it immediately. Depends on socket addresses.

    {"note": NAME, …}                           sent without a reply
    {"call": ID, "do": NAME, "said": {…}}       needs a reply; {"cancel": ID} cancels it
    {"reply": ID, "got": {…}} or {"reply": ID, "failed": {…}}
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from teamwright.protocol.errors import error_from_json, error_to_json
from teamwright.protocol.messages import decode, encode
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import bind, short_address, unbind
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line; a longer one ends the connection."""

MAX_WAITING = 16 * 1024 * 1024
"""Bytes that wait for a process that does not read. Beyond them the connection ends; a process that reconnects reads
the log."""

CONGESTED_BYTES = 256 * 1024
"""Bytes that wait for a slow reader. Beyond them optional notes are left out."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds that a closing process waits until the other end has read everything."""

IpcBody = Mapping[str, Any]


class IpcHandler(Protocol):
    """The receiver at one end."""

    def handle_note(self, name: str, fields: IpcBody, /) -> None:
        """Handle a note. Must not block; its exceptions are ignored."""

    async def handle_call(self, name: str, fields: IpcBody, /) -> IpcBody:
        """Handle a call and return its result. Raises TeamwrightError, which the caller then raises."""
        ...


class IpcConnection:
    """One end. `read_until_closed` runs until the connection ends; `ended` is set then."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, asyncio.Future[IpcBody]] = {}
        self._answers_running: dict[int, asyncio.Task[None]] = {}
        self._next = 0
        self._is_leaving = False
        self.ended = asyncio.Event()
        self._pause_s = 0.0
        self._gathered: dict[object, bytes] = {}
        self._gathering: asyncio.TimerHandle | None = None

    @classmethod
    async def connect(cls, path: Path) -> IpcConnection:
        """Connect to the server at this path. Raises OSError when no process listens."""
        calling = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            calling.setblocking(False)
            with short_address(path) as short:
                await asyncio.get_running_loop().sock_connect(calling, short)
            return cls(*await asyncio.open_unix_connection(sock=calling, limit=MAX_LINE))
        except BaseException:
            calling.close()
            raise

    def set_pause(self, pause_s: float) -> None:
        """Let `add_note` collect notes for so many seconds. Each piece costs something between two machines."""
        self._pause_s = pause_s

    def send_note(self, name: str, /, **fields: Any) -> None:
        """Send a note; never waits. Does nothing on a closed connection."""
        self._send({"note": name, **fields})

    def add_note(self, name: str, /, replaces: str = "", **fields: Any) -> None:
        """Send a note that may wait for others (see `set_pause`). The next call or other note takes it along.

        It replaces a waiting note with the same text in `replaces`.
        """
        if not self._pause_s:
            self.send_note(name, **fields)
            return
        key = replaces or object()
        self._gathered.pop(key, None)
        self._gathered[key] = encode({"note": name, **fields}) + b"\n"
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(self._pause_s, self._send_gathered)

    def _send_gathered(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        gathered = self._gathered
        self._gathered = {}
        if gathered and not self.ended.is_set():
            self._writer.write(b"".join(gathered.values()))

    @property
    def is_congested(self) -> bool:
        """True when so much waits for the other end that optional notes should be left out."""
        return self._writer.transport.get_write_buffer_size() > CONGESTED_BYTES

    async def call(self, name: str, /, **fields: Any) -> IpcBody:
        """Call the other end. Raises its error, and ConnectionError when the connection ends first."""
        self._next += 1
        id = self._next
        answered = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            raise ConnectionResetError("the wire has ended")
        self._calls[id] = answered
        self._send({"call": id, "do": name, "said": fields})
        try:
            return await answered
        except asyncio.CancelledError:
            self._send({"cancel": id})
            raise
        finally:
            self._calls.pop(id, None)

    async def read_until_closed(self, handler: IpcHandler) -> None:
        """Receive until the connection ends; never raises but CancelledError."""
        try:
            while (line := await self._line()).endswith(b"\n"):  # else the other end died, perhaps during a write
                self._dispatch(cast("dict[str, Any]", decode(line)), handler)
        except ValueError:
            return  # invalid line
        finally:
            self.close()

    async def _line(self) -> bytes:
        """Return the next line; empty at the end. Raises ValueError for one that is too long."""
        with contextlib.suppress(OSError):
            return await self._reader.readline()
        return b""

    def close(self) -> None:
        """End the connection; sent data still arrives. Harmless when it has ended."""
        if self.ended.is_set():
            return
        self._send_gathered()
        self.ended.set()
        self._writer.close()
        for answered in self._calls.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError("the wire has ended"))
                answered.exception()  # its caller may be gone
        for task in list(self._answers_running.values()):
            task.cancel()

    async def close_when_sent(self, within_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send nothing more, and end the connection once the other end has read everything, within `within_s` seconds.

        Receives until then: closing with unread data would discard what the other end has not read yet.
        `read_until_closed` must be running.
        """
        if not self.ended.is_set():
            self._send_gathered()
            self._is_leaving = True
            self._writer.write_eof()
            with contextlib.suppress(TimeoutError):
                async with time_limit(within_s):
                    await self.ended.wait()
        self.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _send(self, body: Mapping[str, Any]) -> None:
        if self._is_leaving or self.ended.is_set():
            return
        self._send_gathered()
        self._writer.write(encode(body) + b"\n")
        if self._writer.transport.get_write_buffer_size() > MAX_WAITING:
            self._writer.transport.abort()

    def _dispatch(self, body: dict[str, Any], handler: IpcHandler) -> None:
        if "note" in body:
            with contextlib.suppress(Exception):
                handler.handle_note(str(body.pop("note")), body)
        elif "call" in body:
            id = int(body["call"])
            work = self._answer(id, handler, str(body["do"]), cast("IpcBody", body["said"]))
            self._answers_running[id] = task = asyncio.create_task(work, name=f"answer to {body['do']}")
            task.add_done_callback(lambda _: self._answers_running.pop(id, None))
        elif "cancel" in body:
            if (task := self._answers_running.get(int(body["cancel"]))) is not None:
                task.cancel()
        elif (answered := self._calls.get(int(body.get("reply", 0)))) is not None and not answered.done():
            if "failed" in body:
                answered.set_exception(error_from_json(cast("IpcBody", body["failed"])))
            else:
                answered.set_result(cast("IpcBody", body.get("got") or {}))

    async def _answer(self, id: int, handler: IpcHandler, name: str, arguments: IpcBody) -> None:
        try:
            got = await handler.handle_call(name, arguments)
        except Exception as problem:
            self._send({"reply": id, "failed": error_to_json(problem)})
        else:
            self._send({"reply": id, "got": dict(got)})


class IpcServer:
    """A listening socket at a path of this process: 0600, in a private directory."""

    def __init__(self, path: Path, server: asyncio.Server, private: Path | None) -> None:
        self.path = path
        self._server = server
        self._private = private
        self._inode = os.stat(path).st_ino

    @classmethod
    async def open(cls, path: Path, on_connection: Callable[[IpcConnection], Awaitable[None]]) -> IpcServer:
        """Listen at the path, replacing the socket of a dead process. Raises StorageError.

        `on_connection` receives each new connection.
        """
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            make_private(path.parent)
            listening.setblocking(False)
            private = bind(listening, path)

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await on_connection(IpcConnection(reader, writer))

            server = await asyncio.start_unix_server(connected, sock=listening, limit=MAX_LINE)
        except OSError as problem:
            listening.close()
            raise storage_error(problem, path) from problem
        return cls(path, server, private)

    async def close(self) -> None:
        """Stop listening; existing connections stay open."""
        self._server.close()
        unbind(self.path, self._inode, self._private)
