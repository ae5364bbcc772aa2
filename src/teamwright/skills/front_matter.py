"""The head of a Markdown file: YAML between two `---` lines, and the text below it. All such files are read here.

Tolerant where a person was careless: a text that YAML would take for structure (`description: Use it when: …`) is the
text that it is. Short with who wants to be expensive: no aliases, no depth, no length. Knows no field by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, cast

from teamwright.protocol.values import dataclass
from teamwright.skills.head_lines import Begins, FieldLines, field_lines

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import MappingNode, Node

MAX_HEAD = 64_000
"""Characters between the two marks."""

MAX_DEPTH = 10
"""How deep lists and mappings may lie in each other."""

MAX_EVENTS = 4_000
"""Marks, keys and values of one head."""

_MARK = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_PLAIN_TEXT = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>[^\s\"'\[{|>&!%@`#].*)")
_HINT = re.compile(r"(argument[-_]hint[ \t]*:[ \t]+)([\[<{].*?)[ \t\r]*", re.IGNORECASE)
"""`[file] [mode]`: a text to whoever wrote it, and no YAML."""
_STUMBLES = re.compile(r":(\s|$)|\s#|^\*")


@dataclass(frozen=True, slots=True)
class FrontMatterProblem:
    """What is odd, in words, and the line it stands on, from 1."""

    line: int
    what: str


class UnreadableFrontMatter(ValueError):
    """What is wrong with a file, and in which line, from 1 on; 0 where no line can be named."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`values` are data by key; `lines` says where each top key stands; `body` is the text below.

    `present`: there is a head at all. `refused`: it is one that nobody should read, and `problems` says why. `loose`:
    YAML alone would not have read it.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    body: str = ""
    problems: tuple[FrontMatterProblem, ...] = ()
    is_present: bool = False
    is_refused: bool = False
    is_loose: bool = False


def _any_name(_key: str, _before: str) -> bool:
    return True


class _Loader(Protocol):
    """As much of a YAML loader as is used here."""

    def check_event(self) -> bool: ...
    def get_event(self) -> Event: ...
    def get_single_node(self) -> Node | None: ...
    def construct_document(self, node: Node) -> Any: ...
    def dispose(self) -> None: ...


class _HeadError(Exception):
    """The head, or one form of it, cannot be read. `greedy`: it wants more than a head may."""

    def __init__(self, line: int, what: str, *, greedy: bool = False) -> None:
        super().__init__(what)
        self.problem, self.greedy = FrontMatterProblem(line, what), greedy


def split(text: str) -> tuple[str, str, int] | None:
    """The head, the body, and the line of the closing mark; None when the text does not begin with a closed head."""
    lines = text.split("\n")
    if not _MARK.fullmatch(lines[0].rstrip("\r")):
        return None
    for at, line in enumerate(lines[1:], 1):
        if _END.fullmatch(line.rstrip("\r")):
            return "\n".join(lines[1:at]), "\n".join(lines[at + 1 :]), at + 1
    return None


def parse(text: str, begins: Begins = _any_name) -> FrontMatter:
    """The head, all scalars as texts as they were written, and the body.

    Never raises: what cannot be read is a problem with its line, and fields are read line by line without YAML. Of a
    key that is there twice the last one counts.
    """
    text = text.removeprefix("\ufeff")
    try:
        head, body = _parts(text)
    except _HeadError as wrong:
        found = split(text)
        body = text if found is None else found[1]
        return FrontMatter(body=body, problems=(wrong.problem,), is_present=found is not None, is_refused=wrong.greedy)
    try:
        node, told = _read(head)
    except _HeadError as wrong:
        if wrong.greedy:
            return FrontMatter(body=body, problems=(wrong.problem,), is_present=True, is_refused=True)
        values, lines = _parse_by_lines(head, begins)
        what = f"{wrong.problem.what}; it was read line by line"
        return FrontMatter(
            values, lines, body, (FrontMatterProblem(wrong.problem.line, what),), is_present=True, is_loose=True
        )
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems = [] if told is None else [told]
    for key, value in node.value if node is not None else ():
        name, line = str(_plain(key)), _line(key)
        if name in values:
            problems.append(FrontMatterProblem(line, f"{name} is there twice; the last one counts"))
        values[name], lines[name] = _plain(value), line
    return FrontMatter(values, lines, body, tuple(problems), is_present=True, is_loose=told is not None)


def parse_typed(text: str, begins: Begins | None = None) -> FrontMatter:
    """The head with numbers, true and false as such, and the body without blank space around it. No tags are read.

    With `begins`, a head that is no YAML is read line by line: each field is parsed alone, as YAML or else as text.
    Raises Unreadable with the line, also for a key that is there twice.
    """
    try:
        head, body = _parts(text.removeprefix("\ufeff"))
    except _HeadError as wrong:
        raise UnreadableFrontMatter(wrong.problem.what, wrong.problem.line) from None
    try:
        node, told = _read(head)
    except _HeadError as wrong:
        fields = field_lines(head, begins) if begins is not None and not wrong.greedy else []
        if not fields:
            raise UnreadableFrontMatter(wrong.problem.what, wrong.problem.line) from None
        values, lines = _field_by_field(fields)
        return FrontMatter(values, lines, body.strip(), is_present=True, is_loose=True)
    if node is None:
        return FrontMatter(body=body.strip(), is_present=True, is_loose=told is not None)
    values, lines = _typed(node)
    return FrontMatter(values, lines, body.strip(), is_present=True, is_loose=told is not None)


