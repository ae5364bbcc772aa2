"""The catalog of a session: all skills and commands by name, the list that a model receives, and their search on disk.

The first entry of a name counts. Texts are read on use, after the catalog's owner has checked again that they may be.
A search is bounded, in a stable order, and follows links only inside the directory. The caller decides which entries
may be read; refused ones are not opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.skills.skill_definition import (
    NAME_PATTERN,
    CommandArguments,
    SkillDefinition,
    SkillKind,
    SkillSource,
    directory_variables,
    fill_names,
    fill_text,
    parse_definition,
    parse_head,
)
from teamwright.storage.files import read_plain

MAX_LISTED = 60
"""The most skills in the list that a new agent receives."""

MAX_LISTED_BYTES = 8_000
"""The most bytes of that list."""

MAX_LINE = 240
"""The most characters of one description in it."""

MAX_SKILLS = 300
"""The most skills or commands of one directory. Later ones in the alphabet are left out and reported."""

MAX_FILE_BYTES = 1_000_000
"""The most bytes of a SKILL.md or of a command."""

SKILL_FILE = "SKILL.md"

_MAX_ENTRIES = 10_000
_MAX_DEPTH = 4
"""The deepest nesting of directories of commands."""


def allow_every_skill(_skill: SkillDefinition) -> str:
    """Allow every skill: return an empty reason."""
    return ""


class SkillCatalog(Struct):
    """Skills by name. `problems` are lines for people; `refusal_reason` says why a skill may not be used now, or "".

    `untrusted` are names, in lower case, of skills, commands and directories of commands in a repository without trust.
    `variables` are the `${NAME}` values that every text may use.
    """

    definitions: tuple[SkillDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    refusal_reason: Callable[[SkillDefinition], str] = allow_every_skill
    untrusted: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    _by_name: dict[tuple[SkillKind, str], SkillDefinition] = field(
        default_factory=dict[tuple[SkillKind, str], SkillDefinition]
    )

    def __post_init__(self) -> None:
        hidden: list[str] = []
        for skill in self.definitions:
            first = self._by_name.setdefault((skill.kind, skill.name.lower()), skill)
            if first is not skill:
                hidden.append(f"{skill.file}: left out: the {skill.kind} {skill.name} of {first.location} goes before")
        self.problems = (*self.problems, *hidden)

    @property
    def callable_skills(self) -> list[SkillDefinition]:
        """The skills and commands that a model or a person can call."""
        return list(self._by_name.values())

    @property
    def for_models(self) -> list[SkillDefinition]:
        """The skills that a model may call."""
        return [skill for skill in self.callable_skills if skill.kind == "skill" and skill.callable_by_model]

    @property
    def for_users(self) -> list[SkillDefinition]:
        """The skills that a person may call with a slash: commands, and skills whose name no command has."""
        commands = [skill for skill in self.callable_skills if skill.kind == "command" and skill.callable_by_user]
        taken = {skill.name.lower() for skill in commands}
        skills = [
            one
            for one in self.callable_skills
            if one.kind == "skill" and one.callable_by_user and one.name.lower() not in taken
        ]
        return sorted([*commands, *skills], key=lambda skill: skill.name)

    def get_skill(self, name: str) -> SkillDefinition:
        """Return the skill that a model calls by this name. Raises UsageError with the nearest name."""
        known = {skill.name: skill for skill in self.for_models}
        found = _find_by_name(name, known.values())
        if found is None:
            raise _unknown_name_error(f"there is no skill {name[:60]!r}", name, list(known), "nothing was read")
        return found

    def get_command(self, name: str) -> SkillDefinition:
        """Return the skill that a person calls by this name, with or without namespace.

        Raises UsageError with the nearest name.
        """
        known = {skill.name: skill for skill in self.for_users}
        found = _find_by_name(name, known.values())
        if found is None:
            last = [one for one in known.values() if one.name.rpartition(":")[2].lower() == name.lower()]
            found = last[0] if len(last) == 1 else None
        if found is None and name.lower().partition(":")[0] in self.untrusted:
            raise UsageError(
                "usage",
                f"/{name[:60]} is the repository's, and its present content is not trusted",
                do=["teamwright trust shows it and trusts it", "--trust takes it for one run"],
                note="nothing was sent",
            )
        if found is None:
            names = [f"/{one}" for one in known]
            raise _unknown_name_error(f"there is no command /{name[:60]}", f"/{name}", names, "nothing was sent")
        return found

    def read_body(self, skill: SkillDefinition) -> str:
        """Return the text below the skill's front matter, read now.

        Raises UsageError when it may not or cannot be read.
        """
        return parse_head(self.read_file(skill)).body.strip()

    def parse_arguments(self, skill: SkillDefinition, text: str) -> CommandArguments:
        """Return arguments as typed for a skill, with all values that its text may use."""
        return CommandArguments.parse(text, {**self.variables, **directory_variables(skill)}, skill.arguments)

    def allowed_tools(self, skill: SkillDefinition) -> tuple[str, ...]:
        """Return the calls that a skill allows, as rules, with the values of `${NAME}` in them."""
        arguments = self.parse_arguments(skill, "")
        return tuple(fill_names(rule, arguments) for rule in skill.allowed_tools)

    def read_file(self, skill: SkillDefinition, name: str = "") -> str:
        """Return a text file of the skill, read now. Raises UsageError when it may not or cannot be read."""
        if reason := self.refusal_reason(skill):
            raise UsageError("usage", reason, note="nothing was read")
        path = resolve_file(skill, name)
        if isinstance(path, str):
            raise UsageError("usage", path, note="nothing was read")
        try:
            content = read_plain(path, MAX_FILE_BYTES)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            what = f"{name or skill.file.name} of {skill.name} cannot be read: {reason}"
            raise UsageError("usage", what, note="nothing was read") from None
        if b"\0" in content:
            what = f"{name or skill.file.name} of {skill.name} is not text"
            raise UsageError("usage", what, looked_at=[("file", str(path))], note="nothing was read")
        return content.decode("utf-8-sig", "replace")

    def preload(self, names: Iterable[str]) -> tuple[str, list[str]]:
        """Return the texts of these skills for a new agent, and a line for each missing one."""
        texts: list[str] = []
        problems: list[str] = []
        for name in names:
            try:
                skill = self.get_skill(name)
                text = fill_text(self.read_body(skill), self.parse_arguments(skill, ""))
                texts.append(f"# Skill {skill.name}\n{text}")
            except UsageError as problem:
                problems.append(problem.what)
        return "\n\n".join(texts), problems


def list_for_model(skills: Sequence[SkillDefinition]) -> str:
    """Return a line for each skill for a model, in the given order, limited in number and bytes."""
    lines: list[str] = []
    size = 0
    for skill in skills[:MAX_LISTED]:
        about = skill.one_line if len(skill.one_line) <= MAX_LINE else f"{skill.one_line[: MAX_LINE - 1]}…"
        line = f"- {skill.name}: {about}"
        size += len(line.encode()) + 1
        if size > MAX_LISTED_BYTES:
            break
        lines.append(line)
    left = len(skills) - len(lines)
    return "\n".join([*lines, *([f"({left} more are not listed; they can be called by name.)"] if left else [])])


def _find_by_name(name: str, known: Iterable[SkillDefinition]) -> SkillDefinition | None:
    lower_name = name.strip().lstrip("/").lower()
    return next((skill for skill in known if skill.name.lower() == lower_name), None)


def _unknown_name_error(what: str, name: str, names: list[str], note: str) -> UsageError:
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return UsageError(
        "usage",
        what,
        looked_at=[("there are", listed)] if names else [],
        do=did_you_mean(name, names),
        note=note,
    )


def allow_every_entry(_entry: str) -> bool:
    return True


class SkillDirectory(Struct, frozen=True):
    """A directory of skills or of commands. `label` is its name for people.

    `within`: real paths must be inside it (a repository); None for a person's directories, whose entries may be links.
    `prefix` goes before the names. `variables` are `${NAME}` values of the texts. `allows` returns True when an entry
    of the directory may be read.
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
    looked = _skill_entries(place, found) if place.kind == "skill" else _command_entries(place, found)
    for count, (name, file, base) in enumerate(looked):
        if count == MAX_SKILLS:
            found.problems.append(f"{place.directory}: only the first {MAX_SKILLS} {place.kind}s are used")
            break
        read = _read_definition(place, name, file, base)
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


