"""The editor for dumb terminals, which uses the line editing of the kernel.

It never moves the cursor, and no thread waits for input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections import deque

from msgspec import Struct, field

from teamwright.ui.terminal.editor import NO_DRAFT, EditorCallbacks, LineDraft, ReadCancelled
from teamwright.ui.terminal.keys import InterruptAction

_CHUNK = 65_536


class PlainEditor(Struct):
    """See editor.Editor."""

    callbacks: EditorCallbacks
    fd: int = 0
    _lines: deque[str] = field(default_factory=deque[str])
    _partial: bytes = b""
    _at_end: bool = False
    _label: str = ""
    _waiting: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        asyncio.get_running_loop().add_reader(self.fd, self._on_readable)

    async def read(self, draft: LineDraft = NO_DRAFT) -> str:
        """See Editor. The kernel keeps typed text, so no draft is put back."""
        return await self._next_line(self.callbacks.label())

    async def answer(self, label: str, draft: LineDraft = NO_DRAFT) -> str:
        """See Editor. Lines that were finished before the question do not answer it. No draft is put back."""
        before, self._lines = self._lines, deque()
        try:
            return await self._next_line(label)
        finally:
            self._lines = before + self._lines

    def defer_typed(self) -> None:
        """See Editor. Finished lines are read now; `answer` leaves them for the next `read`."""
        if select.select([self.fd], [], [], 0)[0]:
            self._on_readable()

    def cancel_read(self) -> None:
        """See Editor."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ReadCancelled())

    def interrupt(self) -> None:
        """See Editor. The kernel has discarded the line already."""
        self.show("")
        if (
            self.callbacks.on_interrupt(False) is InterruptAction.LEAVE
            and self._waiting is not None
            and not self._waiting.done()
        ):
            self._waiting.set_exception(EOFError())

    def show(self, text: str) -> None:
        """See Editor."""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(("\n" if self._label else "") + text + self._label)
            sys.stdout.flush()

    def refresh(self) -> None:
        """See Editor. A line that cannot be redrawn has no status rows."""

    async def close(self) -> None:
        """See Editor."""
        asyncio.get_running_loop().remove_reader(self.fd)

    async def _next_line(self, label: str) -> str:
        self.show(label)
        self._label = label
        try:
            while not self._lines:
                if self._at_end:
                    # A terminal can continue after Ctrl-D; a closed one reports the end again at once.
                    self._at_end = False
                    asyncio.get_running_loop().add_reader(self.fd, self._on_readable)
                    raise EOFError
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
            return self._lines.popleft()
        finally:
            self._label = ""
            self._waiting = None

    def _on_readable(self) -> None:
        try:
            read = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        if read:
            *whole, self._partial = (self._partial + read).split(b"\n")
            self._lines += [line.decode(errors="replace").rstrip("\r") for line in whole]
        else:
            self._on_end()
        if (whole_line := self._waiting) is not None and (self._lines or self._at_end) and not whole_line.done():
            whole_line.set_result(None)

    def _on_end(self) -> None:
        """Stop watching stdin: a closed terminal would be readable forever."""
        self._at_end = True
        if self._partial:
            self._lines.append(self._partial.decode(errors="replace"))
            self._partial = b""
        asyncio.get_running_loop().remove_reader(self.fd)
