"""Markdown with YAML before it: the two parts of a file, and the line of every key.

Only plain data is read: no tags, no anchors, bounded. Text that YAML would read as structure (`description: Use it
when: …`) is taken as the text that it is, since that is how such files are written. Does not know what keys mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

MAX_YAML = 64_000
"""Characters before the body."""

_FENCE = re.compile(r"---[ \t]*")
_PLAIN_LINE = re.compile(r"(?P<key>[A-Za-z][\w-]*):[ \t]+(?P<value>[^\s\"'\[{|>&!%@`#].*)")
_STUMBLES = re.compile(r":(\s|$)|\s#|^\*")


class Unreadable(ValueError):
    """What is wrong with a file, and in which line, from 1 on; 0 where no line can be named."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A file in two parts. `lines` holds the line of each key; `loose` says that YAML alone would not have read it."""

    values: Mapping[str, Any]
    body: str
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    loose: bool = False


def read_front_matter(text: str) -> FrontMatter:
    """The values and the body of a text that begins with `---`. Raises Unreadable."""
    lines = text.split("\n")
    if not _FENCE.fullmatch(lines[0].rstrip("\r")):
        raise Unreadable("it does not begin with ---, so that nothing says what it is", 1)
    end = next((at for at, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line.rstrip("\r"))), 0)
    if not end:
        raise Unreadable("the --- that ends the fields is missing", 1)
    head = "\n".join(line.rstrip("\r") for line in lines[1:end])
    if len(head) > MAX_YAML:
        raise Unreadable(f"its fields are longer than {MAX_YAML:,} characters", 1)
    body = "\n".join(lines[end + 1 :]).strip()
    try:
        values, places = _mapping(head)
    except Unreadable:
        quoted = _quoted(head)
        if quoted == head:
            raise
        values, places = _mapping(quoted)
        return FrontMatter(values, body, places, loose=True)
    return FrontMatter(values, body, places)


def _quoted(head: str) -> str:
    """The fields with the texts in quotes that YAML would take for something else."""
    return "\n".join(_in_quotes(line) for line in head.split("\n"))


def _in_quotes(line: str) -> str:
    found = _PLAIN_LINE.fullmatch(line)
    if found is None or not _STUMBLES.search(found["value"]):
        return line
    return f"{found['key']}: {json.dumps(found['value'].rstrip())}"


def _mapping(head: str) -> tuple[dict[str, Any], dict[str, int]]:
    import yaml

    loader = cast("Any", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    try:
        _refuse_anchors(yaml, head, loader)
        made = loader(head)
        try:
            node = made.get_single_node()
            if node is None:
                return {}, {}
            if not isinstance(node, yaml.MappingNode):
                raise Unreadable("its fields are not `name: value` lines", _line(node))
            places = _places(node)
            values = made.construct_document(node)
        finally:
            made.dispose()
    except yaml.YAMLError as problem:
        raise _unreadable(problem) from None
    except RecursionError:
        raise Unreadable("its fields are nested too deeply", 2) from None
    except (ValueError, OverflowError, TypeError) as problem:
        if isinstance(problem, Unreadable):
            raise
        raise Unreadable(f"its fields cannot be read: {problem}", 2) from None
    return {str(key): value for key, value in cast("dict[Any, Any]", values).items()}, places


def _refuse_anchors(yaml: Any, head: str, loader: Any) -> None:
    """An anchor that is used again makes little text into much data, or into data without an end."""
    if "&" in head or "*" in head:
        for event in yaml.parse(head, Loader=loader):
            if getattr(event, "anchor", None):
                raise Unreadable("anchors (& and *) are not read; quote a text that has one", _line(event))


def _places(node: MappingNode) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, _ in cast("list[tuple[Node, Node]]", node.value):
        name = str(key.value)
        if name in found:
            raise Unreadable(f"{name[:60]!r} stands there twice", _line(key))
        found[name] = _line(key)
    return found


def _unreadable(problem: Any) -> Unreadable:
    mark = getattr(problem, "problem_mark", None)
    what = str(getattr(problem, "problem", None) or "the fields are no YAML")
    return Unreadable(f"its fields are no YAML: {' '.join(what.split())}", mark.line + 2 if mark is not None else 2)


def _line(node: Any) -> int:
    """The line in the file: the fields begin in its second one."""
    return int(node.start_mark.line) + 2
