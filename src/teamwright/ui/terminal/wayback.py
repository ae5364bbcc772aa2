"""`/diff` and `/undo`: what the session changed, by member, and the last prompt's edits taken back.

Knows sessions through `app`; gives lines back and writes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeAlias

from teamwright.app.session import Session
from teamwright.app.wayback.asked import changes_of, edit_of, undo_here, undo_here_ahead
from teamwright.app.wayback.places import place_of_session
from teamwright.app.wayback.undoing import COMMANDS_STAY
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass
from teamwright.ui.changes import Line, Sums, around, change_lines, plan_rows, stat_rows, undone_lines
from teamwright.ui.terminal.paint import Paint
from teamwright.ui.terminal.text import clean

SHOWN_MOST = 1_000
"""Lines that /diff shows; the rest is for `teamwright diff` and a pager."""

PLAIN = Paint()
DIFF, UNDO = "/diff [@NAME] [--stat] or /diff c7", "/undo [@NAME] [--except PATH] [--force]"
_CALL = re.compile(r"c\d+")


@dataclass(frozen=True, slots=True)
class _Said:
    """What follows one of the two commands."""

    member: str = ""
    call: str = ""
    left: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


async def diff_shown(session: Session, rest: str, paint: Paint = PLAIN) -> list[str]:
    """What changed since the session began: by everybody, by one member, by one call; or a line a file."""
    said = _read(rest, DIFF, {"--stat"})
    place = place_of_session(session)
    if said.call:
        if said.member or said.flags:
            raise _usage(DIFF)
        return _lines(change_lines(edit_of(place, said.call)), paint)
    found, sums = changes_of(place, said.member), Sums()
    files = (sums.count(change) for change in found.files)
    if said.flags:
        lines = [f"  {clean('  '.join(part for part in row if part))}" for row in stat_rows(files)]
    else:
        every = (line for change in files for line in change_lines(change))
        lines = _lines(islice(every, SHOWN_MOST), paint)
        if rest_of_it := sum(1 for _ in every):
            lines.append(f"  … {rest_of_it:,} more lines: teamwright diff {session.id[:8]} | less")
    lines.append(f"  {clean(str(sums))}" if sums.files else "  nothing is changed by Write, Edit or NotebookEdit")
    return [*lines, *(f"  {clean(line)}" for line in around(found.again, found.cut_off, found.damaged))]


Asked: TypeAlias = Callable[[str], Awaitable[bool]]
"""Ask the person yes or no."""


async def undo_shown(session: Session, rest: str, show: Callable[[list[str]], None], ask: Asked) -> list[str]:
    """Show what would be taken back of the last prompt's edits, ask, do it, and say what became of each file."""
    said = _read(rest, UNDO, {"--force"})
    if said.call:
        raise _usage(UNDO)
    force = "--force" in said.flags
    plan = undo_here_ahead(session, said.member, said.left, force=force)
    rows = plan_rows(plan, place_of_session(session).cwd)
    show([f"  {clean('  '.join(part for part in row if part))}" for row in rows])
    if not await ask(f"take this back? {COMMANDS_STAY} [y/n] "):
        return ["  nothing was changed"]
    undone = await undo_here(session, said.member, said.left, force=force, agreed=plan)
    return [f"  {clean(line)}" for line in undone_lines(undone)]


def _lines(lines: Iterable[Line], paint: Paint) -> list[str]:
    return [f"  {paint(style, clean(text))}" for style, text in lines]


def _read(rest: str, usage: str, flags: set[str]) -> _Said:
    """What was typed. Raises UsageError."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise _usage(usage) from None
    member, call, left, given = "", "", list[str](), set[str]()
    while words:
        word = words.pop(0)
        if word.startswith("@") and len(word) > 1 and not member:
            member = word[1:]
        elif word in flags:
            given.add(word)
        elif word == "--except" and words and usage is UNDO:
            left.append(words.pop(0))
        elif _CALL.fullmatch(word) and not call:
            call = word
        else:
            raise _usage(usage)
    return _Said(member, call, tuple(left), frozenset(given))


def _usage(usage: str) -> UsageError:
    return UsageError("usage", f"it is {usage}", note="nothing was done")
