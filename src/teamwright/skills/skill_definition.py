"""Definitions of skills and slash commands, read from the front matter of their files. The text is read on use.

Fields are those of the open skill format and of the commands of other products. Faults are reported with file and line
and are never fatal; values that exceed a limit or lead elsewhere are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field

from teamwright.protocol.rule_list import split_rules
from teamwright.skills.front_matter import FrontMatter, parse

SkillKind: TypeAlias = Literal["skill", "command"]

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
"""The most characters of a description, as in the open format."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_GOOD_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KNOWN = frozenset(
    {
        *("name", "description", "license", "compatibility", "metadata", "allowed-tools", "model", "context", "agent"),
        *("argument-hint", "disable-model-invocation", "user-invocable", "version", "when-to-use", "arguments"),
    }
)
_ALLOWED = "allowed-tools"
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
_UNUSED = frozenset({"hooks", "effort", "paths", "shell", "disallowed-tools"})
_LONG_TEXTS = frozenset({"description", "when-to-use"})
_YES = frozenset({"true", "yes", "on", "1"})
_NO = frozenset({"false", "no", "off", "0", ""})


class SkillDefinition(Struct, frozen=True):
    """One skill or command.

    `base` is the directory of its files; `location` is its origin for people. `argument_hint` shows its arguments.
    `runs_in_subagent`: it runs in a sub-agent of the type `agent`. `callable_by_model` and `callable_by_user` say who
    may call it.
    """

    kind: SkillKind
    name: str
    description: str
    file: Path
    base: Path
    location: str
    is_from_repository: bool = False
    argument_hint: str = ""
    allowed_tools: tuple[str, ...] = ()
    model: str | None = None
    runs_in_subagent: bool = False
    agent: str = ""
    callable_by_model: bool = True
    callable_by_user: bool = True
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[str, ...] = ()
    """Names of its arguments, by position."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The `${NAME}` values of its plugin."""
    problems: tuple[str, ...] = ()

    @property
    def one_line(self) -> str:
        """The description on one line."""
        return " ".join(self.description.split())


class SkillSource(Struct, frozen=True):
    """The source of a skill or command.

    `name` is its directory's or file's, `prefix` goes before the name; the rest as in SkillDefinition.
    """

    kind: SkillKind
    name: str
    file: Path
    base: Path
    location: str
    is_from_repository: bool = False
    prefix: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_head(text: str) -> FrontMatter:
    """Parse the front matter and the body of a skill or command."""
    return parse(text, _begins_field)


def _begins_field(key: str, before: str) -> bool:
    """Return True when a line with this key begins a field. After a long text only a known key does."""
    return before.replace("_", "-") not in _LONG_TEXTS or key.replace("_", "-") in _KNOWN | _UNUSED


def parse_definition(source: SkillSource, text: str) -> SkillDefinition | str:
    """Parse the definition in a file. Return a text with the reason when there is none."""
    kind, file = source.kind, source.file
    head = parse_head(text)
    if head.is_refused:
        return "; ".join(f"{file}:{one.line}: {one.what}" for one in head.problems)
    fields = _Fields(head, file)
    if head.is_present or kind == "skill":
        fields.problems += [f"{file}:{one.line}: {one.what}" for one in head.problems]
    fields.note_unknown_fields()
    own = _name(fields, source.name) if kind == "skill" else source.name
    description = _description(fields, head.body, kind)
    return SkillDefinition(
        kind,
        source.prefix + own,
        description,
        file,
        source.base,
        source.location,
        source.is_from_repository,
        argument_hint=" ".join(fields.text("argument-hint").split())[:200],
        allowed_tools=fields.tools(_ALLOWED),
        model=fields.model(),
        runs_in_subagent=fields.choice("context", ("fork", "inherit")) == "fork",
        agent=fields.text("agent"),
        callable_by_model=not fields.switch("disable-model-invocation", False),
        callable_by_user=fields.switch("user-invocable", True),
        license=fields.text("license")[:200],
        compatibility=fields.text("compatibility")[:500],
        metadata=fields.texts("metadata"),
        arguments=fields.names("arguments"),
        variables=source.variables,
        problems=tuple(fields.problems),
    )


def allowed_tools(head: FrontMatter) -> tuple[str, ...]:
    """Return the calls that a definition with this front matter allows, as rules are written."""
    return _Fields(head, Path()).tools(_ALLOWED)


