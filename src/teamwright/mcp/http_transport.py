"""Transports over HTTP: streamable HTTP, and HTTP with SSE of protocol version 2024-11-05.

Streamable HTTP is a POST for each message, with the answer as JSON or as a stream of events. A stream that ends before
its answer is continued by a GET with the id of its last event. A further GET takes the messages that belong to no
request, from servers that have such a stream. HTTP with SSE is one stream of events, and a POST for each message. Its
first event names the address for messages, which must have the origin of the configured one.

No redirect is followed, because headers may contain a secret. Received data is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from teamwright.mcp.json_rpc import JsonRpcPeer, McpServerError, Message
from teamwright.mcp.server_config import ServerConfig
from teamwright.processes.http import SseReader, hide_http_logs
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Auth, Response


MAX_ANSWER = 16 * 1024 * 1024
"""The most bytes of one message."""

MAX_STREAM = 64 * 1024 * 1024
"""The most bytes of the stream of one answer, including the messages before it."""

MAX_RECONNECTS = 5
"""The most connections in a row that continue a stream without a new event."""

RETRY_S = 1.0
"""Seconds before a stream is continued, for a server that names no time."""

MIN_RETRY_S = 0.05
MAX_RETRY_S = 30.0
"""The bounds of a server's time."""

CONNECT_S = 10.0
_WRITE_S = 60.0
_DELETE_SESSION_S = 2.0

ORDER_S = 5.0
"""Maximum wait of a request for earlier notifications, in seconds."""

_EVENTS = "text/event-stream"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
EVENT_HEADER = "last-event-id"

_SSE_HEADERS = frozenset({"accept", "content-type", "content-length", "host"})
"""Headers that no configuration may set for HTTP with SSE."""

_STREAMABLE_HEADERS = _SSE_HEADERS | {SESSION_HEADER, VERSION_HEADER, EVENT_HEADER, "mcp-method", "mcp-name"}
"""The same for streamable HTTP."""


