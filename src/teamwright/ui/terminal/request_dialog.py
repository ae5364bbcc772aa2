"""The dialog about open requests at a terminal: one is on the screen, is answered, viewed, edited or put off.

Depends on an editor and on requests.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.editor_protocol import Editor, LineDraft, ReadCancelled
from teamwright.ui.terminal.event_formatter import EventFormatter
from teamwright.ui.terminal.request_lines import (
    EDITABLE_KEY,
    is_long,
    prompt_label,
    prompt_lines,
    request_line,
)
from teamwright.ui.terminal.request_reply import ReplyMeaning, RequestReply, parse_reply

ShowLines = Callable[[Sequence[str]], None]
RunCommand: TypeAlias = Callable[[str], Awaitable[bool]]
"""A function that runs a line when it is a slash command, and returns True then."""

SETTLE_S = 1.0
"""Seconds after another terminal answered the shown request, in which a line may have been meant for that request."""

TYPING_NOTE = "  you were typing when this came: once more, please"
UNSEEN_NOTE = "  it was not shown whole: v shows all of it, then answer"

TOO_LATE_NOTE = "  it was answered already, or is no longer open"


_YES_MEANINGS = {ReplyMeaning.ALLOW, ReplyMeaning.ALWAYS, ReplyMeaning.EDIT}


async def _run_nothing(_line: str) -> bool:
    """Run no command."""
    return False


class AfterReply(StrEnum):
    """The next step after a line that was typed at a request."""

    DONE = "done"
    ASK = "ask"
    SHOW = "show"


class RequestDialog(Struct):
    """The queue of requests. `current` is on the screen; `postponed` are those that the person answers later."""

    waiting: list[RequestOpened] = field(default_factory=list[RequestOpened])
    current: RequestOpened | None = None
    postponed: list[RequestOpened] = field(default_factory=list[RequestOpened])
    clock: Callable[[], float] = time.monotonic
    run_command: RunCommand = _run_nothing
    _removed_at: float = float("-inf")
    _appeared_at: float = float("-inf")
    _shown_whole: bool = True

    @property
    def count(self) -> int:
        """The number of requests in addition to the current one."""
        return len(self.waiting) - (self.current is not None) + len(self.postponed)

    def add(self, request: RequestOpened) -> None:
        """Add a request to the queue."""
        self.waiting.append(request)

    def remove(self, event: RequestClosed) -> bool:
        """Remove a closed request. Returns True when it was the current one."""
        self.waiting = [one for one in self.waiting if one.request != event.request]
        self.postponed = [one for one in self.postponed if one.request != event.request]
        is_current = self.current is not None and self.current.request == event.request
        if is_current:
            self._removed_at = self.clock()
        return is_current

    def restore_postponed(self) -> bool:
        """Return postponed requests to the queue. Returns True when any request waits."""
        self.waiting, self.postponed = [*self.waiting, *self.postponed], []
        return bool(self.waiting)

    def lines(self, formatter: EventFormatter) -> list[str]:
        """Return one line for each request, with the id by which other terminals answer it."""
        waiting = [*self.waiting, *self.postponed]
        return [f"  {one.request}  {request_line(one, formatter)}" for one in waiting] or ["  no request waits"]

    async def ask_first(
        self, editor: Editor, formatter: EventFormatter, show: ShowLines, *, is_typing: bool = False
    ) -> str:
        """Ask the first request until it is answered, closed, or postponed. Returns typed text that was not an answer.

        Text typed before the request is shown answers nothing. `is_typing` is True when it interrupted a line; the rest
        of that line is not an answer either. Raises EOFError when the person leaves: the request stays open.
        """
        self.current = request = self.waiting[0]
        self._shown_whole, self._appeared_at = not is_long(request), self.clock() if is_typing else float("-inf")
        editor.defer_typed()
        stray: list[str] = []
        then = AfterReply.SHOW
        try:
            while request in self.waiting:
                if then is AfterReply.SHOW:
                    show(prompt_lines(request, formatter, len(self.waiting) - 1, short=not self._shown_whole))
                then = await self._read_reply(request, editor, formatter, show, stray)
        finally:
            self.current = None
        return "".join(stray)

    async def _read_reply(
        self, request: RequestOpened, editor: Editor, formatter: EventFormatter, show: ShowLines, stray: list[str]
    ) -> AfterReply:
        """Read one line and apply it."""
        try:
            line = await editor.answer(prompt_label(request))
            if line.startswith("/") and await self.run_command(line):
                return AfterReply.SHOW
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
            return await self._apply_reply(request, reply, editor, formatter, show)
        except ReadCancelled:
            return AfterReply.ASK

    def _is_too_soon(self, reply: RequestReply) -> bool:
        """Return True when the answer may be the rest of an interrupted line, which only the first answer can be."""
        came_at, self._appeared_at = self._appeared_at, float("-inf")
        return reply.meaning is not ReplyMeaning.AGAIN and self.clock() - came_at < SETTLE_S

    async def _apply_reply(
        self, request: RequestOpened, reply: RequestReply, editor: Editor, formatter: EventFormatter, show: ShowLines
    ) -> AfterReply:
        """Apply a reply. Raises ReadCancelled when another terminal answers the request during an edit."""
        match reply.meaning:
            case ReplyMeaning.VIEW:
                self._shown_whole = True
                return AfterReply.SHOW
            case ReplyMeaning.LIST:
                show(self.lines(formatter))
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
        """Let the person edit the command, and run the result; an empty line changes nothing."""
        before = str(request.input[EDITABLE_KEY])
        show(["  Enter runs the edited line; an empty line cancels"])
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
    """Send the answer; return a note when it was too late."""
    match reply.meaning:
        case ReplyMeaning.ALLOW | ReplyMeaning.ALWAYS:
            first = await request.allow(always=reply.meaning is ReplyMeaning.ALWAYS, updates=reply.updates)
        case ReplyMeaning.ANSWER:
            first = await request.answer(reply.text)
        case _:
            first = await request.deny(reply.text)
    return [] if first else [TOO_LATE_NOTE]
