"""Requests at a terminal: the lines that show one, and the parser of the reply.

An unclear line is never taken as an answer: silence, an empty line and half a word repeat the question. Every interface
uses `request_lines`, so a request looks the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.ui.display_text import clean, clean_exact, fold_lines, one_line
from teamwright.ui.terminal.diff_colors import diff_lines, paint_lines
from teamwright.ui.terminal.event_formatter import EventFormatter

RULE_DESTINATIONS = {
    "session": "session",
    "local": "localSettings",
    "project": "projectSettings",
    "user": "userSettings",
}
"""The places where a rule can be stored, by the word for people, with the value on the wire."""

_DESTINATION_TEXT = {
    "session": "until this session ends",
    "localSettings": "kept in .teamwright/settings.local.json",
    "projectSettings": "kept in .teamwright/settings.json",
    "userSettings": "kept in your own settings.json",
}
_MODES = {
    "bypassPermissions": "nothing is asked",
    "dontAsk": "what would be asked is denied",
    "plan": "it only reads and plans",
    "default": "all but reading is asked",
}


class SuggestedGrant(Struct, frozen=True):
    """A suggestion: the key that grants it together with a yes, its meaning, and the update for the wire."""

    key: str
    text: str
    update: Mapping[str, Any]


def suggested_grants(request: RequestOpened) -> tuple[SuggestedGrant, ...]:
    """Return the suggestions of a request, each with a separate key, without rules that "always" stores anyway."""
    grants: list[SuggestedGrant] = []
    for update in request.suggestions:
        letter, words = _describe_update(update, request.owner or request.member)
        if not words or (letter == "r" and request.always):
            continue
        same = sum(offer.key.rstrip("0123456789") == letter for offer in grants)
        grants.append(SuggestedGrant(letter + (str(same + 1) if same else ""), words, update))
    return tuple(grants)


def rule_update(request: RequestOpened, destination: str) -> Mapping[str, Any] | None:
    """Return the update that "always" stores, in a place of `RULE_DESTINATIONS`; None when no rule is offered."""
    rule, separator, where = request.always.rpartition(" (")
    if not separator or not where.endswith(")"):
        return None
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": RULE_DESTINATIONS[destination]}


def _describe_update(update: Mapping[str, Any], owner: str) -> tuple[str, str]:
    """Return the key and the meaning for this member; an empty meaning for an unknown update."""
    kept = _DESTINATION_TEXT.get(str(update.get("destination", "session")))
    if kept is None:
        return "", ""
    match update.get("type"):
        case "addDirectories" if directories := _texts(update.get("directories")):
            return "d", f"and may use {', '.join(directories)}, {kept}"
        case "setMode" if update.get("mode") == "acceptEdits":
            if owner in {LEAD, LEAD_ALIAS}:
                return "m", f"and edits of the lead and of members in its mode are not asked about, {kept}"
            return "m", f"and edits of {one_line(owner)} alone are not asked about, until it ends"
        case "setMode" if mode := one_line(str(update.get("mode") or "")):
            about = f": {_MODES[mode]}" if mode in _MODES else ""
            return "m", f"and mode {mode}{about}, {kept}"
        case "addRules" if rules := list(_rules(update)):
            behavior = one_line(str(update.get("behavior", "allow")))
            if behavior == "allow" and all(rule.startswith("Unconfined(") for rule in rules):
                return "u", f"outside the sandbox: {', '.join(rules)}, {kept}"
            return "r", f"and {behavior} {', '.join(rules)}, {kept}"
        case _:
            return "", ""


def _texts(value: object) -> list[str]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return [one_line(item) for item in items if isinstance(item, str) and item]


def _rules(update: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rules in rule syntax: `Bash(git push:*)`."""
    rules: object = update.get("rules")
    for rule in cast("Sequence[object]", rules) if isinstance(rules, list | tuple) else ():
        if isinstance(rule, str) and rule:
            yield one_line(rule)
        elif isinstance(rule, dict):
            body = cast("Mapping[str, object]", rule)
            tool, content = body.get("toolName"), body.get("ruleContent")
            if isinstance(tool, str) and tool:
                yield one_line(f"{tool}({content})" if isinstance(content, str) and content else tool)


EDITABLE_KEY = "command"
"""The input key with a shell command, which the person may edit before it runs."""


MAX_LINES, MAX_CHARS = 200, 40_000
"""The maximum lines and characters shown at once; of a longer request only both ends are shown, and all on demand."""

HEAD_LINES, TAIL_LINES = 60, 20


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


# ── lines of a request ───────────────────────────────────────────────────────────────────────────────────────


def request_lines(request: RequestOpened, formatter: EventFormatter, *, more: str = "", width: int = 0) -> list[str]:
    """Return the lines of a request: agent, full command, diff or plan, the rule that asked, what "always" stores,
    deadline.

    `width` is that of the window in columns: all lines but the subject are broken between words. 0 breaks no line.
    """
    paint = formatter.paint
    head = f"{paint('yellow', '?')} {formatter.name(request.member, request.owner)} {_request_verb(request)}{more}"
    body = [f"    {line}" for line in paint_lines(diff_lines(subject_lines(request)), paint)]
    options = _options(request)
    facts = {
        "rule": "" if request.kind == "question" else one_line(request.rule),
        "always": one_line(request.always),
        "until": f"{_time(request.deadline)}, then it is denied" if request.deadline else "",
    }
    rows = [f"  {name:<7} {value}" for name, value in facts.items() if value]
    return [head, *body, *(fold_lines([*options, *rows], width) if width else [*options, *rows])]


