"""The head of a Markdown file: YAML between two `---` lines, and the text below it.

Tolerant where a person was careless, and short with who wants to be expensive: no aliases, no depth, no length. All
scalars are texts, as they were written. Knows no field by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import Node

HEAD_MOST = 64_000
"""Characters between the two marks."""

DEPTH_MOST = 6
"""How deep lists and mappings may lie in each other."""

EVENTS_MOST = 4_000
"""Marks, keys and values of one head."""

_MARK = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_PLAIN_LINE = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is odd, in words, and the line it stands on, from 1."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`values` are texts, lists and mappings; `lines` says where each top key stands; `body` is the text below.

    `present`: there is a head at all. `refused`: it is one that nobody should read, and `problems` says why.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    body: str = ""
    problems: tuple[Problem, ...] = ()
    present: bool = False
    refused: bool = False


class _Events(Protocol):
    """As much of a YAML loader as is used here."""

    def check_event(self) -> bool: ...
    def get_event(self) -> Event: ...


class _Refused(Exception):
    """The head wants more than a head may."""


def split(text: str) -> tuple[str, str, int] | None:
    """The head, the body, and the line of the closing mark; None when the text does not begin with a closed head."""
    lines = text.split("\n")
    if not _MARK.fullmatch(lines[0].rstrip("\r")):
        return None
    for at, line in enumerate(lines[1:], 1):
        if _END.fullmatch(line.rstrip("\r")):
            return "\n".join(lines[1:at]), "\n".join(lines[at + 1 :]), at + 1
    return None


def parse(text: str) -> FrontMatter:
    """The head and the body of a file. Never raises: what cannot be read is a problem with its line."""
    text = text.removeprefix("\ufeff")
    parts = split(text)
    if parts is None:
        opened = _MARK.fullmatch(text.split("\n", 1)[0].rstrip("\r")) is not None
        what = "the front matter is not closed with ---" if opened else "there is no front matter"
        return FrontMatter(body=text, problems=(Problem(1, what),))
    head, body, _ = parts
    if len(head) > HEAD_MOST:
        what = f"the front matter is longer than {HEAD_MOST:,} characters"
        return FrontMatter(body=body, problems=(Problem(1, what),), present=True, refused=True)
    return _parsed(head.replace("\t", "  "), body)


def _parsed(head: str, body: str) -> FrontMatter:
    import yaml  # only who has such files pays for it

    try:
        _require_modest(head)
        node: Node | None = yaml.BaseLoader(head).get_single_node()
    except _Refused as refused:
        return FrontMatter(body=body, problems=(Problem(2, str(refused)),), present=True, refused=True)
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        line, what = _where(problem)
        values, lines = _by_lines(head)
        told = Problem(line, f"the front matter is not YAML ({what}); it was read line by line")
        return FrontMatter(values, lines, body, (told,), present=True)
    if node is None:
        return FrontMatter(body=body, present=True)
    if not isinstance(node, yaml.MappingNode):
        return FrontMatter(body=body, problems=(Problem(2, "the front matter has no keys"),), present=True)
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    for key, value in node.value:
        name, line = str(_plain(key)), key.start_mark.line + 2
        if name in values:
            problems.append(Problem(line, f"{name} is there twice; the last one counts"))
        values[name], lines[name] = _plain(value), line
    return FrontMatter(values, lines, body, tuple(problems), present=True)


def _require_modest(head: str) -> None:
    """Raises _Refused before anything is built, and YAMLError for what is no YAML."""
    import yaml

    depth = count = 0
    loader = cast("_Events", yaml.BaseLoader(head))
    while loader.check_event():
        event = loader.get_event()
        count += 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused("the front matter has anchors or aliases, which are not read")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MOST:
            raise _Refused(f"the front matter is nested deeper than {DEPTH_MOST}")
        if count > EVENTS_MOST:
            raise _Refused(f"the front matter has more than {EVENTS_MOST:,} parts")


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
    return (mark.line + 2 if mark is not None else 2), str(what)[:80]


def _by_lines(head: str) -> tuple[dict[str, Any], dict[str, int]]:
    """`key: value` lines as they are, with what is indented below them."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    last = ""
    for at, line in enumerate(head.split("\n"), 2):
        if found := _PLAIN_LINE.fullmatch(line.rstrip()):
            last = found[1]
            value = (found[2] or "").strip()
            values[last] = "" if value in {"|", ">", "|-", ">-"} else value.strip("\"'")
            lines[last] = at
        elif last and line[:1].isspace() and line.strip():
            values[last] = f"{values[last]} {line.strip().removeprefix('- ')}".strip()
    return values, lines
