"""Members as rows: a mark and a word for the state, who, what it does now, tokens, and for how long.

Idle members share one row, and rows that do not fit are counted; while a member is selected each has its own row, and
the rows follow it. Fits any width by leaving out columns. Pure: everything is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from teamwright.app.looking.now import MemberNow
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.lines import shown
from teamwright.ui.terminal.paint import Paint
from teamwright.ui.terminal.panel.ages import age, count
from teamwright.ui.terminal.text import cells, cut, one_line, padded

MARKS = {
    "working": "●",
    "idle": "○",
    "blocked": "?",
    "awaiting": "?",
    "waiting": "○",
    "starting": "…",
    "stopping": "…",
    "stalled": "!",
    "dead": "✗",
}
"""The mark of each state; any other one is `?`."""

WORDS = {"blocked": "asks", "awaiting": "asks", "waiting": "waits"}
"""Shorter words of states, where the table's own is no word for a row."""

_STYLES = {"working": "green", "blocked": "yellow", "awaiting": "yellow", "stalled": "red", "dead": "red"}

SELECTED, VIEWED = ">", "@"

NAME_MOST = 16
LOOKED_AT = 1_000
"""Characters of what a member does that are looked at: no window is wider."""

WORD_FROM, TOKENS_FROM, AGE_FROM = 60, 60, 30
"""Columns from which on the state's word, the tokens and the age are shown."""

_AGE, _TOKENS, _WORD = 7, 7, 8


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of members beside their state: the call that runs, and how many sub-agents go on behind it."""

    calls: Mapping[str, str] = field(default_factory=dict[str, str])
    agents: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Look:
    """How the rows are wanted. `most` is how many there may be, `now` in seconds since 1970; `mask` hides secrets."""

    width: int
    most: int
    now: float
    selected: str = ""
    viewed: str = LEAD
    paint: Paint = field(default_factory=Paint)
    mask: Callable[[str], str] = str


def member_rows(members: Sequence[MemberNow], beside: Beside, look: Look) -> list[str]:
    """The rows; none while the lead is alone and rests."""
    if len(members) == 1 and members[0].state == "idle":
        return []
    names = min(NAME_MOST, max(1, look.width - 3), max(cells(_name(one)) for one in members))
    if look.selected:
        return _around([(_row(one, beside, look, names), one.name == look.selected) for one in members], look)
    alone, resting = _parted(members, beside, look)
    rows = [_row(one, beside, look, names) for one in alone]
    last = [_together(resting, look)] if resting else []
    room = max(1, look.most - len(last))
    if len(rows) > room:
        left = len(rows) - (room - 1)
        rows = [*rows[: room - 1], _counted(f"… {left} more: {_states(alone[room - 1 :])}", look)]
    return [*rows, *last]


def ages_of(members: Sequence[MemberNow]) -> list[float]:
    """Since when the states began whose age is shown."""
    return [one.since for one in members if one.since and one.state != "idle"]


def _parted(members: Sequence[MemberNow], beside: Beside, look: Look) -> tuple[list[MemberNow], list[MemberNow]]:
    """Those with a row of their own, and those who rest. One who rests alone has its own row as well."""
    resting = [
        one
        for one in members
        if one.state == "idle" and one.name not in {LEAD, look.viewed} and not beside.agents.get(one.name)
    ]
    if len(resting) < 2:
        resting = []
    return [one for one in members if one not in resting], resting


def _row(one: MemberNow, beside: Beside, look: Look, names: int) -> str:
    paint, style = look.paint, _STYLES.get(one.state, "")
    mine = SELECTED if one.name == look.selected else VIEWED if one.name == look.viewed and look.viewed != LEAD else " "
    mark = MARKS.get(one.state, "?")
    name = padded(cut(_name(one), names), names)
    word = f" {padded(cut(WORDS.get(one.state, one.state), _WORD), _WORD)}" if look.width >= WORD_FROM else ""
    end = _end(one, look)
    room = max(0, look.width - cells(f"{mine}{mark} {name}{word} ") - cells(end))
    said = _says(one, beside)[:LOOKED_AT] or ("" if word else WORDS.get(one.state, one.state))
    # Before it is cut: half a secret looks like none.
    said = padded(cut(look.mask(said), room), room)
    styled = paint("bold" if one.name == LEAD else one.color or "", name)
    picked = paint("bold", mine) if mine.strip() else mine
    # Without blanks at its end: a redraw sends no byte for them.
    return f"{picked}{paint(style, mark)} {styled}{paint(style, word)} {said}{paint('dim', end)}".rstrip()


def _end(one: MemberNow, look: Look) -> str:
    """Tokens and age, right-aligned."""
    tokens = f"{count(one.tokens) if one.tokens else '':>{_TOKENS}}" if look.width >= TOKENS_FROM else ""
    old = age(look.now - one.since) if one.since and one.state != "idle" else ""
    return f"{tokens}{old:>{_AGE}}" if look.width >= AGE_FROM else ""


def _name(one: MemberNow) -> str:
    return one_line(shown(one.name))


def _says(one: MemberNow, beside: Beside) -> str:
    """What it waits for; else the call that runs, with its task's number; else its task; and who works behind it."""
    call = one_line(beside.calls.get(one.name, ""))
    if one.waits or one.state == "stalled":
        what = one_line(one.on)
    elif one.task is not None:
        what = f"#{one.task.id} {call or one_line(one.on) if call else one_line(one.task.subject)}"
    else:
        what = call or one_line(one.on)
    behind = beside.agents.get(one.name, 0)
    hint = f"+{behind} sub-agent{'' if behind == 1 else 's'}" if behind else ""
    return f"{hint} · {what}" if hint and what else hint or what


def _together(resting: Sequence[MemberNow], look: Look) -> str:
    names = ", ".join(map(_name, resting))
    return cut(f" {MARKS['idle']} {len(resting)} idle: {names}", look.width)


def _states(members: Sequence[MemberNow]) -> str:
    """How many are in which state: `3 working, 1 asks`."""
    words = [WORDS.get(one.state, one.state) for one in members]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _counted(words: str, look: Look) -> str:
    return look.paint("dim", cut(f"  {words}", look.width))


def _around(rows: Sequence[tuple[str, bool]], look: Look) -> list[str]:
    """As many rows as there may be, the selected one among them; those above and below are counted."""
    if len(rows) <= look.most:
        return [row for row, _ in rows]
    at = next((number for number, (_, here) in enumerate(rows) if here), 0)
    if look.most < 3:
        return [row for row, here in rows if here]
    room = look.most - 2
    first = min(max(0, at - room // 2), len(rows) - room)
    above, below = first, len(rows) - first - room
    head = [_counted(f"↑ {above} more", look)] if above else []
    foot = [_counted(f"↓ {below} more", look)] if below else []
    return [*head, *(row for row, _ in rows[first : first + room]), *foot]
