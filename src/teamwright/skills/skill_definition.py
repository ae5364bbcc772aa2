"""Definitions of skills and slash commands, read from the front matter of their files, and their texts as templates.

Fields are those of the open skill format and of the commands of other products. Faults are reported with file and line
and are never fatal; values that exceed a limit or lead elsewhere are left out. The text is read on use. Its arguments,
shell lines and files are replaced in one pass, and replaced text is never parsed again: an argument cannot add a shell
line or attach a file. A shell line takes only plain words. Runs no program and opens no file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field

from teamwright.protocol.runtime_tags import split_rules
from teamwright.skills.front_matter import FrontMatter, parse

SkillKind: TypeAlias = Literal["skill", "command"]

MAX_DESCRIPTION = 1_024
"""The most characters of a description, as in the open format."""

MAX_PIECES = 40
"""The most shell lines and files of one text."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_GOOD_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""A name as the open format wants it."""

_KNOWN = frozenset(
    {
        "agent",
        "allowed-tools",
        "argument-hint",
        "arguments",
        "compatibility",
        "context",
        "description",
        "disable-model-invocation",
        "license",
        "metadata",
        "model",
        "name",
        "user-invocable",
        "version",
        "when-to-use",
    }
)

_UNUSED = frozenset({"hooks", "effort", "paths", "shell", "disallowed-tools"})
"""Fields of other products, which are reported and not used."""

_ALLOWED = "allowed-tools"
_LONG_TEXTS = frozenset({"description", "when-to-use"})
_ARGUMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
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


def parse_definition(source: SkillSource, text: str) -> SkillDefinition | str:
    """Parse the definition in a file. Return a text with the reason when there is none."""
    kind = source.kind
    file = source.file
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


def directory_variables(skill: SkillDefinition) -> dict[str, str]:
    """Return the `${NAME}` values of a skill's directory and of its plugin."""
    base = str(skill.base)
    return {**skill.variables, "CLAUDE_SKILL_DIR": base, "TEAMWRIGHT_SKILL_DIR": base}


def describe_effects(texts: Iterable[str]) -> str:
    """Return the shell lines of these texts and the calls that they allow, in full; empty when there are none."""
    runs: list[str] = []
    allows: list[str] = []
    for text in texts:
        head = parse_head(text)
        runs += shell_lines(head.body)
        allows += allowed_tools(head)
    parts = [f"runs: {' ; '.join(' '.join(line.split()) for line in runs)}"] if runs else []
    parts += [f"allows: {', '.join(dict.fromkeys(allows))}"] if allows else []
    return "; ".join(parts)


def _begins_field(key: str, before: str) -> bool:
    """Return True when a line with this key begins a field. After a long text only a known key does."""
    return before.replace("_", "-") not in _LONG_TEXTS or key.replace("_", "-") in _KNOWN | _UNUSED


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
        return tuple(word for word in plain if _ARGUMENT_NAME.fullmatch(word))

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


_SLOT = re.compile(
    r"\\\$|\$ARGUMENTS\[(\d{1,3})\]|\$ARGUMENTS\b|\$([0-9])(?!\d)|\$\{([A-Z_]{1,40})\}|\$([A-Za-z_][A-Za-z0-9_-]*)"
)
_FROM_ZERO = re.compile(r"(?<!\\)\$0(?!\d)")
"""The placeholder by which a text shows that it counts its arguments from 0."""

_SHELL = re.compile(r"(?<!\S)!`([^`\n]+)`")
_FILE = re.compile(r'(?<![\w@/.`])@(?:"([^"\n]+)"|([^\s"\'`<>|]+))')
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(\S*)")
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]*")

PieceKind: TypeAlias = Literal["text", "shell", "file"]


class UnsafeArgument(Exception):
    """An argument in a shell line is more than plain words."""


class TemplatePiece(Struct, frozen=True):
    """A part of the text. The name of a `file` piece stays in the text."""

    kind: PieceKind
    text: str


class CommandArguments(Struct, frozen=True):
    """The arguments of a command, as typed and as words. `names` are values of `${NAME}`.

    `named` are the names of the arguments by position, which the text may use as `$name`.
    """

    text: str
    words: tuple[str, ...]
    names: Mapping[str, str]
    named: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, names: Mapping[str, str] | None = None, named: tuple[str, ...] = ()) -> CommandArguments:
        """Split the text into words like a shell; at blanks when a quote is not closed."""
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        return cls(text.strip(), tuple(words), names or {}, named)


