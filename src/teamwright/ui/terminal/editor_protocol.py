"""The Editor protocol: one line of input at a time, while output is printed above it.

The editor for dumb terminals uses the line editing of the kernel: it never moves the cursor, and no thread waits for
input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from teamwright.ui.terminal.keys import InterruptAction, WindowFocus
from teamwright.ui.terminal.line_completion import Candidate


class LineDraft(Struct, frozen=True):
    """A line that is being typed, and the position of the cursor in it."""

    text: str = ""
    cursor: int = 0

    def insert(self, more: str) -> LineDraft:
        """Return the draft with text inserted at the cursor."""
        return LineDraft(self.text[: self.cursor] + more + self.text[self.cursor :], self.cursor + len(more))


NO_DRAFT = LineDraft()


class ReadCancelled(Exception):
    """The read was cancelled; `draft` is the text typed so far, to be put back later."""

    def __init__(self, draft: LineDraft = NO_DRAFT) -> None:
        super().__init__()
        self.draft = draft


def _do_nothing() -> None:
    """Ignore a key without a function."""


def _no_rows() -> Sequence[str]:
    return ()


def _default_label() -> str:
    return "> "


class StatusArea(Protocol):
    """The rows below the input line, and the keys that move there."""

    def lines(self) -> Sequence[str]:
        """Return the current rows, each narrower than the window."""
        ...

    def move(self, by: int) -> bool:
        """Mark the next row (1) or the previous one (-1). Returns False when the input line keeps the key."""
        ...

    def is_marked(self) -> bool:
        """Return True when a row is marked."""
        ...

    def open_marked(self) -> bool:
        """Open the marked member. Returns False when no row is marked."""
        ...

    def leave(self) -> bool:
        """Unmark the row, so that keys go to the input line. Returns False when no row was marked."""
        ...

    def toggle_tasks(self) -> None:
        """Show or hide the task list."""


class EditorCallbacks(Struct, frozen=True):
    """The callbacks of an editor.

    `on_interrupt(has_text)` handles Ctrl-C; `complete(text before the cursor)` returns the completions of Tab. `label`
    is printed before the line. `history` is a file, created with mode 0600.
    """

    on_interrupt: Callable[[bool], InterruptAction]
    complete: Callable[[str], Awaitable[Sequence[Candidate]]]
    history: Path
    colors: bool = False
    on_background: Callable[[], None] = _do_nothing
    """The callback for Ctrl-B on an empty line."""
    on_mode: Callable[[], None] | None = None
    """The callback for Shift-Tab."""
    on_output: Callable[[], None] | None = None
    """The callback for Ctrl-O."""
    on_keys: Callable[[], None] | None = None
    """The callback for `?` on an empty line."""
    on_escape: Callable[[], str] | None = None
    """The callback for Esc on an empty line, which returns a line to send or nothing; None: the library's default."""
    cwd: Path | None = None
    """The directory of the session: pasted paths of images are relative to it. None: they stay as they are."""
    label: Callable[[], str] = _default_label
    status_area: StatusArea | None = None
    """The rows below the input line, on a terminal with a movable cursor."""
    text_rows: Callable[[], Sequence[str]] = _no_rows
    """The rows above the input line that show text which still arrives, on the same terminals."""
    suggestion: Callable[[], str] = str
    """The line that an empty input line suggests, on the same terminals; empty for none."""
    focus: WindowFocus | None = None
    """Receives keys and the focus of the window; None: they are not noted."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class Editor(Protocol):
    """The keyboard and screen of one person."""

    async def read(self, draft: LineDraft = NO_DRAFT) -> str:
        """Read a line for the session. Raises ReadCancelled, and EOFError when the person leaves."""
        ...

    async def answer(self, label: str, draft: LineDraft = NO_DRAFT) -> str:
        """Read an answer to a question, which the history does not keep. Raises the same errors as `read`.

        The line starts with the text of `draft` when the editor supports it.
        """
        ...

    def defer_typed(self) -> None:
        """Keep the text typed so far for the next `read`, so that it does not answer a question shown later."""

    def cancel_read(self) -> None:
        """Raise ReadCancelled in the current `read` or `answer`, if there is one."""

    def interrupt(self) -> None:
        """Handle Ctrl-C that arrived as a signal."""

    def show(self, text: str) -> None:
        """Print whole lines above the input line."""

    def refresh(self) -> None:
        """Redraw the rows below the input line when they changed."""

    async def close(self) -> None:
        """Restore the terminal, after all output was written."""


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
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(("\n" if self._label else "") + text + self._label)
            sys.stdout.flush()

    def refresh(self) -> None:
        """See Editor. A line that cannot be redrawn has no status rows."""

    async def close(self) -> None:
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
