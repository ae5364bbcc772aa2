"""The tools of MCP servers that one agent gets: those in its prefix, and the tools that find and call all others.

Imported with the first server. Depends on the tools of servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from teamwright.agent.tool import AnyTool
from teamwright.config.settings.settings import McpSettings
from teamwright.mcp.server import McpServer
from teamwright.mcp.session_servers import PrefixRoom, select_for_prefix
from teamwright.tools.deferred_tools import no_tool_search
from teamwright.tools.list_mcp_resources import ListMcpResources
from teamwright.tools.mcp_call import McpCall
from teamwright.tools.mcp_resource_servers import ResourceServers
from teamwright.tools.mcp_tool import ServerTool
from teamwright.tools.read_mcp_resource import ReadMcpResource


class ServerToolSet(Struct, frozen=True):
    """The servers of one agent. `allowed` returns True for names that it may have; `has_call`: it may have McpCall.

    `settings` returns the present settings.
    """

    servers: Sequence[McpServer]
    allowed: Callable[[str], bool]
    settings: Callable[[], McpSettings]
    has_call: bool

    def tools(self, compact: bool) -> list[AnyTool]:
        """Return the tools for a new prefix, from the lists that the servers have now. A compact one names none."""
        settings = self.settings()
        room = PrefixRoom(0, 0) if compact else PrefixRoom(settings.tools, settings.size)
        inside = select_for_prefix(self.servers, self.allowed, room)
        tools: list[AnyTool] = [ServerTool(server, tool.name, tool) for server, tool in inside]
        resources = ResourceServers(self.servers, self.allowed)
        if resources.available:
            readers: list[AnyTool] = [ListMcpResources(resources), ReadMcpResource(resources)]
            tools += [tool for tool in readers if self.allowed(tool.name)]
        if not self.has_call:
            return tools
        names = frozenset(tool.name for tool in tools)
        known = [tool.name for server in self.servers for tool in server.tools or ()]
        if any(name not in names and self.allowed(name) for name in known):
            tools.append(no_tool_search())
        return [*tools, McpCall(self.servers, self.allowed, names, self.tools)]
