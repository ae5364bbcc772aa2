"""The reader of a team definition: strict TOML, every error with its line.

An unknown key is an error, not a warning: a misspelt guardrail would guard nothing. Trust is applied elsewhere. The
parser of the standard library reports no positions for valid text, so the text is scanned line by line for them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.agent.agent_type import built_in_types
from teamwright.config.team_definition import CHECKS, EXPECTED, ROLE, TEAM, TOPS, KeyKind, Role, TeamDefinition
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.models.effort import LEVELS, parse_effort
from teamwright.protocol.budget import CAP_NAMES, Budget
from teamwright.protocol.errors import CannotStart, InvalidName, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, member_name, nearest
from teamwright.sandbox.policy import parse_bounds
from teamwright.storage.read_bounded import read_plain

FILE = Path(".teamwright") / "team.toml"
"""The path of the team definition in a repository."""

MAX_BYTES = 1_000_000
_ROLES_MOST = 64
_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def read_definition(path: Path) -> TeamDefinition | None:
    """Return the definition in the file, None when there is none. Raises CannotStart (`bad-settings`) with file and
    line.
    """
    try:
        content = read_plain(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise _bad(path, problem.strerror or "it cannot be opened") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise _bad(path, "it is not UTF-8", content.count(b"\n", 0, problem.start) + 1) from None
    return parse_definition(text, path)


def parse_definition(text: str, path: Path) -> TeamDefinition:
    """Return the definition in this text. Raises CannotStart (`bad-settings`) with file and line."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        line = _LINE.search(str(problem))
        raise _bad(path, _LINE.sub("", str(problem)), int(line[1]) if line else 0) from None
    except RecursionError:
        raise _bad(path, "it is nested too deeply") from None
    reader = _TeamFileReader(path, text)
    reader.known(raw, TOPS, ())
    team = reader.table(raw, "team", ())
    values = reader.values(team, TEAM, ("team",))
    checks = reader.values(reader.table(raw, "checks", ()), CHECKS, ("checks",))
    roles = reader.roles(reader.table(raw, "roles", ()))
    return TeamDefinition(file=str(path), roles=roles, integration_check=checks.get("integration"), **values)


class _TeamFileReader(Struct, frozen=True):
    """The text of one file, for errors that name a line of it."""

    path: Path
    text: str

    def roles(self, raw: Mapping[str, Any]) -> dict[str, Role]:
        if len(raw) > _ROLES_MOST:
            raise self.wrong(("roles",), f"there are {len(raw)} roles, and at most {_ROLES_MOST} can be")
        found: dict[str, Role] = {}
        for name in raw:
            where = ("roles", name)
            self.role_name(name, where, found)
            values = self.values(self.table(raw, name, ("roles",)), ROLE, where)
            kind = values.get("type", "general-purpose")
            if kind not in built_in_types():
                near = nearest(kind, built_in_types())
                known = f"there is no agent type {kind!r} (types: {', '.join(built_in_types())})"
                raise self.wrong((*where, "type"), known, near)
            for key in ("tools", "disallowed_tools"):
                self.tools(values.get(key) or (), (*where, key))
            found[name] = Role(name=name, line=line_of(self.text, where), **values)
        return found

    def tools(self, names: Sequence[str], where: Sequence[str]) -> None:
        """Check the names of tools: a misspelt tool would not be removed, and a part of a tool is not a tool."""
        for name in names:
            if "(" in name:
                raise self.wrong(where, f"{name[:60]!r} is a rule, and whole tools are named here")
            if name not in KNOWN_TOOLS and "*" not in name and not name.startswith(("mcp__", "python__")):
                raise self.wrong(where, f"there is no tool {name[:60]!r}", nearest(name, KNOWN_TOOLS))

    def role_name(self, name: str, where: Sequence[str], found: Mapping[str, Role]) -> None:
        if name.lower() in {LEAD, LEAD_ALIAS}:
            raise self.wrong(where, "the lead is not a role: settings for all members belong into [team]")
        try:
            member_name(name)
        except InvalidName as problem:
            raise self.wrong(where, problem.what) from None
        if name.lower() in {kind.lower() for kind in built_in_types()}:
            raise self.wrong(where, f"{name} is the name of an agent type already")
        if any(name.lower() == other.lower() for other in found):
            raise self.wrong(where, f"the role {name} is defined twice")

    def table(self, raw: Mapping[str, Any], name: str, above: Sequence[str]) -> Mapping[str, Any]:
        value = raw.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong((*above, name), f"{name} must be a table: [{'.'.join((*above, name))}]")
        return cast("dict[str, Any]", value)

    def known(self, raw: Mapping[str, Any], keys: Sequence[str], where: Sequence[str]) -> None:
        for name in raw:
            if name not in keys:
                near, known = nearest(name, keys), f"{name[:60]!r} is not known here"
                raise self.wrong((*where, name), known if near else f"{known} (keys: {', '.join(keys)})", near)

    def values(self, raw: Mapping[str, Any], kinds: Mapping[str, KeyKind], where: Sequence[str]) -> dict[str, Any]:
        self.known(raw, tuple(kinds), where)
        return {name: self.value(value, kinds[name], (*where, name)) for name, value in raw.items()}

    def value(self, value: Any, kind: KeyKind, where: Sequence[str]) -> Any:
        if kind.kind == "budget":
            return self.budget(value, where)
        if kind.kind == "effort":
            with suppress(ValueError):
                return parse_effort(value)
            raise self.wrong(where, f"{where[-1]} must be {EXPECTED['effort']}", nearest(str(value), LEVELS))
        if kind.kind == "sandbox":
            try:
                return parse_bounds(value)
            except ValueError as problem:
                raise self.wrong(where, f"{where[-1]} must be {problem}") from None
        if kind.kind == "word":
            if value not in kind.words:
                near = nearest(str(value), kind.words)
                raise self.wrong(where, f"{where[-1]} must be one of {', '.join(kind.words)}", near)
            return value
        if not _fits(kind.kind, value):
            raise self.wrong(where, f"{where[-1]} must be {EXPECTED[kind.kind]}")
        return tuple(cast("list[str]", value)) if isinstance(value, list) else value

    def budget(self, value: Any, where: Sequence[str]) -> Budget:
        if not isinstance(value, dict):
            raise self.wrong(where, f"{where[-1]} must be {EXPECTED['budget']}, such as {{ tokens = 400_000 }}")
        fields = cast("dict[str, Any]", value)
        self.known(fields, CAP_NAMES, where)
        try:
            return Budget.from_json(fields)
        except UsageError as problem:
            raise self.wrong(where, problem.what) from None

    def wrong(self, where: Sequence[str], what: str, near: str | None = None) -> CannotStart:
        return _bad(self.path, what, line_of(self.text, where), ".".join(where), near)


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "text":
            return isinstance(value, str) and bool(value.strip())
        case "bool":
            return isinstance(value, bool)
        case "count":
            return isinstance(value, int) and not isinstance(value, bool) and value >= 1
        case "texts":
            return isinstance(value, list) and all(isinstance(part, str) for part in cast("list[Any]", value))
        case _:
            return isinstance(value, list) and all(_is_pattern(part) for part in cast("list[Any]", value))


