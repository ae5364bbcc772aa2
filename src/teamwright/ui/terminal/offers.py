"""Offers: what may be granted along with a yes, in words and with the key or word that grants it.

A suggestion comes as it is on the wire (a rule, a directory, a mode, and where it is kept); one that cannot be put
into words is not offered. Pure; knows requests, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.text import one_line

PLACES = {
    "session": "session",
    "local": "localSettings",
    "project": "projectSettings",
    "user": "userSettings",
}
"""Where a rule may be kept, as people say it, and as it is on the wire."""

_KEPT = {
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


@dataclass(frozen=True, slots=True)
class Offer:
    """One suggestion: the key that grants it with a yes, what it means, and the update as it is on the wire."""

    key: str
    words: str
    update: Mapping[str, Any]


def offers_of(request: RequestOpened) -> tuple[Offer, ...]:
    """The suggestions of a request, each with a key of its own; rules that "always" stores anyway are left out."""
    made: list[Offer] = []
    for update in request.suggestions:
        letter, words = _in_words(update, request.owner or request.member)
        if not words or (letter == "r" and request.always):
            continue
        same = sum(offer.key.rstrip("0123456789") == letter for offer in made)
        made.append(Offer(letter + (str(same + 1) if same else ""), words, update))
    return tuple(made)


def kept_in(request: RequestOpened, place: str) -> Mapping[str, Any] | None:
    """The rule that "always" stores, as an update that keeps it in a place of `PLACES`; None when none is offered."""
    rule, told, where = request.always.rpartition(" (")
    if not told or not where.endswith(")"):
        return None
    return {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": PLACES[place]}


def _in_words(update: Mapping[str, Any], owner: str) -> tuple[str, str]:
    """The letter and the meaning for this member; no words for what is not understood."""
    kept = _KEPT.get(str(update.get("destination", "session")))
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
            return "r", f"and {behavior} {', '.join(rules)}, {kept}"
        case _:
            return "", ""


def _texts(value: object) -> list[str]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return [one_line(item) for item in items if isinstance(item, str) and item]


def _rules(update: Mapping[str, Any]) -> Iterator[str]:
    """The rules in rule syntax: `Bash(git push:*)`."""
    rules: object = update.get("rules")
    for rule in cast("Sequence[object]", rules) if isinstance(rules, list | tuple) else ():
        if isinstance(rule, str) and rule:
            yield one_line(rule)
        elif isinstance(rule, dict):
            body = cast("Mapping[str, object]", rule)
            tool, content = body.get("toolName"), body.get("ruleContent")
            if isinstance(tool, str) and tool:
                yield one_line(f"{tool}({content})" if isinstance(content, str) and content else tool)
