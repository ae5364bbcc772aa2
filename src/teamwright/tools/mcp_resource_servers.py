"""The MCP servers whose resources an agent may read, for the tools that list and read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from teamwright.agent.tool import ToolResult
from teamwright.mcp.server import McpServer
from teamwright.protocol.ids import nearest


class ResourceServers(Struct, frozen=True):
    """The servers of one agent. `allowed` returns True for full names of tools that the agent may have now."""

    servers: Sequence[McpServer]
    allowed: Callable[[str], bool]

    @property
    def available(self) -> list[McpServer]:
        """The servers with resources that no rule hides from the agent."""
        return [
            server
            for server in self.servers
            if server.listing is not None
            and server.listing.has_resources
            and (
                self.allowed(f"mcp__{server.config.key}__any")
                or any(self.allowed(tool.name) for tool in server.listing.tools)
            )
        ]

    def find(self, name: str) -> McpServer | ToolResult:
        """Return the server of that name, or the error for the model."""
        available = self.available
        found = next((server for server in available if name in {server.name, server.config.key}), None)
        if found is not None:
            return found
        names = [server.name for server in available]
        close = nearest(name, names)
        hint = f"Did you mean {close}? " if close else ""
        what = f"There is no server {name[:60]!r} with resources."
        return ToolResult.error(what, f"{hint}There are: {', '.join(names) or 'none'}.")
