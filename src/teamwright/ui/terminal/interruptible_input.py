"""Input of a terminal: typed lines, and the requests that interrupt them, without losing a line.

Depends on an editor and on the dialog about requests; the caller interprets the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.ui.terminal.editor_protocol import NO_DRAFT, Editor, LineDraft, ReadCancelled
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_dialog import RequestDialog
from teamwright.ui.terminal.request_lines import request_line


class LineInput:
    """The input of one keyboard. `editor` is set before the first line; `show` prints lines above the input line."""

    editor: Editor

    def __init__(
        self, formatter: EventFormatter, show: Callable[[Sequence[str]], None], requests: RequestDialog
    ) -> None:
        self.formatter = formatter
        self.show = show
        self.requests = requests
        self._is_reading = False
        self._draft: LineDraft = NO_DRAFT
        self._was_interrupted = False  # by a request, just now

    async def read_line(self) -> str | None:
        """Return a line, or None after a request interrupted it. Raises EOFError when the person leaves."""
        if not self.requests.waiting:
            return await self._read_editor()
        stray = await self.requests.ask_first(self.editor, self.formatter, self.show, is_typing=bool(self._draft.text))
        self._was_interrupted = False
        if stray and self._draft.text:
            # The person was typing when the request came: the rest of the text belongs to the line.
            self._draft = self._draft.insert(stray)
        return None

    def note(self, event: TeamEvent) -> None:
        """Add the request that an event opens, or remove the one that it closes."""
        if isinstance(event, RequestOpened):
            self.add_request(event)
        elif isinstance(event, RequestClosed):
            self.remove_request(event)

    def add_request(self, request: RequestOpened) -> None:
        """Add a request: it is asked now, or after the current one."""
        self.requests.add(request)
        if self._is_reading:
            self.editor.cancel_read()
        elif self.requests.current is not None:
            self.show([f"  also waiting: {request_line(request, self.formatter)}"])

    def remove_request(self, event: RequestClosed) -> None:
        """Remove a closed request, also from the screen."""
        if self.requests.remove(event):
            self.editor.cancel_read()

    async def _read_editor(self) -> str | None:
        draft, self._draft = self._draft, NO_DRAFT
        self._is_reading = True
        try:
            return await self.editor.read(draft)
        except ReadCancelled as withdrawn:
            self._draft, self._was_interrupted = withdrawn.draft, bool(withdrawn.draft.text)
            return None
        finally:
            self._is_reading = False
