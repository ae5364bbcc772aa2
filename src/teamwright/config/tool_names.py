"""The tools that a definition names: ours, those that only other products have, and parts of tools.

A granted part of a tool (`Bash(git log:*)`) is not granted at all, since the whole tool would be more; a denied part
becomes a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.agent.agent_type import LEAD_ONLY, OTHER_PRODUCTS_TOOLS, TEAMMATE_TOOLS
from teamwright.permissions.rules import parse_rule
from teamwright.permissions.verdict import Verdict
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest

KNOWN_TOOLS = frozenset(
    {
        *("Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep", "WebFetch", "WebSearch"),
        *("Agent", "AskUserQuestion", "ListAgents", "EnterPlanMode", "ExitPlanMode"),
        *("TaskOutput", "TaskStop", "Skill", "McpCall", "ToolSearch", "ListMcpResources", "ReadMcpResource"),
        *TEAMMATE_TOOLS,
        *LEAD_ONLY,
    }
)
"""The names of all our tools; a test compares them with the registered tools."""

_OTHER_NAMES = {
    "Task": "Agent",
    "ListMcpResourcesTool": "ListMcpResources",
    "ReadMcpResourceTool": "ReadMcpResource",
}


_ALWAYS_THERE = frozenset({"McpCall", "ToolSearch", "ListMcpResources", "ReadMcpResource"})
"""Tools that belong to MCP servers, which `--tools` does not concern."""


def tools_left_out(names: Sequence[str]) -> tuple[str, ...]:
    """Return the built-in tools besides these, as rules; `default` means all tools.

    Raises UsageError for a name that no tool has. Names of other products' tools give nothing.
    """
    if tuple(names) == ("default",):
        return ()
    own_names = {_OTHER_NAMES.get(name, name) for name in names}
    unknown = next(
        (name for name in sorted(own_names) if name not in KNOWN_TOOLS and name not in OTHER_PRODUCTS_TOOLS), None
    )
    if unknown is None:
        return tuple(sorted(KNOWN_TOOLS - own_names - _ALWAYS_THERE))
    near = nearest(unknown, KNOWN_TOOLS)
    raise UsageError(
        "usage",
        f"there is no tool {unknown[:60]!r}",
        looked_at=[("flag", "--tools"), ("tools", ", ".join(sorted(KNOWN_TOOLS)))],
        do=[f"did you mean {near}?"] if near else ["--tools Read,Bash"],
        note="nothing was started",
    )


class ToolSelection(Struct, frozen=True):
    """The selected tools. `only` None means all; `denied` are rules for parts of tools."""

    only: tuple[str, ...] | None
    without: tuple[str, ...]
    denied: tuple[str, ...]


def select_tools(only: Sequence[str] | None, without: Sequence[str], warn: Callable[[str, str], None]) -> ToolSelection:
    """Return the selection that a definition's two lists describe. Raises ValueError for a denial without effect."""
    selection: list[str] | None = None
    if only is not None and "*" not in only:
        selection = []
        for text in only:
            if "(" in text:
                what = (
                    f"{text[:60]} is left out: a definition gives whole tools, and {text.split('(')[0]} would be more"
                )
                warn("tools", what)
            else:
                selection.append(_known_tool(text, "tools", warn))
    whole = [_known_tool(text, "disallowedTools", warn) for text in without if "(" not in text]
    denied = [_rule(text) for text in without if "(" in text]
    return ToolSelection(None if selection is None else tuple(selection), tuple(whole), tuple(denied))


def _known_tool(text: str, field: str, warn: Callable[[str, str], None]) -> str:
    name = _OTHER_NAMES.get(text, text)
    if name in KNOWN_TOOLS or "*" in name or name.startswith(("mcp__", "python__")):
        return name
    instead = OTHER_PRODUCTS_TOOLS.get(name)
    if instead is None:
        near = nearest(name, KNOWN_TOOLS)
        instead = f"did you mean {near}?" if near else "it is not given"
    warn(field, f"there is no tool {name[:60]} here; {instead}")
    return name


def _rule(text: str) -> str:
    try:
        parse_rule(text, Verdict.DENY, "definition", Path("/"))
    except UsageError as problem:
        raise ValueError(f"disallowedTools: {problem.what}") from None
    return text
