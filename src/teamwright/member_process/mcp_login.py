"""Logins at MCP servers by a person: a browser at the server's address, and a redirect to this machine (RFC 8252).

The redirect is received on 127.0.0.1, for one answer. Depends on the MCP package; leaves the configuration of servers
to the caller, and the check of the state to the OAuth client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from teamwright.config.trust import require_person
from teamwright.mcp.client import McpClient
from teamwright.mcp.http_transport import HttpTransport, SseTransport
from teamwright.mcp.json_rpc import CallDeadline, JsonRpcPeer, McpServerError, plain_line
from teamwright.mcp.login_store import LoginMask, LoginStore
from teamwright.mcp.server_config import ServerConfig
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.mcp.oauth import LoginFlow


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
            parameters = {name: values[0] for name, values in parse_qs(target.query).items()}
            is_redirect = method == "GET" and target.path == PATH and ("code" in parameters or "error" in parameters)
            if is_redirect and not self._answer.done():
                self._answer.set_result(parameters)
            text = (_DONE if "code" in parameters else _FAILED) if is_redirect else "There is nothing here."
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


DOES = "logs in to MCP servers"
LOGIN_S = 300.0
"""Seconds that a person may take in the browser."""


class LoginRequest(Struct, frozen=True):
    """The wishes of a person. `port` is that of the redirect, 0 for any; `client_id` a registration made beforehand."""

    port: int = 0
    client_id: str = ""
    client_secret: str = ""
    timeout_s: float = LOGIN_S


def require_remote(config: ServerConfig) -> None:
    """Raise UsageError for a server without an address, or with an authorization header in its entry."""
    if config.kind not in {"http", "sse"}:
        raise UsageError(
            "usage", f"the MCP server {config.name!r} is a program: it needs no login", note="nothing was done"
        )
    if any(name.lower() == "authorization" for name in config.headers):
        what = f"the entry of {config.name!r} has an Authorization header, which is its login"
        raise UsageError("usage", what, do=["remove the header from the entry"], note="nothing was done")


async def log_in(home: Home, config: ServerConfig, request: LoginRequest, show: Callable[[str], None]) -> int:
    """Log in to a server and store the tokens; `show` gets the address to open. Return the number of its tools.

    Raises UsageError, CannotStart (`mcp-failed`), StorageError.
    """
    require_person(home, DOES)
    require_remote(config)
    from teamwright import __version__
    from teamwright.mcp.oauth import LoginAuth

    redirect = LoopbackRedirect()
    store = LoginStore(home.mcp_logins)
    peer: JsonRpcPeer | None = None
    try:
        await redirect.start(request.port)
        auth = LoginAuth(config, store, _make_flow(redirect, request, show))
        mask = LoginMask(lambda: auth.login)
        peer = JsonRpcPeer(lambda _method, _params: None, lambda _why: None, mask)
        (SseTransport if config.kind == "sse" else HttpTransport)(config, peer, auth)
        client = McpClient(peer, __version__)
        deadline = CallDeadline(request.timeout_s, request.timeout_s)
        await client.initialize(deadline)
        tools = await client.list_tools(deadline)
    except OSError as problem:
        raise _failed(config, f"needs port {request.port} on this machine: {problem.strerror}") from None
    except McpServerError as problem:
        raise _failed(config, config.mask_secrets(problem.what)) from None
    finally:
        await redirect.close()
        if peer is not None and peer.transport is not None:
            await peer.transport.close()
    if store.load(config) is None:
        raise UsageError("usage", f"the MCP server {config.name!r} wants no login", note="nothing was stored")
    return len(tools)


def _make_flow(redirect: LoopbackRedirect, request: LoginRequest, show: Callable[[str], None]) -> LoginFlow:
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull
    from pydantic import AnyUrl

    from teamwright.mcp.oauth import LoginFlow, LoginRequired

    async def open_address(address: str) -> None:
        show(address)

    async def wait() -> AuthorizationCodeResult:
        parameters = await redirect.parameters()
        if "code" not in parameters:
            raise LoginRequired(
                plain_line(f"refused the login: {parameters['error']} {parameters.get('error_description', '')}")
            )
        return AuthorizationCodeResult(
            code=parameters["code"], state=parameters.get("state"), iss=parameters.get("iss")
        )

    client = None
    if request.client_id:
        client = OAuthClientInformationFull(
            client_id=request.client_id,
            client_secret=request.client_secret or None,
            redirect_uris=[AnyUrl(redirect.url)],
            token_endpoint_auth_method="client_secret_basic" if request.client_secret else "none",
        )
    return LoginFlow(redirect.url, open_address, wait, client)


def _failed(config: ServerConfig, why: str) -> CannotStart:
    return CannotStart(
        "mcp-failed",
        f'the MCP server "{config.name}" {why}',
        looked_at=[("address", config.display_text), ("set in", config.source)],
        note="no login was stored",
    )
