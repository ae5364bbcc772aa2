"""`/diff`, `/undo`, `/fork` and `/review-team`: changes by member, taking edits back, a second session, a review.

Depends on the package `edit_history`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from teamwright.edit_history.history_location import history_of_session
from teamwright.edit_history.queries import edit_of_call, session_changes, undo_here_ahead, undo_in_session
from teamwright.edit_history.rewind import rewind_list
from teamwright.edit_history.session_fork import fork_session
from teamwright.edit_history.team_review import act_on_review, review_in_session
from teamwright.edit_history.undo import COMMANDS_STAY
from teamwright.protocol.errors import UsageError
from teamwright.session.session import Session
from teamwright.ui.change_text import (
    ChangeTotals,
    change_lines,
    comparison_line,
    key_lines,
    member_diff,
    plan_rows,
    review_lines,
    stat_rows,
    summary_notes,
    undone_lines,
)
from teamwright.ui.display_text import clean, fold_lines, window_size
from teamwright.ui.terminal.diff_colors import StyledLine, paint_lines
from teamwright.ui.terminal.text_styles import Paint

MAX_LINES = 1_000
"""The number of lines that /diff shows; `teamwright diff` shows all of them."""

PLAIN = Paint()
FORK_USAGE = "/fork, /fork N or /fork list"
DIFF_USAGE, UNDO_USAGE = "/diff [@NAME] [--stat] or /diff c7", "/undo [@NAME] [--except PATH] [--force]"
_CALL = re.compile(r"c\d+")


class _EditArguments(Struct, frozen=True):
    """The arguments of one of the two commands."""

    member: str = ""
    call: str = ""
    left: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


async def diff_lines(session: Session, rest: str, paint: Paint = PLAIN) -> list[str]:
    """Return the changes since the session began: all, of one member, of one call, or one line for each file."""
    arguments = _parse_arguments(rest, DIFF_USAGE, {"--stat"})
    place = history_of_session(session)
    if arguments.call:
        if arguments.member or arguments.flags:
            raise _usage_error(DIFF_USAGE)
        return _paint_lines(change_lines(edit_of_call(place, arguments.call)), paint)
    found, sums = session_changes(place, arguments.member), ChangeTotals()
    files = (sums.add(change) for change in found.files)
    if arguments.flags:
        lines = [f"  {clean('  '.join(part for part in row if part))}" for row in stat_rows(files)]
    else:
        every = (line for change in files for line in change_lines(change))
        lines = _paint_lines(islice(every, MAX_LINES), paint)
        if rest_of_it := sum(1 for _ in every):
            lines.append(f"  … {rest_of_it:,} more lines: teamwright diff {session.id[:8]} | less")
    nothing = "nothing is changed" if found.against else "nothing is changed by Write, Edit or NotebookEdit"
    lines.append(f"  {clean(str(sums))}" if sums.files else f"  {nothing}")
    if found.against:
        return [f"  {clean(comparison_line(found.member, found.against))}", *lines]
    notes = [f"  {clean(line)}" for line in summary_notes(found.again, found.cut_off, found.damaged)]
    return [*lines, *fold_lines(notes, window_size().columns)]


AskYesNo: TypeAlias = Callable[[str], Awaitable[bool]]
"""A function that asks the person yes or no."""


async def undo_lines(session: Session, rest: str, show: Callable[[list[str]], None], ask: AskYesNo) -> list[str]:
    """Show the undo plan for the last prompt, ask for confirmation, apply it, and return one line for each file."""
    arguments = _parse_arguments(rest, UNDO_USAGE, {"--force"})
    if arguments.call:
        raise _usage_error(UNDO_USAGE)
    force = "--force" in arguments.flags
    plan = undo_here_ahead(session, arguments.member, arguments.left, force=force)
    rows = plan_rows(plan, history_of_session(session).cwd)
    show([f"  {clean('  '.join(part for part in row if part))}" for row in rows])
    if not await ask(f"take this back? {COMMANDS_STAY} [y/n] "):
        return ["  nothing was changed"]
    undone = await undo_in_session(session, arguments.member, arguments.left, force=force, agreed=plan)
    return [f"  {clean(line)}" for line in undone_lines(undone)]


async def fork_lines(session: Session, rest: str) -> list[str]:
    """Copy the conversation into a new session, all of it or the part before a prompt, or list the prompts."""
    word, place = rest.strip(), history_of_session(session)
    if word == "list":
        prompts = rewind_list(place).prompts
        return [*(f"  {one.number:>3}  {clean(one.text)}" for one in prompts), "  /fork N begins before prompt N"]
    if word and not (word.isascii() and word.isdigit()):
        raise _usage_error(FORK_USAGE)
    fork = fork_session(place, int(word) if word else None)
    before = f' before "{clean(fork.before.text)}"' if fork.before is not None else ""
    return [
        f"  session {fork.session[:8]} has this conversation{before}; files, tasks and members stay here",
        f"  go there: /resume {fork.session[:8]}",
        f"  or in another terminal: teamwright --resume {fork.session[:8]}",
    ]


async def review_team_lines(session: Session, rest: str, paint: Paint = PLAIN) -> list[str]:
    """Return the screen of the review, the diff of a member (`d NAME`), or the result of an action on its work."""
    words = rest.split(maxsplit=2)
    async with review_in_session(session) as found:
        if not words:
            keys = ["/review-team and:", *(f"  {line}" for line in key_lines()), f"  {'d NAME':<22} show the diff"]
            return [*_paint_lines(review_lines(found), paint), *(f"  {line}" for line in keys)]
        key, member, text = (*words, "", "")[:3]
        if key == "d":
            return _paint_lines(member_diff(found, member), paint)
        return [f"  {clean(await act_on_review(found, key, member, text))}"]


def _paint_lines(lines: Iterable[StyledLine], paint: Paint) -> list[str]:
    return [f"  {line}" for line in paint_lines(((style, clean(text)) for style, text in lines), paint)]


def _parse_arguments(rest: str, usage: str, flags: set[str]) -> _EditArguments:
    """Return the typed arguments. Raises UsageError."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise _usage_error(usage) from None
    member, call, left, found_flags = "", "", list[str](), set[str]()
    while words:
        word = words.pop(0)
        if word.startswith("@") and len(word) > 1 and not member:
            member = word[1:]
        elif word in flags:
            found_flags.add(word)
        elif word == "--except" and words and usage is UNDO_USAGE:
            left.append(words.pop(0))
        elif _CALL.fullmatch(word) and not call:
            call = word
        else:
            raise _usage_error(usage)
    return _EditArguments(member, call, tuple(left), frozenset(found_flags))


def _usage_error(usage: str) -> UsageError:
    return UsageError("usage", f"it is {usage}", note="nothing was done")
