"""A list of sessions from which the user picks one: with arrow keys or a number, on a dumb terminal only with a number.

It is drawn below the cursor, and the choice stays on the screen. It needs no session, so that commands can show it
before they open one.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from msgspec import Struct

from teamwright.saved.session_list import ListedSession
from teamwright.ui.display_text import cell_width, cut, one_line, pad, window_size
from teamwright.ui.terminal.styles import is_plain_terminal, make_paint

LABEL = "Which one"

KEYS = "Up and Down or a number, then Enter; Esc leaves"

Lines = Callable[[int], Sequence[str]]
"""A function that returns the head and the rows for a width."""


def pick(lines: Lines, count: int, env: Mapping[str, str] = os.environ) -> int | None:
    """Return the index of the row that the person picks, from 0; None when they leave. Raises KeyboardInterrupt."""
    if is_plain_terminal(env) or not sys.stdin.isatty():
        return _pick_by_number(lines, count)
    picking = PickerState(count)
    drawn = _DrawnList(env)
    fd = sys.stdin.fileno()
    with _raw(fd), drawn:
        drawn.draw(lines, picking)
        for key in _keys(fd):
            picking.press(key)
            if picking.cancelled or picking.picked is not None:
                break
            drawn.draw(lines, picking)
        drawn.choice = "" if picking.picked is None or picking.typed else str(picking.picked + 1)
    return picking.picked


class PickerState(Struct):
    """The keys pressed so far. `marked` counts from 0; `typed` are digits."""

    count: int
    marked: int = 0
    typed: str = ""
    problem: str = ""
    cancelled: bool = False
    picked: int | None = None

    def press(self, key: bytes) -> None:
        """Process one key; an unknown key changes nothing."""
        self.problem = ""
        if key in _UP or key in _DOWN:
            self.marked = (self.marked + (1 if key in _DOWN else -1)) % self.count
            self.typed = ""
        elif key in _CANCEL_KEYS:
            self.cancelled = True
        elif key in {b"\r", b"\n"}:
            self._enter()
        elif key in _ERASE_KEYS:
            self.typed = self.typed[:-1]
        elif key.isdigit() and len(self.typed) < 6:
            self.typed += key.decode()
            if 1 <= int(self.typed) <= self.count:
                self.marked = int(self.typed) - 1

    def _enter(self) -> None:
        number = int(self.typed) if self.typed else self.marked + 1
        if 1 <= number <= self.count:
            self.picked = number - 1
        else:
            self.problem = f"{number} is not in the range 1 to {self.count}"
            self.typed = ""


def _pick_by_number(lines: Lines, count: int) -> int | None:
    """Let the person type a number, on a terminal without a movable cursor."""
    sys.stdout.write("\n".join(lines(window_size().columns)) + "\n\n")
    picking = PickerState(count)
    while picking.picked is None:
        sys.stdout.write(f"{picking.problem}\n" if picking.problem else "")
        sys.stdout.write(f"{LABEL} [1]: ")
        sys.stdout.flush()
        if not (line := sys.stdin.readline()):
            sys.stdout.write("\n")
            return None
        line = line.strip()
        if line and not (line.isascii() and line.isdigit()):
            picking.problem = f"a number from 1 to {count}, or Ctrl-D to leave"
            continue
        picking.typed = line
        picking.press(b"\n")
    return picking.picked


_KEY = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|[\s\S]")

_UP, _DOWN = {b"\x1b[A", b"\x1bOA", b"\x10", b"k"}, {b"\x1b[B", b"\x1bOB", b"\x0e", b"j"}

_CANCEL_KEYS = {b"\x1b", b"\x03", b"\x04", b"q"}

_ERASE_KEYS = {b"\x7f", b"\x08"}

_ESCAPE_S = 0.1
"""Seconds that a single Esc waits for the rest of an escape sequence."""


def _keys(fd: int) -> Iterator[bytes]:
    """Yield keys as they are pressed, until the terminal is closed. The caller handles signals."""
    while read := os.read(fd, 1024):
        if read.endswith(b"\x1b") and select.select([fd], [], [], _ESCAPE_S)[0]:
            read += os.read(fd, 1024)
        yield from _KEY.findall(read)


@contextlib.contextmanager
def _raw(fd: int) -> Generator[None]:
    """Read single keys without echo; keys typed before the list appeared are discarded."""
    before = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSAFLUSH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


class _DrawnList:
    """The list on the screen, redrawn in place; in a low window only the rows near the marked one."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._paint = make_paint(env, is_tty=sys.stdout.isatty())
        self._rows = 0
        self.choice = ""

    def __enter__(self) -> None:
        """Start without drawing."""

    def __exit__(self, *_: object) -> None:
        """Move the cursor below the list, which shows the choice."""
        with contextlib.suppress(OSError):
            sys.stdout.write(f"{self.choice}\r\n")
            sys.stdout.flush()

    def draw(self, lines: Lines, picking: PickerState) -> None:
        size = window_size()
        head, *rows = lines(max(size.columns - 2, 8))
        room = max(size.lines - 5, 1)
        first = min(max(picking.marked - room + 1, 0), max(len(rows) - room, 0))
        screen_lines = [f"  {head}"]
        for at, row in enumerate(rows[first : first + room], first):
            marked = at == picking.marked
            screen_lines.append(f"> {self._paint('bold', row)}" if marked else f"  {row}")
        note = picking.problem or KEYS
        screen_lines += ["", self._paint("yellow" if picking.problem else "dim", note[: size.columns - 1])]
        label = f"{LABEL} [{picking.marked + 1}]: {picking.typed}"
        self._write("\r\n".join([*screen_lines, label]), len(screen_lines))

    def _write(self, text: str, rows: int) -> None:
        above = f"\x1b[{self._rows}A" if self._rows else ""
        sys.stdout.write(f"\r{above}\x1b[J{text}" if self._rows else text)
        sys.stdout.flush()
        self._rows = rows


