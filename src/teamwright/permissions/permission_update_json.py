"""Permission updates: the wire format of grants.

Offers are in `grant_offers`, bounds in `grant_bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.permissions.rules import parse_rule
from teamwright.permissions.verdict import Mode, PermissionUpdate, Verdict
from teamwright.protocol.errors import UsageError

DESTINATIONS = ("session", "localSettings", "projectSettings", "userSettings")
BEHAVIORS = tuple(str(verdict) for verdict in Verdict)

MAX_ENTRIES = 50
"""The most rules or directories in one update."""

MAX_TEXT = 4_000
"""The most characters of a rule or a path."""

_UNSUPPORTED_KINDS = frozenset({"replaceRules", "removeRules", "removeDirectories"})


def to_wire(update: PermissionUpdate) -> dict[str, Any]:
    """Return the update in wire format."""
    fields: dict[str, Any] = {"type": update.kind}
    if update.kind == "setMode":
        fields["mode"] = update.mode
    elif update.kind == "addDirectories":
        fields["directories"] = list(update.directories)
    else:
        fields["rules"] = [_rule_to_wire(text) for text in update.rules]
        fields["behavior"] = update.behavior
    return {**fields, "destination": update.destination}


def from_wire(value: object) -> PermissionUpdate:
    """Parse an update from the wire. Raises UsageError for an invalid or unsupported one."""
    if not isinstance(value, dict):
        raise _bad("a permission update is an object with a type")
    fields = cast("Mapping[str, Any]", value)
    kind, destination = fields.get("type"), fields.get("destination", "session")
    if kind in _UNSUPPORTED_KINDS:
        raise _bad(f"{kind} is not taken: an answer only adds, rules are taken away in a settings file")
    if destination not in DESTINATIONS:
        raise _bad(f"{_excerpt(destination)} is not a destination: {', '.join(DESTINATIONS)}")
    match kind:
        case "setMode":
            mode = fields.get("mode")
            if not isinstance(mode, str) or mode not in list(Mode):
                raise _bad(f"{_excerpt(mode)} is not a permission mode")
            return PermissionUpdate("setMode", mode=mode, destination=destination)
        case "addDirectories":
            return PermissionUpdate(
                "addDirectories", directories=_text_field(fields, "directories"), destination=destination
            )
        case "addRules":
            behavior = fields.get("behavior", "allow")
            if behavior not in BEHAVIORS:
                raise _bad(f"{_excerpt(behavior)} is not a behavior: {', '.join(BEHAVIORS)}")
            rules = tuple(_rule_from_wire(rule, Verdict(behavior)) for rule in _list_field(fields, "rules"))
            return PermissionUpdate("addRules", rules=rules, behavior=behavior, destination=destination)
        case _:
            raise _bad(f"{_excerpt(kind)} is not a kind of permission update: addRules, addDirectories, setMode")


def _rule_to_wire(text: str) -> dict[str, str]:
    tool, opened, rest = text.partition("(")
    return {"toolName": tool, "ruleContent": rest.removesuffix(")")} if opened else {"toolName": tool}


def _rule_from_wire(value: object, verdict: Verdict) -> str:
    """Parse a rule and return it in this program's syntax, so that no other text is passed on."""
    if isinstance(value, str):
        text = value
    else:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
        tool, content = fields.get("toolName"), fields.get("ruleContent")
        if not isinstance(tool, str) or not isinstance(content, str | None) or "(" in tool:
            raise _bad("a rule is an object with toolName and perhaps ruleContent")
        text = tool if content is None else f"{tool}({content})"
    if len(text) > MAX_TEXT:
        raise _bad(f"a rule has at most {MAX_TEXT} characters")
    return parse_rule(text, verdict, "a permission update", Path("/")).text


def _list_field(fields: Mapping[str, Any], key: str) -> list[object]:
    found = fields.get(key)
    if not isinstance(found, list) or not found:
        raise _bad(f"{key} is a list with at least one entry")
    entries = cast("list[object]", found)
    if len(entries) > MAX_ENTRIES:
        raise _bad(f"{key} has at most {MAX_ENTRIES} entries")
    return entries


def _text_field(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list_field(fields, key)
    if not all(isinstance(one, str) and 0 < len(one) <= MAX_TEXT and "\0" not in one for one in found):
        raise _bad(f"{key} is a list of paths")
    return tuple(str(one) for one in found)


def _excerpt(value: object) -> str:
    return repr(value)[:80]


def _bad(what: str) -> UsageError:
    return UsageError("usage", what, note="nothing was changed")
