"""A keyboard with line editing, history and completion; output goes above the line that is being typed.

The one module that knows prompt_toolkit, and imported only when a person sits at a terminal that can do it. Enter
sends, Alt-Enter (or Esc, Enter) begins a new line, pasted line feeds are kept. Knows no session.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from teamwright.ui.terminal.editor import NOTHING, Kept, Wiring, Withdrawn
from teamwright.ui.terminal.keys import Act

_ESCAPE_S = 0.3
"""How long Esc waits for the Enter that belongs to it, in seconds."""


class LineEditor:
    """See editor.Editor."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._stack = ExitStack()
        # No question to the terminal about its cursor: slow and simple ones answer into the line.
        self._output = Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        keyboard = create_input()
        # Raw from first to last: a key between two lines, or while something is printed, is never the kernel's.
        self._stack.enter_context(keyboard.raw_mode())
        self._stack.enter_context(create_app_session(input=keyboard, output=self._output))
        # What others print goes above the line too; our own words take the shorter way of `show`.
        self._stack.enter_context(patch_stdout(raw=True))
        depth = None if wiring.colors else ColorDepth.DEPTH_1_BIT
        history = FileHistory(str(_private(wiring.history)))
        keys = self._keys()
        self._lines: PromptSession[str] = PromptSession(
            multiline=True,
            history=history,
            completer=_Offers(wiring),
            complete_while_typing=False,
            key_bindings=keys,
            color_depth=depth,
            prompt_continuation="  ",
        )
        self._answers: PromptSession[str] = PromptSession(
            multiline=True, history=InMemoryHistory(), key_bindings=keys, color_depth=depth, prompt_continuation="  "
        )
        for session in (self._lines, self._answers):
            session.app.ttimeoutlen = _ESCAPE_S
            if wiring.escaped is not None:
                session.app.timeoutlen = _ESCAPE_S
        self._reading: PromptSession[str] | None = None
        self._withdrawn = False
        self._shown_status = ""

    async def read(self, kept: Kept = NOTHING) -> str:
        """See Editor."""
        return await self._prompt(self._lines, kept, "> ")

    async def answer(self, label: str, kept: Kept = NOTHING) -> str:
        """See Editor."""
        return await self._prompt(self._answers, kept, label)

    def withdraw(self) -> None:
        """See Editor."""
        if self._reading is None:
            return
        self._withdrawn = True
        self._leave_if_withdrawn()

    def interrupt(self) -> None:
        """See Editor."""
        if self._reading is not None:
            self._interrupt(self._reading.default_buffer)

    def show(self, text: str) -> None:
        """See Editor."""
        app = self._reading.app if self._reading is not None and self._reading.app.is_running else None
        with suppress(OSError):  # a terminal that is gone reads nothing
            if app is not None:
                app.renderer.erase()
            self._output.enable_autowrap()
            self._output.write_raw(text)
            self._output.flush()
        if app is not None:
            app.invalidate()

    def refresh(self) -> None:
        """See Editor."""
        if self._reading is not None and self._wiring.status() != self._shown_status:
            self._reading.app.invalidate()

    async def close(self) -> None:
        """See Editor."""
        self._stack.close()

    async def _prompt(self, session: PromptSession[str], kept: Kept, label: str) -> str:
        self._reading, self._withdrawn = session, False
        session.app.erase_when_done = False
        try:
            return await session.prompt_async(
                lambda: self._message(label),
                default=Document(kept.text, kept.cursor),
                handle_sigint=False,
                set_exception_handler=False,
                pre_run=self._leave_if_withdrawn,
            )
        finally:
            self._reading = None

    def _message(self, label: str) -> FormattedText:
        self._shown_status = status = self._wiring.status()
        first = [("fg:ansibrightblack" if self._wiring.colors else "", status + "\n")] if status else []
        return FormattedText([*first, ("bold", label)])

    def _leave_if_withdrawn(self) -> None:
        session = self._reading
        if session is None or not self._withdrawn:
            return
        app, typed = session.app, session.default_buffer
        if app.is_running and app.future is not None and not app.future.done():
            app.erase_when_done = True
            app.exit(exception=Withdrawn(Kept(typed.text, typed.cursor_position)))

    def _interrupt(self, typed: Buffer) -> None:
        act = self._wiring.interrupted(bool(typed.text))
        session = self._reading
        if act is Act.CLEAR:
            # The line is cleared, not lost: the history has it.
            typed.append_to_history()
            typed.reset()
        elif act is Act.LEAVE and session is not None and session.app.is_running:
            session.app.exit(exception=EOFError)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def interrupt(event: KeyPressEvent) -> None:
            self._interrupt(event.current_buffer)

        @keys.add("c-b")
        def background(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.cursor_left()
            else:
                self._wiring.background()

        self._bound = (send, new_line, interrupt, background)
        if (escaped := self._wiring.escaped) is not None:

            @keys.add("escape")
            def escape(event: KeyPressEvent) -> None:
                if not event.current_buffer.text:
                    escaped()

            self._bound = (*self._bound, escape)
        return keys


class _Offers(Completer):
    """Our candidates, in the form of the library."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for one in self._wiring.offered(document.text_before_cursor):
            yield Completion(one.text, start_position=-one.length, display_meta=one.about)


def _size() -> Size:
    columns, rows = shutil.get_terminal_size()
    return Size(rows=rows, columns=columns)


def _private(path: Path) -> Path:
    """The history's file, readable by its owner alone, whatever it was before."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)
    return path