class HttpTransport:
    """The transport over streamable HTTP. `version` is set once the server has chosen one."""

    def __init__(self, config: ServerConfig, peer: JsonRpcPeer, auth: Auth | None = None) -> None:
        self.version = ""
        self.without_handshake = False
        """True when requests describe themselves in headers, as servers without a handshake expect."""
        self._config = config
        self._peer = peer
        self._client = new_client(config.url, auth)
        self._session = ""
        self._posts = PostTasks(f"mcp {config.key}")
        self._closed = False
        self._listening: asyncio.Task[None] | None = None
        peer.transport = self

    def send(self, message: Message) -> None:
        """Start the POST of a message; the peer receives the outcome."""
        if self._closed:
            return
        number = request_number(message)
        self._posts.start(number, self._exchange(message, number))
        if message.get("method") == "notifications/initialized" and self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name=f"messages of mcp {self._config.key}")

    def cancel(self, request: int) -> None:
        """Stop reading the answer of a request."""
        self._posts.cancel(request)

    async def close(self) -> None:
        """Cancel running requests, and notify the server of the session's end."""
        if self._closed:
            return
        self._closed = True
        tasks = self._posts.cancel_all()
        if self._listening is not None:
            self._listening.cancel()
            tasks.append(self._listening)
        try:
            if tasks:
                await asyncio.wait(tasks)
            if self._session:
                await self._delete_session()
        finally:
            await self._client.aclose()

    async def _delete_session(self) -> None:
        with contextlib.suppress(Exception):  # the server may be gone: nothing depends on it
            async with time_limit(_DELETE_SESSION_S):
                await self._client.delete(self._config.url, headers=self._headers({}))

    def _headers(self, message: Message) -> dict[str, str]:
        own = {name: value for name, value in self._config.headers.items() if name.lower() not in _STREAMABLE_HEADERS}
        headers = {**own, "accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._session:
            headers[SESSION_HEADER] = self._session
        if self.version:
            headers[VERSION_HEADER] = self.version
        if self.without_handshake and "method" in message:
            headers["mcp-method"] = message["method"]
            params: Any = message.get("params", {})
            name: Any = params.get("name") or params.get("uri")
            if isinstance(name, str) and name.isascii() and name.isprintable():
                headers["mcp-name"] = name
        return headers

    async def _exchange(self, message: Message, number: int | None) -> None:
        import httpx2

        try:
            await self._posts.wait_for_notifications(number)
            content = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
            url = self._config.url
            headers = self._headers(message)
            async with self._client.stream("POST", url, content=content, headers=headers) as response:
                await self._read_answer(response, number)
        except McpServerError as problem:
            self._fail(problem.what, number)
        except httpx2.ConnectError:
            self._peer.fail("cannot be reached")
        except httpx2.HTTPError as problem:
            self._fail(f"broke off the exchange ({type(problem).__name__})", number)
        except (httpx2.InvalidURL, httpx2.StreamError, ValueError) as problem:
            self._fail(f"could not be asked ({type(problem).__name__})", number)

    async def _read_answer(self, response: Response, number: int | None) -> None:
        session = response.headers.get(SESSION_HEADER, "")
        if session and session.isascii() and session.isprintable() and len(session) <= 1_000:
            self._session = session
        status = response.status_code
        kind = response.headers.get("content-type", "")
        if status == 404 and self._session:
            self._session_lost()
        elif why := refusal(status, self._config.name):
            self._fail(why, number)
        elif kind.startswith(_EVENTS) and status < 300:
            await self._read_events(response, number)
        else:
            await self._read_json(response, number)

    async def _read_json(self, response: Response, number: int | None) -> None:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER:
                self._fail(f"sent a message of more than {MAX_ANSWER // 1_000_000} MB", number)
                return
        if response.status_code == 400 and self._session and _is_about_a_session(bytes(body)):
            self._session_lost()
            return
        answered = bool(body.strip()) and self._deliver(bytes(body))
        if number is not None and not answered:
            self._fail(f"answered with HTTP {response.status_code} and no message", number)

    async def _read_events(self, response: Response, number: int | None) -> None:
        """Read the stream of one answer, over several connections if it breaks off after an event with an id."""
        events = SseReader()
        answered = await self._read_stream(response, events, number)
        left = MAX_RECONNECTS
        while not answered and number is not None and events.last_id and left:
            before = events.last_id
            answered = await self._continue_stream(events, number)
            left = MAX_RECONNECTS if events.last_id != before else left - 1
        if not answered and number is not None:
            self._fail("ended its stream without an answer", number)

    async def _read_stream(self, response: Response, events: SseReader, number: int | None) -> bool:
        """Deliver the messages of one connection; return True when the request of this number has its answer."""
        import httpx2

        size = 0
        try:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                found = events.feed(chunk)
                if events.held_bytes > MAX_ANSWER or (size > MAX_STREAM and number is not None):
                    self._fail("sent more than its answer may hold", number)
                    return True
                answers = [self._deliver(data) for _, data in found]
                if any(answers) and number is not None:
                    return True
        except httpx2.HTTPError:
            if not events.last_id:
                raise
        return False

    async def _continue_stream(self, events: SseReader, number: int | None, usual_s: float = RETRY_S) -> bool:
        """Continue a stream after its last event; return as `_read_stream`. `usual_s` is the wait before it.

        Raises McpServerError when it cannot be continued.
        """
        wait_s = usual_s if events.retry_ms is None else events.retry_ms / 1_000
        await asyncio.sleep(min(max(wait_s, MIN_RETRY_S), MAX_RETRY_S))
        headers = {**self._headers({}), "accept": _EVENTS}
        if events.last_id.isascii() and events.last_id.isprintable() and events.last_id:
            headers[EVENT_HEADER] = events.last_id
        async with self._client.stream("GET", self._config.url, headers=headers) as response:
            if response.status_code != 200 or not response.headers.get("content-type", "").startswith(_EVENTS):
                raise McpServerError(f"does not continue its stream (HTTP {response.status_code})")
            events.restart()
            return await self._read_stream(response, events, number)

    async def _listen(self) -> None:
        """Take the messages of the server that belong to no request, as long as it has a stream for them."""
        import httpx2

        await self._posts.wait_for_notifications(0)
        loop = asyncio.get_running_loop()
        events = SseReader()
        left = MAX_RECONNECTS
        usual_s = 0.0
        while left:
            before = events.last_id
            begun = loop.time()
            try:
                await self._continue_stream(events, None, usual_s)
            except (McpServerError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError):
                if not before and left == MAX_RECONNECTS:
                    return  # most servers have no such stream
            lasts = events.last_id != before or loop.time() - begun > MAX_RETRY_S
            left = MAX_RECONNECTS if lasts else left - 1
            usual_s = RETRY_S

    def _session_lost(self) -> None:
        self._session = ""
        self._peer.fail("has forgotten the session")

    def _deliver(self, data: bytes) -> bool:
        try:
            return self._peer.deliver(json.loads(data))
        except (ValueError, RecursionError):
            return False

    def _fail(self, why: str, number: int | None) -> None:
        if number is not None:
            self._peer.fail(why, number)


def _is_about_a_session(body: bytes) -> bool:
    """Return True for an error about the session: many servers report it with 400, where the protocol has 404."""
    try:
        answer: Any = json.loads(body)
        return "session" in str(answer["error"]["message"]).lower()
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


class SseTransport:
    """The transport over HTTP with SSE. Its stream is opened at once; messages wait until it names their address."""

    def __init__(self, config: ServerConfig, peer: JsonRpcPeer, auth: Auth | None = None) -> None:
        self._config = config
        self._peer = peer
        self._client = new_client(config.url, auth)
        self._headers = {name: value for name, value in config.headers.items() if name.lower() not in _SSE_HEADERS}
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posts = PostTasks(f"mcp {config.key}")
        self._closed = False
        peer.transport = self
        self._stream = asyncio.create_task(self._read_stream(), name=f"mcp {config.key} events")

    def send(self, message: Message) -> None:
        """Start the POST of a message. The answer arrives on the stream."""
        if self._closed:
            return
        number = request_number(message)
        self._posts.start(number, self._post(message, number))

    def cancel(self, request: int) -> None:
        """Stop the POST of a request that the server has not received yet."""
        self._posts.cancel(request)

    async def close(self) -> None:
        """End the stream and running POSTs. The server sees the end of its stream as the end of the session."""
        if self._closed:
            return
        self._closed = True
        self._stream.cancel()
        tasks = [self._stream, *self._posts.cancel_all()]
        try:
            await asyncio.wait(tasks)
        finally:
            self._address.cancel()
            await self._client.aclose()

    async def _read_stream(self) -> None:
        import httpx2

        try:
            headers = {**self._headers, "accept": _EVENTS}
            async with self._client.stream("GET", self._config.url, headers=headers) as response:
                why = await self._read_events(response)
        except McpServerError as problem:
            why = problem.what
        except httpx2.ConnectError:
            why = "cannot be reached"
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as problem:
            why = f"broke off the stream of events ({type(problem).__name__})"
        self._peer.fail(why)

    async def _read_events(self, response: Response) -> str:
        """Deliver the messages of the stream; return why the stream ended."""
        status = response.status_code
        kind = response.headers.get("content-type", "")
        if why := refusal(status, self._config.name):
            return why
        if status >= 300 or not kind.startswith(_EVENTS):
            return f"answered with HTTP {status} and no stream of events: is its type http?"
        events = SseReader()
        async for chunk in response.aiter_bytes():
            found = events.feed(chunk)
            if events.held_bytes > MAX_ANSWER or any(len(data) > MAX_ANSWER for _, data in found):
                return f"sent a message of more than {MAX_ANSWER // 1_000_000} MB"
            for name, data in found:
                if name == "endpoint" and not self._set_address(data):
                    return "named an address for messages that is not at its own origin"
                if name in {"", "message"}:
                    self._deliver(data)
        return "ended the stream of events"

    def _set_address(self, data: bytes) -> bool:
        """Take over the address for messages; return False for one that must not receive the headers."""
        try:
            address = urljoin(self._config.url, data.decode("ascii"))
            same = _origin(address) == _origin(self._config.url)
        except ValueError:
            return False
        if same and not self._address.done():
            self._address.set_result(address)
        return same

    def _deliver(self, data: bytes) -> None:
        try:
            self._peer.deliver(json.loads(data))
        except (ValueError, RecursionError):
            return

    async def _post(self, message: Message, number: int | None) -> None:
        import httpx2

        try:
            await self._posts.wait_for_notifications(number)
            address = await asyncio.shield(self._address)
            content = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
            headers = {**self._headers, "content-type": "application/json"}
            async with self._client.stream("POST", address, content=content, headers=headers) as response:
                status = response.status_code
            why = refusal(status, self._config.name) or (
                f"answered with HTTP {status} and no message" if status >= 300 else ""
            )
        except McpServerError as problem:
            why = problem.what
        except httpx2.ConnectError:
            self._peer.fail("cannot be reached")
            return
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as problem:
            why = f"broke off the exchange ({type(problem).__name__})"
        if why and number is not None:
            self._peer.fail(why, number)


def _origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port. Raises ValueError for a port that is none."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


class PostTasks:
    """The tasks that send messages. `name` is the name of the tasks, for debugging."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[int | None, set[asyncio.Task[None]]] = {}

    def start(self, number: int | None, post: Coroutine[None, None, None]) -> None:
        """Start a POST. Its failure is the business of `post`."""
        task = asyncio.create_task(post, name=self._name)
        self._running.setdefault(number, set()).add(task)
        task.add_done_callback(lambda done: self._remove(number, done))

    async def wait_for_notifications(self, number: int | None) -> None:
        """Wait until earlier notifications were sent, if this is a request: they must arrive first."""
        if number is not None and (before := self._running.get(None)):
            await asyncio.wait(set(before), timeout=ORDER_S)

    def cancel(self, number: int) -> None:
        """Cancel the POST of a request."""
        for task in self._running.get(number, ()):
            task.cancel()

    def cancel_all(self) -> list[asyncio.Task[None]]:
        """Cancel all POSTs, and return them."""
        tasks = [task for group in self._running.values() for task in group]
        for task in tasks:
            task.cancel()
        return tasks

    def _remove(self, number: int | None, task: asyncio.Task[None]) -> None:
        group = self._running.get(number, set())
        group.discard(task)
        if not group:
            self._running.pop(number, None)


def new_client(url: str, auth: Auth | None = None) -> AsyncClient:
    """Return a client for one address; `auth` adds the login to each request.

    Proxies of the environment are used, except for this machine.
    """
    import httpx2

    hide_http_logs()
    parts = urlsplit(url)
    here = (parts.hostname or "") in _LOOPBACK
    return httpx2.AsyncClient(
        auth=auth,
        verify=parts.scheme == "https",
        trust_env=not here,
        follow_redirects=False,
        timeout=httpx2.Timeout(None, connect=CONNECT_S, write=_WRITE_S),
    )


def request_number(message: Message) -> int | None:
    """Return the number of a request; None for an answer or a notification."""
    return message["id"] if "method" in message and "id" in message else None


def refusal(status: int, name: str) -> str:
    """Return why a status that asks for a login or for another address ends a request; empty for others."""
    if status in {401, 403}:
        do = f"type teamwright mcp login {name}, or give its entry the headers that it asks for"
        return f"wants a login (HTTP {status}): {do}"
    return f"has moved (HTTP {status}): give the address that it moved to" if 300 <= status < 400 else ""
