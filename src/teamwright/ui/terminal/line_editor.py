"""The editor with line editing, history and completion, on prompt_toolkit; output is printed above the input line.

Only this module imports prompt_toolkit, and only on a terminal that supports it. Enter sends, Alt-Enter (or Esc, Enter)
starts a new line. Pasted text keeps its line feeds: a long one is shown as a placeholder, which is replaced when the
line is sent, and the path of an image becomes a mention. The rows below the line come from a StatusArea.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, is_done, is_searching, to_filter
from prompt_toolkit.formatted_text import ANSI, FormattedText
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from teamwright.ui.display_text import window_size
from teamwright.ui.terminal.editor_protocol import NO_DRAFT, EditorCallbacks, LineDraft, ReadCancelled
from teamwright.ui.terminal.keys import FOCUS_OFF, FOCUS_ON, KEY_TABLE, InterruptAction, KeyAction

REDRAW_S = 0.03
"""The minimum time between two redraws, in seconds; each redraw costs bytes."""

REDRAW_DELAY_S = 0.1
"""Seconds for which changes are collected before the rows below the line are compared."""

MAX_HISTORY_ENTRY = 100_000
"""The maximum size of a history entry in the file, in bytes; a longer entry is available only in this session."""

_SEND_KEYS = {Keys.ControlM, Keys.ControlJ}

_FOCUS_KEYS = {"\x1b[I": (Keys.F23, True), "\x1b[O": (Keys.F24, False)}
"""The terminal's reports of its focus. The library has no keys for them; no keyboard has these two."""

_ESCAPE_S = 0.3
"""Seconds that Esc waits for an Enter that belongs to it."""