def _read_definition(place: SkillDirectory, name: str, file: Path, base: Path) -> SkillDefinition | str:
    real = Path(os.path.realpath(file))
    real_base = Path(os.path.realpath(base))
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
    is_from_repository = place.within is not None
    source = SkillSource(place.kind, name, file, base, place.label, is_from_repository, place.prefix, place.variables)
    definition = parse_definition(source, text)
    return definition if isinstance(definition, SkillDefinition) else f"{definition}; left out"


def _skill_entries(place: SkillDirectory, found: FoundSkills) -> Iterator[tuple[str, Path, Path]]:
    for entry in _list_entries(place.directory, found):
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


def _command_entries(
    place: SkillDirectory, found: FoundSkills, below: tuple[str, ...] = (), directory: Path | None = None
) -> Iterator[tuple[str, Path, Path]]:
    here = directory or place.directory
    for entry in _list_entries(here, found):
        if not below and not place.allows(entry.name):
            continue
        path = here / entry.name
        if entry.is_dir(follow_symlinks=False):
            if len(below) < _MAX_DEPTH and NAME_PATTERN.fullmatch(entry.name):
                yield from _command_entries(place, found, (*below, entry.name), path)
            else:
                found.skipped.append((path, f"directories of commands are read by plain names, and {_MAX_DEPTH} deep"))
        elif path.suffix == ".md" and path.stem.lower() != "readme":
            if all(NAME_PATTERN.fullmatch(part) for part in path.stem.split(":")):
                # `svelte/svelte:test.md` has its namespace in both names, and is `svelte:test`.
                own = path.stem.removeprefix(f"{below[-1]}:") if below else path.stem
                yield ":".join((*below, own)), path, place.directory
            else:
                found.problems.append(f"{path}: left out: {path.stem[:40]!r} cannot be a command's name")
        else:
            found.skipped.append((path, "a command is a .md file, and not a README"))


def _list_entries(directory: Path, found: FoundSkills) -> list[os.DirEntry[str]]:
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
