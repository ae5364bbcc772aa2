"""A wire between two processes of ours: notes, and calls that are answered, in the order in which they were sent.

A JSON object a line over a stream socket. A wire ends when either process does, however that ends, and both notice at
once: that is how a death is seen without asking. Below it: addresses of sockets. Refuses to know what is said.

    {"note": NAME, …}                           told, and not answered
    {"call": ID, "do": NAME, "said": {…}}       to be answered; {"cancel": ID} takes it back
    {"reply": ID, "got": {…}} or {"reply": ID, "failed": {…}}
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from teamwright.protocol.error_json import error_from_json, error_to_json
from teamwright.protocol.messages import encode
from teamwright.storage.atomic import storage_error
from teamwright.storage.paths import make_private
from teamwright.storage.socket_address import bind, short_address, unbind

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line; a longer one ends the wire."""

MAX_WAITING = 16 * 1024 * 1024
"""Bytes that wait for a process that does not read: then the wire ends, and who comes back is told from the log."""

CONGESTED_BYTES = 256 * 1024
"""Bytes that wait for a process that reads slowly: then nothing is told that may be left out."""

CLOSE_TIMEOUT_S = 5.0
"""How long whoever leaves waits until the other end has heard its last words, in seconds."""

IpcBody = Mapping[str, Any]


class IpcHandler(Protocol):
    """Who listens at one end."""

    def handle_note(self, name: str, said: IpcBody, /) -> None:
        """Something was told. Must not block; what it raises is passed over."""
        ...

    async def handle_call(self, name: str, said: IpcBody, /) -> IpcBody:
        """Something is to be done, and its outcome told. Raises TeamwrightError, which the caller then raises."""
        ...


class IpcConnection:
    """One end. `listen` lasts until the wire ends; `ended` is set then."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, asyncio.Future[IpcBody]] = {}
        self._answers_running: dict[int, asyncio.Task[None]] = {}
        self._next = 0
        self._is_leaving = False
        self.ended = asyncio.Event()

    @classmethod
    async def connect(cls, path: Path) -> IpcConnection:
        """Call whoever listens at this path. Raises OSError when nobody does."""
        calling = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            calling.setblocking(False)
            with short_address(path) as short:
                await asyncio.get_running_loop().sock_connect(calling, short)
            return cls(*await asyncio.open_unix_connection(sock=calling, limit=MAX_LINE))
        except BaseException:
            calling.close()
            raise

    def send_note(self, name: str, /, **said: Any) -> None:
        """Tell the other end; never waits. On a wire that has ended nothing happens."""
        self._send({"note": name, **said})

    @property
    def is_congested(self) -> bool:
        """Whether so much waits for the other end that what may be left out had better be."""
        return self._writer.transport.get_write_buffer_size() > CONGESTED_BYTES

    async def call(self, name: str, /, **said: Any) -> IpcBody:
        """Have the other end do something. Raises what it raises, and ConnectionError when the wire ends first."""
        self._next += 1
        id, answered = self._next, asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            raise ConnectionResetError("the wire has ended")
        self._calls[id] = answered
        self._send({"call": id, "do": name, "said": said})
        try:
            return await answered
        except asyncio.CancelledError:
            self._send({"cancel": id})
            raise
        finally:
            self._calls.pop(id, None)

    async def read_until_closed(self, handler: IpcHandler) -> None:
        """Hear what comes until the wire ends; never raises but CancelledError."""
        try:
            while (line := await self._line()).endswith(b"\n"):  # else the other end died, perhaps while it wrote
                self._dispatch(cast("dict[str, Any]", json.loads(line)), handler)
        except ValueError:
            return  # this is none of ours
        finally:
            self.close()

    async def _line(self) -> bytes:
        """The next line; empty when there will be none. Raises ValueError for one that is too long."""
        with contextlib.suppress(OSError):
            return await self._reader.readline()
        return b""

    def close(self) -> None:
        """End the wire; what was sent before still arrives. Harmless when it has ended."""
        if self.ended.is_set():
            return
        self.ended.set()
        self._writer.close()
        for answered in self._calls.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError("the wire has ended"))
                answered.exception()  # who waited for it may be gone
        for task in list(self._answers_running.values()):
            task.cancel()

    async def close_when_sent(self, within_s: float = CLOSE_TIMEOUT_S) -> None:
        """Say nothing more, and end the wire once the other end has heard everything, within so many seconds.

        It is listened to until then: what is sent to somebody who has closed already costs the sender what it has not
        read yet. `listen` has to run.
        """
        if not self.ended.is_set():
            self._is_leaving = True
            self._writer.write_eof()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self.ended.wait()
        self.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _send(self, body: Mapping[str, Any]) -> None:
        if self._is_leaving or self.ended.is_set():
            return
        self._writer.write(encode(body) + b"\n")
        if self._writer.transport.get_write_buffer_size() > MAX_WAITING:
            self._writer.transport.abort()

    def _dispatch(self, body: dict[str, Any], ear: IpcHandler) -> None:
        if "note" in body:
            with contextlib.suppress(Exception):
                ear.handle_note(str(body.pop("note")), body)
        elif "call" in body:
            id = int(body["call"])
            work = self._answer(id, ear.handle_call(str(body["do"]), cast("IpcBody", body["said"])))
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

    async def _answer(self, id: int, doing: Awaitable[IpcBody]) -> None:
        try:
            got = await doing
        except Exception as problem:
            self._send({"reply": id, "failed": error_to_json(problem)})
        else:
            self._send({"reply": id, "got": dict(got)})


class IpcServer:
    """Where others call in, at a path of this process: 0600, in a private directory."""

    def __init__(self, path: Path, server: asyncio.Server, private: Path | None) -> None:
        self.path = path
        self._server = server
        self._private = private
        self._inode = os.stat(path).st_ino

    @classmethod
    async def open(cls, path: Path, on_call: Callable[[IpcConnection], Awaitable[None]]) -> IpcServer:
        """Listen at the path, in place of one that a dead process left; `on_call` has each new wire. StorageError."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            make_private(path.parent)
            listening.setblocking(False)
            private = bind(listening, path)

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await on_call(IpcConnection(reader, writer))

            server = await asyncio.start_unix_server(connected, sock=listening, limit=MAX_LINE)
        except OSError as problem:
            listening.close()
            raise storage_error(problem, path) from problem
        return cls(path, server, private)

    async def close(self) -> None:
        """Listen no longer; wires that are there go on."""
        self._server.close()
        unbind(self.path, self._inode, self._private)