class LineEditor:
    """An `Editor` that keeps the terminal in raw mode from the first line to `close`."""

    def __init__(self, callbacks: EditorCallbacks) -> None:
        self._callbacks = callbacks
        self._stack = ExitStack()
        # Do not query the cursor position: slow and simple terminals answer into the input line.
        self._output = Vt100_Output(sys.stdout, _size, term=os.environ.get("TERM"), enable_cpr=False)
        self._keyboard = create_input()
        self._deferred_keys: list[KeyPress] = []
        self._pastes = PastedTexts()
        # Keep raw mode between lines and during output, so that the kernel never gets a key.
        self._stack.enter_context(self._keyboard.raw_mode())
        self._stack.enter_context(create_app_session(input=self._keyboard, output=self._output))
        # Output of other code is printed above the line too; this module prints directly with `show`.
        self._stack.enter_context(patch_stdout(raw=True))
        depth = None if callbacks.colors else ColorDepth.DEPTH_1_BIT
        history = _History(str(_private_file(callbacks.history)), self._pastes.expand)
        keys = self._keys()
        self._lines: PromptSession[str] = PromptSession(
            multiline=True,
            history=history,
            completer=_LineCompleter(callbacks),
            complete_while_typing=False,
            key_bindings=keys,
            color_depth=depth,
            prompt_continuation="  ",
            placeholder=lambda: FormattedText([("fg:ansibrightblack", self._suggestion())]),
        )
        self._answers: PromptSession[str] = PromptSession(
            multiline=True, history=InMemoryHistory(), key_bindings=keys, color_depth=depth, prompt_continuation="  "
        )
        for session in (self._lines, self._answers):
            session.app.ttimeoutlen = _ESCAPE_S
            if callbacks.on_escape is not None:
                session.app.timeoutlen = _ESCAPE_S
            session.app.min_redraw_interval = REDRAW_S
            session.app.key_processor.before_key_press += self._note_key
            if callbacks.status_area is not None:
                _put_below(session, self._rows)
        _put_above(self._lines, self._text_rows)
        self._lines.default_buffer.on_text_changed += self._leave_rows
        self._note_key()  # the person has just started the program, or pressed its first key
        if callbacks.focus is not None:
            self._output.write_raw(FOCUS_ON)
            self._output.flush()
        self._redraw_timer: asyncio.TimerHandle | None = None
        self._shown_rows: list[str] = []
        self._shown_suggestion = ""
        self._shown_text: list[str] = []
        self._reading: PromptSession[str] | None = None
        self._is_cancelled = self._is_answering = False

    async def read(self, draft: LineDraft = NO_DRAFT) -> str:
        ahead, self._deferred_keys = self._deferred_keys, []
        store_typeahead(self._keyboard, ahead)
        return self._pastes.expand(await self._prompt(self._lines, draft, self._callbacks.label))

    async def answer(self, label: str, draft: LineDraft = NO_DRAFT) -> str:
        self._leave_rows()
        return await self._prompt(self._answers, draft, lambda: label)

    def defer_typed(self) -> None:
        """Keep typed keys for the next line. After an answer they may be meant for it too, so none of them sends."""
        keys = [*get_typeahead(self._keyboard), *self._keyboard.read_keys(), *self._keyboard.flush_keys()]
        self._deferred_keys += [one for one in keys if one.key not in _SEND_KEYS] if self._is_answering else keys

    def cancel_read(self) -> None:
        if self._reading is not None:
            self._is_cancelled = True
            self._leave_if_cancelled()

    def interrupt(self) -> None:
        if self._reading is not None:
            self._interrupt(self._reading.default_buffer)

    def show(self, text: str) -> None:
        app = self._reading.app if self._reading is not None and self._reading.app.is_running else None
        with suppress(OSError):  # the terminal was closed
            if app is not None:
                app.renderer.erase()
            self._output.enable_autowrap()
            self._output.write_raw(text)
            self._output.flush()
        if app is not None:
            app.invalidate()

    def refresh(self) -> None:
        """Redraw soon. Changes within a short time cause one comparison, and a redraw only after a difference."""
        if self._reading is not None and self._redraw_timer is None:
            self._redraw_timer = asyncio.get_running_loop().call_later(REDRAW_DELAY_S, self._redraw_if_changed)

    async def close(self) -> None:
        if self._redraw_timer is not None:
            self._redraw_timer.cancel()
        if self._callbacks.focus is not None:
            with suppress(OSError):  # the terminal was closed
                self._output.write_raw(FOCUS_OFF)
                self._output.flush()
        self._stack.close()

    def _redraw_if_changed(self) -> None:
        self._redraw_timer = None
        if self._reading is None:
            return
        below = self._callbacks.status_area
        is_text_new = list(self._callbacks.text_rows()) != self._shown_text
        is_text_new = is_text_new or self._callbacks.suggestion() != self._shown_suggestion
        if is_text_new or (below is not None and list(below.lines()) != self._shown_rows):
            self._reading.app.invalidate()

    def _rows(self) -> ANSI:
        """Return the rows below the line for prompt_toolkit. The rows are clean: their only sequences are colours."""
        self._shown_rows = [] if self._callbacks.status_area is None else list(self._callbacks.status_area.lines())
        return ANSI("\n".join(self._shown_rows))

    def _suggestion(self) -> str:
        """Return the text of the empty line; a line that was sent or cancelled has none."""
        self._shown_suggestion = self._callbacks.suggestion()
        return "" if self._lines.app.is_done else self._shown_suggestion

    def _text_rows(self) -> list[str]:
        """Return the rows of the text that still arrives. They are clean like those below the line."""
        self._shown_text = list(self._callbacks.text_rows())
        return self._shown_text

    async def _prompt(self, session: PromptSession[str], draft: LineDraft, label: Callable[[], str]) -> str:
        self._reading = session
        self._is_cancelled = False
        self._is_answering = session is self._answers
        session.app.erase_when_done = False
        try:
            return await session.prompt_async(
                lambda: FormattedText([("bold", label())]),
                default=Document(draft.text, draft.cursor),
                handle_sigint=False,
                set_exception_handler=False,
                pre_run=self._leave_if_cancelled,
            )
        finally:
            self._reading = None

    def _leave_if_cancelled(self) -> None:
        session = self._reading
        if session is None or not self._is_cancelled:
            return
        app, typed = session.app, session.default_buffer
        if app.is_running and app.future is not None and not app.future.done():
            app.erase_when_done = True
            app.exit(exception=ReadCancelled(LineDraft(typed.text, typed.cursor_position)))

    def _interrupt(self, typed: Buffer) -> None:
        act = self._callbacks.on_interrupt(bool(typed.text))
        session = self._reading
        if act is InterruptAction.CLEAR:
            typed.append_to_history()  # so that the cleared line is not lost
            typed.reset()
        elif act is InterruptAction.LEAVE and session is not None and session.app.is_running:
            session.app.exit(exception=EOFError)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _keys(self) -> KeyBindings:
        """Return the key bindings of the table with their actions."""
        keys = KeyBindings()
        actions: dict[KeyAction, Callable[[Buffer], object]] = {
            KeyAction.SEND: self._send,
            KeyAction.NEW_LINE: lambda typed: typed.insert_text("\n"),
            KeyAction.INTERRUPT: self._interrupt,
            KeyAction.BACKGROUND: self._background,
            KeyAction.BACKSPACE: self._backspace,
            KeyAction.SUGGESTION: lambda typed: typed.insert_text(self._callbacks.suggestion()),
        }
        if (below := self._callbacks.status_area) is not None:
            actions |= {
                KeyAction.DOWN: lambda typed: None if self._move_from_line(1, typed) else typed.auto_down(),
                KeyAction.UP: lambda typed: None if self._move_from_line(-1, typed) else typed.auto_up(),
                KeyAction.NEXT: lambda _: self._move_selection(1),
                KeyAction.PREVIOUS: lambda _: self._move_selection(-1),
                KeyAction.TASKS: lambda _: below.toggle_tasks(),
            }
        if self._callbacks.status_area is not None or self._callbacks.on_escape is not None:
            actions[KeyAction.BACK] = self._on_escape
        for action, call in ((KeyAction.MODE, self._callbacks.on_mode), (KeyAction.OUTPUT, self._callbacks.on_output)):
            if call is not None:
                actions[action] = lambda _, call=call: call()
        if self._callbacks.on_keys is not None:
            actions[KeyAction.KEYS] = self._show_keys
        if (focus := self._callbacks.focus) is not None:
            for sequence, (key, focused) in _FOCUS_KEYS.items():
                ANSI_SEQUENCES.setdefault(sequence, key)
                keys.add(key)(_key_handler(lambda _, focused=focused: focus.note_focus(focused)))
        keys.add(Keys.BracketedPaste, filter=~is_searching)(self._paste)
        for action, names in (bind for key in KEY_TABLE for bind in key.bindings):
            if (do := actions.get(action)) is not None:
                free = ~is_searching & ~has_completions if action is KeyAction.MODE else ~is_searching
                free = free & Condition(self._has_suggestion) if action is KeyAction.SUGGESTION else free
                keys.add(*names, filter=free)(_key_handler(do))  # during a search the library's bindings apply
        return keys

    def _has_suggestion(self) -> bool:
        is_empty = self._reading is self._lines and not self._lines.default_buffer.text
        return is_empty and bool(self._callbacks.suggestion())

    def _note_key(self, _processor: object = None) -> None:
        if self._callbacks.focus is not None:
            self._callbacks.focus.note_key()

    def _send(self, typed: Buffer) -> None:
        below = self._callbacks.status_area
        if self._reading is self._lines and typed.document.text_before_cursor.endswith("\\"):
            typed.delete_before_cursor()
            typed.insert_text("\n")
        elif below is None or self._reading is not self._lines or not below.open_marked():
            typed.validate_and_handle()

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert pasted text: a long one as a placeholder, which the answer to a question never contains."""
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        if self._reading is self._lines:
            cwd = self._callbacks.cwd
            text = (image_mention(text, cwd) if cwd is not None else "") or self._pastes.fold(text)
        event.current_buffer.insert_text(text)

    def _backspace(self, typed: Buffer) -> None:
        """Delete the character before the cursor, or a whole placeholder."""
        typed.delete_before_cursor(self._pastes.placeholder_before(typed.document.text_before_cursor) or 1)

    def _show_keys(self, typed: Buffer) -> None:
        if typed.text or self._reading is not self._lines or self._callbacks.on_keys is None:
            typed.insert_text("?")
        else:
            self._callbacks.on_keys()

    def _background(self, typed: Buffer) -> None:
        if typed.text:
            typed.cursor_left()
        else:
            self._callbacks.on_background()

    def _move_from_line(self, by: int, typed: Buffer) -> bool:
        """Return True when the key moves in the rows below: from an empty line, or while a row is marked."""
        below = self._callbacks.status_area
        ours = below is not None and (below.is_marked() or not typed.text)
        return ours and self._move_selection(by)

    def _move_selection(self, by: int) -> bool:
        below = self._callbacks.status_area
        return below is not None and self._reading is self._lines and below.move(by)

    def _leave_rows(self, _typed: Buffer | None = None) -> None:
        """Unmark the row when text is typed."""
        if self._callbacks.status_area is not None:
            self._callbacks.status_area.leave()

    def _on_escape(self, typed: Buffer) -> None:
        if self._callbacks.status_area is not None and self._callbacks.status_area.leave():
            return
        line = "" if typed.text or self._callbacks.on_escape is None else self._callbacks.on_escape()
        if line and self._reading is self._lines:
            typed.insert_text(line)
            typed.validate_and_handle()


def _key_handler(do: Callable[[Buffer], object]) -> Callable[[KeyPressEvent], None]:
    def pressed(event: KeyPressEvent) -> None:
        do(event.current_buffer)

    return pressed


def _put_below(session: PromptSession[str], rows: Callable[[], ANSI]) -> None:
    """Put rows below the input line; they disappear when the line is sent.

    Additional rows of the terminal stay empty below them, not between the line and the rows.
    """
    for window in session.layout.find_all_windows():
        if isinstance(window.content, BufferControl) and window.content.buffer is session.default_buffer:
            window.dont_extend_height = to_filter(True)
    drawn = Window(FormattedTextControl(rows), dont_extend_height=True)
    both = HSplit([session.layout.container, ConditionalContainer(drawn, ~is_done)], align=VerticalAlign.TOP)
    session.layout = session.app.layout = Layout(both, focused_element=session.default_buffer)


def _put_above(session: PromptSession[str], rows: Callable[[], list[str]]) -> None:
    """Put rows above the input line, as many as there are; they disappear when the line is sent."""
    drawn = Window(FormattedTextControl(lambda: ANSI("\n".join(rows()))), dont_extend_height=True)
    above = ConditionalContainer(drawn, ~is_done & Condition(lambda: bool(rows())))
    both = HSplit([above, session.layout.container], align=VerticalAlign.TOP)
    session.layout = session.app.layout = Layout(both, focused_element=session.default_buffer)


class _History(FileHistory):
    """A history file shared by several terminals: an entry is appended in one write, and a huge entry is left out.

    `expand` returns the whole text of an entry with placeholders.
    """

    def __init__(self, filename: str, expand: Callable[[str], str]) -> None:
        super().__init__(filename)
        self._expand = expand

    def append_string(self, string: str) -> None:
        """Add an entry with its whole text."""
        super().append_string(self._expand(string))

    def store_string(self, string: str) -> None:
        """Append an entry in the library's format."""
        lines = "".join(f"+{line}\n" for line in string.split("\n"))
        entry = f"\n# {datetime.now()}\n{lines}".encode("utf-8", "replace")
        if len(entry) > MAX_HISTORY_ENTRY:
            return
        with suppress(OSError):  # a full disk must not lose the typed line
            fd = os.open(self.filename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, entry)
            finally:
                os.close(fd)


