"""The question to the person that leaves while members are working.

Depends on an editor. The caller applies the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from teamwright.ui.terminal.editor_protocol import Editor, ReadCancelled
from teamwright.ui.terminal.keys import LEAVE_WINDOW_S


class LeaveChoice(StrEnum):
    """The ways to leave. WAIT and STAY do not leave yet; ENDED means that the session has ended."""

    QUIT = "quit"
    WAIT = "wait"
    STOP = "stop"
    LEAVE = "leave"
    STAY = "stay"
    ENDED = "over"


CHOICES = (
    "  w  wait until all is done, then leave",
    "  s  stop them now; open tasks go back to the list",
    "  l  leave everything as it is, to be resumed",
    "  Enter  stay",
)

_ANSWERS = {
    "w": LeaveChoice.WAIT,
    "wait": LeaveChoice.WAIT,
    "s": LeaveChoice.STOP,
    "stop": LeaveChoice.STOP,
    "l": LeaveChoice.LEAVE,
    "leave": LeaveChoice.LEAVE,
    "": LeaveChoice.STAY,
}


async def ask_how_to_leave(
    editor: Editor, show: Callable[[Sequence[str]], None], working: Sequence[str]
) -> LeaveChoice:
    """Ask how to leave. Without working members no question is asked; a closed terminal keeps all for a resume."""
    if not working:
        return LeaveChoice.QUIT
    verb = "is" if len(working) == 1 else "are"
    show([f"{', '.join(working)} {verb} at work:", *CHOICES])
    while True:
        try:
            reply = (await editor.answer("leave? [w/s/l] ")).strip().lower()
        except ReadCancelled:
            continue
        except EOFError:
            return LeaveChoice.LEAVE
        if reply in _ANSWERS:
            return _ANSWERS[reply]
        show(["  w, s, l, or Enter to stay"])


def leave_hint(working: Sequence[str]) -> str:
    """Return how to leave after a first Ctrl-C. `working` are the members that continue."""
    more = f" {names} during this time." if (names := continuing_members(working)) else ""
    return f"Ctrl-C again within {LEAVE_WINDOW_S:.0f} s leaves, as does Ctrl-D.{more}"


def continuing_members(working: Sequence[str]) -> str:
    """Return the names of working members as a text; empty when none is working."""
    return f"{', '.join(working)} {'continues' if len(working) == 1 else 'continue'}" if working else ""
