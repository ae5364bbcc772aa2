"""The McpCall tool: calls server tools that an agent's prefix does not name, by the servers' names.

The call counts as a call of that tool: rules, hooks and people see `mcp__server__tool`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import Field

from teamwright.agent.tool import AnyTool, Tool, ToolContext, ToolResult, read_description
from teamwright.agent.tool_input import ToolInput
from teamwright.mcp.json_rpc import McpServerError
from teamwright.mcp.server import McpServer
from teamwright.mcp.session_servers import find_server
from teamwright.mcp.tool_listing import tool_name
from teamwright.protocol.ids import nearest
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result
from teamwright.tools.mcp_tool import ServerTool

MAX_SERVER_LIST = 1_500
"""The most characters of the list of servers in the description."""


class McpCallInput(ToolInput):
    """Parameters of McpCall."""

    server: str = Field(description="Name of the server.")
    tool: str = Field("", description="Name of the tool.")
    arguments: dict[str, Any] | None = Field(None, description="Input of the tool.")


class McpCall(Tool[McpCallInput]):
    """The McpCall tool of one agent. `allowed` returns True for full names of tools that the agent may have.

    `rebuild` returns new tools of the servers, this one included, for a new prefix: a compact one, or a full one.
    """

    name = "McpCall"
    input_type = McpCallInput

    def __init__(
        self,
        servers: Sequence[McpServer],
        allowed: Callable[[str], bool],
        in_prefix: frozenset[str],
        rebuild: Callable[[bool], list[AnyTool]],
    ) -> None:
        self.rebuild = rebuild
        self.servers = tuple(servers)
        self._allowed = allowed
        self._in_prefix = in_prefix
        lines = "\n".join(_line(server, in_prefix, allowed) for server in self.servers)
        cut = lines if len(lines) <= MAX_SERVER_LIST else lines[: MAX_SERVER_LIST - 1] + "…"
        self._text = f"{read_description(type(self))}\n{escape_tags(cut)}"

    @property
    def description(self) -> str:
        """The `.md` text with the servers that were known when the agent was created."""
        return self._text

    def is_read_only(self, call: McpCallInput) -> bool:
        """Return True: this tool itself only lists."""
        return True

    def summary(self, call: McpCallInput) -> str:
        """Return the server or tool that is listed."""
        return f"{call.server[:60]} {call.tool[:60]}".strip()

    def target_call(self, call: McpCallInput) -> tuple[AnyTool, Mapping[str, Any]] | None:
        """Return the tool that is called; None for a listing."""
        server = self._find_server(call.server)
        if server is None or not call.tool:
            return None
        full = call.tool if find_server((server,), call.tool) is not None else tool_name(server.config.key, call.tool)
        tool = self._make_tool(server, full)
        if tool is None:
            return None
        known = server.find_tool(tool.name)
        if call.arguments is None and (known is None or known.required_parameters):
            return None
        return tool, call.arguments or {}

    def find_unlisted(self, name: str) -> AnyTool | None:
        """Return the tool with that full name, for a call that names it although the agent's list does not."""
        server = find_server(self.servers, name)
        return self._make_tool(server, name) if server is not None else None

    def unlisted_tools(self) -> list[AnyTool]:
        """Return the servers' tools that are not in the agent's list."""
        return [
            ServerTool(server, tool.name, tool)
            for server in self.servers
            for tool in server.tools or ()
            if tool.name not in self._in_prefix and self._allowed(tool.name)
        ]

    async def run(self, call: McpCallInput, ctx: ToolContext) -> ToolResult:
        """List a server's tools, or describe the parameters of one."""
        server = self._find_server(call.server)
        if server is None:
            names = [one.name for one in self.servers]
            close = nearest(call.server, names)
            hint = f"Did you mean {close}? " if close else ""
            return ToolResult.error(
                f"There is no server {call.server[:60]!r}.", f"{hint}There are: {', '.join(names)}."
            )
        if server.tools is None:
            try:
                await server.connect()
            except McpServerError as problem:
                what = escape_tags(server.config.mask_secrets(problem.what))
                return ToolResult.error(f'The server "{server.name}" {what}.', "Continue without it, and mention that.")
        tools = [tool for tool in server.tools or () if self._allowed(tool.name)]
        if not call.tool:
            text = "\n".join(f"- {tool.one_line}" for tool in tools) or "It has no tools that you may use."
            return ToolResult(fit_result(escape_tags(text), ctx), brief=f"{len(tools)} tools")
        known = next((tool for tool in tools if call.tool in {tool.remote_name, tool.name}), None)
        if known is None:
            names = [tool.remote_name for tool in tools]
            close = nearest(call.tool, names)
            hint = f"Did you mean {close}? " if close else ""
            return ToolResult.error(
                f'The server "{server.name}" has no tool {call.tool[:60]!r} for you.',
                f"{hint}It has: {', '.join(names[:40])}.",
            )
        takes = json.dumps(known.schema, ensure_ascii=False, indent=1)
        return ToolResult(fit_result(escape_tags(f"{known.description}\n\nIt takes: {takes}"), ctx))

    def _find_server(self, name: str) -> McpServer | None:
        return next((server for server in self.servers if name in {server.name, server.config.key}), None)

    def _make_tool(self, server: McpServer, full_name: str) -> AnyTool | None:
        known = server.find_tool(full_name)
        if not self._allowed(full_name) or (known is None and server.tools is not None):
            return None
        return ServerTool(server, full_name, known)


def _line(server: McpServer, in_prefix: frozenset[str], allowed: Callable[[str], bool]) -> str:
    if server.tools is None:
        return f"- {server.name}: has not listed its tools yet"
    rest = [tool.remote_name for tool in server.tools if tool.name not in in_prefix and allowed(tool.name)]
    return f"- {server.name}: {', '.join(rest)}" if rest else f"- {server.name}: all its tools are in your list"
