"""A loopback model server for tests: it answers by a script, as a stream, in the format of the requested API.

It supports the Messages API, Chat Completions, Responses, Gemini's API and Bedrock's Converse (`wire_formats`). Tests
need no key and no network, and can cause every failure. A script is a list of replies, one for each request (the last
reply repeats), or a function from the request to a reply. Built on asyncio alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from inspect import isawaitable
from itertools import islice
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.testing.model_server_replies import (
    Answer,
    Cut,
    CutPrompt,
    ErrorEvent,
    Raw,
    ScriptedReply,
    Stall,
    Status,
)
from teamwright.testing.wire_formats.answer_facts import AnswerRequest
from teamwright.testing.wire_formats.wire_format import MESSAGES, WireFormat, format_for_path, requested_model

RequestJson: TypeAlias = dict[str, Any]
ServerScript: TypeAlias = (
    Sequence[ScriptedReply | str] | Callable[[RequestJson], ScriptedReply | str | Awaitable[ScriptedReply | str]]
)

_FIRST_MODEL = re.compile(rb'\s*\{\s*"model"\s*:\s*"([^"\\]+)"')


class RecordedRequest(Struct, frozen=True):
    """One received request. Header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> RequestJson:
        """The body as JSON."""
        return cast("RequestJson", json.loads(self.body))

    @property
    def wire(self) -> WireFormat | None:
        """The API format of the request; None when it is no model call."""
        return format_for_path(self.path.partition("?")[0]) if self.method == "POST" else None


