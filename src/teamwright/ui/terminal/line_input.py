"""What a person types, line by line, and the requests that are put to them in between: no line is lost to either.

Knows an editor and requests; does not know what a line means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from enum import StrEnum

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.protocol.values import dataclass
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.editor import NO_DRAFT, Editor, LineDraft, ReadCancelled
from teamwright.ui.terminal.narrator import Narrator
from teamwright.ui.terminal.request_prompt import (
    EDITABLE_KEY,
    ReplyMeaning,
    RequestReply,
    is_long,
    parse_reply,
    prompt_label,
    prompt_lines,
    request_line,
)

ShowLines = Callable[[Sequence[str]], None]

SETTLE_S = 1.0
"""After the request on the screen was answered elsewhere: a line that comes so soon may have been meant for it."""

TYPING_NOTE = "  you were typing when this came: once more, please"
UNSEEN_NOTE = "  it was not shown whole: v shows all of it, then answer"

TOO_LATE_NOTE = "  it was answered already, or is no longer open"


_YES_MEANINGS = {ReplyMeaning.ALLOW, ReplyMeaning.ALWAYS, ReplyMeaning.EDIT}


class AfterReply(StrEnum):
    """What comes after a line at a question."""

    DONE = "done"
    ASK = "ask"
    SHOW = "show"


@dataclass(slots=True)
class PendingPrompts:
    """The queue. `asked` is the one on the screen; `aside` are those that the person answers later."""

    waiting: list[RequestOpened] = field(default_factory=list[RequestOpened])
    current: RequestOpened | None = None
    postponed: list[RequestOpened] = field(default_factory=list[RequestOpened])
    clock: Callable[[], float] = time.monotonic
    _removed_at: float = float("-inf")
    _appeared_at: float = float("-inf")
    _shown_whole: bool = True

    @property
    def count(self) -> int:
        """How many wait beside the one on the screen."""
        return len(self.waiting) - (self.current is not None) + len(self.postponed)

    def add(self, request: RequestOpened) -> None:
        """One more waits."""
        self.waiting.append(request)

    def remove(self, event: RequestClosed) -> bool:
        """One is over; whether it was the one on the screen."""
        self.waiting = [one for one in self.waiting if one.request != event.request]
        self.postponed = [one for one in self.postponed if one.request != event.request]
        shown = self.current is not None and self.current.request == event.request
        if shown:
            self._removed_at = self.clock()
        return shown

    def restore_postponed(self) -> bool:
        """Ask those anew that were to be answered later; whether there are any."""
        self.waiting, self.postponed = [*self.waiting, *self.postponed], []
        return bool(self.waiting)

    def lines(self, narrator: Narrator) -> list[str]:
        """All that wait, a line each, with the name by which any other terminal answers them."""
        waiting = [*self.waiting, *self.postponed]
        return [f"  {one.request}  {request_line(one, narrator)}" for one in waiting] or ["  no request waits"]

    async def ask_first(self, editor: Editor, narrator: Narrator, show: ShowLines, *, is_typing: bool = False) -> str:
        """Ask the first until it is answered, gone, or put aside. Returns words that were no answer, to be put back.

        What was typed before it is shown answers nothing. `typing`: it came into a line that was being typed, whose
        end is no answer either. Raises EOFError when the person wants to leave: the request stays open.
        """
        self.current = request = self.waiting[0]
        self._shown_whole, self._appeared_at = not is_long(request), self.clock() if is_typing else float("-inf")
        editor.defer_typed()
        stray: list[str] = []
        then = AfterReply.SHOW
        try:
            while request in self.waiting:
                if then is AfterReply.SHOW:
                    show(prompt_lines(request, narrator, len(self.waiting) - 1, short=not self._shown_whole))
                then = await self._read_reply(request, editor, narrator, show, stray)
        finally:
            self.current = None
        return "".join(stray)

    async def _read_reply(
        self, request: RequestOpened, editor: Editor, narrator: Narrator, show: ShowLines, stray: list[str]
    ) -> AfterReply:
        """Read one line, and do what it says."""
        try:
            line = await editor.answer(prompt_label(request))
            if line.strip() and self.clock() - self._removed_at < SETTLE_S:
                show(["  the request before this one has just gone: once more, please"])
                return AfterReply.ASK
            reply = parse_reply(request, line)
            if self._is_too_soon(reply):
                show([TYPING_NOTE])
                return AfterReply.ASK
            if reply.meaning in _YES_MEANINGS and not self._shown_whole:
                show([UNSEEN_NOTE])
                return AfterReply.ASK
            if reply.meaning is ReplyMeaning.AGAIN:
                stray.append(line)
                show([f"  {reply.text}"])
                return AfterReply.ASK
            return await self._apply_reply(request, reply, editor, narrator, show)
        except ReadCancelled:
            return AfterReply.ASK

    def _is_too_soon(self, reply: RequestReply) -> bool:
        """Whether an answer may be the end of the line that was being typed: only the first one may."""
        came_at, self._appeared_at = self._appeared_at, float("-inf")
        return reply.meaning is not ReplyMeaning.AGAIN and self.clock() - came_at < SETTLE_S

    async def _apply_reply(
        self, request: RequestOpened, reply: RequestReply, editor: Editor, narrator: Narrator, show: ShowLines
    ) -> AfterReply:
        """Do what a reply says. Raises Withdrawn when the request is answered elsewhere meanwhile."""
        match reply.meaning:
            case ReplyMeaning.VIEW:
                self._shown_whole = True
                return AfterReply.SHOW
            case ReplyMeaning.LIST:
                show(self.lines(narrator))
                return AfterReply.SHOW
            case ReplyMeaning.LATER:
                self.waiting.remove(request)
                self.postponed.append(request)
                show(["  it waits; /requests asks again"])
                return AfterReply.DONE
            case ReplyMeaning.EDIT:
                return await self._edit_command(request, editor, show)
            case _:
                if request in self.waiting:
                    self.waiting.remove(request)
                    show(await _send_answer(request, reply))
                return AfterReply.DONE

    async def _edit_command(self, request: RequestOpened, editor: Editor, show: ShowLines) -> AfterReply:
        """Let the person change the command, and run what they made of it; an emptied line changes nothing."""
        before = str(request.input[EDITABLE_KEY])
        show(["  Enter runs the line as you leave it; an empty line goes back"])
        command = await editor.answer("run: ", LineDraft(before, len(before)))
        if not command.strip() or request not in self.waiting:
            return AfterReply.SHOW
        self.waiting.remove(request)
        changed = None if command == before else {**request.input, EDITABLE_KEY: command}
        if changed:
            show([f"  runs instead: {clean(command)}"])
        show([] if await request.allow(input=changed) else [TOO_LATE_NOTE])
        return AfterReply.DONE


async def _send_answer(request: RequestOpened, reply: RequestReply) -> list[str]:
    """Hand the answer over, and say so when it came too late."""
    match reply.meaning:
        case ReplyMeaning.ALLOW | ReplyMeaning.ALWAYS:
            first = await request.allow(always=reply.meaning is ReplyMeaning.ALWAYS, updates=reply.updates)
        case ReplyMeaning.ANSWER:
            first = await request.answer(reply.text)
        case _:
            first = await request.deny(reply.text)
    return [] if first else [TOO_LATE_NOTE]


@dataclass(slots=True)
class LineInput:
    """One keyboard. `editor` is set before the first line; `show` puts lines above what is being typed."""

    narrator: Narrator
    show: Callable[[Sequence[str]], None]
    editor: Editor = field(init=False)
    requests: PendingPrompts = field(default_factory=PendingPrompts)
    _is_reading: bool = False
    _draft: LineDraft = NO_DRAFT
    _was_interrupted: bool = False
    """Whether a question has just come into a line that was being typed."""

    async def read_line(self) -> str | None:
        """A line; None when a question came in between. Raises EOFError when the person wants to leave."""
        if not self.requests.waiting:
            return await self._read_editor()
        stray = await self.requests.ask_first(self.editor, self.narrator, self.show, is_typing=bool(self._draft.text))
        self._was_interrupted = False
        if stray and self._draft.text:
            # They were still typing their line when the question came: the rest of it belongs there.
            self._draft = self._draft.insert(stray)
        return None

    def add_request(self, request: RequestOpened) -> None:
        """A request waits for the person: it is put to them now, or after the one that is on the screen."""
        self.requests.add(request)
        if self._is_reading:
            self.editor.cancel_read()
        elif self.requests.current is not None:
            self.show([f"  also waiting: {request_line(request, self.narrator)}"])

    def remove_request(self, event: RequestClosed) -> None:
        """A request is over; the one on the screen is taken away."""
        if self.requests.remove(event):
            self.editor.cancel_read()

    async def _read_editor(self) -> str | None:
        kept, self._draft = self._draft, NO_DRAFT
        self._is_reading = True
        try:
            return await self.editor.read(kept)
        except ReadCancelled as withdrawn:
            self._draft, self._was_interrupted = withdrawn.draft, bool(withdrawn.draft.text)
            return None
        finally:
            self._is_reading = False
