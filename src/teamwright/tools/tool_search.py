"""The ToolSearch tool: finds the tools that an agent has but its prefix does not name, and calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic import Field

from teamwright.agent.agent_type import join_names
from teamwright.agent.tool import AnyTool, Tool, ToolContext, ToolResult, tool_schema
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.ids import nearest
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result

USUAL_RESULTS = 5
MAX_RESULTS = 20

_WORD = re.compile(r"[a-z0-9]+")


class ToolSearchInput(ToolInput):
    """Parameters of ToolSearch."""

    query: str = Field("", description="Words about the job, or select:NAME,NAME.")
    max_results: int | None = None
    call: str = ""
    arguments: dict[str, Any] | None = None


class ToolSearch(Tool[ToolSearchInput]):
    """The ToolSearch tool of one agent. `tools` are all its others; some give access to more, such as McpCall.

    It finds those that its prefix leaves out. It calls each of them: the prefix of a resumed conversation may leave out
    others.
    """

    name = "ToolSearch"
    input_type = ToolSearchInput

    def __init__(self, tools: Sequence[AnyTool] = ()) -> None:
        self._tools = tuple(tools)

    def is_read_only(self, call: ToolSearchInput) -> bool:
        """Return True: this tool itself only lists."""
        return True

    def summary(self, call: ToolSearchInput) -> str:
        """Return the query, or the tool that is called."""
        return " ".join((call.query or call.call).split())[:100]

    def target_call(self, call: ToolSearchInput) -> tuple[AnyTool, Mapping[str, Any]] | None:
        """Return the tool that is called; None for a search."""
        found = self._find(call.call)
        return None if found is None else (found.load(), call.arguments or {})

    async def run(self, call: ToolSearchInput, ctx: ToolContext) -> ToolResult:
        """Return the best matches, each with its description and its schema."""
        offered = [tool for tool in self._tools if tool.is_offered]
        tools = self._left_out() or offered
        names = [tool.name for tool in tools]
        if call.call:
            close = nearest(call.call, names)
            hint = f"Did you mean {close}? " if close else ""
            return ToolResult.error(
                f"ToolSearch calls no tool {call.call[:60]!r}.",
                f"{hint}It calls: {escape_tags(join_names(names, 40))}.",
            )
        most = max(1, min(call.max_results or USUAL_RESULTS, MAX_RESULTS))
        found = search_tools(tools, call.query, most) or search_tools(offered, call.query, most)
        if not found:
            listed = escape_tags(join_names(names, 40))
            return ToolResult(f"None of {len(tools)} tools matches. Use other words. There are: {listed}.")
        parts = [
            f"{tool.name}\n{tool.description}\nIt takes: "
            f"{json.dumps(tool_schema(tool)['input_schema'], ensure_ascii=False)}"
            for tool in found
        ]
        text = escape_tags("\n\n".join(parts))
        return ToolResult(fit_result(text, ctx), brief=f"{len(found)} of {len(tools)} tools")

    def _left_out(self) -> list[AnyTool]:
        """Return the tools that a new prefix leaves out."""
        own = [tool for tool in self._tools if tool.is_deferred]
        return [*own, *(served for tool in self._tools for served in tool.unlisted_tools())]

    def _find(self, name: str) -> AnyTool | None:
        """Return the tool of that name; also one whose server has not listed its tools yet."""
        if not name:
            return None
        own = (tool for tool in self._tools if tool.name == name)
        served = (found for tool in self._tools if (found := tool.find_unlisted(name)) is not None)
        return next(own, None) or next(served, None)


def search_tools(tools: Iterable[AnyTool], query: str, most: int) -> list[AnyTool]:
    """Return the tools that match a query best, the best first. `select:NAME,NAME` names tools exactly.

    A word counts most in the name of a tool, less in its description and its parameters.
    """
    every = list(tools)
    if query.lower().startswith("select:"):
        names = [name.strip() for name in query.partition(":")[2].split(",")]
        return [tool for name in names for tool in every if name in {tool.name, _short_name(tool)}][:most]
    words = [word for word in _WORD.findall(query.lower()) if len(word) > 1]
    scored = [(sum(_score(tool, word) for word in words), -at) for at, tool in enumerate(every)]
    best = sorted((one for one in scored if one[0] > 0), reverse=True)[:most]
    return [every[-at] for _, at in best]


def _short_name(tool: AnyTool) -> str:
    """Return the name of a tool as its server calls it."""
    return tool.name.split("__", 2)[-1]


def _score(tool: AnyTool, word: str) -> int:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", tool.name).lower()
    stem = word.rstrip("s")
    parts = [part.rstrip("s") for part in _WORD.findall(name)]
    score = 6 if stem in parts else 3 if stem in name else 0
    schema = cast("Mapping[str, Any]", tool.schema or {})
    text = f"{tool.description} {' '.join(schema.get('properties') or {})}".lower()
    return score + (1 if stem in text else 0)
