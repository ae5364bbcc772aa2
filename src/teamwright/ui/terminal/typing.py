"""What a person types, line by line, and the requests that are put to them in between: no line is lost to either.

Knows an editor and requests; does not know what a line means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.asking import Questions
from teamwright.ui.terminal.editing.editor import NOTHING, Editor, Kept, Withdrawn
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.questions import head_line


@dataclass(slots=True)
class Typing:
    """One keyboard. `editor` is set before the first line; `show` puts lines above what is being typed."""

    narrator: Narrator
    show: Callable[[Sequence[str]], None]
    editor: Editor = field(init=False)
    questions: Questions = field(default_factory=Questions)
    _at_line: bool = False
    _kept: Kept = NOTHING
    _cut: bool = False
    """Whether a question has just come into a line that was being typed."""

    async def line(self) -> str | None:
        """A line; None when a question came in between. Raises EOFError when the person wants to leave."""
        if not self.questions.waiting:
            return await self._line()
        stray = await self.questions.ask_first(self.editor, self.narrator, self.show, typing=bool(self._kept.text))
        self._cut = False
        if stray and self._kept.text:
            # They were still typing their line when the question came: the rest of it belongs there.
            self._kept = self._kept.joined(stray)
        return None

    def opened(self, request: RequestOpened) -> None:
        """A request waits for the person: it is put to them now, or after the one that is on the screen."""
        self.questions.opened(request)
        if self._at_line:
            self.editor.withdraw()
        elif self.questions.asked is not None:
            self.show([f"  also waiting: {head_line(request, self.narrator)}"])

    def closed(self, event: RequestClosed) -> None:
        """A request is over; the one on the screen is taken away."""
        if self.questions.closed(event):
            self.editor.withdraw()

    async def _line(self) -> str | None:
        kept, self._kept = self._kept, NOTHING
        self._at_line = True
        try:
            return await self.editor.read(kept)
        except Withdrawn as withdrawn:
            self._kept, self._cut = withdrawn.kept, bool(withdrawn.kept.text)
            return None
        finally:
            self._at_line = False