class _LineCompleter(Completer):
    """An adapter from `complete` to the library's completer."""

    def __init__(self, callbacks: EditorCallbacks) -> None:
        self._callbacks = callbacks

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for one in await self._callbacks.complete(document.text_before_cursor):
            yield Completion(one.text, start_position=-one.length, display_meta=one.about)


def _size() -> Size:
    columns, rows = window_size()
    return Size(rows=rows, columns=columns)


def _private_file(path: Path) -> Path:
    """Return the history file, after making it readable only by its owner."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
    finally:
        os.close(fd)
    return path


MAX_VISIBLE_LINES, MAX_VISIBLE_CHARS = 5, 1_000
"""The most lines and characters of a paste that the input line shows; a longer paste becomes a placeholder."""

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})

_PLACEHOLDER = re.compile(r"\[pasted text \d+: [\d,]+ (?:lines|characters)\]")
_MAX_PATH = 4_096
_ESCAPED = re.compile(r"\\(.)")
_NEEDS_QUOTES = re.compile(r"[\s\"'`<>|]")


class PastedTexts(Struct):
    """The long texts that were pasted at one terminal, by their placeholders."""

    _texts: dict[str, str] = field(default_factory=dict[str, str])

    def fold(self, pasted: str) -> str:
        """Return the text for the input line: the pasted text, or a placeholder for a long one."""
        lines = pasted.rstrip("\n").count("\n") + 1
        if lines <= MAX_VISIBLE_LINES and len(pasted) <= MAX_VISIBLE_CHARS:
            return pasted
        size = f"{lines:,} lines" if lines > 1 else f"{len(pasted):,} characters"
        placeholder = f"[pasted text {len(self._texts) + 1}: {size}]"
        self._texts[placeholder] = pasted
        return placeholder

    def expand(self, line: str) -> str:
        """Return the line with the whole text in place of each placeholder."""
        return _PLACEHOLDER.sub(lambda found: self._texts.get(found[0], found[0]), line) if self._texts else line

    def placeholder_before(self, text_before: str) -> int:
        """Return the length of the placeholder that ends at the cursor; 0 without one."""
        if not self._texts or not text_before.endswith("]"):
            return 0
        last = list(_PLACEHOLDER.finditer(text_before))[-1:]
        return len(last[0][0]) if last and last[0].end() == len(text_before) and last[0][0] in self._texts else 0


def image_mention(pasted: str, cwd: Path) -> str:
    """Return `@PATH ` when the pasted text is the path of an existing image, which attaches it; else an empty text.

    Terminals paste a dropped file with quotes, with backslashes before blanks, or as an address `file://`.
    """
    text = pasted.strip()
    if "\n" in text or len(text) > _MAX_PATH:
        return ""
    for name in dict.fromkeys((text, _unquoted(text))):
        path = cwd / Path(name)
        if path.suffix.lower() not in IMAGE_SUFFIXES:
            continue
        try:
            if not path.is_file():
                continue
        except (OSError, ValueError):
            continue
        path_text = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
        if '"' not in path_text:
            return f'@"{path_text}" ' if _NEEDS_QUOTES.search(path_text) else f"@{path_text} "
    return ""


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.startswith("file://"):
        try:
            return unquote(urlsplit(text).path)
        except ValueError:
            return text
    plain = _ESCAPED.sub(r"\1", text)
    return str(Path.home() / plain[2:]) if plain.startswith("~/") else plain
