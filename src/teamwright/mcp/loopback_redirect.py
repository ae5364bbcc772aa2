"""A loopback address that receives the redirect at the end of a login in a browser (RFC 8252).

It listens on 127.0.0.1 for one answer. Depends on asyncio; leaves the check of the state to the OAuth client.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

PATH = "/callback"
MAX_REQUEST = 64_000
"""Bytes of a request that are read."""

_DONE = "You are logged in. You can close this page."
_FAILED = "The login failed. The terminal shows the reason."


class LoopbackRedirect:
    """The listener. `url` is its address after `start`."""

    def __init__(self) -> None:
        self.url = ""
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def start(self, port: int = 0) -> None:
        """Listen on a port, 0 for any free one. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MAX_REQUEST)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"

    async def parameters(self) -> dict[str, str]:
        """Return the parameters of the redirect: `code` and `state`, or `error`."""
        return await asyncio.shield(self._answer)

    async def close(self) -> None:
        """Stop listening. May be called twice."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.decode("latin-1").partition(" ")
            target = urlsplit(rest.partition(" ")[0])
            given = {name: values[0] for name, values in parse_qs(target.query).items()}
            is_redirect = method == "GET" and target.path == PATH and ("code" in given or "error" in given)
            if is_redirect and not self._answer.done():
                self._answer.set_result(given)
            text = (_DONE if "code" in given else _FAILED) if is_redirect else "There is nothing here."
            status = "200 OK" if is_redirect else "404 Not Found"
            body = text.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()
