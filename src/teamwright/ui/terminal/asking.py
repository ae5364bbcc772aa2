"""Requests that wait for a person: one after the other, each shown whole, none answered by silence.

A queue and the asking of its first; the line that was being typed is kept by whoever reads lines. Knows requests
and an editor; decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.ui.terminal.editor import Editor, Withdrawn
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.questions import Meaning, Reply, question_label, question_lines, read_reply

Show = Callable[[Sequence[str]], None]


@dataclass(slots=True)
class Questions:
    """The queue. `asked` is the one on the screen."""

    waiting: list[RequestOpened] = field(default_factory=list[RequestOpened])
    asked: RequestOpened | None = None

    def opened(self, request: RequestOpened) -> None:
        """One more waits."""
        self.waiting.append(request)

    def closed(self, event: RequestClosed) -> bool:
        """One is over; whether it was the one on the screen."""
        self.waiting = [one for one in self.waiting if one.request != event.request]
        return self.asked is not None and self.asked.request == event.request

    async def ask_first(self, editor: Editor, narrator: Narrator, show: Show) -> str:
        """Ask the first until it is answered or gone. Returns words that were no answer, to be put back.

        Raises EOFError when the person wants to leave: the request stays open.
        """
        self.asked = request = self.waiting[0]
        show(question_lines(request, narrator, len(self.waiting) - 1))
        stray = ""
        try:
            while request in self.waiting:
                try:
                    line = await editor.answer(question_label(request))
                except Withdrawn:
                    continue
                reply = read_reply(request, line)
                if reply.meaning is Meaning.AGAIN:
                    stray += line
                    show([f"  {reply.text}"])
                elif request in self.waiting:
                    self.waiting.remove(request)
                    show(await _answered(request, reply))
        finally:
            self.asked = None
        return stray


async def _answered(request: RequestOpened, reply: Reply) -> list[str]:
    """Hand the answer over, and say so when it came too late."""
    match reply.meaning:
        case Meaning.ALLOW | Meaning.ALWAYS:
            first = await request.allow(always=reply.meaning is Meaning.ALWAYS)
        case Meaning.ANSWER:
            first = await request.answer(reply.text)
        case _:
            first = await request.deny(reply.text)
    return [] if first else ["  it was answered already, or nobody waits for it any more"]
