"""Transport over HTTP with SSE, of protocol version 2024-11-05: a stream of events, and a POST for each message.

The first event of the stream names the address for messages, which must have the origin of the configured one. Depends
on the HTTP client of `http_transport`; leaves restarts to the server.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from teamwright.mcp.http_transport import MAX_ANSWER, PostTasks, new_client, refusal, request_number
from teamwright.mcp.json_rpc import JsonRpcPeer, McpServerError, Message
from teamwright.mcp.server_config import ServerConfig
from teamwright.storage.sse import SseReader

if TYPE_CHECKING:
    from httpx2 import Auth, Response

_OWN_HEADERS = frozenset({"accept", "content-type", "content-length", "host"})
"""Headers that no configuration may set."""


class SseTransport:
    """The transport. Its stream is opened at once; messages wait for the address that the server names."""

    def __init__(self, config: ServerConfig, peer: JsonRpcPeer, auth: Auth | None = None) -> None:
        self._config = config
        self._peer = peer
        self._client = new_client(config.url, auth)
        self._headers = {name: value for name, value in config.headers.items() if name.lower() not in _OWN_HEADERS}
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
            headers = {**self._headers, "accept": "text/event-stream"}
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
        status, kind = response.status_code, response.headers.get("content-type", "")
        if why := refusal(status, self._config.name):
            return why
        if status >= 300 or not kind.startswith("text/event-stream"):
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
