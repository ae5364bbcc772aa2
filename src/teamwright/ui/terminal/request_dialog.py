"""The dialog about open requests at a terminal: one is on the screen, is answered, viewed, edited or put off.

An unclear line is never taken as an answer: silence, an empty line and half a word repeat the question.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.events import RequestClosed, RequestOpened
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.editor_protocol import Editor, LineDraft, ReadCancelled
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_lines import (
    EDITABLE_KEY,
    RULE_DESTINATIONS,
    is_long,
    may_edit,
    prompt_label,
    prompt_lines,
    request_line,
    rule_update,
    suggested_grants,
)

ShowLines = Callable[[Sequence[str]], None]

RunCommand: TypeAlias = Callable[[str], Awaitable[bool]]
"""A function that runs a line when it is a slash command, and returns True then."""

SETTLE_S = 1.0
"""Seconds after another terminal answered the shown request, in which a line may have been meant for that request."""

TYPING_NOTE = "  you were typing when this came: once more, please"

UNSEEN_NOTE = "  it was not shown whole: v shows all of it, then answer"

TOO_LATE_NOTE = "  it was answered already, or is no longer open"


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
        self.waiting = [*self.waiting, *self.postponed]
        self.postponed = []
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
        self._shown_whole = not is_long(request)
        self._appeared_at = self.clock() if is_typing else float("-inf")
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


ANSWER_COMMANDS = frozenset({"/requests", "/later"})
"""Commands that belong to the shown request."""


class ReplyMeaning(StrEnum):
    """The meanings of a line that answers an open request."""

    ALLOW = "allow"
    ALWAYS = "always"
    DENY = "deny"
    ANSWER = "answer"
    EDIT = "edit"
    LATER = "later"
    LIST = "list"
    VIEW = "view"
    AGAIN = "again"


_YES_MEANINGS = {ReplyMeaning.ALLOW, ReplyMeaning.ALWAYS, ReplyMeaning.EDIT}


class RequestReply(Struct, frozen=True):
    """A reply: `text` is the reason of a no, the answer to a question, or the note when the request is asked again.

    `updates` are the grants of a yes.
    """

    meaning: ReplyMeaning
    text: str = ""
    updates: tuple[Mapping[str, Any], ...] = ()


def parse_reply(request: RequestOpened, line: str) -> RequestReply:
    """Parse a line as a reply to this request."""
    text = line.strip()
    if text in ANSWER_COMMANDS:
        return RequestReply(ReplyMeaning.LIST if text == "/requests" else ReplyMeaning.LATER)
    if text.lower() == "v" and (may_edit(request) or is_long(request)):  # a command may fit since the window grew
        return RequestReply(ReplyMeaning.VIEW)
    if request.kind == "question":  # a single word may be the answer
        return _parse_answer(request, text)
    word, _, rest = text.partition(" ")
    word, rest = word.lower().rstrip(",:"), rest.strip()
    if word in {"n", "no"}:
        return RequestReply(ReplyMeaning.DENY, rest)
    if word in {"a", "always"} and request.kind != "plan":
        return _parse_always(request, rest.lower())
    return _ask_again(request) if rest else _parse_key(request, word)


def _parse_answer(request: RequestOpened, text: str) -> RequestReply:
    if not text:
        return RequestReply(ReplyMeaning.AGAIN, "an answer, please")
    if request.options and text.isdecimal() and not 0 < int(text) <= len(request.options):
        return RequestReply(ReplyMeaning.AGAIN, f'there is no option {text}; "{text}" in quotes is your own words')
    if request.options and (text[0] == text[-1] == '"') and text[1:-1].isdecimal():
        return RequestReply(ReplyMeaning.ANSWER, text[1:-1])
    answer = choose_options(request.options, text)
    if answer != text and "," in text and not _allows_several(request):
        return RequestReply(ReplyMeaning.AGAIN, "one number, please, or your own words")
    return RequestReply(ReplyMeaning.ANSWER, answer)


def _allows_several(request: RequestOpened) -> bool:
    """Return True when several answers may be chosen, which is the default."""
    return request.input.get("multiSelect") is not False


def _parse_key(request: RequestOpened, word: str) -> RequestReply:
    """Return the reply for a key without arguments."""
    if granted := [offer.update for offer in suggested_grants(request) if offer.key == word]:
        return RequestReply(ReplyMeaning.ALLOW, updates=(granted[0],))
    match word:
        case "y" | "yes":
            return RequestReply(ReplyMeaning.ALLOW)
        case "e" | "edit" if may_edit(request):
            return RequestReply(ReplyMeaning.EDIT)
        case "l" | "later":
            return RequestReply(ReplyMeaning.LATER)
        case _:
            return _ask_again(request)


def _parse_always(request: RequestOpened, destination: str) -> RequestReply:
    if not request.always:
        return RequestReply(ReplyMeaning.AGAIN, '"always" is not offered here: y or n')
    if destination in {"", "session"}:
        return RequestReply(ReplyMeaning.ALWAYS)
    if destination not in RULE_DESTINATIONS:
        return _ask_again(request)
    update = rule_update(request, destination)
    if update is None:
        return RequestReply(ReplyMeaning.AGAIN, "it can be kept for this session only: a")
    return RequestReply(ReplyMeaning.ALLOW, updates=(update,))


def _ask_again(request: RequestOpened) -> RequestReply:
    keys = ["y", "n", *(["a"] if request.always and request.kind != "plan" else [])]
    keys += [offer.key for offer in suggested_grants(request)]
    return RequestReply(ReplyMeaning.AGAIN, f"that is no answer: {', '.join(keys[:-1])} or {keys[-1]}")


def choose_options(options: tuple[str, ...], text: str) -> str:
    """Return the option of a number, the options of several numbers, or the text unchanged."""
    numbers = [part.strip() for part in text.split(",")]
    if options and all(n.isdecimal() and 1 <= int(n) <= len(options) for n in numbers):
        return ", ".join(options[int(n) - 1] for n in numbers)
    return text
