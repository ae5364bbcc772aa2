"""The team definition of a repository: its values, its strict reader, and its effect on agents.

The effect: agent types, specs with a role's values, path ownership, text for the lead. Restrictions apply at once; any
other part of a repository's file applies once a person trusted exactly this part. An unknown key is an error with its
line, not a warning: a misspelt guardrail would guard nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType, built_in_types
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import LEVELS, Effort, parse_effort
from teamwright.permissions.decision_context import OwnedPaths, PathOwnership
from teamwright.permissions.rules import PathPattern
from teamwright.protocol.errors import CannotStart, InvalidName, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, member_name, nearest
from teamwright.protocol.task import Reviewer
from teamwright.protocol.usage import CAP_NAMES, NO_CAPS, Budget
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings, parse_bounds
from teamwright.storage.files import read_plain
from teamwright.team_records.spawn_spec import SpawnSpec

DEFAULT_TYPE = "general-purpose"


class Role(Struct, frozen=True):
    """One role, whose limits apply to each member of it; `line` is its first line in the file.

    `type` is the agent type that it builds on; `model`, `effort`, `mode` None mean those of the spawn call; `owns` are
    path patterns that only its members may change; `writes` the only other paths that it may change (None: all unowned
    paths). `command` names the command of the user's settings that runs its teammates; `isolation` says
    whether each has a worktree.
    """

    name: str
    description: str = ""
    type: str = DEFAULT_TYPE
    model: str | None = None
    effort: Effort | None = None
    mode: str | None = None
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    max_turns: int | None = None
    budget: Budget = NO_CAPS
    command: str = ""
    isolation: str | None = None
    sandbox: SandboxSettings = UNBOUNDED
    line: int = 1


class TeamDefinition(Struct, frozen=True):
    """A whole file. `budget` caps the run, `check` must pass before a task is completed; None when not given.

    `effort` is the reasoning effort of started agents for which neither call nor definition gives one. `plans` names
    the approver of plans, `permissions` the approver of teammates' permission requests besides the person. `setup`
    prepares each new worktree; `integration_check` must pass on each merge of finished work; `isolation` applies to all
    members whose role names none. `review` is the least review of every task. `strict`: changes that only a person
    may allow, by path ownership, are denied.
    """

    file: str = ""
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    check: str | None = None
    plans: str | None = None
    permissions: str | None = None
    setup: str | None = None
    integration_check: str | None = None
    isolation: str | None = None
    review: str | None = None
    strict: bool = False
    members: int | None = None
    effort: Effort | None = None
    budget: Budget = NO_CAPS
    sandbox: SandboxSettings = UNBOUNDED

    def role(self, name: str) -> Role | None:
        """Return the role of that name, without regard to case."""
        lower = name.lower()
        return next((role for key, role in self.roles.items() if key.lower() == lower), None)


class KeyKind(Struct, frozen=True):
    """The type of a key: `text`, `texts`, `count`, `number`, `bool`, `effort`, `budget`, `sandbox`, or one of `words`.

    `meaning` is its text in the reference.
    """

    kind: str
    words: tuple[str, ...] = ()
    meaning: str = ""


_MODES = ("default", "acceptEdits", "plan", "delegate", "dontAsk")

TEAM: dict[str, KeyKind] = {
    "check": KeyKind("text", meaning="A command; a task is completed only when it ends with 0."),
    "plans": KeyKind("word", ("lead", "human", "auto"), meaning="The approver of plans."),
    "permissions": KeyKind(
        "word", ("human", "lead"), meaning="`lead`: the lead may answer permission requests of teammates."
    ),
    "setup": KeyKind("text", meaning="A command that prepares each new worktree."),
    "isolation": KeyKind(
        "word", ("worktree", "none"), meaning="`worktree` or `none`, for each member whose role has none."
    ),
    "review": KeyKind(
        "word", tuple(Reviewer), meaning="`member`, `lead` or `human`: the least review of every new task."
    ),
    "strict": KeyKind(
        "bool",
        meaning="`true`: changes of paths that `owns`, `writes` or a task in progress excludes are denied, not asked.",
    ),
    "members": KeyKind(
        "count", meaning="The most teammates at one time; the smaller of this and your settings counts."
    ),
    "effort": KeyKind("effort", meaning="Effort of agents whose call and definition name none."),
    "budget": KeyKind(
        "budget", meaning="Caps on a run: `usd`, `tokens`, `minutes`, `turns`; the smaller of this and yours counts."
    ),
    "sandbox": KeyKind("sandbox", meaning="Bounds of all commands."),
}
"""The keys of `[team]`."""

ROLE: dict[str, KeyKind] = {
    "description": KeyKind("text", meaning="One line for the lead."),
    "type": KeyKind(
        "text", meaning="The agent type that the role extends: `general-purpose`, `Explore`, `Plan`, `Bash`."
    ),
    "model": KeyKind("text", meaning="Used if the spawn names none."),
    "effort": KeyKind("effort", meaning="Used if the spawn names none."),
    "mode": KeyKind("word", _MODES, meaning="Used if the spawn names none."),
    "prompt": KeyKind("text", meaning="Added to the member's system prompt."),
    "tools": KeyKind("texts", meaning="The only tools besides mail and tasks, by their whole names."),
    "disallowed_tools": KeyKind(
        "texts", meaning="Tools that the member does not have; rules such as `Bash(git push:*)` belong in settings."
    ),
    "owns": KeyKind("paths", meaning="Paths that other members change only when a person allows it."),
    "writes": KeyKind("paths", meaning="The only other paths that a member changes without asking; `[]`: none."),
    "max_turns": KeyKind("count", meaning="The cap on model calls; the smaller of this and the spawn's counts."),
    "budget": KeyKind("budget", meaning="Caps of each member of the role."),
    "command": KeyKind("text", meaning="The name of a command in your settings that runs its teammates."),
    "isolation": KeyKind("word", ("worktree", "none"), meaning="`worktree` or `none`."),
    "sandbox": KeyKind("sandbox", meaning="Bounds of the commands of its members."),
}
"""The keys of `[roles.NAME]`."""

CHECKS: dict[str, KeyKind] = {
    "integration": KeyKind("text", meaning="A command that must pass on each merge of finished work.")
}
"""The keys of `[checks]`, which all need trust."""

TOPS = ("team", "checks", "roles")

EXPECTED = {
    "text": "a text",
    "texts": "a list of texts",
    "paths": "a list of path patterns below the repository (no leading /, no ..)",
    "count": "a whole number from 1 on",
    "bool": "true or false",
    "number": "a number above 0",
    "effort": EFFORTS,
    "budget": "a table of caps",
}
"""The name of each type in an error."""


TEAM_NEEDS_TRUST = frozenset({"check", "setup", "plans", "permissions", "effort"})
ROLE_NEEDS_TRUST = frozenset({"description", "type", "model", "effort", "mode", "prompt", "tools", "command"})
"""Keys that take effect once a person trusted exactly this entry."""


def widening_of_role(role: Role) -> dict[str, Any]:
    """Return the parts of a role that need trust: prompts, model and granted permissions of its agents."""
    parts = {key: getattr(role, key) for key in ROLE if key in ROLE_NEEDS_TRUST}
    plain = Role(role.name)
    return {key: value for key, value in parts.items() if value != getattr(plain, key)}


def widening_of_team(definition: TeamDefinition) -> dict[str, Any]:
    """Return the parts of `[team]` and `[checks]` that need trust: commands to run, the approver in a person's place,
    and the effort of its agents.
    """
    parts = {key: getattr(definition, key) for key in TEAM if key in TEAM_NEEDS_TRUST}
    parts["checks.integration"] = definition.integration_check
    return {key: value for key, value in parts.items() if value is not None}


def trusted_definition(definition: TeamDefinition, allows: Callable[[str, Mapping[str, Any]], bool]) -> TeamDefinition:
    """Return the definition reduced to its usable parts. `allows` tells whether `team` or a role was trusted in this
    form.
    """
    roles = {name: role if _trusted(role, allows) else _narrowed(role) for name, role in definition.roles.items()}
    parts = widening_of_team(definition)
    if parts and not allows("team", parts):
        commands = {"check": None, "setup": None, "integration_check": None}
        return replace(definition, roles=roles, plans=None, permissions=None, effort=None, **commands)
    return replace(definition, roles=roles)


def _trusted(role: Role, allows: Callable[[str, Mapping[str, Any]], bool]) -> bool:
    parts = widening_of_role(role)
    return not parts or allows(role.name, parts)


def _narrowed(role: Role) -> Role:
    """Return the parts of an untrusted role that apply: its name and its restrictions."""
    return Role(
        role.name,
        disallowed_tools=role.disallowed_tools,
        owns=role.owns,
        writes=role.writes,
        isolation=role.isolation,
        max_turns=role.max_turns,
        budget=role.budget,
        sandbox=role.sandbox,
        line=role.line,
    )


def role_definitions(definition: TeamDefinition | None) -> list[AgentType]:
    """Return the roles as agent types."""
    return [_kind(role, definition.file) for role in definition.roles.values()] if definition is not None else []


def _kind(role: Role, file: str) -> AgentType:
    base = built_in_types()[role.type]
    tools = base.tools if role.tools is None else role.tools
    if base.tools is not None and role.tools is not None:
        tools = tuple(tool for tool in role.tools if tool in base.tools)
    return replace(
        base,
        name=role.name,
        description=role.description or base.description,
        prompt="\n\n".join(part for part in (base.prompt, role.prompt.strip()) if part),
        tools=tools,
        disallowed_tools=(*base.disallowed_tools, *role.disallowed_tools),
        model=role.model or base.model,
        effort=role.effort,
        max_turns=role.max_turns or base.max_turns,
        sandbox=role.sandbox,
        source="team file",
        file=f"{file}:{role.line}",
        role=True,
    )


def with_role(spec: SpawnSpec, definition: TeamDefinition | None) -> SpawnSpec:
    """Return the spec with the values of its role: the role named as its type, else the one with the member's name."""
    if definition is None:
        return spec
    role = definition.role(spec.agent_type)
    if role is None and spec.agent_type == DEFAULT_TYPE:
        role = definition.role(spec.name)
    if role is None:
        return replace(spec, isolation=spec.isolation or _team_isolation(spec, definition))
    planned = role.mode == "plan" and spec.mode is None
    return replace(
        spec,
        agent_type=role.name,
        model=spec.model or role.model,
        mode=spec.mode or role.mode,
        plan_mode_required=spec.plan_mode_required or planned,
        max_turns=_least(spec.max_turns, role.max_turns),
        budget=spec.budget.smaller_caps(role.budget),
        command=spec.command or role.command,
        isolation=spec.isolation or role.isolation or _team_isolation(spec, definition),
    )


