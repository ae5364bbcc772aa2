"""The ListMcpResources tool: lists the resources and the URI templates of an agent's MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.mcp.json_rpc import McpServerError, plain_line
from teamwright.mcp.server import McpServer
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result
from teamwright.tools.mcp_resource_servers import ResourceServers

MAX_LISTED = 500
"""The most resources of one server in a result."""


class ListMcpResourcesInput(ToolInput):
    """Parameters of ListMcpResources."""

    server: str = Field("", description="Name of one server.")


class ListMcpResources(Tool[ListMcpResourcesInput]):
    """The ListMcpResources tool of one agent."""

    name = "ListMcpResources"
    input_type = ListMcpResourcesInput

    def __init__(self, servers: ResourceServers) -> None:
        self._servers = servers

    def is_read_only(self, call: ListMcpResourcesInput) -> bool:
        """Return True: it only lists."""
        return True

    def summary(self, call: ListMcpResourcesInput) -> str:
        """Return the server."""
        return plain_line(call.server, 60)

    async def run(self, call: ListMcpResourcesInput, ctx: ToolContext) -> ToolResult:
        """List the resources of one server, or of all."""
        servers = self._servers.available
        if call.server:
            found = self._servers.find(call.server)
            if isinstance(found, ToolResult):
                return found
            servers = [found]
        parts = [await _list(server) for server in servers]
        return ToolResult(fit_result(escape_tags("\n".join(parts)), ctx) or "There are no resources.")


async def _list(server: McpServer) -> str:
    try:
        resources, templates = await server.list_resources()
    except McpServerError as problem:
        return f"{server.name} {server.config.mask_secrets(problem.what)}"
    lines = [*resource_lines(resources, "uri"), *resource_lines(templates, "uriTemplate", "template ")]
    return "\n".join([f"{server.name}:", *(lines[:MAX_LISTED] or ["- no resources"])])


def resource_lines(entries: Sequence[object], key: str, kind: str = "") -> list[str]:
    """Return a line for each usable entry of a list of resources or templates."""
    lines: list[str] = []
    for entry in entries:
        fields = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
        if isinstance(uri := fields.get(key), str) and uri:
            about = [fields.get(name) for name in ("name", "mimeType", "description")]
            text = ", ".join(one for one in about if isinstance(one, str) and one)
            lines.append(plain_line(f"- {kind}{uri} {f'({text})' if text else ''}", 600))
    return lines
