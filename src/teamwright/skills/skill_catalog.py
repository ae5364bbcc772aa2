"""The catalog of a session: all skills and commands by name, and the list that a model receives.

The first entry of a name counts. Texts are read on use, after the catalog's owner has checked again that they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from teamwright.protocol.errors import UsageError
from teamwright.protocol.unknown_names import did_you_mean
from teamwright.skills.command_template import CommandArguments, fill_names, fill_text
from teamwright.skills.skill_definition import SkillDefinition, SkillKind, directory_variables, parse_head
from teamwright.skills.skill_search import MAX_FILE_BYTES, resolve_file
from teamwright.storage.read_bounded import read_plain

MAX_LISTED = 60
"""The most skills in the list that a new agent receives."""

MAX_LISTED_BYTES = 8_000
"""The most bytes of that list."""

MAX_LINE = 240
"""The most characters of one description in it."""


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