class LoopbackModel:
    """A scripted model server on 127.0.0.1. Use it as an async context manager, or `in_thread` from plain code.

    `url` is the base URL for `ANTHROPIC_BASE_URL` or a custom provider (for OpenAI's APIs with `/v1` appended).
    `requests` contains the received requests (with `keep` only that many of the newest), `connections` counts opened
    connections, `client_left` is set when a client disconnects before its answer is complete. `models` is the list for
    `GET /v1/models`, `facts` are the answers on other paths (`/props`, `/api/show`). `delay_s` (low, high) is the range
    of a random delay of each answer, in seconds.

    async with LoopbackModel(["Hello.", Status(429, retry_after=0.1)]) as server: …
    """

    def __init__(
        self,
        script: ServerScript = ("Hello.",),
        *,
        models: Sequence[str | RequestJson] = ("test",),
        facts: Mapping[str, RequestJson] | None = None,
        delay_s: tuple[float, float] = (0.0, 0.0),
        seed: int = 0,
        keep: int | None = None,
    ) -> None:
        self._script = script
        self._models = models
        self._facts = facts or {}
        self._delay_s = delay_s
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls = 0
        self._keep = keep
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self.url = ""
        self.client_left = threading.Event()

    async def __aenter__(self) -> LoopbackModel:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @classmethod
    @contextmanager
    def in_thread(cls, script: ServerScript = ("Hello.",), **options: Any) -> Generator[LoopbackModel, None, None]:
        """Run the server in a separate thread, for tests that start processes. The options are those of the
        constructor.
        """
        server = cls(script, **options)
        loop = asyncio.new_event_loop()
        ready = threading.Event()
        stop = asyncio.Event()

        async def serve() -> None:
            async with server:
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
        thread.start()
        if not ready.wait(10):
            raise TimeoutError("the loopback model server did not start within 10 s")
        try:
            yield server
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()

    @property
    def bodies(self) -> list[RequestJson]:
        """The bodies of the model calls, in order."""
        return [request.json for request in self.requests if request.wire is not None]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.client_left.set()
        except asyncio.CancelledError:
            pass  # the server is closing: this task has no other owner
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it. Returns False when the connection must be closed."""
        request = await _read_request(reader)
        if request is None:
            return False
        self.requests.append(request)
        if self._keep is not None:
            del self.requests[: -self._keep or None]
        path = request.path.partition("?")[0]
        if path in self._facts:
            _write_whole(writer, 200, json.dumps(self._facts[path]).encode())
        elif request.method == "GET" and path.endswith("/models"):
            _write_whole(writer, 200, json.dumps({"data": self._model_list(), "has_more": False}).encode())
        elif request.wire is not None:
            return await self._answer(request, reader, writer)
        else:
            _write_whole(writer, 404, b"<html>not here</html>")
        await writer.drain()
        return True

    def _model_list(self) -> list[RequestJson]:
        return [{"type": "model", "id": m} if isinstance(m, str) else m for m in self._models]

    async def _answer(
        self, request: RecordedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        self._calls += 1
        number = self._calls
        reply = await self._next_reply(request, number)
        if isinstance(reply, Status):
            _write_status(writer, reply, number, request.wire or MESSAGES)
            await writer.drain()
            return True
        async with _watch_hangup(reader):
            low, high = self._delay_s
            own = reply.delay_s if isinstance(reply, Answer) else 0.0
            await asyncio.sleep(own + self._random.uniform(low, high))
            return await _stream(writer, reply, request, number)

    async def _next_reply(self, request: RecordedRequest, number: int) -> ScriptedReply:
        if callable(self._script):
            result = self._script(request.json)
            reply = await result if isawaitable(result) else result
        else:
            reply = self._script[min(number, len(self._script)) - 1]
        return Answer(reply) if isinstance(reply, str) else reply


@asynccontextmanager
async def _watch_hangup(reader: asyncio.StreamReader) -> AsyncGenerator[None, None]:
    """Raise `ConnectionResetError` in the body when the client disconnects during its answer."""
    answering = cast("asyncio.Task[None]", asyncio.current_task())
    gone = False

    async def watch() -> None:
        nonlocal gone
        if await reader.read(1) == b"":
            gone = True
            answering.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        raise ConnectionResetError("the client hung up") from None
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> RecordedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None  # the client closed an idle connection
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return RecordedRequest(method, path, headers, body)


async def _stream(writer: asyncio.StreamWriter, reply: ScriptedReply, request: RecordedRequest, number: int) -> bool:
    """Send a streamed reply, chunk by chunk. Returns False when the stream breaks off."""
    wire = request.wire or MESSAGES
    asking = AnswerRequest(len(request.body) // 4, number, _requested_model(request))
    headers = dict(reply.headers) if isinstance(reply, Raw) else {}
    kind = reply.content_type if isinstance(reply, Raw) and reply.content_type else wire.content_type
    _write_head(writer, 200, {"content-type": kind, "transfer-encoding": "chunked", **headers}, number, wire)
    for number_of_chunk, chunk in enumerate(_chunks(reply, wire, asking)):
        if isinstance(reply, Raw) and reply.before is not None:
            await reply.before(number_of_chunk)
        writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
    if isinstance(reply, Cut):
        return False
    if isinstance(reply, Stall):
        await _stall(writer, reply, wire.ping)
    if isinstance(reply, Raw) and not reply.close:
        await asyncio.Event().wait()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _requested_model(request: RecordedRequest) -> str:
    """Return the requested model. Avoids decoding a body that begins with it, since the body contains
    the conversation.
    """
    first = _FIRST_MODEL.match(request.body)
    return first[1].decode() if first else requested_model(request.path.partition("?")[0], request.json)


def _chunks(reply: ScriptedReply, wire: WireFormat, asking: AnswerRequest) -> Iterator[bytes]:
    if isinstance(reply, Raw):
        yield from filter(None, reply.chunks)
    elif isinstance(reply, Answer):
        yield from wire.events(reply, asking)
    elif isinstance(reply, CutPrompt):
        read = replace(asking, prompt_tokens=min(asking.prompt_tokens, reply.limit))
        yield from wire.events(reply.answer, read)
    elif isinstance(reply, Cut):
        yield b"".join(wire.events(reply.answer, asking))[: reply.after_bytes]
    elif isinstance(reply, Stall | ErrorEvent):
        yield from islice(wire.events(reply.answer, asking), reply.after_events)
        if isinstance(reply, ErrorEvent):
            yield wire.error_event(reply.type, reply.message, asking.number)


async def _stall(writer: asyncio.StreamWriter, stall: Stall, ping: bytes) -> None:
    """Send only pings until the client disconnects."""
    while stall.pings and ping:
        writer.write(b"%x\r\n%s\r\n" % (len(ping), ping))
        await writer.drain()
        await asyncio.sleep(stall.every_s)
    await asyncio.Event().wait()


def _write_head(
    writer: asyncio.StreamWriter, status: int, headers: dict[str, str], number: int, wire: WireFormat = MESSAGES
) -> None:
    lines = [f"HTTP/1.1 {status} scripted", f"{wire.id_header}: req_test_{number}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


def _write_whole(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    fields = {"content-type": "application/json", "content-length": str(len(body))}
    _write_head(writer, status, fields, 0)
    writer.write(body)


def _write_status(writer: asyncio.StreamWriter, reply: Status, number: int, wire: WireFormat) -> None:
    headers = {"content-type": "application/json", **reply.headers}
    if reply.retry_after is not None:
        headers["retry-after"] = str(reply.retry_after)
    own = wire.status_body(reply.status, reply.type, reply.message, number)
    body = own if reply.body is None else reply.body
    _write_head(writer, reply.status, {**headers, "content-length": str(len(body))}, number, wire)
    writer.write(body)
