"""The agent types of a run: their sources in order of precedence, their state, and the list for the Agent tool.

The first of several with one name is used; the others are shadowed. Files are checked at each query, and a changed one
is read again. A problem of one file is a value with its line, never an exception, so that the other files stay usable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import BUILT_IN, AgentType, built_in_types, find_agent_type, join_names
from teamwright.config.agent_type_fields import DefinitionOrigin, begins_field, default_name, parse_definition_values
from teamwright.config.plugins import Plugin, plugin_variables
from teamwright.config.team_file import TeamDefinition, role_definitions
from teamwright.protocol.errors import UsageError
from teamwright.skills.front_matter import UnreadableFrontMatter, parse_typed
from teamwright.storage.files import read_plain
from teamwright.storage.paths import Home

REPOSITORY, USER, PLUGIN = "repository", "user", "plugin"
"""Names of sources, shown before their directories."""


State: TypeAlias = Literal["used", "shadowed", "needs trust", "broken"]


class FoundDefinition(Struct, frozen=True):
    """One definition as found. `problem` says with its line why it cannot be used; then `definition` is empty.

    `source` is a name for people, `file` the path (empty for a flag), `digest` that of the file's content.
    """

    name: str
    source: str
    file: str = ""
    definition: AgentType | None = None
    problem: str = ""
    warnings: tuple[str, ...] = ()
    digest: str = ""


class DefinitionDirectory(Struct, frozen=True):
    """One directory of definitions, or a single file.

    `prefix` is put before their names; `inside`: links must not lead out of it. `variables` are the `${NAME}` values
    of their prompts.
    """

    source: str
    base: Path
    prefix: str = ""
    inside: Path | None = None
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def is_in_repository(self) -> bool:
        """True when other people may have written the definitions."""
        return self.inside is not None

    def definitions(self) -> list[FoundDefinition]:
        """Return the definitions in it, as they are now."""
        if not os.access(self.base, os.F_OK):
            return []  # most directories do not exist, and this check is all that they cost at a start
        if self.base.is_file():
            return [read_file(self.base, self.source, self.prefix, self.variables)]
        rows: list[FoundDefinition] = []
        for path, refused in definition_files(self.base, self.inside):
            if refused:
                rows.append(
                    FoundDefinition(
                        self.prefix + path.name.removesuffix(".md"), self.source, str(path), problem=refused
                    )
                )
            else:
                rows.append(read_file(path, self.source, self.prefix, self.variables))
        return rows


class DefinitionSources(Struct, frozen=True):
    """All sources of a run; `given` were passed with a flag or by a program."""

    given: tuple[FoundDefinition, ...] = ()
    directories: tuple[DefinitionDirectory, ...] = ()
    plugins: tuple[Plugin, ...] = ()


class AgentTypeEntry(Struct, frozen=True):
    """One definition and its state. `by` is the definition that shadows it."""

    source: FoundDefinition
    state: State
    shadowed_by: str = ""


def _trust_none(_found: FoundDefinition) -> bool:
    return False


def _any_name(_name: str) -> bool:
    return True


class AgentTypes(Struct):
    """The agent types of a run. `allows` returns True when a definition of the repository was trusted in this form."""

    places: DefinitionSources = field(default_factory=DefinitionSources)
    team: TeamDefinition | None = None
    allows: Callable[[FoundDefinition], bool] = _trust_none

    def entries(self) -> list[AgentTypeEntry]:
        """Return every definition in order of precedence."""
        first: dict[str, str] = {}
        entries: list[AgentTypeEntry] = []
        for found, usable in self._each():
            key = found.name.lower()
            if found.definition is None:
                entries.append(AgentTypeEntry(found, "broken"))
            elif not usable:
                entries.append(AgentTypeEntry(found, "needs trust"))
            elif key in first:
                entries.append(AgentTypeEntry(found, "shadowed", first[key]))
            else:
                first[key] = found.file or found.source
                entries.append(AgentTypeEntry(found, "used"))
        return entries

    def _each(self) -> Iterator[tuple[FoundDefinition, bool]]:
        for role in role_definitions(self.team):
            yield FoundDefinition(role.name, role.source, role.file, role), True
        yield from ((found, True) for found in self.places.given)
        for shelf in self.places.directories:
            for found in shelf.definitions():
                usable = not shelf.is_in_repository or (found.definition is not None and self.allows(found))
                yield found, usable
        yield from ((found, True) for found in _built_in())

    def active(self) -> dict[str, AgentType]:
        """Return the agent types in use, by name."""
        return {
            entry.source.definition.name: entry.source.definition
            for entry in self.entries()
            if entry.state == "used" and entry.source.definition is not None
        }

    def find(self, name: str) -> AgentType:
        """Return the agent type of that name, without regard to case.

        Raises UsageError naming the nearest, or saying why the type of that name cannot be used.
        """
        key = name.lower()
        # this runs at every start of an agent, so skipped definitions are not parsed
        for found, usable in self._each():
            if usable and found.definition is not None and found.name.lower() == key:
                return found.definition
        self._explain(name)
        return find_agent_type(name, self.active())

    def _explain(self, name: str) -> None:
        for entry in self.entries():
            if entry.source.name.lower() != name.lower():
                continue
            if entry.state == "needs trust":
                what = f"the agent type {entry.source.name} is defined by this repository, which is not trusted with it"
                do = ["teamwright trust shows and trusts it", "--trust takes it for one run"]
            else:
                what = f"the agent type {entry.source.name} cannot be used: {entry.source.problem}"
                do = ["correct it"]
            raise UsageError("usage", what, looked_at=[("file", entry.source.file)], do=do, note="nothing was started")

    def warnings(self) -> tuple[str, ...]:
        """Return one line when definitions are broken."""
        broken = [entry.source for entry in self.entries() if entry.state == "broken"]
        if not broken:
            return ()
        first = f"{broken[0].file}: {broken[0].problem}"
        count = "1 agent definition" if len(broken) == 1 else f"{len(broken)} agent definitions"
        return (f"{count} cannot be used: {first}; teamwright agents list shows all",)

    def tool_description(self, may: Callable[[str], bool] = _any_name) -> str:
        """Return the list of agent types that the Agent tool contains.

        Roles are left out: the lead's prompt describes them. `may`: an agent of that name may be started.
        """
        return self._type_list(may).text

    def type_names(self, may: Callable[[str], bool] = _any_name) -> str:
        """Return the names of these types alone, for the Agent tool of the compact prompt."""
        return f"Types: {join_names(kind.name for kind in self._listed_types(may))}."

    def shortened(self) -> frozenset[str]:
        """Return the names of the types whose descriptions do not fit into the Agent tool as a whole."""
        return self._type_list(_any_name).shortened

    def _type_list(self, may: Callable[[str], bool]) -> TypeList:
        return type_list(self._listed_types(may))

    def _listed_types(self, may: Callable[[str], bool]) -> list[AgentType]:
        kinds = [kind for kind in self.active().values() if not kind.role and may(kind.name)]
        return sorted(kinds, key=lambda kind: kind.source != BUILT_IN)


@cache
def _built_in() -> tuple[FoundDefinition, ...]:
    return tuple(FoundDefinition(kind.name, BUILT_IN, "", kind) for kind in built_in_types().values())


def definition_sources(
    home: Home,
    root: Path,
    *,
    compat: bool,
    agents: Mapping[str, Any] | None = None,
    plugins: Sequence[Plugin] = (),
    project: bool = True,
) -> DefinitionSources:
    """Return the sources of a run in the repository at `root`, by real path. Raises UsageError for a flag's value.

    `project`: the repository's own directories are among them.
    """
    users = user_directories(home, compat)
    own = {os.path.realpath(shelf.base) for shelf in users}
    theirs = repository_directories(root, compat) if project else []
    mine = [shelf for shelf in theirs if os.path.realpath(shelf.base) not in own]
    parts = [
        DefinitionDirectory(
            f"{PLUGIN} {one.name}", place, f"{one.name}:", variables=tuple(plugin_variables(one, home).items())
        )
        for one in plugins
        for place in one.agents
    ]
    return DefinitionSources(tuple(parse_given_agents(agents or {})), (*mine, *users, *parts), tuple(plugins))


def repository_directories(root: Path, compat: bool) -> list[DefinitionDirectory]:
    """Return the directories of a repository, the nearest first."""
    names = (".teamwright", ".claude") if compat else (".teamwright",)
    return [DefinitionDirectory(f"{REPOSITORY}, {name}", root / name / "agents", inside=root) for name in names]


def user_directories(home: Home, compat: bool) -> list[DefinitionDirectory]:
    """Return the user's own directories, the nearest first."""
    theirs = Path(os.path.expanduser("~/.claude/agents"))
    return [
        DefinitionDirectory(USER, home.own / "agents"),
        *([DefinitionDirectory(f"{USER}, .claude", theirs)] if compat else []),
    ]


