"""What looking commands print: plain lines, tables, JSON. No colour, no cursor movement, at most 80 columns.

What others wrote is shown without control characters: no text of a file moves the cursor. Knows stdout alone.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

WIDTH = 80

CELL_MOST = 1_000
"""Characters of a cell that are looked at: no line has room for more."""


_STEERING = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters that JSON leaves as they are, and those that turn the direction of text."""


def say(line: str = "") -> None:
    """One line on stdout."""
    sys.stdout.write(line + "\n")


def note(line: str) -> None:
    """One line on stderr, for people."""
    sys.stderr.write(line + "\n")


def say_json(value: Any) -> None:
    """A value as JSON on stdout, two spaces deep; dataclasses become objects, what steers a terminal is escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2)
    sys.stdout.write(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def plain(value: Any) -> Any:
    """The value as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in _items(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in _each(value)]
    return str(value) if isinstance(value, Path) else value


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _each(value: Any) -> list[Any]:
    return list(value)


def one_line(text: str, width: int | None = None) -> str:
    """The text on one line without control characters, cut with `…` to so many columns."""
    flat = " ".join(clean(text).split())
    return flat if width is None else cut(flat, width)


def clean(text: str) -> str:
    """The text without control characters, but for newlines and tabs."""
    return "".join(char if char in "\n\t" or char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    return (
        " "
        if unicodedata.category(char) in ("Zs", "Zl", "Zp")
        else "�"
        if ord(char) > 0x7F
        else f"^{chr(ord(char) ^ 64)}"
    )


def columns(text: str) -> int:
    """How many columns a text takes: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def cut(text: str, width: int) -> str:
    """The text in at most so many columns."""
    begun = text[: 2 * width + 2]  # a prompt may have megabytes; marks that combine take no room of their own
    if len(begun) == len(text) and columns(text) <= width:
        return text
    while begun and columns(begun) > width - 1:
        begun = begun[:-1]
    return begun + "…"


def pad(text: str, width: int) -> str:
    """The text in exactly so many columns."""
    text = cut(text, width)
    return text + " " * (width - columns(text))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = WIDTH) -> list[str]:
    """Lines of a table; the last column takes what is left and is cut, the others are as wide as they need."""
    cells = [[one_line(cell[:CELL_MOST]) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(list(head), *cells, strict=True)]
    last = max(width - sum(widths[:-1]) - 2 * (len(head) - 1), 12)
    made: list[str] = []
    for row in (list(head), *cells):
        parts = [pad(cell, size) for cell, size in zip(row[:-1], widths, strict=False)]
        made.append("  ".join([*parts, cut(row[-1], last)]).rstrip())
    return made


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    for line in table(head, rows):
        say(line)


def facts(pairs: Sequence[tuple[str, str]], *, label: int = 12) -> None:
    """Print labels and values, a line each; an empty value leaves its line out."""
    for name, value in pairs:
        if value:
            say(f"{pad(name, label)} {one_line(value)}")
