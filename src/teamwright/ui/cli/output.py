"""Output of the reading commands: plain lines, tables and JSON, at most 80 columns wide. Only diffs have colours.

Control characters in texts of models and files are escaped. Depends on stdout and on the person's settings.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import asdict

from teamwright.protocol.ids import display_name
from teamwright.storage.paths import Home
from teamwright.ui.display_text import cell_width, clean, cut, json_text, one_line, pad
from teamwright.ui.terminal.styles import StyledLine, configured_terminal, make_paint, paint_lines
from teamwright.views.run_summary import duration

if TYPE_CHECKING:
    from teamwright.team_records.snapshots import TaskView

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""The flag `--json` of every reading command."""


def format_age(seconds_since_1970: float) -> str:
    """Return an age for people; empty for an unknown time."""
    return f"{duration(max(time.time() - seconds_since_1970, 0))} ago" if seconds_since_1970 else ""


def format_time(seconds_since_1970: float) -> str:
    """Return the local time of day, `14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%H:%M:%S")


def format_datetime(seconds_since_1970: float) -> str:
    """Return the local date and time, `2026-11-20 14:03:59`."""
    return datetime.fromtimestamp(seconds_since_1970).strftime("%Y-%m-%d %H:%M:%S")


def format_iso(iso: str) -> str:
    """Return an ISO 8601 time as local date and time; any other text is returned unchanged."""
    try:
        return format_datetime(datetime.fromisoformat(iso).timestamp())
    except (ValueError, OverflowError, OSError):
        return iso


WIDTH = 80

MAX_CELL = 1_000
"""The number of characters of a cell that are read; no line shows more."""


def say(line: str = "") -> None:
    """Print one cleaned line to stdout."""
    sys.stdout.write(clean(line) + "\n")


def note(line: str) -> None:
    """Print one cleaned line for people to stderr."""
    sys.stderr.write(clean(line) + "\n")


def say_styled(lines: Iterable[StyledLine], home: Home) -> None:
    """Print lines with styles to stdout, in colours on a terminal that supports them."""
    paint = make_paint(configured_terminal(home), is_tty=sys.stdout.isatty())
    for line in paint_lines(((style, clean(text)) for style, text in lines), paint):
        sys.stdout.write(line + "\n")


def say_json(value: Any) -> None:
    """Print a value as JSON, indented by two; structs become objects, control characters are escaped."""
    sys.stdout.write(json_text(to_plain(value), indent=2) + "\n")


def say_json_line(value: Any) -> None:
    """Print a value as JSON on one line."""
    sys.stdout.write(json_text(to_plain(value)) + "\n")


def to_plain(value: Any) -> Any:
    """Convert a value to one that JSON can encode."""
    if isinstance(value, Struct):
        return {name: to_plain(item) for name, item in asdict(value).items()}
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in _items(value)}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in _each(value)]
    return str(value) if isinstance(value, Path) else value


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items())


def _each(value: Any) -> list[Any]:
    return list(value)


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = WIDTH) -> list[str]:
    """Return the lines of a table. The last column is cut to the remaining width; the others fit their contents."""
    cells = [[one_line(cell[:MAX_CELL]) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(list(head), *cells, strict=True)]
    last = max(width - sum(widths[:-1]) - 2 * (len(head) - 1), 12)
    lines: list[str] = []
    for row in (list(head), *cells):
        parts = [pad(cell, size) for cell, size in zip(row[:-1], widths, strict=False)]
        lines.append("  ".join([*parts, cut(row[-1], last)]).rstrip())
    return lines


def say_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    for line in table_lines(head, rows):
        say(line)


def say_facts(pairs: Sequence[tuple[str, str]], *, label: int = 12) -> None:
    """Print labels and values, one pair a line; pairs with an empty value are left out."""
    for name, value in pairs:
        if value:
            say(f"{pad(name, label)} {one_line(value)}")


def changed_task_rows(views: Sequence[TaskView]) -> list[tuple[str, str, str, str, str]]:
    """Return tasks as cells: number, status with open blockers, owner, age of the last change, subject."""
    rows = zip(views, task_rows(views), strict=True)
    return [(*row[:3], _age(view.updated_at / 1000), row[3]) for view, row in rows]


def _age(seconds_since_1970: float) -> str:
    """Return an age in one unit, from minutes on; empty for an unknown time."""
    if not seconds_since_1970:
        return ""
    seconds = time.time() - seconds_since_1970
    return " ".join(duration(seconds).split()[:2]) if seconds >= 60 else "now"


def task_rows(views: Iterable[TaskView]) -> list[tuple[str, str, str, str]]:
    """Return tasks as cells: number, status with open blockers, owner, subject."""
    return [
        (f"#{view.id}", _task_status(view), display_name(view.owner or ""), view.damaged or view.subject)
        for view in views
    ]


def _task_status(view: TaskView) -> str:
    if view.damaged:
        return "damaged"
    if view.unverified or view.integration or view.notes:
        return ", ".join(filter(None, (view.status, "unverified" * view.unverified, view.integration, *view.notes)))
    if view.waits_for:
        return f"waits for {', '.join(f'#{id}' for id in view.waits_for)}"
    return "given, not started" if view.status == "pending" and view.owner else view.status
