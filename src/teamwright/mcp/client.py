"""The protocol with an MCP server: initialization, the list of its tools, and tool calls.

Supports the versions with a handshake, and the later one without it for servers that support nothing else. Declares no
capability: no server can ask for a model's answer, for files or for a person's input. `ClientTransport` goes through
the client program that drives this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct

from teamwright.mcp.http_transport import HttpTransport
from teamwright.mcp.json_rpc import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    CallDeadline,
    JsonRpcPeer,
    McpRequestError,
    McpServerError,
    Message,
    plain_line,
)
from teamwright.mcp.tool_listing import MAX_TOOLS

NEWEST_VERSION = "2025-11-25"
HANDSHAKE_VERSIONS = (NEWEST_VERSION, "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with a handshake, the newest first."""

VERSION_WITHOUT_HANDSHAKE = "2026-07-28"

_MAX_PAGES = 50
_META = "io.modelcontextprotocol/"


class McpClient(Struct):
    """A connected server. `server_info` is its description of itself."""

    peer: JsonRpcPeer
    own_version: str
    version: str = ""
    server_info: str = ""
    _has_tools: bool = True

    async def initialize(self, deadline: CallDeadline) -> None:
        """Negotiate a version. Raises McpServerError."""
        hello: Message = {"protocolVersion": NEWEST_VERSION, "capabilities": {}, "clientInfo": self._info}
        try:
            said = await self.peer.request("initialize", hello, deadline)
        except McpRequestError as problem:
            if problem.code not in {UNSUPPORTED_VERSION, METHOD_NOT_FOUND}:
                raise
            await self._discover(deadline)
            return
        version = said.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise McpServerError(f"speaks another version of the protocol ({plain_line(str(version), 40)})", dead=True)
        self._agree(str(version), said)
        self.peer.notify("notifications/initialized", {})

    async def list_tools(self, deadline: CallDeadline) -> list[object]:
        """Return the entries of its tool list, page by page, unparsed. Raises McpServerError."""
        found: list[object] = []
        cursor: object = None
        for _ in range(_MAX_PAGES if self._has_tools else 0):
            page = await self.peer.request("tools/list", {"cursor": cursor} if cursor else {}, deadline)
            listed = page.get("tools")
            found += cast("list[object]", listed) if isinstance(listed, list) else []
            before, cursor = cursor, page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor == before or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def call_tool(self, tool: str, arguments: Mapping[str, Any], deadline: CallDeadline) -> Message:
        """Return the raw result of a call. Raises McpServerError, McpRequestError; notifies the server when
        cancelled.
        """
        said = {"name": tool, "arguments": dict(arguments)}
        result = await self.peer.request("tools/call", said, deadline, progress=True)
        if result.get("resultType", "complete") != "complete":
            raise McpServerError("wants more input in the middle of a call, which is not supported")
        return result

    async def _discover(self, deadline: CallDeadline) -> None:
        self.peer.meta = {
            f"{_META}protocolVersion": VERSION_WITHOUT_HANDSHAKE,
            f"{_META}clientInfo": self._info,
            f"{_META}clientCapabilities": {},
        }
        if isinstance(self.peer.transport, HttpTransport):
            self.peer.transport.without_handshake, self.peer.transport.version = True, VERSION_WITHOUT_HANDSHAKE
        said = await self.peer.request("server/discover", {}, deadline)
        versions = said.get("supportedVersions")
        if not isinstance(versions, list) or VERSION_WITHOUT_HANDSHAKE not in versions:
            raise McpServerError("speaks no version of the protocol that we know", dead=True)
        self._agree(VERSION_WITHOUT_HANDSHAKE, said)

    def _agree(self, version: str, said: Message) -> None:
        self.version = version
        if isinstance(self.peer.transport, HttpTransport):
            self.peer.transport.version = version
        capabilities, info = said.get("capabilities"), said.get("serverInfo")
        self._has_tools = isinstance(capabilities, dict) and "tools" in capabilities
        if isinstance(info, dict):
            told = cast("Message", info)
            self.server_info = plain_line(f"{told.get('name', '')} {told.get('version', '')}", 80)

    @property
    def _info(self) -> Mapping[str, str]:
        return {"name": "teamwright", "version": self.own_version}


ExchangeMessage: TypeAlias = Callable[[str, Message], Awaitable[Message]]
"""Sends a message to the client's server of that name and returns its answer. Raises McpServerError."""


class ClientTransport:
    """The transport to one server of the client. It starts no process, and ends with the session."""

    def __init__(self, name: str, peer: JsonRpcPeer, exchange: ExchangeMessage) -> None:
        self._name = name
        self._peer = peer
        self._exchange = exchange
        self._running: dict[int, asyncio.Task[None]] = {}
        self._notifications: set[asyncio.Task[None]] = set()
        peer.transport = self

    def send(self, message: Message) -> None:
        """Implement `Transport.send`."""
        number = message.get("id")
        task = asyncio.ensure_future(self._send(message, number if isinstance(number, int) else None))
        if isinstance(number, int):
            self._running[number] = task
            task.add_done_callback(lambda _: self._running.pop(number, None))
        else:
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)

    async def _send(self, message: Message, number: int | None) -> None:
        try:
            answer = await self._exchange(self._name, message)
        except McpServerError as problem:
            self._peer.fail(problem.what, number)
            return
        if number is not None:
            self._peer.deliver(answer)

    def cancel(self, request: int) -> None:
        """Implement `Transport.cancel`."""
        if (task := self._running.get(request)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Implement `Transport.close`."""
        running = [*self._running.values(), *self._notifications]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
