"""Questions: what a person is shown before saying yes, and what their line means.

A line that is no answer is never taken for one: silence, an empty line and half a word ask again. Every face shows a
request by `request_lines`, so that a person sees the same wherever they answer. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from teamwright.protocol.events import RequestOpened
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.lines import Narrator, diff_line
from teamwright.ui.terminal.offers import PLACES, kept_in, offers_of
from teamwright.ui.terminal.text import clean, exact, folded, one_line

EDITED = "command"
"""The key of an input that a person may edit before it runs: a shell command."""


LINES_AT_ONCE, TEXT_AT_ONCE = 200, 40_000
"""Lines and characters of a request that are shown at once; of a longer one the ends are, and all of it on demand."""

HEAD_LINES, TAIL_LINES = 60, 20


class Meaning(StrEnum):
    """What a line says to an open request."""

    ALLOW = "allow"
    ALWAYS = "always"
    DENY = "deny"
    ANSWER = "answer"
    EDIT = "edit"
    LATER = "later"
    LIST = "list"
    VIEW = "view"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Reply:
    """`text` is the reason of a no, the answer to a question, or what to say when it has to be asked again.

    `updates` are what is granted along with a yes.
    """

    meaning: Meaning
    text: str = ""
    updates: tuple[Mapping[str, Any], ...] = ()


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────


def request_lines(request: RequestOpened, narrator: Narrator, *, more: str = "", width: int = 0) -> list[str]:
    """Who asks, the whole command, diff or plan, the rule that asked, what "always" would store, until when.

    `width`: columns of a window, in which all but what is asked is broken between words; 0 leaves lines as they are.
    """
    paint = narrator.paint
    head = f"{paint('yellow', '?')} {narrator.name(request.member, request.owner)} {_asks(request)}{more}"
    body = [f"    {diff_line(paint, line)}" for line in what_lines(request)]
    options = _options(request)
    facts = {
        "rule": "" if request.kind == "question" else one_line(request.rule),
        "always": one_line(request.always),
        "until": f"{_time(request.deadline)}, then it is denied" if request.deadline else "",
    }
    rows = [f"  {name:<7} {value}" for name, value in facts.items() if value]
    return [head, *body, *(folded([*options, *rows], width) if width else [*options, *rows])]


def what_lines(request: RequestOpened) -> list[str]:
    """All of what is asked, without colours. In what would run nothing hides: every blank and joiner is what it is."""
    text = exact(request.what) if request.kind == "permission" else clean(request.what)
    return text.rstrip("\n").split("\n")


def _options(request: RequestOpened) -> list[str]:
    """The answers to choose, numbered, each with what it means where that was said."""
    given: object = request.input.get("options")
    about = cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()
    lines: list[str] = []
    for number, label in enumerate(request.options, 1):
        one = about[number - 1] if number <= len(about) else None
        said = cast("Mapping[str, object]", one).get("description") if isinstance(one, Mapping) else None
        more = f": {one_line(said)}" if isinstance(said, str) and said.strip() else ""
        lines.append(f"    {number}  {one_line(label)}{more}")
    return lines


def head_line(request: RequestOpened, narrator: Narrator) -> str:
    """The request on one line."""
    what = one_line(request.what.strip().split("\n", 1)[0])
    who = narrator.name(request.member, request.owner)
    return f"{who} {_asks(request)}" + (f": {what}" if what else "")


def is_long(request: RequestOpened) -> bool:
    """Whether it is longer than a person can be shown at once."""
    return request.what.count("\n") >= LINES_AT_ONCE or len(request.what) > TEXT_AT_ONCE


def question_lines(request: RequestOpened, narrator: Narrator, waiting: int = 0, *, short: bool = False) -> list[str]:
    """The request as it is asked at a terminal, and the keys. `short`: of a long one its ends, and how to see all."""
    if short and is_long(request):
        request = replace(request, what=_ends(request.what))
    more = f"   ({waiting} more wait{'s' if waiting == 1 else ''})" if waiting else ""
    keys = folded((f"  {line}" for line in _keys(request)), narrator.width)
    dim = [narrator.paint("dim", line) for line in keys]
    return [*request_lines(request, narrator, more=more, width=narrator.width), *dim]


def question_label(request: RequestOpened) -> str:
    """What stands before the answer."""
    if request.kind == "question":
        return "answer: "
    if request.kind == "plan":
        return "approve? [y/n] "
    return "allow? [y/n/a] " if request.always else "allow? [y/n] "


def _ends(what: str) -> str:
    lines = what.rstrip("\n").split("\n")
    if len(lines) > LINES_AT_ONCE:
        left = len(lines) - HEAD_LINES - TAIL_LINES
        lines = [*lines[:HEAD_LINES], f"… {left} more lines: v shows all of it", *lines[-TAIL_LINES:]]
    each = TEXT_AT_ONCE // len(lines)
    cut = [line if len(line) <= each else f"{line[:each]} … {len(line) - each} more characters" for line in lines]
    return "\n".join(cut)


def may_edit(request: RequestOpened) -> bool:
    """Whether a person may change what runs, as a line of text."""
    return request.kind == "permission" and isinstance(request.input.get(EDITED), str)


def _asks(request: RequestOpened) -> str:
    match request.kind:
        case "question":
            return "asks"
        case "plan":
            return "asks for approval of its plan"
        case _:
            return f"wants to use {clean(request.tool)}"


def _keys(request: RequestOpened) -> list[str]:
    if request.kind == "question":
        several = "numbers, as in 1, 2," if request.input.get("multiSelect") is True else "a number,"
        how = f"{several} or your own words" if request.options else "your answer, in your own words"
        return [f"{how} · /later · /requests lists what waits"]
    later = "l later · /requests lists what waits"
    if request.kind == "plan":
        return [f"y approve · n FEEDBACK sends it back · {later}", *_granting(request)]
    always = " · a always" if request.always else ""
    if always and kept_in(request, "local"):
        always += " (a local, project or user: in a file)"
    edit = "e edit it first · " if may_edit(request) else ""
    return [f"y yes · n no · n REASON{always}", *_granting(request), edit + later]


def _granting(request: RequestOpened) -> list[str]:
    return [f"{offer.key:<2} yes, {offer.words}" for offer in offers_of(request)]


def _time(seconds_since_1970: float) -> str:
    return datetime.fromtimestamp(seconds_since_1970).strftime("%H:%M:%S")


# ── what a line means ────────────────────────────────────────────────────────────────────────────────────────


def read_reply(request: RequestOpened, line: str) -> Reply:
    """What the line means as an answer to this request."""
    text = line.strip()
    if text in {"/requests", "/later"}:
        return Reply(Meaning.LIST if text == "/requests" else Meaning.LATER)
    if text.lower() == "v" and is_long(request):
        return Reply(Meaning.VIEW)
    if request.kind == "question":  # a bare word may be the answer
        return _answer(request, text)
    word, _, rest = text.partition(" ")
    word, rest = word.lower().rstrip(",:"), rest.strip()
    if word in {"n", "no"}:
        return Reply(Meaning.DENY, rest)
    if word in {"a", "always"} and request.kind != "plan":
        return _always(request, rest.lower())
    return _again(request) if rest else _key(request, word)


def _answer(request: RequestOpened, text: str) -> Reply:
    if not text:
        return Reply(Meaning.AGAIN, "an answer, please")
    answer = chosen(request.options, text)
    if answer != text and "," in text and not _several(request):
        return Reply(Meaning.AGAIN, "one number, please, or your own words")
    return Reply(Meaning.ANSWER, answer)


def _several(request: RequestOpened) -> bool:
    """Whether several answers may be chosen; where nobody said, they may."""
    return request.input.get("multiSelect") is not False


def _key(request: RequestOpened, word: str) -> Reply:
    """What a key without anything behind it means."""
    if granted := [offer.update for offer in offers_of(request) if offer.key == word]:
        return Reply(Meaning.ALLOW, updates=(granted[0],))
    match word:
        case "y" | "yes":
            return Reply(Meaning.ALLOW)
        case "e" | "edit" if may_edit(request):
            return Reply(Meaning.EDIT)
        case "l" | "later":
            return Reply(Meaning.LATER)
        case _:
            return _again(request)


def _always(request: RequestOpened, place: str) -> Reply:
    if not request.always:
        return Reply(Meaning.AGAIN, '"always" is not offered here: y or n')
    if place in {"", "session"}:
        return Reply(Meaning.ALWAYS)
    if place not in PLACES:
        return _again(request)
    update = kept_in(request, place)
    if update is None:
        return Reply(Meaning.AGAIN, "it can be kept for this session only: a")
    return Reply(Meaning.ALLOW, updates=(update,))


def _again(request: RequestOpened) -> Reply:
    keys = ["y", "n", *(["a"] if request.always and request.kind != "plan" else [])]
    keys += [offer.key for offer in offers_of(request)]
    return Reply(Meaning.AGAIN, f"that is no answer: {', '.join(keys[:-1])} or {keys[-1]}")


def chosen(options: tuple[str, ...], text: str) -> str:
    """The label of a number, several labels of several numbers, or the words themselves."""
    numbers = [part.strip() for part in text.split(",")]
    if options and all(n.isdecimal() and 1 <= int(n) <= len(options) for n in numbers):
        return ", ".join(options[int(n) - 1] for n in numbers)
    return text
