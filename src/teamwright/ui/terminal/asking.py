"""Requests that wait for a person: one after the other, each shown whole, none answered by silence.

A queue and the asking of its first; the line that was being typed is kept by whoever reads lines. Knows requests
and an editor; decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.editing.editor import Editor, Kept, Withdrawn
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.questions import (
    EDITED,
    Meaning,
    Reply,
    head_line,
    is_long,
    question_label,
    question_lines,
    read_reply,
)
from teamwright.ui.terminal.text import clean

Show = Callable[[Sequence[str]], None]

SETTLES_S = 1.0
"""After the request on the screen was answered elsewhere: a line that comes so soon may have been meant for it."""

IN_A_LINE = "  you were typing when this came: once more, please"
UNSEEN = "  it was not shown whole: v shows all of it, then answer"

TOO_LATE = "  it was answered already, or is no longer open"


_YES = {Meaning.ALLOW, Meaning.ALWAYS, Meaning.EDIT}


class Next(StrEnum):
    """What comes after a line at a question."""

    DONE = "done"
    ASK = "ask"
    SHOW = "show"


@dataclass(slots=True)
class Questions:
    """The queue. `asked` is the one on the screen; `aside` are those that the person answers later."""

    waiting: list[RequestOpened] = field(default_factory=list[RequestOpened])
    asked: RequestOpened | None = None
    aside: list[RequestOpened] = field(default_factory=list[RequestOpened])
    clock: Callable[[], float] = time.monotonic
    _taken_away: float = float("-inf")
    _came_at: float = float("-inf")
    _seen: bool = True

    @property
    def count(self) -> int:
        """How many wait beside the one on the screen."""
        return len(self.waiting) - (self.asked is not None) + len(self.aside)

    def opened(self, request: RequestOpened) -> None:
        """One more waits."""
        self.waiting.append(request)

    def closed(self, event: RequestClosed) -> bool:
        """One is over; whether it was the one on the screen."""
        self.waiting = [one for one in self.waiting if one.request != event.request]
        self.aside = [one for one in self.aside if one.request != event.request]
        shown = self.asked is not None and self.asked.request == event.request
        if shown:
            self._taken_away = self.clock()
        return shown

    def again(self) -> bool:
        """Ask those anew that were to be answered later; whether there are any."""
        self.waiting, self.aside = [*self.waiting, *self.aside], []
        return bool(self.waiting)

    def lines(self, narrator: Narrator) -> list[str]:
        """All that wait, a line each, with the name by which any other terminal answers them."""
        waiting = [*self.waiting, *self.aside]
        return [f"  {one.request}  {head_line(one, narrator)}" for one in waiting] or ["  no request waits"]

    async def ask_first(self, editor: Editor, narrator: Narrator, show: Show, *, typing: bool = False) -> str:
        """Ask the first until it is answered, gone, or put aside. Returns words that were no answer, to be put back.

        What was typed before it is shown answers nothing. `typing`: it came into a line that was being typed, whose
        end is no answer either. Raises EOFError when the person wants to leave: the request stays open.
        """
        self.asked = request = self.waiting[0]
        self._seen, self._came_at = not is_long(request), self.clock() if typing else float("-inf")
        editor.set_aside()
        stray: list[str] = []
        then = Next.SHOW
        try:
            while request in self.waiting:
                if then is Next.SHOW:
                    show(question_lines(request, narrator, len(self.waiting) - 1, short=not self._seen))
                then = await self._line(request, editor, narrator, show, stray)
        finally:
            self.asked = None
        return "".join(stray)

    async def _line(
        self, request: RequestOpened, editor: Editor, narrator: Narrator, show: Show, stray: list[str]
    ) -> Next:
        """Read one line, and do what it says."""
        try:
            line = await editor.answer(question_label(request))
            if line.strip() and self.clock() - self._taken_away < SETTLES_S:
                show(["  the request before this one has just gone: once more, please"])
                return Next.ASK
            reply = read_reply(request, line)
            if self._too_soon(reply):
                show([IN_A_LINE])
                return Next.ASK
            if reply.meaning in _YES and not self._seen:
                show([UNSEEN])
                return Next.ASK
            if reply.meaning is Meaning.AGAIN:
                stray.append(line)
                show([f"  {reply.text}"])
                return Next.ASK
            return await self._heard(request, reply, editor, narrator, show)
        except Withdrawn:
            return Next.ASK

    def _too_soon(self, reply: Reply) -> bool:
        """Whether an answer may be the end of the line that was being typed: only the first one may."""
        came_at, self._came_at = self._came_at, float("-inf")
        return reply.meaning is not Meaning.AGAIN and self.clock() - came_at < SETTLES_S

    async def _heard(
        self, request: RequestOpened, reply: Reply, editor: Editor, narrator: Narrator, show: Show
    ) -> Next:
        """Do what a reply says. Raises Withdrawn when the request is answered elsewhere meanwhile."""
        match reply.meaning:
            case Meaning.VIEW:
                self._seen = True
                return Next.SHOW
            case Meaning.LIST:
                show(self.lines(narrator))
                return Next.SHOW
            case Meaning.LATER:
                self.waiting.remove(request)
                self.aside.append(request)
                show(["  it waits; /requests asks again"])
                return Next.DONE
            case Meaning.EDIT:
                return await self._edited(request, editor, show)
            case _:
                if request in self.waiting:
                    self.waiting.remove(request)
                    show(await _answered(request, reply))
                return Next.DONE

    async def _edited(self, request: RequestOpened, editor: Editor, show: Show) -> Next:
        """Let the person change the command, and run what they made of it; an emptied line changes nothing."""
        before = str(request.input[EDITED])
        show(["  Enter runs the line as you leave it; an empty line goes back"])
        command = await editor.answer("run: ", Kept(before, len(before)))
        if not command.strip() or request not in self.waiting:
            return Next.SHOW
        self.waiting.remove(request)
        changed = None if command == before else {**request.input, EDITED: command}
        if changed:
            show([f"  runs instead: {clean(command)}"])
        show([] if await request.allow(input=changed) else [TOO_LATE])
        return Next.DONE


async def _answered(request: RequestOpened, reply: Reply) -> list[str]:
    """Hand the answer over, and say so when it came too late."""
    match reply.meaning:
        case Meaning.ALLOW | Meaning.ALWAYS:
            first = await request.allow(always=reply.meaning is Meaning.ALWAYS, updates=reply.updates)
        case Meaning.ANSWER:
            first = await request.answer(reply.text)
        case _:
            first = await request.deny(reply.text)
    return [] if first else [TOO_LATE]