def subject_lines(request: RequestOpened) -> list[str]:
    """Return the whole subject without colours. In text that would run, every blank and joiner is made visible."""
    text = clean_exact(request.what) if request.kind == "permission" else clean(request.what)
    return text.rstrip("\n").split("\n")


def _options(request: RequestOpened) -> list[str]:
    """Return the numbered answers, with their meanings where given."""
    given: object = request.input.get("options")
    about = cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()
    lines: list[str] = []
    for number, label in enumerate(request.options, 1):
        one = about[number - 1] if number <= len(about) else None
        meaning = cast("Mapping[str, object]", one).get("description") if isinstance(one, Mapping) else None
        more = f": {one_line(meaning)}" if isinstance(meaning, str) and meaning.strip() else ""
        lines.append(f"    {number}  {one_line(label)}{more}")
    return lines


def request_line(request: RequestOpened, formatter: EventFormatter) -> str:
    """Return the request on one line."""
    what = one_line(request.what.strip().split("\n", 1)[0])
    who = formatter.name(request.member, request.owner)
    return f"{who} {_request_verb(request)}" + (f": {what}" if what else "")


def is_long(request: RequestOpened) -> bool:
    """Return True when the request is too long to show at once."""
    return request.what.count("\n") >= MAX_LINES or len(request.what) > MAX_CHARS


def prompt_lines(
    request: RequestOpened, formatter: EventFormatter, waiting: int = 0, *, short: bool = False
) -> list[str]:
    """Return the request and its keys for a terminal. `short`: of a long request only its ends, and how to see all."""
    if short and is_long(request):
        request = replace(request, what=_shorten_middle(request.what))
    more = f"   ({waiting} more wait{'s' if waiting == 1 else ''})" if waiting else ""
    keys = fold_lines((f"  {line}" for line in _keys(request)), formatter.width)
    dim = [formatter.paint("dim", line) for line in keys]
    return [*request_lines(request, formatter, more=more, width=formatter.width), *dim]


def prompt_label(request: RequestOpened) -> str:
    """Return the label before the answer."""
    if request.kind == "question":
        return "answer: "
    if request.kind == "plan":
        return "approve? [y/n] "
    if request.kind == "budget":
        return "go on? [y/n] "
    return "allow? [y/n/a] " if request.always else "allow? [y/n] "


def _shorten_middle(what: str) -> str:
    lines = what.rstrip("\n").split("\n")
    if len(lines) > MAX_LINES:
        left = len(lines) - HEAD_LINES - TAIL_LINES
        lines = [*lines[:HEAD_LINES], f"… {left} more lines: v shows all of it", *lines[-TAIL_LINES:]]
    each = MAX_CHARS // len(lines)
    cut = [line if len(line) <= each else f"{line[:each]} … {len(line) - each} more characters" for line in lines]
    return "\n".join(cut)


def may_edit(request: RequestOpened) -> bool:
    """Return True when the person may edit the command as one line of text."""
    return request.kind == "permission" and isinstance(request.input.get(EDITABLE_KEY), str)


def _request_verb(request: RequestOpened) -> str:
    match request.kind:
        case "question":
            return "asks"
        case "plan":
            return "asks for approval of its plan"
        case "budget":
            return "waits at a mark of its usage"
        case _:
            return f"wants to use {clean(request.tool)}"


def _keys(request: RequestOpened) -> list[str]:
    if request.kind == "question":
        several = "numbers, as in 1, 2," if request.input.get("multiSelect") is True else "a number,"
        hint = f"{several} or your own words" if request.options else "your answer, in your own words"
        return [f"{hint} · /later · /requests lists what waits"]
    later = "l later · /requests lists what waits"
    if request.kind == "plan":
        return [f"y approve · n FEEDBACK sends it back · {later}", *_grant_lines(request)]
    if request.kind == "budget":
        return [f"y go on · n end the turn · {later}"]
    always = " · a always" if request.always else ""
    if always and rule_update(request, "local"):
        always += " (a local, project or user: in a file)"
    edit = "e edit it first · " if may_edit(request) else ""
    return [f"y yes · n no · n REASON{always}", *_grant_lines(request), edit + later]


def _grant_lines(request: RequestOpened) -> list[str]:
    return [f"{offer.key:<2} yes, {offer.text}" for offer in suggested_grants(request)]


def _time(seconds_since_1970: float) -> str:
    return datetime.fromtimestamp(seconds_since_1970).strftime("%H:%M:%S")


# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────


ANSWER_COMMANDS = frozenset({"/requests", "/later"})
"""Commands that belong to the shown request."""


def parse_reply(request: RequestOpened, line: str) -> RequestReply:
    """Parse a line as a reply to this request."""
    text = line.strip()
    if text in ANSWER_COMMANDS:
        return RequestReply(ReplyMeaning.LIST if text == "/requests" else ReplyMeaning.LATER)
    if text.lower() == "v" and is_long(request):
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