def _is_pattern(value: Any) -> bool:
    """Return True for a pattern below the repository: ownership of other paths cannot be granted."""
    if not isinstance(value, str) or not value.strip("/. ") or "\n" in value or "\0" in value:
        return False
    return not value.startswith(("/", "~")) and ".." not in value.split("/")


def _bad(path: Path, what: str, line: int = 0, key: str = "", near: str | None = None) -> CannotStart:
    at = f"line {line}" + (f", {key}" if key else "") if line else ""
    do = [f"did you mean {near}?"] if near else ["correct the file, or move it away"]
    looked_at = [("file", str(path)), *([("at", at)] if at else [])]
    return CannotStart("bad-settings", f"the team file cannot be used: {what}", looked_at=looked_at, do=do)


_HEADER = re.compile(r"^\s*\[\[?\s*(?P<name>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*(?P<name>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(?P<value>.*)$"""
)
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LONG = re.compile(r"'''|\"\"\"")


def line_of(text: str, keys: Sequence[str]) -> int:
    """Return the line, from 1 on, of the key at this path; else of the nearest parent that is found, else 1.

    `keys` is the path from the top of the file (`["roles", "tester", "model"]`).
    """
    best, depth = 1, 0
    for number, path in _places(text):
        shared = _shared(path, keys)
        if shared > depth and shared == len(path):
            best, depth = number, shared
    return best


def _places(text: str) -> list[tuple[int, list[str]]]:
    """Return every header and key with its line; the content of long strings is skipped."""
    found: list[tuple[int, list[str]]] = []
    table: list[str] = []
    closing = ""
    for number, line in enumerate(text.split("\n"), 1):
        if closing:
            closing = "" if closing in line else closing
            continue
        header = _HEADER.match(line)
        if header is not None:
            table = _parts(header["name"])
            found.append((number, table))
            continue
        key = _KEY.match(line)
        if key is None:
            continue
        path = [*table, *_parts(key["name"])]
        found.append((number, path))
        value = key["value"]
        found += [(number, [*path, inner]) for inner in _inner(value)]
        opened = _LONG.search(value)
        if opened is not None and value.count(opened[0]) == 1:
            closing = opened[0]
    return found


def _inner(value: str) -> list[str]:
    """Return the keys of an inline table on the line."""
    return re.findall(r"[{,]\s*([\w-]+)\s*=", value) if value.lstrip().startswith("{") else []


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]


def _shared(path: Sequence[str], keys: Sequence[str]) -> int:
    count = 0
    for one, other in zip(path, keys, strict=False):
        if one != other:
            break
        count += 1
    return count
