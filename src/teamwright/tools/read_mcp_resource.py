"""The ReadMcpResource tool: reads a resource of an MCP server, and notes that it may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.mcp.json_rpc import McpServerError, plain_line
from teamwright.mcp.server import McpServer
from teamwright.permissions.verdict import Access
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.mcp_resource_servers import ResourceServers
from teamwright.tools.mcp_tool import to_tool_result


class ReadMcpResourceInput(ToolInput):
    """Parameters of ReadMcpResource."""

    server: str = Field(description="Name of the server.")
    uri: str = Field(description="URI of the resource.")


class ReadMcpResource(Tool[ReadMcpResourceInput]):
    """The ReadMcpResource tool of one agent. It knows which resources the agent has read."""

    name = "ReadMcpResource"
    input_type = ReadMcpResourceInput

    def __init__(self, servers: ResourceServers) -> None:
        self._servers = servers
        self._read: dict[tuple[str, str], tuple[McpServer, int]] = {}

    def summary(self, call: ReadMcpResourceInput) -> str:
        """Return server and URI."""
        return plain_line(f"{call.server}:{call.uri}", 200)

    def access(self, call: ReadMcpResourceInput, ctx: ToolContext) -> Access:
        """Return an access that rules decide by `server:uri`, else the mode: a URI is sent to the server."""
        found = self._servers.find(call.server)
        name = call.server if isinstance(found, ToolResult) else found.name
        return Access(subject=f"{name}:{call.uri}")

    async def run(self, call: ReadMcpResourceInput, ctx: ToolContext) -> ToolResult:
        """Read the resource. The server is started if it does not run."""
        server = self._servers.find(call.server)
        if isinstance(server, ToolResult):
            return server
        try:
            result = await server.read_resource(call.uri)
        except McpServerError as problem:
            what = escape_tags(server.config.mask_secrets(problem.what))
            return ToolResult.error(f'The server "{server.name}" {what}.', "ListMcpResources shows its resources.")
        self._read[server.config.key, call.uri] = (server, server.resource_changes(call.uri))
        return to_tool_result(resource_content(result), ctx)

    def take_changed(self) -> list[str]:
        """Return the resources, as `server:uri`, that changed since the agent read them. Each change is returned
        once.
        """
        changed: list[str] = []
        for (key, uri), (server, seen) in self._read.items():
            if (now := server.resource_changes(uri)) != seen:
                self._read[key, uri] = (server, now)
                changed.append(f"{server.name}:{uri}")
        return changed


def resource_content(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of a resource in the form of a tool's result."""
    contents = result.get("contents")
    parts = cast("list[object]", contents) if isinstance(contents, list) else []
    return {"content": [{"type": "resource", "resource": part} for part in parts]}