def _typed(node: MappingNode) -> tuple[dict[str, Any], dict[str, int]]:
    """Values and lines by key. Raises Unreadable."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name = str(_plain(key))
        if name in lines:
            raise UnreadableFrontMatter(f"{name[:60]} is there twice", _line(key))
        lines[name] = _line(key)
    return {str(key): value for key, value in _construct(node).items()}, lines


def _field_by_field(fields: Sequence[FieldLines]) -> tuple[dict[str, Any], dict[str, int]]:
    """Values and lines by key. Raises Unreadable."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for one in fields:
        if one.key in lines:
            raise UnreadableFrontMatter(f"{one.key[:60]} is there twice", one.line)
        values[one.key], lines[one.key] = _value_of(one), one.line
    return values, lines


def _value_of(one: FieldLines) -> Any:
    """The value of one field: as YAML reads it, else its text. A list or object that YAML cannot read is Unreadable."""
    try:
        node, _ = _read(one.source)
    except _HeadError as wrong:
        if wrong.greedy or one.text.startswith(("[", "{", "&", "*", "!")):
            raise UnreadableFrontMatter(wrong.problem.what, one.line) from None
        return one.text
    values, _ = _typed(node) if node is not None else ({}, {})
    return values[one.key] if list(values) == [one.key] else one.text


def _parts(text: str) -> tuple[str, str]:
    """The head and the body. Raises _Wrong."""
    parts = split(text)
    if parts is None:
        opened = _MARK.fullmatch(text.split("\n", 1)[0].rstrip("\r")) is not None
        none = "there is no front matter: it does not begin with ---"
        raise _HeadError(1, "the front matter is not closed with ---" if opened else none)
    if len(parts[0]) > MAX_HEAD:
        raise _HeadError(1, f"the front matter is longer than {MAX_HEAD:,} characters", greedy=True)
    return parts[0].replace("\t", "  "), parts[1]


def _read(head: str) -> tuple[MappingNode | None, FrontMatterProblem | None]:
    """The head's keys, as they stand, or with texts in quotes: then also what YAML stumbled over. Raises _Wrong."""
    head = "\n".join(map(_hint_in_quotes, head.split("\n"))) if _HINT.search(head) else head
    try:
        return _mapping(head), None
    except _HeadError as wrong:
        quoted = "\n".join(_in_quotes(line.rstrip("\r")) for line in head.split("\n"))
        if quoted == head.replace("\r", ""):
            raise
        try:
            node = _mapping(quoted)
        except _HeadError:
            raise wrong from None
        return node, FrontMatterProblem(wrong.problem.line, f"{wrong.problem.what}; texts were taken as they stand")


def _hint_in_quotes(line: str) -> str:
    found = _HINT.fullmatch(line)
    return line if found is None else f"{found[1]}{json.dumps(found[2])}"


def _in_quotes(line: str) -> str:
    """The line with its text in quotes, if YAML would take that for something else."""
    found = _PLAIN_TEXT.fullmatch(line)
    if found is None or not _STUMBLES.search(found["value"]):
        return line
    return f"{found['key']}: {json.dumps(found['value'].rstrip())}"


def _mapping(head: str) -> MappingNode | None:
    import yaml  # only who has such files pays for it

    try:
        _require_bounded(_loader(head))
        loader = _loader(head)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        line, what = _where(problem)
        raise _HeadError(line, f"the front matter is not YAML ({what})") from None
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise _HeadError(_line(node), "the front matter has no `name: value` lines")
    return node


def _loader(head: str) -> _Loader:
    import yaml

    return cast("_Loader", getattr(yaml, "CSafeLoader", yaml.SafeLoader)(head))


def _require_bounded(loader: _Loader) -> None:
    """Raises _Wrong before anything is built, and YAMLError for what is no YAML."""
    import yaml

    depth = count = 0
    while loader.check_event():
        event = loader.get_event()
        count += 1
        line = event.start_mark.line + 2 if event.start_mark is not None else 2
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _HeadError(line, "anchors and aliases (& and *) are not read; quote a text that has one", greedy=True)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _HeadError(line, f"the front matter is nested deeper than {MAX_DEPTH}", greedy=True)
        if count > MAX_EVENTS:
            raise _HeadError(line, f"the front matter has more than {MAX_EVENTS:,} parts", greedy=True)


def _construct(node: MappingNode) -> Mapping[Any, Any]:
    """The values as plain data. Raises Unreadable."""
    import yaml

    try:
        return cast("Mapping[Any, Any]", _loader("").construct_document(node))
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, TypeError) as problem:
        line, what = _where(problem)
        raise UnreadableFrontMatter(f"the front matter is not YAML ({what})", line) from None


def _plain(node: Node) -> Any:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_plain(one) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(_plain(key)): _plain(value) for key, value in node.value}
    return str(node.value)


def _where(problem: Exception) -> tuple[int, str]:
    mark = getattr(problem, "problem_mark", None)
    what = getattr(problem, "problem", None) or type(problem).__name__
    return (mark.line + 2 if mark is not None else 2), " ".join(str(what).split())[:80]


def _line(node: Node) -> int:
    """The line in the file: the head begins in its second one."""
    return int(node.start_mark.line) + 2


def _parse_by_lines(head: str, begins: Begins) -> tuple[dict[str, Any], dict[str, int]]:
    """Fields as texts, with the lines below them: items of a list without their dash."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for one in field_lines(head, begins):
        values[one.key] = " ".join(line.strip().removeprefix("- ") for line in one.text.split("\n")).strip()
        lines[one.key] = one.line
    return values, lines
