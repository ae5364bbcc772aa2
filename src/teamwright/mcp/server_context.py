"""The objects that all MCP servers of a session share: their environment, stores, timeouts and answers to requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from teamwright.mcp.json_rpc import Message
from teamwright.mcp.listing_store import ListingStore
from teamwright.mcp.login_store import LoginStore
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.stdio_transport import ServerEnvironment

ReportProblem: TypeAlias = Callable[[str, str], None]
"""Called with a sentence that a person should read about a server, and `info` or `warning`."""


async def wait_for_nothing(_config: ServerConfig) -> None:
    """Return immediately: the default of `ServerContext.before_start`."""


class AnswerServers(Protocol):
    """The answers to requests of servers: directories, input of the user, a model's answer."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that are declared to servers."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The addresses of the session's directories, which a server may list."""
        ...

    async def answer(self, server: ServerConfig, method: str, params: Mapping[str, Any]) -> Message:
        """Return the result of a server's request. Raises McpRequestError."""
        ...


class ServerTimeouts(Struct, frozen=True):
    """Timeouts in seconds: for a start with handshake and tool list, and for a call without progress."""

    start_s: float = 30.0
    call_s: float = 600.0


class ServerContext(Struct, frozen=True):
    """The state that all servers of a session share. `before_start` is awaited before a server is started.

    `on_change` is called when the state of a server changes.
    """

    environment: ServerEnvironment
    listings: ListingStore
    report: ReportProblem
    version: str
    limits: ServerTimeouts = field(default_factory=ServerTimeouts)
    before_start: Callable[[ServerConfig], Awaitable[object]] = wait_for_nothing
    on_change: Callable[[], None] = lambda: None
    exchange: Callable[[str, Message], Awaitable[Message]] | None = None
    """Sends a message to a server inside the client program; None without a client."""
    logins: LoginStore | None = None
    """Stored logins at servers with an address."""
    requests: AnswerServers | None = None
    """Answers requests of servers; None: they are refused."""
