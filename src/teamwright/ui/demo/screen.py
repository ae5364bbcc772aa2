"""Where the demo is shown: a line an event with its time, and on a terminal the panel below them.

A stream that fails is written to no more; whoever runs the demo is told once. Off a terminal, on a dumb one and in a
window that is too small the same lines come without the panel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from typing import TextIO

from teamwright.protocol.events import TeamEvent
from teamwright.protocol.values import dataclass
from teamwright.ui.demo.board import WIDTH, Board
from teamwright.ui.demo.lines import laid_out, line_of
from teamwright.ui.headless.progress import shown

_ABOVE = 3
"""Rows that must be left above the panel."""


def can_redraw(out: TextIO) -> bool:
    """Whether the stream is a terminal whose cursor can be moved."""
    return out.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


@dataclass(slots=True)
class Screen:
    """Prints lines, and keeps the panel below them. `failed` is why the stream took no more, once it did not."""

    out: TextIO
    panel: bool
    on_failure: Callable[[], object] | None = None
    failed: OSError | None = None
    board: Board = field(default_factory=Board)
    started: float = field(default_factory=time.monotonic)
    _drawn: int = 0

    def event(self, event: TeamEvent) -> None:
        """Show an event."""
        new = event.member not in self.board.members
        self.board.note(event)
        said = line_of(event, self.board, new=new)
        if said is not None:
            at = time.monotonic() - self.started
            self.line(laid_out(f"{at:5.1f}  {shown(event.member)[:10]:<10} ", said))
        elif self.panel:
            self._redraw([])

    def mark(self, sign: str, text: str) -> None:
        """A line of its own for what happened to the whole program."""
        at = time.monotonic() - self.started
        self.line(laid_out(f"{at:5.1f}  {sign} ", text))

    def line(self, text: str) -> None:
        """One line above the panel."""
        self._redraw([text])

    def close(self) -> None:
        """Take the panel away; what comes now comes without it."""
        if self._drawn:
            self._write(self._erased())
        self.panel, self._drawn = False, 0

    def _redraw(self, lines: list[str]) -> None:
        erased = self._erased()
        below = self._below()
        self._drawn = len(below)
        self._write(erased + "".join(line.rstrip() + "\n" for line in [*lines, *below]))

    def _below(self) -> list[str]:
        """The panel, if there is room for it now."""
        if not self.panel:
            return []
        columns, rows = self._size()
        made = self.board.lines()
        return made if columns >= WIDTH and rows >= len(made) + _ABOVE else []

    def _erased(self) -> str:
        """What takes the panel away. In a window that is too narrow now it is not where it was drawn: it stays."""
        if not self._drawn or self._size()[0] < WIDTH:
            return ""
        return f"\r\x1b[{self._drawn}A\x1b[J"

    def _size(self) -> tuple[int, int]:
        try:
            return os.get_terminal_size(self.out.fileno())
        except (OSError, ValueError):
            return 0, 0

    def _write(self, text: str) -> None:
        if self.failed is not None:
            return
        try:
            self.out.write(text)
            self.out.flush()
        except OSError as problem:
            self.failed, self.panel, self._drawn = problem, False, 0
            if self.on_failure is not None:
                self.on_failure()