MAX_BYTES = 256_000
"""The longest definition."""


MAX_FILES = 1_000
"""Definitions of one directory that are read; further ones are left out with a warning."""


LOOSE = "its front matter is no strict YAML: a text with `: ` or ` #` or with several lines should be in quotes"
"""The warning about front matter that was read leniently."""


_DEEPEST = 5


_REMEMBERED = 4_096


def definition_files(base: Path, inside: Path | None = None) -> list[tuple[Path, str]]:
    """Return the Markdown files below a directory in a stable order, each with the reason why it is not read, if any.

    `inside`: files whose real path is elsewhere are not read. Links to directories are not followed.
    """
    found = sorted(_walk(base, 0))[: MAX_FILES + 1]
    rows: list[tuple[Path, str]] = []
    for path in found[:MAX_FILES]:
        strange = inside is not None and not Path(os.path.realpath(path)).is_relative_to(inside)
        rows.append((path, "it is a link that leads out of the repository" if strange else ""))
    if len(found) > MAX_FILES:
        rows.append((base, f"there are more than {MAX_FILES:,} definitions: further ones are left out"))
    return rows


def _walk(base: Path, depth: int) -> Iterator[Path]:
    try:
        entries = list(os.scandir(base))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        yield base  # reading it fails with the reason
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name.lower() == "readme.md":
            continue
        if entry.name.endswith(".md"):
            yield Path(entry.path)
        elif depth < _DEEPEST and entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), depth + 1)


