"""The choice of an editor: line editing on terminals with a movable cursor, else the lines of the kernel.

Line editing is deferred: a prompt and output are shown until the first key; then the line editor loads and receives the
key.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
import termios
import tty
from collections.abc import Callable, Mapping

from teamwright.ui.display_text import cell_width
from teamwright.ui.terminal.editor_protocol import (
    NO_DRAFT,
    Editor,
    EditorCallbacks,
    LineDraft,
    PlainEditor,
    ReadCancelled,
)
from teamwright.ui.terminal.styles import is_plain_terminal


def make_editor(callbacks: EditorCallbacks, env: Mapping[str, str], *, deferred: bool = False) -> Editor:
    """Return the editor for this process's terminal, which `env` describes. With `deferred`, its library loads at the
    first key.
    """
    if is_plain_terminal(env) or not sys.stdin.isatty():
        return PlainEditor(callbacks, sys.stdin.fileno())
    return DeferredEditor(callbacks, sys.stdin.fileno(), _line_editor) if deferred else _line_editor(callbacks)


def _line_editor(callbacks: EditorCallbacks) -> Editor:
    from teamwright.ui.terminal.line_editor import LineEditor

    return LineEditor(callbacks)


_ERASE_DOWN = "\r\x1b[J"


class DeferredEditor:
    """An editor that is replaced by the real one at the first key. `make` creates that, for the terminal at `fd`."""

    def __init__(self, callbacks: EditorCallbacks, fd: int, make: Callable[[EditorCallbacks], Editor]) -> None:
        self._callbacks = callbacks
        self._fd = fd
        self._make = make
        self._editor: Editor | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._label = ""
        self._status_rows: list[str] = []
        self._text_rows: list[str] = []
        self._saved_mode = termios.tcgetattr(fd)
        tty.setcbreak(fd, termios.TCSANOW)

    async def read(self, draft: LineDraft = NO_DRAFT) -> str:
        editor = self._editor or await self._wait_for_first_key("> ", draft)
        return await editor.read(draft)

    async def answer(self, label: str, draft: LineDraft = NO_DRAFT) -> str:
        editor = self._editor or await self._wait_for_first_key(label, draft)
        return await editor.answer(label, draft)

    def defer_typed(self) -> None:
        """See Editor. Waiting keys are the first ones typed."""
        if self._editor is None and select.select([self._fd], [], [], 0)[0]:
            self._editor = self._make(self._callbacks)
        if self._editor is not None:
            self._editor.defer_typed()

    def cancel_read(self) -> None:
        if self._editor is not None:
            self._editor.cancel_read()
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ReadCancelled())

    def interrupt(self) -> None:
        """See Editor. No line was typed that could be cleared, and Ctrl-C does not leave a pane."""
        if self._editor is not None:
            self._editor.interrupt()
        else:
            self._callbacks.on_interrupt(False)

    def show(self, text: str) -> None:
        if self._editor is not None:
            self._editor.show(text)
        else:
            self._draw(text)

    def refresh(self) -> None:
        if self._editor is not None:
            self._editor.refresh()
        elif self._label and (self._rows(), list(self._callbacks.text_rows())) != (self._status_rows, self._text_rows):
            self._draw("")

    async def close(self) -> None:
        if self._editor is not None:
            await self._editor.close()
        with contextlib.suppress(OSError, termios.error):  # the terminal was closed
            termios.tcsetattr(self._fd, termios.TCSANOW, self._saved_mode)

    async def _wait_for_first_key(self, label: str, draft: LineDraft) -> Editor:
        """Wait for the first key and create the real editor. Raises ReadCancelled."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        self._draw("", label)
        loop.add_reader(self._fd, self._on_key)
        try:
            if not draft.text:
                await self._waiting
        finally:
            loop.remove_reader(self._fd)
            self._waiting = None
            self._draw("", "")
        self._editor = self._make(self._callbacks)
        return self._editor

    def _on_key(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _draw(self, text: str, label: str | None = None) -> None:
        """Replace the label and the rows around it by the text, and redraw them after it."""
        up = f"\x1b[{len(self._text_rows)}A" if self._text_rows else ""
        gone = up + _ERASE_DOWN if self._label else ""
        self._label = self._label if label is None else label
        self._status_rows = self._rows() if self._label else []
        self._text_rows = list(self._callbacks.text_rows()) if self._label else []
        above = "".join(f"{row}\n" for row in self._text_rows)
        down = "".join(f"\n{row}" for row in self._status_rows)
        back = f"\x1b[{len(self._status_rows)}A\r\x1b[{cell_width(self._label)}C" if self._status_rows else ""
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(gone + text + above + self._label + down + back)
            sys.stdout.flush()

    def _rows(self) -> list[str]:
        return [] if self._callbacks.status_area is None else list(self._callbacks.status_area.lines())