def split_template(body: str) -> list[TemplatePiece]:
    """Split the text in order: shell lines (inline, and fences that begin with `!`), files, and the rest.

    Other code fences are not searched.
    """
    found: list[TemplatePiece] = []
    plain: list[str] = []
    fence = ""
    shell = False
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark is not None:
            fence = mark[1]
            shell = mark[2] == "!"
            found += _inline("\n".join([*plain, ""]) if plain else "")
            plain = [] if shell else [line]
        elif fence and mark is not None and mark[1].startswith(fence) and not mark[2]:
            if shell:
                found += [TemplatePiece("shell", "\n".join(plain)), TemplatePiece("text", "\n")]
            else:
                found.append(TemplatePiece("text", "\n".join([*plain, line, ""])))
            plain = []
            fence = ""
            shell = False
        else:
            plain.append(line)
    rest = "\n".join(plain)
    if fence:
        found.append(TemplatePiece("text", rest))
    else:
        found += _inline(rest)
    return [piece for piece in found if piece.text]


def shell_lines(body: str) -> list[str]:
    """Return the shell lines of a text as they are written."""
    return [piece.text.strip() for piece in split_template(body) if piece.kind == "shell"]


def fill_pieces(parts: Sequence[TemplatePiece], arguments: CommandArguments) -> list[TemplatePiece]:
    """Return the pieces with arguments filled in. Arguments that no piece takes are appended.

    Raises UnsafeArgument when a shell line would take more than plain words.
    """
    first = 0 if any(_FROM_ZERO.search(part.text) for part in parts) else 1
    filled = [TemplatePiece(part.kind, _fill(part, arguments, first)) for part in parts]
    if arguments.text and not any(_has_slot(part.text, arguments) for part in parts):
        filled.append(TemplatePiece("text", f"\n\nArguments: {arguments.text}"))
    return filled


def fill_text(body: str, arguments: CommandArguments) -> str:
    """Return the text with arguments filled in. Shell lines and files stay as they are written."""
    return "".join(piece.text for piece in fill_pieces([TemplatePiece("text", body)], arguments))


def fill_names(text: str, arguments: CommandArguments) -> str:
    """Return the text with the values of `${NAME}` filled in, and nothing else."""
    return _SLOT.sub(lambda found: arguments.names.get(found[3], found[0]) if found[3] else found[0], text)


def _inline(text: str) -> Iterator[TemplatePiece]:
    """Return the shell lines and files of a text outside code fences."""
    at = 0
    marks = [(m.start(), m.end(), "shell", m[1]) for m in _SHELL.finditer(text)]
    marks += [(m.start(), m.end(), "file", m[1] or m[2]) for m in _FILE.finditer(text)]
    for start, end, kind, inner in sorted(marks):
        if start < at:
            continue  # a file name inside a shell line belongs to that line
        if start > at:
            yield TemplatePiece("text", text[at:start])
        yield TemplatePiece("shell" if kind == "shell" else "file", inner)
        at = end
    if at < len(text):
        yield TemplatePiece("text", text[at:])


def _has_slot(text: str, arguments: CommandArguments) -> bool:
    return any(
        found[0].startswith("$ARGUMENTS") or found[2] or found[4] in arguments.named for found in _SLOT.finditer(text)
    )


def _fill(piece: TemplatePiece, arguments: CommandArguments, first: int) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "\\$":
            return "$" if piece.kind == "text" else found[0]
        if found[3]:
            return arguments.names.get(found[3], found[0])
        if (found[1] or found[2]) and not arguments.words and piece.kind == "text":
            return found[0]  # it may be code that is shown, such as `awk '{print $1}'`
        if found[4]:
            if found[4] not in arguments.named:
                return found[0]
            text = _word(arguments, arguments.named.index(found[4]))
        elif found[1] is not None:
            text = _word(arguments, int(found[1]))
        else:
            text = _word(arguments, int(found[2]) - first) if found[2] else arguments.text
        if piece.kind == "shell" and not all(_PLAIN_WORD.fullmatch(word) for word in re.split(r"[ \t]+", text)):
            raise UnsafeArgument(text)
        return text

    return _SLOT.sub(value, piece.text)


def _word(arguments: CommandArguments, at: int) -> str:
    return arguments.words[at] if at < len(arguments.words) else ""
