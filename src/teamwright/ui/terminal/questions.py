"""Questions: what a person is shown before saying yes, and what their line means.

A line that is no answer is never taken for one: silence, an empty line and half a word ask again. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from teamwright.protocol.events import RequestOpened
from teamwright.ui.terminal.lines import Narrator, diff_line
from teamwright.ui.terminal.text import clean, one_line


class Meaning(StrEnum):
    """What a line says to an open request."""

    ALLOW = "allow"
    ALWAYS = "always"
    DENY = "deny"
    ANSWER = "answer"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Reply:
    """`text` is the reason of a no, the answer to a question, or what to say when it has to be asked again."""

    meaning: Meaning
    text: str = ""


def question_lines(request: RequestOpened, narrator: Narrator, waiting: int = 0) -> list[str]:
    """Who asks, the whole command or diff, the rule that asked, what "always" would store, and the keys."""
    who, paint = narrator.name(request.member), narrator.paint
    more = f"   ({waiting} more wait)" if waiting else ""
    body = [f"    {diff_line(paint, line)}" for line in clean(request.what).rstrip("\n").split("\n")]
    if request.kind == "question":
        options = [f"    {number}  {one_line(label)}" for number, label in enumerate(request.options, 1)]
        keys = "a number, or your own words" if request.options else "your answer, in your own words"
        return [f"{paint('yellow', '?')} {who} asks{more}", *body, *options, paint("dim", f"  {keys}")]
    rule = [f"  rule    {one_line(request.rule)}"] if request.rule else []
    always = [f"  always  {one_line(request.always)}"] if request.always else []
    keys = "y yes · n no · n REASON" + (" · a always" if request.always else "")
    head = f"{paint('yellow', '?')} {who} wants to use {clean(request.tool)}{more}"
    return [head, *body, *rule, *always, paint("dim", f"  {keys}")]


def question_label(request: RequestOpened) -> str:
    """What stands before the answer."""
    if request.kind == "question":
        return "answer: "
    return "allow? [y/n/a] " if request.always else "allow? [y/n] "


def read_reply(request: RequestOpened, line: str) -> Reply:
    """What the line means as an answer to this request."""
    text = line.strip()
    if request.kind == "question":
        return (
            Reply(Meaning.ANSWER, _chosen(request.options, text)) if text else Reply(Meaning.AGAIN, "an answer, please")
        )
    word, _, rest = text.partition(" ")
    match word.lower().rstrip(",:"):
        case "y" | "yes" if not rest:
            return Reply(Meaning.ALLOW)
        case "a" | "always" if not rest:
            if request.always:
                return Reply(Meaning.ALWAYS)
            return Reply(Meaning.AGAIN, '"always" is not offered here: y or n')
        case "n" | "no":
            return Reply(Meaning.DENY, rest.strip())
        case _:
            keys = "y, n or a" if request.always else "y or n"
            return Reply(Meaning.AGAIN, f"that is no answer: {keys}")


def _chosen(options: tuple[str, ...], text: str) -> str:
    """The label of a number, several labels of several numbers, or the words themselves."""
    numbers = [part.strip() for part in text.split(",")]
    if options and all(n.isdecimal() and 1 <= int(n) <= len(options) for n in numbers):
        return ", ".join(options[int(n) - 1] for n in numbers)
    return text
