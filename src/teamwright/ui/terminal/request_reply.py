"""The reply of a person to a request at a terminal: the parser of the typed line.

An unclear line is never taken as an answer: silence, an empty line and half a word repeat the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from teamwright.protocol.events import RequestOpened
from teamwright.ui.terminal.request_lines import RULE_DESTINATIONS, is_long, may_edit, rule_update, suggested_grants

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