def read_file(
    path: Path, source: str, prefix: str = "", variables: tuple[tuple[str, str], ...] = ()
) -> FoundDefinition:
    """Return the definition in a Markdown file.

    `prefix` (`plugin:`) is put before its name, and `variables` are the `${NAME}` values of its prompt.
    """
    try:
        stat = path.stat()
    except OSError as problem:
        return FoundDefinition(
            prefix + default_name(path), source, str(path), problem=problem.strerror or "it cannot be opened"
        )
    if S_ISDIR(stat.st_mode) and not path.name.endswith(".md"):
        return FoundDefinition(prefix + path.name, source, str(path), problem="this directory cannot be listed")
    return _read(path, source, prefix, variables, (stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_dev))


@lru_cache(_REMEMBERED)
def _read(
    path: Path, source: str, prefix: str, variables: tuple[tuple[str, str], ...], _seen: tuple[int, ...]
) -> FoundDefinition:
    name = prefix + default_name(path)
    file = str(path)
    digest = ""
    try:
        content = read_plain(path, MAX_BYTES)
        digest = hashlib.sha256(content).hexdigest()
        front = parse_typed(content.decode("utf-8-sig"), begins_field)
        parsed_definition = parse_definition_values(
            front.values, front.body, default_name(path), DefinitionOrigin(source, file, front.lines)
        )
    except UnreadableFrontMatter as problem:
        at = f"line {problem.line}: " if problem.line else ""
        return FoundDefinition(name, source, file, problem=at + problem.what, digest=digest)
    except UnicodeDecodeError as problem:
        return FoundDefinition(name, source, file, problem=f"it is not UTF-8 (byte {problem.start})", digest=digest)
    except OSError as problem:
        return FoundDefinition(name, source, file, problem=problem.strerror or "it cannot be opened")
    warnings = parsed_definition.warnings
    if front.is_loose:
        warnings = (LOOSE, *warnings)
    definition = _of_plugin(parsed_definition.definition, prefix, variables)
    return FoundDefinition(definition.name, source, file, definition, warnings=warnings, digest=digest)


def _of_plugin(definition: AgentType, prefix: str, variables: tuple[tuple[str, str], ...]) -> AgentType:
    """Return the definition with its plugin's prefix, and with its variables in the prompt and in its hooks."""
    if not prefix:
        return definition
    prompt = definition.prompt
    for name, value in variables:
        prompt = prompt.replace(f"${{{name}}}", value)
    hooks = tuple(replace(hook, variables=variables) for hook in definition.hooks)
    return replace(definition, name=prefix + definition.name, prompt=prompt, hooks=hooks)


_GIVEN_MOST = 1_000_000