def _team_isolation(spec: SpawnSpec, definition: TeamDefinition) -> str | None:
    """Return the isolation of all members: sub-agents without a role work where their caller does."""
    return definition.isolation if spec.name else None


def _least(one: int | None, other: int | None) -> int | None:
    return min((cap for cap in (one, other) if cap is not None), default=None)


def ownership_of(definition: TeamDefinition | None, kind: str, base: Path) -> PathOwnership | None:
    """Return the paths that an agent of this type may not change; None when no path is owned by others."""
    if definition is None:
        return None
    role = definition.role(kind)
    owned = tuple(
        OwnedPaths.parse(other.name, pattern, f"{definition.file}:{other.line}", base)
        for other in definition.roles.values()
        if role is None or other.name != role.name
        for pattern in other.owns
    )
    only: tuple[PathPattern, ...] | None = None
    if role is not None and role.writes is not None:
        only = tuple(PathPattern.parse(pattern, base, False) for pattern in (*role.writes, *role.owns))
    if not owned and only is None:
        return None
    source = f"{definition.file}:{role.line}" if role is not None else definition.file
    return PathOwnership(owned, only, role.name if role is not None else "", source, definition.strict)


def ownership_of_tasks(
    definition: TeamDefinition | None, writes: Mapping[str, Sequence[str]], base: Path
) -> PathOwnership | None:
    """Return the paths that the owner of these tasks in progress may change, by their numbers; None without one."""
    if not writes:
        return None
    patterns = tuple(PathPattern.parse(pattern, base, False) for paths in writes.values() for pattern in paths)
    strict = definition is not None and definition.strict
    return PathOwnership((), patterns, f"task {' or '.join(f'#{id}' for id in writes)}", "the task list", strict)


