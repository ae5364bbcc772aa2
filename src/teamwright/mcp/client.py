"""What is said to a server: the greeting, the list of its tools, a call.

Speaks the versions with a handshake, and the later one without to servers that speak nothing else. Declares no
capability: no server can ask us for a model's answer, for files or for a person's words. Knows no transport.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from teamwright.mcp.http import Http
from teamwright.mcp.listing import MOST_TOOLS
from teamwright.mcp.peer import Clock, Message, Peer
from teamwright.mcp.trouble import METHOD_UNKNOWN, UNSUPPORTED_VERSION, Refused, ServerTrouble, plain_line
from teamwright.protocol.values import dataclass

NEWEST = "2025-11-25"
HANDSHAKE = (NEWEST, "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with a handshake, the newest first."""

WITHOUT_HANDSHAKE = "2026-07-28"

_MOST_PAGES = 50
_META = "io.modelcontextprotocol/"


@dataclass(slots=True)
class Client:
    """One server that answers. `about` is what it says of itself."""

    peer: Peer
    own_version: str
    version: str = ""
    about: str = ""
    _has_tools: bool = True

    async def greet(self, clock: Clock) -> None:
        """Agree on a version. Raises ServerTrouble."""
        hello: Message = {"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": self._info}
        try:
            said = await self.peer.ask("initialize", hello, clock)
        except Refused as problem:
            if problem.code not in {UNSUPPORTED_VERSION, METHOD_UNKNOWN}:
                raise
            await self._discover(clock)
            return
        version = said.get("protocolVersion")
        if version not in HANDSHAKE:
            raise ServerTrouble(f"speaks another version of the protocol ({plain_line(str(version), 40)})", dead=True)
        self._agree(str(version), said)
        self.peer.tell("notifications/initialized", {})

    async def tools(self, clock: Clock) -> list[object]:
        """The entries of its list, page by page, as they came. Raises ServerTrouble."""
        found: list[object] = []
        cursor: object = None
        for _ in range(_MOST_PAGES if self._has_tools else 0):
            page = await self.peer.ask("tools/list", {"cursor": cursor} if cursor else {}, clock)
            listed = page.get("tools")
            found += cast("list[object]", listed) if isinstance(listed, list) else []
            before, cursor = cursor, page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor == before or len(found) >= MOST_TOOLS:
                break
        return found[:MOST_TOOLS]

    async def call(self, tool: str, arguments: Mapping[str, Any], clock: Clock) -> Message:
        """The result of a call as it came. Raises ServerTrouble, Refused; cancelled, the server is told."""
        said = {"name": tool, "arguments": dict(arguments)}
        result = await self.peer.ask("tools/call", said, clock, progress=True)
        if result.get("resultType", "complete") != "complete":
            raise ServerTrouble("wants more input in the middle of a call, which is not supported")
        return result

    async def _discover(self, clock: Clock) -> None:
        self.peer.meta = {
            f"{_META}protocolVersion": WITHOUT_HANDSHAKE,
            f"{_META}clientInfo": self._info,
            f"{_META}clientCapabilities": {},
        }
        if isinstance(self.peer.transport, Http):
            self.peer.transport.modern, self.peer.transport.version = True, WITHOUT_HANDSHAKE
        said = await self.peer.ask("server/discover", {}, clock)
        versions = said.get("supportedVersions")
        if not isinstance(versions, list) or WITHOUT_HANDSHAKE not in versions:
            raise ServerTrouble("speaks no version of the protocol that we know", dead=True)
        self._agree(WITHOUT_HANDSHAKE, said)

    def _agree(self, version: str, said: Message) -> None:
        self.version = version
        if isinstance(self.peer.transport, Http):
            self.peer.transport.version = version
        capabilities, info = said.get("capabilities"), said.get("serverInfo")
        self._has_tools = isinstance(capabilities, dict) and "tools" in capabilities
        if isinstance(info, dict):
            told = cast("Message", info)
            self.about = plain_line(f"{told.get('name', '')} {told.get('version', '')}", 80)

    @property
    def _info(self) -> Mapping[str, str]:
        return {"name": "teamwright", "version": self.own_version}