def parse_agents(text: str, source: str = "--agents") -> dict[str, Any]:
    """Return the object in a JSON text. Raises UsageError with the position."""
    try:
        read: Any = json.loads(text)
    except RecursionError:
        raise _bad(source, "it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise _bad(source, f"it is no JSON: {problem.msg.lower()}", where) from None
    if not isinstance(read, dict):
        raise _bad(source, "it is not an object with definitions by name")
    return cast("dict[str, Any]", read)


def parse_agents_flag(text: str, base: Path) -> dict[str, Any]:
    """Return the definitions of `--agents`: JSON, which begins with a brace, or a file with it. Raises UsageError."""
    if text.lstrip()[:1] in ("{", "[", ""):
        return parse_agents(text)
    path = base / os.path.expanduser(text.removeprefix("@"))
    try:
        return parse_agents(read_plain(path, _GIVEN_MOST).decode("utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise _bad("--agents", f"the file {path} cannot be read: {reason}") from None


def parse_given_agents(agents: Mapping[str, Any]) -> list[FoundDefinition]:
    """Return the definitions that a flag or a program gave. Raises UsageError, also for unknown fields."""
    found: list[FoundDefinition] = []
    for name, definition in agents.items():
        if not isinstance(definition, dict):
            raise _bad("--agents", "a definition must be an object", name)
        values = {"name": name, **cast("dict[str, Any]", definition)}
        try:
            parsed_definition = parse_definition_values(values, "", "", DefinitionOrigin("--agents", "", strict=True))
        except UnreadableFrontMatter as problem:
            raise _bad("--agents", problem.what, name) from None
        if any(parsed_definition.definition.name.lower() == other.name.lower() for other in found):
            raise _bad("--agents", "there are two of this name", name)
        found.append(
            FoundDefinition(
                parsed_definition.definition.name,
                "--agents",
                "",
                parsed_definition.definition,
                warnings=parsed_definition.warnings,
            )
        )
    return found


def _bad(source: str, what: str, at: str = "") -> UsageError:
    return UsageError(
        "usage",
        f"the agents that were given cannot be used: {what[:200]}",
        looked_at=[("from", source), *([("at", at[:80])] if at else [])],
        do=[
            """--agents '{"reviewer": {"description": "Reads changes.", "prompt": "You review."}}'""",
            "--agents FILE",
        ],
        note="nothing was started",
    )


LIST_BYTES = 4_800
"""Bytes of the whole list: 1,200 tokens at four bytes a token."""

SHORTEST = 60
"""Characters that a description keeps before its type is only named."""

NAMES_BYTES = 800
"""Bytes for types that are only named."""

TITLE = "Agent types:"
LOOK_UP = (
    "A description that ends with … is shortened: Agent with this `subagent_type` and an empty `prompt` returns the "
    "whole one and starts nothing."
)

_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)[.!?][\"')]*(?= )")


class TypeList(Struct, frozen=True):
    """The list as a model reads it, and the names of the types whose descriptions are shortened in it."""

    text: str
    shortened: frozenset[str]


class _Row(NamedTuple):
    name: str
    about: str
    tools: str

    def line(self, longest: int) -> str:
        about = _cut(self.about, longest)
        return f"- {self.name}: {about} ({self.tools})" if about else f"- {self.name} ({self.tools})"


def type_list(kinds: Iterable[AgentType]) -> TypeList:
    """Return the list of these types, in their order. Beyond the budget the longest descriptions are shortened."""
    return _listed(tuple(_Row(kind.name, " ".join(kind.description.split()), kind.tools_in_words) for kind in kinds))


@lru_cache(maxsize=8)
def _listed(rows: tuple[_Row, ...]) -> TypeList:
    if not rows:
        return TypeList("", frozenset())
    longest = max(len(row.about) for row in rows)
    whole = _text(rows, longest)
    if _size(whole) <= LIST_BYTES:
        return TypeList(whole, frozenset())
    described = len(rows) if _size(_text(rows, SHORTEST)) <= LIST_BYTES else _most_described(rows)
    described_rows = rows[:described]
    named = rows[described:]
    low = SHORTEST
    while low < longest:  # the largest length with which the list fits
        middle = (low + longest + 1) // 2
        low, longest = (
            (middle, longest) if _size(_text(described_rows, middle, named)) <= LIST_BYTES else (low, middle - 1)
        )
    shortened = {row.name for row in described_rows if len(row.about) > low}
    return TypeList(_text(described_rows, low, named), frozenset(shortened.union(row.name for row in named)))


def _most_described(rows: tuple[_Row, ...]) -> int:
    """Return how many types fit when each description is as short as possible, and the other names follow."""
    left = LIST_BYTES - NAMES_BYTES - _size(TITLE) - _size(LOOK_UP)
    for number, row in enumerate(rows):
        left -= _size(row.line(SHORTEST)) + 1
        if left < 0:
            return number
    return len(rows)


def _text(rows: Sequence[_Row], longest: int, named: Sequence[_Row] = ()) -> str:
    lines = [TITLE, *(row.line(longest) for row in rows)]
    if named:
        lines.append(f"Further types, by name: {_fitting([row.name for row in named])}")
    if named or any(len(row.about) > longest for row in rows):
        lines.append(LOOK_UP)
    return "\n".join(lines)


def _fitting(names: Sequence[str]) -> str:
    left = NAMES_BYTES - 60
    count = 0
    for name in names:
        left -= _size(name) + 2
        if left < 0:
            break
        count += 1
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more else "")


def _cut(text: str, longest: int) -> str:
    """Return the text whole, or its first sentences; of a first sentence that is too long, its first words."""
    if len(text) <= longest:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, longest + 1)]
    beginning = text[: ends[-1]] if ends else text[:longest].rpartition(" ")[0] or text[:longest]
    return f"{beginning} …"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
