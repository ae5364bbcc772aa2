"""What looking commands print: plain lines, tables, JSON. No colour, no cursor movement, at most 80 columns.

What others wrote is shown without control characters: no text of a file moves the cursor. Knows stdout alone.
"""

from __future__ import annotations

import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from teamwright.ui.printable import clean, json_text
from teamwright.views.cost_line import duration

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""`--json`, for every command that looks."""


def format_age(seconds_since_1970: float) -> str:
    """How long ago, for people; empty for a time that is not known."""
    return f"{duration(max(time.time() - seconds_since_1970, 0))} ago" if seconds_since_1970 else ""


def format_time(seconds_since_1970: float) -> str:
    """The local time of day, `14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%H:%M:%S")


def format_datetime(seconds_since_1970: float) -> str:
    """The local date and time, `2026-11-20 14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%Y-%m-%d %H:%M:%S")


def format_iso(iso: str) -> str:
    """A written time (ISO 8601) as local date and time; as it stands when it is not one."""
    try:
        return format_datetime(datetime.fromisoformat(iso).timestamp())
    except (ValueError, OverflowError, OSError):
        return iso


WIDTH = 80

MAX_CELL = 1_000
"""Characters of a cell that are looked at: no line has room for more."""


def say(line: str = "") -> None:
    """One line on stdout, without what would steer a terminal."""
    sys.stdout.write(clean(line) + "\n")


def note(line: str) -> None:
    """One line on stderr, for people, without what would steer a terminal."""
    sys.stderr.write(clean(line) + "\n")


def say_painted(line: str) -> None:
    """One line on stdout that bears colours; its text was cleaned before it was painted."""
    sys.stdout.write(line + "\n")


def say_json(value: Any) -> None:
    """A value as JSON on stdout, two spaces deep; dataclasses become objects, what steers a terminal is escaped."""
    sys.stdout.write(json_text(to_plain(value), indent=2) + "\n")


def say_json_line(value: Any) -> None:
    """A value as JSON on one line of stdout."""
    sys.stdout.write(json_text(to_plain(value)) + "\n")


def to_plain(value: Any) -> Any:
    """The value as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in _items(value)}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in _each(value)]
    return str(value) if isinstance(value, Path) else value


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _each(value: Any) -> list[Any]:
    return list(value)


def one_line(text: str, width: int | None = None) -> str:
    """The text on one line without control characters, cut with `…` to so many columns."""
    flat = " ".join(clean(text).split())
    return flat if width is None else cut(flat, width)


def display_width(text: str) -> int:
    """How many columns a text takes: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def cut(text: str, width: int) -> str:
    """The text in at most so many columns."""
    begun = text[: 2 * width + 2]  # a prompt may have megabytes; marks that combine take no room of their own
    if len(begun) == len(text) and display_width(text) <= width:
        return text
    while begun and display_width(begun) > width - 1:
        begun = begun[:-1]
    return begun + "…"


def pad(text: str, width: int) -> str:
    """The text in exactly so many columns."""
    text = cut(text, width)
    return text + " " * (width - display_width(text))


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = WIDTH) -> list[str]:
    """Lines of a table; the last column takes what is left and is cut, the others are as wide as they need."""
    cells = [[one_line(cell[:MAX_CELL]) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(list(head), *cells, strict=True)]
    last = max(width - sum(widths[:-1]) - 2 * (len(head) - 1), 12)
    made: list[str] = []
    for row in (list(head), *cells):
        parts = [pad(cell, size) for cell, size in zip(row[:-1], widths, strict=False)]
        made.append("  ".join([*parts, cut(row[-1], last)]).rstrip())
    return made


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    for line in table_lines(head, rows):
        say(line)


def say_facts(pairs: Sequence[tuple[str, str]], *, label: int = 12) -> None:
    """Print labels and values, a line each; an empty value leaves its line out."""
    for name, value in pairs:
        if value:
            say(f"{pad(name, label)} {one_line(value)}")