def narrowed_limits(limits: SpawnSettings, definition: TeamDefinition) -> SpawnSettings:
    """Return the limits on starting agents, with at most as many members as the definition allows."""
    members = limits.members if definition.members is None else min(limits.members, definition.members)
    return replace(limits, members=members)


def roles_text(definition: TeamDefinition | None) -> str:
    """Return the text about roles for the lead; empty when there are none."""
    if definition is None or not definition.roles:
        return ""
    lines = [f"- {role.name}: {_in_words(role)}" for role in definition.roles.values()]
    return "\n".join(
        [
            "# Roles of this repository's teams",
            "Start a teammate of a role with its name as `subagent_type`. Give work on files that a role owns to that "
            "role: other members need the user's permission to change them, and so do you.",
            *lines,
        ]
    )


def _in_words(role: Role) -> str:
    phrases = [role.description.strip().rstrip(".")] if role.description else []
    if role.owns:
        phrases.append(f"owns {', '.join(role.owns)}")
    if role.writes is not None:
        phrases.append(f"changes only {', '.join((*role.writes, *role.owns)) or 'nothing'}")
    if role.command:
        phrases.append(f"run by {role.command}, another program")
    return "; ".join(phrases) + "." if phrases else "a teammate."


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
            kind = values.get("type", DEFAULT_TYPE)
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
                near = nearest(name, keys)
                known = f"{name[:60]!r} is not known here"
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


# The parser of the standard library reports no positions for valid text, so the text is scanned for them.
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
    best = 1
    depth = 0
    for number, path in _places(text):
        shared = _shared(path, keys)
        if shared > depth and shared == len(path):
            best = number
            depth = shared
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
