"""Where a person types: the contract of an editor, and how one is chosen for a terminal.

An editor reads one line at a time while output goes above it. Knows no session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.editing.completion import Candidate
from teamwright.ui.terminal.keys import Act
from teamwright.ui.terminal.paint import PLAIN_TERMINALS


@dataclass(frozen=True, slots=True)
class Kept:
    """A line that is being typed, and where the cursor is in it."""

    text: str = ""
    cursor: int = 0

    def joined(self, more: str) -> Kept:
        """With more text where the cursor was."""
        return Kept(self.text[: self.cursor] + more + self.text[self.cursor :], self.cursor + len(more))


NOTHING = Kept()


class Withdrawn(Exception):
    """The line is no longer wanted now; `kept` is what was typed so far, to be put back."""

    def __init__(self, kept: Kept = NOTHING) -> None:
        super().__init__()
        self.kept = kept


def _nothing() -> None:
    """No key for that."""


def _prompt() -> str:
    return "> "


class Below(Protocol):
    """What stands below the line, and the keys that go there."""

    def lines(self) -> Sequence[str]:
        """Its rows as they are now, each shorter than the window is wide."""
        ...

    def move(self, by: int) -> bool:
        """Mark the next row (1) or the one before (-1); False: the key is the line's."""
        ...

    def marked(self) -> bool:
        """Whether a row is."""
        ...

    def open(self) -> bool:
        """View what is marked; False: nothing is."""
        ...

    def leave(self) -> bool:
        """Give the keys back to the line; False: it had them."""
        ...

    def toggle_tasks(self) -> None:
        """Show the task list, or hide it."""
        ...


@dataclass(frozen=True, slots=True)
class Wiring:
    """What an editor asks of whoever reads from it.

    `interrupted(line)` says what Ctrl-C does, with something typed or nothing; `offered(text before the cursor)`
    what Tab offers; `label` stands before the line. `history` is a file, made 0600.
    """

    interrupted: Callable[[bool], Act]
    offered: Callable[[str], Sequence[Candidate]]
    history: Path
    colors: bool = False
    background: Callable[[], None] = _nothing
    """What Ctrl-B does on an empty line."""
    escaped: Callable[[], None] | None = None
    """What Esc does on an empty line; None: nothing of its own."""
    label: Callable[[], str] = _prompt
    below: Below | None = None
    """What stands below the line, where the cursor can be moved."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class Editor(Protocol):
    """One person's keyboard and screen."""

    async def read(self, kept: Kept = NOTHING) -> str:
        """A line for the session. Raises Withdrawn, and EOFError when the person wants to leave."""
        ...

    async def answer(self, label: str, kept: Kept = NOTHING) -> str:
        """An answer to what was just shown; not kept in the history. Raises as `read`.

        `kept` stands there to be changed, where the line can be edited at all.
        """
        ...

    def set_aside(self) -> None:
        """What was typed by now belongs to the next `read`: it answers nothing that is shown from here on."""
        ...

    def withdraw(self) -> None:
        """Let the present `read` or `answer` raise Withdrawn; nothing when there is none."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C came as a signal."""
        ...

    def show(self, text: str) -> None:
        """Put whole lines above what is being typed."""
        ...

    def refresh(self) -> None:
        """What stands below the line may be different now."""
        ...

    async def close(self) -> None:
        """Give the terminal back; everything shown is on it then."""
        ...


def is_plain(env: Mapping[str, str]) -> bool:
    """Whether the terminal promises no cursor that can be moved."""
    return env.get("TERM", "") in PLAIN_TERMINALS
