"""The search for skills and commands in directories: bounded, in a stable order, with links only inside the directory.

Reads front matter. The caller decides which entries may be read; refused ones are not opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from teamwright.skills.skill_definition import NAME_PATTERN, SkillDefinition, SkillKind, SkillSource, parse_definition
from teamwright.storage.read_bounded import read_plain

MAX_SKILLS = 300
"""The most skills or commands of one directory. Later ones in the alphabet are left out and reported."""

MAX_FILE_BYTES = 1_000_000
"""The most bytes of a SKILL.md or of a command."""

SKILL_FILE = "SKILL.md"

_MAX_ENTRIES = 10_000
_MAX_DEPTH = 4
"""The deepest nesting of directories of commands."""


def allow_every_entry(_entry: str) -> bool:
    """Allow every entry."""
    return True


class SkillDirectory(Struct, frozen=True):
    """A directory of skills or of commands. `label` is its name for people.

    `within`: real paths must be inside it (a repository); None for a person's directories, whose entries may be links.
    `prefix` goes before the names.
    `variables` are `${NAME}` values of the texts. `allows` returns True when an entry of the directory may be read.
    """

    kind: SkillKind
    directory: Path
    label: str
    within: Path | None = None
    prefix: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    allows: Callable[[str], bool] = allow_every_entry


class FoundSkills(Struct):
    """The result of a search: definitions, problems to report, and skipped entries with path and reason."""

    definitions: list[SkillDefinition] = field(default_factory=list[SkillDefinition])
    problems: list[str] = field(default_factory=list[str])
    skipped: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])


def find_skills(place: SkillDirectory) -> FoundSkills:
    """Find all skills or commands of the directory; a missing one has none. Never raises."""
    found = FoundSkills()
    looked = _skills(place, found) if place.kind == "skill" else _commands(place, found)
    for count, (name, file, base) in enumerate(looked):
        if count == MAX_SKILLS:
            found.problems.append(f"{place.directory}: only the first {MAX_SKILLS} {place.kind}s are used")
            break
        read = _read(place, name, file, base)
        if isinstance(read, SkillDefinition):
            found.definitions.append(read)
            found.problems += read.problems
        else:
            found.problems.append(read)
    return found


def skill_file(base: Path) -> Path | None:
    """Return the file with a skill's text; None when the directory has none."""
    return next((base / name for name in (SKILL_FILE, "skill.md") if os.path.lexists(base / name)), None)


def resolve_file(skill: SkillDefinition, name: str = "") -> Path | str:
    """Return the real path of a file of the skill, or a text with the reason why there is none.

    An empty name is its text. Links may lead to any file inside the skill's directory, and nowhere else.
    """
    base = Path(os.path.realpath(skill.base))
    try:
        real = Path(os.path.realpath(skill.base / name if name else skill.file))
    except (OSError, ValueError):
        return f"{name[:80]!r} cannot be the name of a file"
    if not real.is_relative_to(base):
        return f"{name or skill.file.name} leads out of {skill.base}"
    return real


def list_files(skill: SkillDefinition, most: int) -> list[str]:
    """Return the names of the files beside a skill's text, relative to its directory: at most `most`, without hidden
    ones."""
    found: list[str] = []
    for directory, below, files in os.walk(skill.base):
        below[:] = sorted(name for name in below if not name.startswith("."))
        inside = os.path.relpath(directory, skill.base)
        for name in sorted(files):
            path = name if inside == "." else f"{inside}/{name}"
            if not name.startswith(".") and path != skill.file.name and path.isprintable():
                found.append(path)
            if len(found) >= most:
                return found
    return found


def _read(place: SkillDirectory, name: str, file: Path, base: Path) -> SkillDefinition | str:
    real, real_base = Path(os.path.realpath(file)), Path(os.path.realpath(base))
    if place.within is not None and not real_base.is_relative_to(os.path.realpath(place.within)):
        return f"{base}: left out: it leads out of the repository"
    if not real.is_relative_to(real_base) and (place.within is not None or place.kind == "skill"):
        return f"{file}: left out: it leads out of {base}"
    try:
        text = read_plain(file, MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError as problem:
        return f"{file}: left out: {problem.strerror or problem}"
    if "\0" in text:
        return f"{file}: left out: it is not text"
    definition = parse_definition(
        SkillSource(place.kind, name, file, base, place.label, place.within is not None, place.prefix, place.variables),
        text,
    )
    return definition if isinstance(definition, SkillDefinition) else f"{definition}; left out"


def _skills(place: SkillDirectory, found: FoundSkills) -> Iterator[tuple[str, Path, Path]]:
    for entry in _entries(place.directory, found):
        base = place.directory / entry.name
        if not place.allows(entry.name):
            continue
        file = skill_file(base) if _is_dir(entry) else None
        if file is None:
            found.skipped.append((base, f"it has no {SKILL_FILE}" if _is_dir(entry) else "a skill is a directory"))
        elif NAME_PATTERN.fullmatch(entry.name):
            yield entry.name, file, base
        else:
            found.problems.append(f"{base}: left out: {entry.name[:40]!r} cannot be a skill's name")


def _commands(
    place: SkillDirectory, found: FoundSkills, below: tuple[str, ...] = (), directory: Path | None = None
) -> Iterator[tuple[str, Path, Path]]:
    here = directory or place.directory
    for entry in _entries(here, found):
        if not below and not place.allows(entry.name):
            continue
        path = here / entry.name
        if entry.is_dir(follow_symlinks=False):
            if len(below) < _MAX_DEPTH and NAME_PATTERN.fullmatch(entry.name):
                yield from _commands(place, found, (*below, entry.name), path)
            else:
                found.skipped.append((path, "directories of commands are read by plain names, and 4 deep"))
        elif path.suffix == ".md" and path.stem.lower() != "readme":
            if all(NAME_PATTERN.fullmatch(part) for part in path.stem.split(":")):
                # `svelte/svelte:test.md` has its namespace in both names, and is `svelte:test`.
                own = path.stem.removeprefix(f"{below[-1]}:") if below else path.stem
                yield ":".join((*below, own)), path, place.directory
            else:
                found.problems.append(f"{path}: left out: {path.stem[:40]!r} cannot be a command's name")
        else:
            found.skipped.append((path, "a command is a .md file, and not a README"))


def _entries(directory: Path, found: FoundSkills) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(islice(entries, _MAX_ENTRIES), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        found.problems.append(f"{directory}: left out: {problem.strerror or problem}")
        return []


def _is_dir(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
