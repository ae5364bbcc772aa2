"""The front matter of Markdown files: YAML between two `---` lines, and the text below it.

All such files are read here. Common mistakes are accepted: a text that YAML would read as structure (`description: Use
it when: …`) stays a text. Expensive input is refused: aliases, deep nesting, great length. No field name is special.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from msgspec import Struct, field

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import MappingNode, Node


_KEY = re.compile(r"""(["']?)([A-Za-z][\w-]*)\1[ \t]*:(?:[ \t]+(.*))?""")
_EXAMPLE = re.compile(r"<(/?)example\b", re.IGNORECASE)
_BLOCK = re.compile(r"[|>][-+0-9]*")


class FieldLines(Struct, frozen=True):
    """One field: its key, the line of the file that it begins in, and its lines; the first one has the key."""

    key: str
    line: int
    lines: tuple[str, ...]

    @property
    def source(self) -> str:
        """The field as it is written."""
        return "\n".join(self.lines)

    @property
    def text(self) -> str:
        """The value as a text: without the key, the mark of a block, and quotes around all of it."""
        found = _KEY.fullmatch(self.lines[0])
        first = (found[3] or "").strip() if found is not None else ""
        rest = dedent("\n".join(self.lines[1:]))
        content = rest if _BLOCK.fullmatch(first) else f"{first}\n{rest}"
        content = content.strip()
        quoted = len(content) > 1 and content[0] in "\"'" and content[-1] == content[0]
        return content[1:-1] if quoted else content


Begins: TypeAlias = Callable[[str, str], bool]
"""True when a key at the start of a line begins a field, given the key of the field before (empty for the first)."""


def field_lines(head: str, begins: Begins) -> list[FieldLines]:
    """Return the fields of a head in order, also a key that is there twice. Lines inside `<example>` begin none."""
    lines = [line.rstrip() for line in head.split("\n")]
    inside = _inside_examples(lines)
    found: list[tuple[str, int]] = []
    for at, line in enumerate(lines):
        key = _KEY.fullmatch(line)
        if key is not None and not inside[at] and begins(key[2], found[-1][0] if found else ""):
            found.append((key[2], at))
    ends = [at for _, at in found[1:]] + [len(lines)]
    return [FieldLines(key, at + 2, tuple(lines[at:end])) for (key, at), end in zip(found, ends, strict=False)]


def _inside_examples(lines: Sequence[str]) -> list[bool]:
    """Return for each line if it begins inside an example. An example without an end hides no field."""
    found: list[bool] = []
    depth = 0
    for line in lines:
        found.append(depth > 0)
        for tag in _EXAMPLE.finditer(line):
            depth = max(depth + (-1 if tag[1] else 1), 0)
    return found if depth == 0 else [False] * len(lines)


MAX_HEAD = 64_000
"""The most characters between the two marks."""

MAX_DEPTH = 10
"""The deepest nesting of lists and mappings."""

MAX_EVENTS = 4_000
"""The most YAML events (marks, keys and values) of one front matter."""

_MARK = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_PLAIN_TEXT = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>[^\s\"'\[{|>&!%@`#].*)")
_HINT = re.compile(r"(argument[-_]hint[ \t]*:[ \t]+)([\[<{].*?)[ \t\r]*", re.IGNORECASE)
"""An argument hint such as `[file] [mode]`: the author means a text, which is not valid YAML."""
_STUMBLES = re.compile(r":(\s|$)|\s#|^\*")


class FrontMatterProblem(Struct, frozen=True):
    """A fault as text, and its line, from 1."""

    line: int
    what: str


class UnreadableFrontMatter(ValueError):
    """The fault of an unreadable front matter and its line, from 1; 0 when no line is known."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class FrontMatter(Struct, frozen=True):
    """A front matter. `values` are data by key; `lines` has the line of each top key; `body` is the text below.

    `is_present`: the file has a front matter. `is_refused`: it must not be used, and `problems` has the reasons.
    `is_loose`: it is not valid YAML.
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
    """The methods of a YAML loader that are used here."""

    def check_event(self) -> bool: ...
    def get_event(self) -> Event: ...
    def get_single_node(self) -> Node | None: ...
    def construct_document(self, node: Node) -> Any: ...
    def dispose(self) -> None: ...


class _HeadError(Exception):
    """A front matter, or one form of it, that cannot be read. `greedy`: it exceeds a limit."""

    def __init__(self, line: int, what: str, *, greedy: bool = False) -> None:
        super().__init__(what)
        self.problem = FrontMatterProblem(line, what)
        self.greedy = greedy


def split(text: str) -> tuple[str, str, int] | None:
    """Return the front matter, the body, and the line of the closing mark; None for a text without a closed front
    matter."""
    lines = text.split("\n")
    if not _MARK.fullmatch(lines[0].rstrip("\r")):
        return None
    for at, line in enumerate(lines[1:], 1):
        if _END.fullmatch(line.rstrip("\r")):
            return "\n".join(lines[1:at]), "\n".join(lines[at + 1 :]), at + 1
    return None


def parse(text: str, begins: Begins = _any_name) -> FrontMatter:
    """Parse the front matter with all scalars as the texts that were written, and the body.

    Raises nothing: a fault becomes a problem with its line, and the fields are then read line by line without YAML. The
    last value of a repeated key counts.
    """
    text = text.removeprefix("\ufeff")
    try:
        head, body = _parts(text)
    except _HeadError as wrong:
        found = split(text)
        body = text if found is None else found[1]
        return FrontMatter(body=body, problems=(wrong.problem,), is_present=found is not None, is_refused=wrong.greedy)
    try:
        node, problem = _read(head)
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
    problems = [] if problem is None else [problem]
    for key, value in node.value if node is not None else ():
        name = str(_plain(key))
        line = _line(key)
        if name in values:
            problems.append(FrontMatterProblem(line, f"{name} is there twice; the last one counts"))
        values[name], lines[name] = _plain(value), line
    return FrontMatter(values, lines, body, tuple(problems), is_present=True, is_loose=problem is not None)


def parse_typed(text: str, begins: Begins | None = None) -> FrontMatter:
    """Parse the front matter with numbers and booleans as such, and the stripped body. YAML tags are not read.

    With `begins`, invalid YAML is read line by line: each field is parsed alone, as YAML or else as text. Raises
    UnreadableFrontMatter with the line, also for a repeated key.
    """
    try:
        head, body = _parts(text.removeprefix("\ufeff"))
    except _HeadError as wrong:
        raise UnreadableFrontMatter(wrong.problem.what, wrong.problem.line) from None
    try:
        node, problem = _read(head)
    except _HeadError as wrong:
        fields = field_lines(head, begins) if begins is not None and not wrong.greedy else []
        if not fields:
            raise UnreadableFrontMatter(wrong.problem.what, wrong.problem.line) from None
        values, lines = _field_by_field(fields)
        return FrontMatter(values, lines, body.strip(), is_present=True, is_loose=True)
    if node is None:
        return FrontMatter(body=body.strip(), is_present=True, is_loose=problem is not None)
    values, lines = _typed(node)
    return FrontMatter(values, lines, body.strip(), is_present=True, is_loose=problem is not None)


def _typed(node: MappingNode) -> tuple[dict[str, Any], dict[str, int]]:
    """Return values and lines by key. Raises UnreadableFrontMatter."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name = str(_plain(key))
        if name in lines:
            raise UnreadableFrontMatter(f"{name[:60]} is there twice", _line(key))
        lines[name] = _line(key)
    return {str(key): value for key, value in _construct(node).items()}, lines


def _field_by_field(fields: Sequence[FieldLines]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return values and lines by key, each field read alone. Raises UnreadableFrontMatter."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for one in fields:
        if one.key in lines:
            raise UnreadableFrontMatter(f"{one.key[:60]} is there twice", one.line)
        values[one.key], lines[one.key] = _value_of(one), one.line
    return values, lines


def _value_of(one: FieldLines) -> Any:
    """Return the value of one field: as YAML, else its text.

    Raises UnreadableFrontMatter for a list or object with a fault.
    """
    try:
        node, _ = _read(one.source)
    except _HeadError as wrong:
        if wrong.greedy or one.text.startswith(("[", "{", "&", "*", "!")):
            raise UnreadableFrontMatter(wrong.problem.what, one.line) from None
        return one.text
    values, _ = _typed(node) if node is not None else ({}, {})
    return values[one.key] if list(values) == [one.key] else one.text


def _parts(text: str) -> tuple[str, str]:
    """Return the front matter and the body. Raises _HeadError."""
    parts = split(text)
    if parts is None:
        opened = _MARK.fullmatch(text.split("\n", 1)[0].rstrip("\r")) is not None
        none = "there is no front matter: it does not begin with ---"
        raise _HeadError(1, "the front matter is not closed with ---" if opened else none)
    if len(parts[0]) > MAX_HEAD:
        raise _HeadError(1, f"the front matter is longer than {MAX_HEAD:,} characters", greedy=True)
    _refuse_swallowed_field(parts[0])
    return parts[0].replace("\t", "  "), parts[1]


def _refuse_swallowed_field(head: str) -> None:
    """Raise _HeadError for an indented field that limits an agent: it would become a part of the text above it."""
    above = ""
    for number, line in enumerate(head.split("\n"), 2):
        if line[:1].strip():
            above = line.partition(":")[2].strip()
        elif above and above[0] not in "|>\"'[{&*!" and (found := _LIMITING.match(line)) is not None:
            what = f"{found[1]} is indented, so it would belong to the text above: begin the line with {found[1]}"
            raise _HeadError(number, what, greedy=True)


_LIMITING = re.compile(r"[ \t]+(tools|disallowed-?tools|allowed-?tools|permission-?mode|sandbox)[ \t]*:", re.IGNORECASE)
"""An indented field without which an agent or a skill may do more."""


def _read(head: str) -> tuple[MappingNode | None, FrontMatterProblem | None]:
    """Return the node of the front matter, with texts quoted where needed, and then also YAML's complaint.

    Raises _HeadError.
    """
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
        return node, FrontMatterProblem(wrong.problem.line, f"{wrong.problem.what}; texts were read literally")


def _hint_in_quotes(line: str) -> str:
    found = _HINT.fullmatch(line)
    return line if found is None else f"{found[1]}{json.dumps(found[2])}"


def _in_quotes(line: str) -> str:
    """Return the line with its text in quotes, if YAML would read that as something else."""
    found = _PLAIN_TEXT.fullmatch(line)
    if found is None or not _STUMBLES.search(found["value"]):
        return line
    return f"{found['key']}: {json.dumps(found['value'].rstrip())}"


def _mapping(head: str) -> MappingNode | None:
    import yaml  # the import is slow, so only sessions with such files pay for it

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
    """Raise _HeadError when a limit is exceeded, before values are built, and YAMLError for invalid YAML."""
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
    """Return the values as plain data. Raises UnreadableFrontMatter."""
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
    """Return the line in the file. The front matter begins in line 2."""
    return int(node.start_mark.line) + 2


def _parse_by_lines(head: str, begins: Begins) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the fields as texts, with the lines below them: items of a list without their dash."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for one in field_lines(head, begins):
        values[one.key] = " ".join(line.strip().removeprefix("- ") for line in one.text.split("\n")).strip()
        lines[one.key] = one.line
    return values, lines
