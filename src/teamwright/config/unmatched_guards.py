"""Guards that never run: a hook or a rule whose tool name, matcher or condition fits no name that can come.

A guard that sleeps is worse than none, because a person relies on it: `check` and the start of a session name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from teamwright.agent.agent_type import OTHER_PRODUCTS_TOOLS
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.hooks.hook_definitions import (
    EVENTS,
    POST_COMPACT,
    PRE_COMPACT,
    SESSION_END,
    SESSION_START,
    SETUP,
    HookSpec,
    compile_matcher,
    matcher_names,
)
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Verdict
from teamwright.protocol.ids import is_typo, nearest

TOOL_ALIASES = frozenset({"Task", "KillShell"})
"""Names under which hooks and rules know a tool, besides its own; a test compares them with the registered tools."""

_TOOLS = KNOWN_TOOLS | TOOL_ALIASES

_RULE_NAMES = _TOOLS | OTHER_PRODUCTS_TOOLS.keys() | {"Unconfined"}

_OPEN = ("mcp__", "python__")
"""The beginnings of names of tools that servers and programs add."""

_NAMES: Mapping[str, frozenset[str]] = {
    SESSION_START: frozenset({"startup", "resume", "clear", "compact"}),
    SESSION_END: frozenset({"clear", "logout", "prompt_input_exit", "other"}),
    PRE_COMPACT: frozenset({"manual", "auto"}),
    POST_COMPACT: frozenset({"manual", "auto"}),
    SETUP: frozenset({"init", "maintenance"}),
}
"""The names that a matcher of these events can match. Events of tools have the tools; other events have any names."""

_IN_NO_NAME = frozenset(" ;/&'\"`@%~")
"""Signs that no tool's name has, and that mean nothing else in an expression."""

_RULE = re.compile(r"\s*([A-Za-z_]\w*)\s*\(.*\)\s*", re.DOTALL)


def find_dead_hook(hook: HookSpec) -> str:
    """Return why this hook, or a name of its matcher, can never apply; empty when all of it can."""
    names = _TOOLS if EVENTS[hook.event] == "tool_name" else _NAMES.get(hook.event)
    if names is None:
        return ""
    whose = "tool" if names is _TOOLS else f"{EVENTS[hook.event]} of {hook.event}"
    listed = matcher_names(hook.matcher)
    why = _dead_expression(hook.matcher, names, whose) if listed is None else _dead_names(listed, names, whose)
    if not why and (tool := hook.condition.partition("(")[0]) and not tool.endswith("*"):
        why = _dead_names([tool], names, "tool")
        return f"its `if` {hook.condition[:60]!r} {why}" if why else ""
    return f"its matcher {hook.matcher[:60]!r} {why}" if why else ""


def find_dead_rule(rule: Rule) -> str:
    """Return why a rule that asks or denies can never apply; empty for any other rule."""
    if rule.verdict is Verdict.ALLOW or rule.tool in _RULE_NAMES or rule.tool.startswith(_OPEN):
        return ""
    near = nearest(rule.tool, _TOOLS)
    return f"no tool is named {rule.tool[:40]!r}" + (f"; did you mean {near}?" if near else "")


def _dead_names(listed: Iterable[str], names: frozenset[str], whose: str) -> str:
    """Return why a list of names never applies, or that one of them is misspelt."""
    unknown = [name for name in listed if name not in names and not (whose == "tool" and name.startswith(_OPEN))]
    near = {name: next((one for one in sorted(names) if is_typo(name, one)), None) for name in unknown}
    hints = [f"did you mean {found}?" for found in near.values() if found]
    hint = "; ".join([*hints, *(OTHER_PRODUCTS_TOOLS[one] for one in unknown if one in OTHER_PRODUCTS_TOOLS)])
    if unknown == list(listed):
        return f"fits no {whose}: the hook never runs" + (f"; {hint}" if hint else "")
    misspelt = [name for name, found in near.items() if found and name not in OTHER_PRODUCTS_TOOLS]
    return f"has {', '.join(map(repr, misspelt))}, which fits no {whose}; {'; '.join(hints)}" if misspelt else ""


def _dead_expression(text: str, names: frozenset[str], whose: str) -> str:
    """Return why an expression never applies. Names of servers' tools are open: only what no name can have is dead."""
    fits = compile_matcher(text)
    if any(map(fits, names)):
        return ""
    if names is not _TOOLS:
        return f"fits no {whose}: the hook never runs"
    if (rule := _RULE.fullmatch(text)) is not None and not rule[1].startswith(_OPEN):
        tool = next((one for one in sorted(_TOOLS) if is_typo(rule[1], one)), rule[1])
        return f'fits no tool: the hook never runs. Write "matcher": "{tool}" and "if": "{tool}(…)"'
    near = next((one for one in sorted(names) if re.search(text, one, re.IGNORECASE)), None)
    if near and not any(one in text for one in _OPEN):
        return f"fits no tool of this program; did you mean {near}?"
    parts = [next((sign for sign in part if sign in _IN_NO_NAME), "") for part in text.split("|")]
    if not all(parts):
        return ""
    sign = "a blank" if parts[0] == " " else repr(parts[0])
    meant = "|".join(name for name in re.findall(r"\w+", text) if name in names)
    hint = f'; write "{meant}"' if meant else ""
    return f"fits no tool: the hook never runs, because no tool's name has {sign}{hint}"