def _name(fields: _Fields, directory_name: str) -> str:
    """Return the name in the front matter if it is valid, else the directory's, which it should equal."""
    name = fields.text("name").strip()
    if not name:
        fields.note_problem("name", "the name is missing; the directory's counts")
        return directory_name
    if not NAME_PATTERN.fullmatch(name):
        fields.note_problem("name", f"{name[:40]!r} cannot be a name; the directory's counts")
        return directory_name
    if name != directory_name:
        fields.note_problem("name", f"the name {name} is not that of the directory, {directory_name}")
    elif not _GOOD_NAME.fullmatch(name):
        fields.note_problem("name", f"the name {name} has other than small letters, digits and single hyphens")
    return name


def _description(fields: _Fields, body: str, kind: SkillKind) -> str:
    description = fields.text("description").strip()
    more = fields.text("when-to-use").strip()
    if not description:
        if kind == "skill":
            fields.note_problem("description", "the description is missing; the first line of the text is used")
        description = next((line.strip("# \t\r") for line in body.split("\n") if line.strip("# \t\r")), "")
        description = description[:200]
    description = f"{description} {more}".strip()
    if len(description) > MAX_DESCRIPTION:
        fields.note_problem("description", f"the description is longer than {MAX_DESCRIPTION:,} characters; it was cut")
    return description[:MAX_DESCRIPTION]


class _Fields:
    """The fields of the front matter with their types checked. Faults are noted with their line."""

    def __init__(self, head: FrontMatter, file: Path) -> None:
        self._values = {key.replace("_", "-"): value for key, value in head.values.items()}
        self._lines = {key.replace("_", "-"): line for key, line in head.lines.items()}
        self._file = file
        self.problems: list[str] = []

    def note_problem(self, name: str, what: str) -> None:
        self.problems.append(f"{self._file}:{self._lines.get(name, 1)}: {what}")

    def note_unknown_fields(self) -> None:
        for name in self._values:
            if name in _UNUSED:
                self.note_problem(name, f"{name} is not used")
            elif name not in _KNOWN:
                self.note_problem(name, f"{name[:40]} is not a field that is known; it is left out")

    def text(self, name: str) -> str:
        value = self._values.get(name, "")
        if isinstance(value, str):
            return value
        if name == "argument-hint" and isinstance(value, list):  # YAML reads `[file]` without quotes as a list
            return " ".join(f"[{part}]" for part in cast("list[Any]", value))
        self.note_problem(name, f"{name} is not a text; it is left out")
        return ""

    def texts(self, name: str) -> dict[str, str]:
        value = self._values.get(name, {})
        if isinstance(value, dict):
            return {str(k): str(v)[:500] for k, v in list(cast("dict[Any, Any]", value).items())[:50]}
        self.note_problem(name, f"{name} is not a mapping; it is left out")
        return {}

    def tools(self, name: str) -> tuple[str, ...]:
        value: Any = self._values.get(name, "")
        if isinstance(value, str):
            return tuple(split_rules(value))
        if isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value)):
            return tuple(one.strip() for one in cast("Sequence[str]", value) if one.strip())
        self.note_problem(name, f"{name} is neither a text nor a list of texts; it is left out")
        return ()

    def names(self, name: str) -> tuple[str, ...]:
        """Return names of arguments, from a text or a list, with or without `$`; other words are left out."""
        value: Any = self._values.get(name, "")
        words = value.split() if isinstance(value, str) else cast("list[Any]", value) if isinstance(value, list) else []
        plain = [word.lstrip("$").strip("[]") for word in words if isinstance(word, str)]
        return tuple(word for word in plain if _ARGUMENT.fullmatch(word))

    def switch(self, name: str, default: bool) -> bool:
        if name not in self._values:
            return default
        text = self.text(name).strip().lower()
        if text not in _YES | _NO:
            self.note_problem(name, f"{name} is neither true nor false; it is left out")
            return default
        return text in _YES

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        value = self.text(name).strip()
        if value and value not in known:
            self.note_problem(name, f"{name} is none of {', '.join(known)}; it is left out")
            return ""
        return value

    def model(self) -> str | None:
        name = self.text("model").strip()
        return None if name in {"", "inherit", "default"} else name


def directory_variables(skill: SkillDefinition) -> dict[str, str]:
    """Return the `${NAME}` values of a skill's directory and of its plugin."""
    base = str(skill.base)
    return {**skill.variables, "CLAUDE_SKILL_DIR": base, "TEAMWRIGHT_SKILL_DIR": base}
