"""The sources of agent definitions in order of precedence, and the readers of their files and JSON texts.

A changed file is read again. A problem of one file is a value with its line, never an exception, so that the other
files remain usable. Shadowing and trust are left to `registry`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType
from teamwright.config.agent_types.definition_fields import (
    DefinitionOrigin,
    begins_field,
    default_name,
    parse_definition_values,
)
from teamwright.config.plugins import Plugin, plugin_variables
from teamwright.protocol.errors import UsageError
from teamwright.skills.front_matter import UnreadableFrontMatter, parse_typed
from teamwright.storage.paths import Home
from teamwright.storage.read_bounded import read_plain

MAX_BYTES = 256_000
"""The longest definition."""

MAX_FILES = 1_000
"""Definitions of one directory that are read; further ones are left out with a warning."""

LOOSE = "its front matter is no strict YAML: a text with `: ` or ` #` or with several lines should be in quotes"
"""The warning about front matter that was read leniently."""

_DEEPEST = 5
_GIVEN_MOST = 1_000_000
_REMEMBERED = 4_096


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
    name, file, digest = prefix + default_name(path), str(path), ""
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


def parse_given_agents(agents: Mapping[str, Any], source: str = "--agents") -> list[FoundDefinition]:
    """Return the definitions that a flag or a program gave. Raises UsageError, also for unknown fields."""
    found: list[FoundDefinition] = []
    for name, definition in agents.items():
        if not isinstance(definition, dict):
            raise _bad(source, "a definition must be an object", name)
        values = {"name": name, **cast("dict[str, Any]", definition)}
        try:
            parsed_definition = parse_definition_values(values, "", "", DefinitionOrigin(source, "", strict=True))
        except UnreadableFrontMatter as problem:
            raise _bad(source, problem.what, name) from None
        if any(parsed_definition.definition.name.lower() == other.name.lower() for other in found):
            raise _bad(source, "there are two of this name", name)
        found.append(
            FoundDefinition(
                parsed_definition.definition.name,
                source,
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


REPOSITORY, USER, PLUGIN = "repository", "user", "plugin"
"""Names of sources, shown before their directories."""


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
        """Return True when other people may have written the definitions."""
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


def definition_sources(
    home: Home, root: Path, *, compat: bool, agents: Mapping[str, Any] | None = None, plugins: Sequence[Plugin] = ()
) -> DefinitionSources:
    """Return the sources of a run in the repository at `root`, by real path. Raises UsageError for a flag's value."""
    users = user_directories(home, compat)
    own = {os.path.realpath(shelf.base) for shelf in users}
    mine = [shelf for shelf in repository_directories(root, compat) if os.path.realpath(shelf.base) not in own]
    parts = [
        DefinitionDirectory(
            f"{PLUGIN} {one.name}", place, f"{one.name}:", variables=tuple(plugin_variables(one, home).items())
        )
        for one in plugins
        for place in one.agents
    ]
    return DefinitionSources(tuple(parse_given_agents(agents or {})), (*mine, *users, *parts), tuple(plugins))
