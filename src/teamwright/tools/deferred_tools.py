"""Which tools of an agent its prefix names, and in which form. The others are deferred: ToolSearch finds them.

A prefix is paid for with every model call. The compact prompt, for small models and small windows, names the few tools
of `COMPACT_PARAMETERS`, with these parameters alone. A call may still have the others.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from teamwright import tools as tool_classes
from teamwright.agent.agent_type import LEAD_ONLY, join_names
from teamwright.agent.tool import AnyTool, tool_schema
from teamwright.protocol.messages import encode
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.built_in import BuiltInTool

SEARCH = "ToolSearch"

COMPACT_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "Bash": ("command", "timeout"),
    "Read": ("file_path", "offset", "limit"),
    "Edit": ("file_path", "old_string", "new_string"),
    "Write": ("file_path", "content"),
    "Grep": ("pattern", "path", "output_mode"),
    "Agent": ("description", "prompt", "name", "subagent_type"),
    "SendMessage": ("to", "message"),
    "TaskCreate": ("subject", "description", "blockedBy"),
    "TaskUpdate": ("taskId", "status"),
    "TaskGet": ("taskId",),
    "TaskList": (),
    SEARCH: ("query", "call", "arguments"),
}
"""The tools that the compact prompt names, and their parameters in it."""

LEAST_DEFERRED = 2
"""A single tool is not deferred: with `--tools` it is one that a person named."""

MAX_NAMES = 24
"""The number of deferred tools that the description of ToolSearch names."""


def offer_tools(tools: Sequence[AnyTool], *, compact: bool) -> list[AnyTool]:
    """Return an agent's tools for a new prefix, full or compact. They may come from another prefix of the agent.

    Nothing is deferred for an agent without ToolSearch, or where the prefix would not become shorter.
    """
    listed = [_listed(tool, compact=compact) for tool in tools if tool.name != SEARCH]
    at = next((n for n, tool in enumerate(tools) if tool.name == SEARCH), None)
    if at is None:
        return listed
    names = [tool.name for tool in listed if tool.is_offered and _is_deferrable(tool, compact=compact)]
    served = [found.name for tool in listed for found in tool.unlisted_tools()]
    offered = [_with_deferral(tool, is_deferred=tool.name in names) for tool in listed]
    search = _listed(_search(offered, [*names, *served]), compact=compact)
    saved = sum(_size(tool) for tool in offered if tool.is_deferred)
    if not served and (len(names) < LEAST_DEFERRED or saved < _size(search)):
        offered = listed
        search = BuiltInTool(SEARCH, lambda: tool_classes.ToolSearch(listed), is_offered=False)
    return [*offered[:at], search, *offered[at:]]


def no_tool_search() -> AnyTool:
    """Return the place of ToolSearch in a list of tools before `offer_tools`."""
    return BuiltInTool(SEARCH, lambda: tool_classes.ToolSearch(), is_offered=False)


def _is_deferrable(tool: AnyTool, *, compact: bool) -> bool:
    if not compact:
        return tool.is_rare
    # Functions of the program are the reason why it runs an agent.
    return tool.name not in COMPACT_PARAMETERS and not tool.name.startswith("python__")


def _listed(tool: AnyTool, *, compact: bool) -> AnyTool:
    """Return the tool as a prefix names it."""
    if isinstance(tool, BuiltInTool):
        tool = tool.with_parameters(COMPACT_PARAMETERS.get(tool.name) if compact else None)
    return _with_deferral(tool, is_deferred=False)


def _with_deferral(tool: AnyTool, *, is_deferred: bool) -> AnyTool:
    """Return the tool, or a copy: agents with other prefixes share it."""
    if tool.is_deferred == is_deferred:
        return tool
    other = copy.copy(tool)
    other.is_deferred = is_deferred
    return other


def _search(tools: Sequence[AnyTool], names: Sequence[str]) -> AnyTool:
    # Without the lead's own tools the text is that of its teammates, and a service reads it once for all of them.
    shared = [name for name in names if name not in LEAD_ONLY]
    left_out = f"Left out: {escape_tags(join_names(shared, MAX_NAMES))}."
    return BuiltInTool(SEARCH, lambda: tool_classes.ToolSearch(tools), more_text=left_out, compact_text=left_out)


def _size(tool: AnyTool) -> int:
    return len(encode(tool_schema(tool)))
