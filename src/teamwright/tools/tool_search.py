"""The ToolSearch tool: finds tools of MCP servers that an agent's prefix does not name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.mcp.json_rpc import plain_line
from teamwright.mcp.server import McpServer
from teamwright.mcp.session_servers import search_tools
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result

MAX_RESULTS = 20


class ToolSearchInput(ToolInput):
    """Parameters of ToolSearch."""

    query: str = Field(description="Words about the task, or select:NAME,NAME.")
    max_results: int = Field(5, description="The most tools, up to 20.")


class ToolSearch(Tool[ToolSearchInput]):
    """The ToolSearch tool of one agent. `allowed` returns True for full names of tools that the agent may have."""

    name = "ToolSearch"
    input_type = ToolSearchInput

    def __init__(self, servers: Sequence[McpServer], allowed: Callable[[str], bool], in_prefix: frozenset[str]) -> None:
        self._servers = tuple(servers)
        self._allowed = allowed
        self._in_prefix = in_prefix

    def is_read_only(self, call: ToolSearchInput) -> bool:
        """Return True: it only lists."""
        return True

    def summary(self, call: ToolSearchInput) -> str:
        """Return the query."""
        return plain_line(call.query, 100)

    async def run(self, call: ToolSearchInput, ctx: ToolContext) -> ToolResult:
        """Return the best matches, each with its description and its schema."""
        tools = [
            tool
            for server in self._servers
            for tool in server.tools or ()
            if tool.name not in self._in_prefix and self._allowed(tool.name)
        ]
        found = search_tools(tools, call.query, max(1, min(call.max_results, MAX_RESULTS)))
        if not found:
            servers = ", ".join(server.name for server in self._servers)
            return ToolResult(f"None of {len(tools)} tools matches. Use other words. Servers: {escape_tags(servers)}.")
        parts = [
            f"{tool.name}\n{tool.description}\nIt takes: {json.dumps(tool.schema, ensure_ascii=False)}"
            for tool in found
        ]
        text = escape_tags("\n\n".join(parts))
        return ToolResult(fit_result(text, ctx), brief=f"{len(found)} of {len(tools)} tools")
