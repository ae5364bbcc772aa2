"""Positions in a JSON text: the line of every key and list item, and duplicate keys.

Computed on demand, only for texts that `json.loads` accepts, so that sessions do not pay for it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

At: TypeAlias = tuple[str | int, ...]
"""The path to a value from the top: keys of objects and indexes of lists."""

DEEPEST = 12
"""Levels that are searched; a deeper value has the position of its twelfth level."""

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def explain_json_error(problem: json.JSONDecodeError) -> str:
    """Describe an error in a JSON text; comments and trailing commas are named as such."""
    after = problem.doc[problem.pos :].lstrip()
    before = problem.doc[: problem.pos].rstrip()
    if after.startswith(("//", "/*", "#")):
        return "there is a comment, and JSON has none"
    if (after[:1] and after[0] in "]}" and before.endswith(",")) or re.match(r",\s*[\]}]", after):
        return f"there is a comma too many, before {after.lstrip(', ')[:1].strip() or 'the end'}"
    return problem.msg.lower() if after else "it ends too early"


class JsonPositions(Struct, frozen=True):
    """Lines from 1 on. `twice` are duplicate keys, of which only the last is used, at the line of an earlier one."""

    lines: Mapping[At, int] = field(default_factory=dict[At, int])
    twice: tuple[tuple[At, int], ...] = ()

    def line(self, *at: str | int) -> int:
        """Return the line of a value, else of the nearest enclosing value; 0 when nothing is known."""
        while at not in self.lines and at:
            at = at[:-1]
        return self.lines.get(at, 0)


def find_positions(text: str) -> JsonPositions:
    """Return the positions in a JSON text; none for any other text."""
    walk = _Walk(text)
    try:
        if not walk.whole():
            return JsonPositions()
    except (ValueError, IndexError, RecursionError):
        return JsonPositions()
    return JsonPositions(walk.lines, tuple(walk.twice))


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: dict[At, int] = {}
        self.twice: list[tuple[At, int]] = []
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def whole(self) -> bool:
        """Record all positions. Returns True when the text is one value and nothing else."""
        return self._skip(self.value(0, ())) == len(self.text)

    def value(self, at: int, way: At) -> int:
        """Record the value that begins here and its parts. Returns the end of the value."""
        at = self._skip(at)
        self.lines.setdefault(way, self._line(at))
        if len(way) >= DEEPEST or self.text[at] not in "{[":
            return self._scalar(at)[1]
        return self._object(at, way) if self.text[at] == "{" else self._list(at, way)

    def _object(self, at: int, way: At) -> int:
        at, seen = self._skip(at + 1), set[str]()
        while self.text[at] != "}":
            name, end = self._scalar(at)
            here = (*way, str(name))
            if name in seen:
                self.twice.append((here, self.lines[here]))
            seen.add(name)
            self.lines[here] = self._line(at)
            at = self._skip(self.value(self._skip(end) + 1, here))
            at = self._skip(at + 1) if self.text[at] == "," else at
        return at + 1

    def _list(self, at: int, way: At) -> int:
        at, count = self._skip(at + 1), 0
        while self.text[at] != "]":
            self.lines[(*way, count)] = self._line(at)
            at = self._skip(self.value(at, (*way, count)))
            count += 1
            at = self._skip(at + 1) if self.text[at] == "," else at
        return at + 1

    def _scalar(self, at: int) -> tuple[Any, int]:
        return _DECODER.raw_decode(self.text, at)

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found is not None else at

    def _line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1
