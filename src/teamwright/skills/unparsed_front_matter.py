"""The fields of a front matter that YAML cannot read: each known key at the start of a line begins one.

Public agent definitions have examples with lines such as `user: "…"` in their description; such lines belong to the
text. Depends on nothing; the value of each field is read by `front_matter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import TypeAlias

from msgspec import Struct

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
        said = rest if _BLOCK.fullmatch(first) else f"{first}\n{rest}"
        said = said.strip()
        quoted = len(said) > 1 and said[0] in "\"'" and said[-1] == said[0]
        return said[1:-1] if quoted else said


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
