"""The commands of a member's pane: those of the lead's terminal that are about one member, with the same answers.

Knows what may be done at a member's terminal through `app`; gives lines back and writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from teamwright.app.members.seat import Seat
from teamwright.app.skills.words import command_of
from teamwright.protocol.ids import nearest
from teamwright.ui.terminal.editing.completion import Candidate
from teamwright.ui.terminal.keys import HELP_COLUMN
from teamwright.ui.terminal.text import clean, one_line
from teamwright.ui.terminal.views import context_lines, cost_lines, meaning_lines, task_lines

COMMANDS = {
    "/help": "this list",
    "/tasks": "the task list of the team, and what it runs beside its turn",
    "/requests": "what it asks you; asks again what you put off",
    "/context": "what fills its window, and when it will be compacted",
    "/compact KEEP": "continue from a summary that keeps these points",
    "/cost": "tokens and money that it used since its process began",
    "/mode MODE": "the permission modes; another one for it",
    "/bg": "move its foreground work to the background",
    "/stop": "end it for good; its open tasks go back to the list",
}
"""As /help lists them. `/stop` and `/requests` are the pane's own doing."""

NAMES = tuple(usage.split()[0] for usage in COMMANDS)

KEYS = (
    f"{'Esc, Ctrl-C':<{HELP_COLUMN}} ends its turn; it stays, and waits for your words",
    f"{'Ctrl-B':<{HELP_COLUMN}} on an empty line: /bg",
    f"{'Alt-Enter':<{HELP_COLUMN}} a new line",
    "closing the terminal ends it like /stop; while its lead is gone it keeps its place",
)

Shown: TypeAlias = Callable[[Seat, str], Awaitable[list[str]]]


def command(line: str) -> tuple[str, str] | None:
    """The command that a line is, with its slash, and what follows; None for words."""
    called = command_of(line.strip())
    return None if called is None else (f"/{called[0].lower()}", called[1].strip())


def offered(before: str) -> list[Candidate]:
    """What Tab offers behind this text."""
    if not before.startswith("/") or " " in before:
        return []
    return [Candidate(name, len(before), "command") for name in NAMES if name.startswith(before.lower())]


def unknown_lines(name: str) -> list[str]:
    """What to say of a command that there is not."""
    close = nearest(name, NAMES)
    return [
        f"  there is no {clean(name)} at a member's terminal" + (f"; did you mean {close}?" if close else ""),
        f"  there are  {' '.join(NAMES)}",
    ]


async def _help(_seat: Seat, _rest: str) -> list[str]:
    return [
        *(f"  {usage:<{HELP_COLUMN}} {about}" for usage, about in COMMANDS.items()),
        *(f"  {line}" for line in KEYS),
    ]


async def _tasks(seat: Seat, _rest: str) -> list[str]:
    return [*task_lines(await seat.tasks()), *(f"  └ {one_line(line)}" for line in seat.running())]


async def _context(seat: Seat, _rest: str) -> list[str]:
    return context_lines(seat.context())


async def _compact(seat: Seat, rest: str) -> list[str]:
    return [f"  {clean(seat.name)} does it before its next model call"] if seat.compact(rest) else []


async def _cost(seat: Seat, _rest: str) -> list[str]:
    return cost_lines(await seat.cost())


async def _mode(seat: Seat, rest: str) -> list[str]:
    if not rest:
        return [f"  {clean(seat.name)} is in mode {seat.mode}", "", *meaning_lines()]
    if len(rest.split()) > 1:
        return ["  /mode MODE: one mode, for this member"]
    return [f"  {clean(await seat.set_mode(rest))}"]


async def _background(seat: Seat, _rest: str) -> list[str]:
    return background_lines(seat)


def background_lines(seat: Seat) -> list[str]:
    """Move what it waits for to the background, and say what went."""
    moved = seat.to_background()
    if not moved:
        return ["  nothing runs in the foreground that could go on in the background"]
    return [f"  in the background: {one_line(what)}" for what in moved]


RUN: dict[str, Shown] = {
    "/help": _help,
    "/tasks": _tasks,
    "/context": _context,
    "/compact": _compact,
    "/cost": _cost,
    "/mode": _mode,
    "/bg": _background,
}
"""What runs a command."""
