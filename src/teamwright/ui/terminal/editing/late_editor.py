"""A keyboard at which nobody has typed yet: a prompt and what is shown above it, until the first key.

Only then the library behind line editing loads, with that key: most members' panes are only looked at. Until then keys
are neither echoed nor read. Knows the editor that it becomes; knows no session.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
import termios
import tty
from collections.abc import Callable

from teamwright.ui.terminal.editing.editor import NOTHING, Editor, Kept, Wiring, Withdrawn
from teamwright.ui.terminal.text import cells

_ERASE_DOWN = "\r\x1b[J"


class LateEditor:
    """See editor.Editor. `make` makes the real one, for the terminal at `fd`."""

    def __init__(self, wiring: Wiring, fd: int, make: Callable[[Wiring], Editor]) -> None:
        self._wiring = wiring
        self._fd = fd
        self._make = make
        self._real: Editor | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._label = ""
        self._below: list[str] = []
        self._was = termios.tcgetattr(fd)
        tty.setcbreak(fd, termios.TCSANOW)

    async def read(self, kept: Kept = NOTHING) -> str:
        """See Editor."""
        editor = self._real or await self._at_first_key("> ", kept)
        return await editor.read(kept)

    async def answer(self, label: str, kept: Kept = NOTHING) -> str:
        """See Editor."""
        editor = self._real or await self._at_first_key(label, kept)
        return await editor.answer(label, kept)

    def set_aside(self) -> None:
        """See Editor. Keys that wait are the first ones."""
        if self._real is None and select.select([self._fd], [], [], 0)[0]:
            self._real = self._make(self._wiring)
        if self._real is not None:
            self._real.set_aside()

    def withdraw(self) -> None:
        """See Editor."""
        if self._real is not None:
            self._real.withdraw()
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Withdrawn())

    def interrupt(self) -> None:
        """See Editor. Nothing is typed, so there is no line to clear; a pane is not left by it."""
        if self._real is not None:
            self._real.interrupt()
        else:
            self._wiring.interrupted(False)

    def show(self, text: str) -> None:
        """See Editor."""
        if self._real is not None:
            self._real.show(text)
        else:
            self._draw(text)

    def refresh(self) -> None:
        """See Editor."""
        if self._real is not None:
            self._real.refresh()
        elif self._label and self._rows() != self._below:
            self._draw("")

    async def close(self) -> None:
        """See Editor."""
        if self._real is not None:
            await self._real.close()
        with contextlib.suppress(OSError, termios.error):  # a terminal that is gone
            termios.tcsetattr(self._fd, termios.TCSANOW, self._was)

    async def _at_first_key(self, label: str, kept: Kept) -> Editor:
        """The real editor, made when something is typed. Raises Withdrawn."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        self._draw("", label)
        loop.add_reader(self._fd, self._key)
        try:
            if not kept.text:
                await self._waiting
        finally:
            loop.remove_reader(self._fd)
            self._waiting = None
            self._draw("", "")
        self._real = self._make(self._wiring)
        return self._real

    def _key(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _draw(self, text: str, label: str | None = None) -> None:
        """Put the text in the place of the label and what is below it, and behind it what they are now."""
        gone = _ERASE_DOWN if self._label else ""
        self._label = self._label if label is None else label
        self._below = self._rows() if self._label else []
        down = "".join(f"\n{row}" for row in self._below)
        back = f"\x1b[{len(self._below)}A\r\x1b[{cells(self._label)}C" if self._below else ""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(gone + text + self._label + down + back)
            sys.stdout.flush()

    def _rows(self) -> list[str]:
        return [] if self._wiring.below is None else list(self._wiring.below.lines())
