"""A tool of a server as a tool of ours: the server's schema, rules by its name, a call through the shared server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.mcp.listing import ServedTool
from teamwright.mcp.server import Server
from teamwright.mcp.trouble import Refused, ServerTrouble, plain_line
from teamwright.permissions.verdict import Access
from teamwright.protocol.envelope import harmless
from teamwright.tools.fitting import fitting
from teamwright.tools.mcp.content import result_of

_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


class Arguments(ToolInput):
    """Whatever the server's schema says; the server checks it."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class Served(Tool[Arguments]):
    """One tool of one server. `tool` is None where the server has not told its list yet: then the call finds it."""

    input_type = Arguments

    def __init__(self, server: Server, name: str, tool: ServedTool | None) -> None:
        self._server = server
        self._tool = tool
        self._access = Access()
        self.name = name
        self.schema = _ANYTHING if tool is None else tool.schema

    @property
    def description(self) -> str:
        """What the server says of it."""
        return harmless(self._tool.description) if self._tool is not None else ""

    def summary(self, call: Arguments) -> str:
        """Server, tool, and the arguments in short."""
        wire = self._tool.wire if self._tool is not None else self.name.rpartition("__")[2]
        return plain_line(f"{self._server.name}: {wire} {_json(call)}", 200)

    def preview(self, call: Arguments, ctx: ToolContext) -> str:
        """The whole call, and what answers it."""
        return f"{self.summary(call)}\nserver {self._server.config.shown}\n{_json(call, indent=2)}"

    def access(self, call: Arguments, ctx: ToolContext) -> Access:
        """Nobody knows what it touches, whatever the server says of it: rules about its name decide, else the mode."""
        return self._access

    async def run(self, call: Arguments, ctx: ToolContext) -> ToolResult:
        """Call it; the server is started if it does not run."""
        name = self._server.name
        try:
            tool = self._tool or await self._found()
            if tool is None:
                return ToolResult.error(f'The server "{name}" has no tool {self.name}.', self._has())
            return result_of(await self._server.call(tool.wire, call.model_extra or {}), ctx)
        except Refused as problem:
            said = harmless(self._server.config.masked(problem.said))
            return ToolResult.error(fitting(f'The server "{name}" refused the call: {said}', ctx), self._takes())
        except ServerTrouble as problem:
            what = harmless(self._server.config.masked(problem.what))
            return ToolResult.error(f'The server "{name}" {what}.', _next(self._server, problem))

    async def _found(self) -> ServedTool | None:
        await self._server.ready()
        return self._server.find(self.name)

    def _has(self) -> str:
        names = [tool.wire for tool in self._server.tools or ()]
        return f"It has: {', '.join(names[:40])}." if names else "It has no tools."

    def _takes(self) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"It takes: {schema}" if len(schema) < 4_000 else "Look at what its description says it takes."


def _next(server: Server, problem: ServerTrouble) -> str:
    if not problem.dead:
        return "It is not known whether the call had an effect: check before you repeat it."
    if server.begin_again:
        return "If the call was underway, look what it did. The server is started again by your next call."
    return "Go on without it, and say so in your answer."


def _json(call: Arguments, indent: int | None = None) -> str:
    return json.dumps(call.model_extra or {}, ensure_ascii=False, indent=indent, default=str)
