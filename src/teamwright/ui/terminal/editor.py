"""Where a person types: the contract of an editor, and how one is chosen for a terminal.

An editor reads one line at a time while output goes above it. Knows no session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol

from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.keys import InterruptAction
from teamwright.ui.terminal.line_completion import Candidate
from teamwright.ui.terminal.paint import PLAIN_TERMINALS


@dataclass(frozen=True, slots=True)
class LineDraft:
    """A line that is being typed, and where the cursor is in it."""

    text: str = ""
    cursor: int = 0

    def insert(self, more: str) -> LineDraft:
        """With more text where the cursor was."""
        return LineDraft(self.text[: self.cursor] + more + self.text[self.cursor :], self.cursor + len(more))


NO_DRAFT = LineDraft()


class ReadCancelled(Exception):
    """The line is no longer wanted now; `kept` is what was typed so far, to be put back."""

    def __init__(self, kept: LineDraft = NO_DRAFT) -> None:
        super().__init__()
        self.draft = kept


def _do_nothing() -> None:
    """No key for that."""


def _default_label() -> str:
    return "> "


class StatusArea(Protocol):
    """What stands below the line, and the keys that go there."""

    def lines(self) -> Sequence[str]:
        """Its rows as they are now, each shorter than the window is wide."""
        ...

    def move(self, by: int) -> bool:
        """Mark the next row (1) or the one before (-1); False: the key is the line's."""
        ...

    def is_marked(self) -> bool:
        """Whether a row is."""
        ...

    def open_marked(self) -> bool:
        """View what is marked; False: nothing is."""
        ...

    def leave(self) -> bool:
        """Give the keys back to the line; False: it had them."""
        ...

    def toggle_tasks(self) -> None:
        """Show the task list, or hide it."""
        ...


@dataclass(frozen=True, slots=True)
class EditorCallbacks:
    """What an editor asks of whoever reads from it.

    `interrupted(line)` says what Ctrl-C does, with something typed or nothing; `offered(text before the cursor)`
    what Tab offers; `label` stands before the line. `history` is a file, made 0600.
    """

    on_interrupt: Callable[[bool], InterruptAction]
    complete: Callable[[str], Sequence[Candidate]]
    history: Path
    colors: bool = False
    on_background: Callable[[], None] = _do_nothing
    """What Ctrl-B does on an empty line."""
    on_escape: Callable[[], None] | None = None
    """What Esc does on an empty line; None: nothing of its own."""
    label: Callable[[], str] = _default_label
    status_area: StatusArea | None = None
    """What stands below the line, where the cursor can be moved."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


class Editor(Protocol):
    """One person's keyboard and screen."""

    async def read(self, draft: LineDraft = NO_DRAFT) -> str:
        """A line for the session. Raises Withdrawn, and EOFError when the person wants to leave."""
        ...

    async def answer(self, label: str, draft: LineDraft = NO_DRAFT) -> str:
        """An answer to what was just shown; not kept in the history. Raises as `read`.

        `kept` stands there to be changed, where the line can be edited at all.
        """
        ...

    def defer_typed(self) -> None:
        """What was typed by now belongs to the next `read`: it answers nothing that is shown from here on."""
        ...

    def cancel_read(self) -> None:
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


def is_plain_terminal(env: Mapping[str, str]) -> bool:
    """Whether the terminal promises no cursor that can be moved."""
    return env.get("TERM", "") in PLAIN_TERMINALS