HEAD = ("", "id", "last", "team", "members", "prompt")

_MAX_TEAM = 20

_MIN_PROMPT = 12

_MAX_PROMPT = 400


def session_rows(rows: Sequence[ListedSession], width: int) -> list[str]:
    """Return the head and one line for each row, each narrower than `width`; empty columns are left out."""
    table = [HEAD, *(_cells(number, row) for number, row in enumerate(rows, 1))]
    columns = [at for at in range(len(HEAD)) if at in (0, len(HEAD) - 1) or any(line[at] for line in table[1:])]
    widths = {at: max(cell_width(line[at]) for line in table) for at in columns[:-1]}
    most = max(width, 1) - 1
    for at in (4, 2, 3):  # in a narrow window the prompt is more important than these columns
        if at in widths and most - sum(widths.values()) - 2 * len(widths) < _MIN_PROMPT:
            del widths[at]
    lines = ["  ".join([*(pad(line[at], widths[at]) for at in widths), line[-1]]).rstrip() for line in table]
    return [cut(line, most) for line in lines]


def _cells(number: int, row: ListedSession) -> tuple[str, ...]:
    """Return the cells of a session."""
    view = row.view
    last = f"runs, pid {view.pid}" if view.pid else _age(time.time() - view.changed_at)
    prompt = one_line(view.label[:_MAX_PROMPT]) or "(no prompt)"
    team = cut(one_line(row.team), _MAX_TEAM)
    return str(number), view.id[:8], last, team, str(row.members) if row.members else "", prompt


def _age(seconds: float) -> str:
    """Return an age in one unit."""
    for unit, size, most in (("s", 1, 60), ("min", 60, 60), ("h", 3_600, 48)):
        if seconds < size * most:
            return f"{max(int(seconds / size), 0)} {unit} ago"
    return f"{int(seconds / 86_400)} days ago"
