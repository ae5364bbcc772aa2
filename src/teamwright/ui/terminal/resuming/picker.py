"""Picking one of a list before a session opens: arrow keys or a number where the cursor can be moved, else a number.

Draws below where the cursor is and leaves what was picked on the screen. Knows terminals; does not know what is picked.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
import tty
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.paint import PLAIN_TERMINALS, paint_for
from teamwright.ui.window import window_size

LABEL = "Which one"
KEYS = "Up and Down or a number, then Enter; Esc leaves"

_KEY = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|[\s\S]")
_UP, _DOWN = {b"\x1b[A", b"\x1bOA", b"\x10", b"k"}, {b"\x1b[B", b"\x1bOB", b"\x0e", b"j"}
_LEAVE = {b"\x1b", b"\x03", b"\x04", b"q"}
_ERASE = {b"\x7f", b"\x08"}
_ESCAPE_S = 0.1
"""How long a lone Esc waits for the rest of a key, in seconds."""

Lines = Callable[[int], Sequence[str]]
"""The head and the rows, for so many columns."""


@dataclass(slots=True)
class Picking:
    """What was pressed so far. `marked` counts from 0; `typed` are digits."""

    count: int
    marked: int = 0
    typed: str = ""
    problem: str = ""
    left: bool = False
    picked: int | None = None

    def press(self, key: bytes) -> None:
        """Take one key in; keys that mean nothing change nothing."""
        self.problem = ""
        if key in _UP or key in _DOWN:
            self.marked = (self.marked + (1 if key in _DOWN else -1)) % self.count
            self.typed = ""
        elif key in _LEAVE:
            self.left = True
        elif key in {b"\r", b"\n"}:
            self._enter()
        elif key in _ERASE:
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
            self.problem, self.typed = f"{number} is not in the range 1 to {self.count}", ""


def pick(lines: Lines, count: int, env: Mapping[str, str] = os.environ) -> int | None:
    """The number, from 0, of the row that the person picks; None when they leave. Raises KeyboardInterrupt."""
    if env.get("TERM", "") in PLAIN_TERMINALS or not sys.stdin.isatty():
        return _by_number(lines, count)
    picking, drawn = Picking(count), _Drawn(env)
    fd = sys.stdin.fileno()
    with _raw(fd), drawn:
        drawn.draw(lines, picking)
        for key in _keys(fd):
            picking.press(key)
            if picking.left or picking.picked is not None:
                break
            drawn.draw(lines, picking)
        drawn.said = "" if picking.picked is None or picking.typed else str(picking.picked + 1)
    return picking.picked


def _by_number(lines: Lines, count: int) -> int | None:
    """Where nothing on the screen can be moved."""
    sys.stdout.write("\n".join(lines(window_size().columns)) + "\n\n")
    picking = Picking(count)
    while picking.picked is None:
        sys.stdout.write(f"{picking.problem}\n" if picking.problem else "")
        sys.stdout.write(f"{LABEL} [1]: ")
        sys.stdout.flush()
        if not (said := sys.stdin.readline()):
            sys.stdout.write("\n")
            return None
        said = said.strip()
        if said and not (said.isascii() and said.isdigit()):
            picking.problem = f"a number from 1 to {count}, or Ctrl-D to leave"
            continue
        picking.typed = said
        picking.press(b"\n")
    return picking.picked


def _keys(fd: int) -> Iterator[bytes]:
    """Keys as they are pressed, until the terminal is gone. A signal that interrupts is the caller's."""
    while read := os.read(fd, 1024):
        if read.endswith(b"\x1b") and select.select([fd], [], [], _ESCAPE_S)[0]:
            read += os.read(fd, 1024)
        yield from _KEY.findall(read)


@contextlib.contextmanager
def _raw(fd: int) -> Generator[None]:
    """Keys one by one, not echoed; what was typed before the list was there picks nothing."""
    before = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSAFLUSH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


class _Drawn:
    """The list on the screen, drawn anew in its place; in a low window only the rows around the marked one."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._paint = paint_for(env, is_tty=sys.stdout.isatty())
        self._rows = 0
        self.said = ""

    def __enter__(self) -> None:
        """Nothing is drawn yet."""

    def __exit__(self, *_: object) -> None:
        """Leave the terminal below the list, with what was picked in it."""
        with contextlib.suppress(OSError):
            sys.stdout.write(f"{self.said}\r\n")
            sys.stdout.flush()

    def draw(self, lines: Lines, picking: Picking) -> None:
        size = window_size()
        head, *rows = lines(max(size.columns - 2, 8))
        room = max(size.lines - 5, 1)
        first = min(max(picking.marked - room + 1, 0), max(len(rows) - room, 0))
        shown = [f"  {head}"]
        for at, row in enumerate(rows[first : first + room], first):
            marked = at == picking.marked
            shown.append(f"> {self._paint('bold', row)}" if marked else f"  {row}")
        note = picking.problem or KEYS
        shown += ["", self._paint("yellow" if picking.problem else "dim", note[: size.columns - 1])]
        label = f"{LABEL} [{picking.marked + 1}]: {picking.typed}"
        self._write("\r\n".join([*shown, label]), len(shown))

    def _write(self, text: str, rows: int) -> None:
        above = f"\x1b[{self._rows}A" if self._rows else ""
        sys.stdout.write(f"\r{above}\x1b[J{text}" if self._rows else text)
        sys.stdout.flush()
        self._rows = rows
