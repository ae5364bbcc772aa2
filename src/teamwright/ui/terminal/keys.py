"""The keys: one table of them, for the editor that binds them and for /help; and what Ctrl-C means.

    line typed ──▶ clear the line
    empty line, whoever is viewed works ──▶ end that turn, and no other one
    empty line, it is idle ──▶ first: say how to leave; again within the window: leave

No key loses anything: a cleared line stays in the history, an ended turn leaves a conversation that goes on. Pure;
names keys as prompt_toolkit does, and does not know it.
"""

from __future__ import annotations

from enum import StrEnum

from teamwright.protocol.values import dataclass


class KeyAction(StrEnum):
    """What a key of ours does."""

    SEND = "send"
    NEW_LINE = "new_line"
    INTERRUPT = "interrupt"
    BACKGROUND = "background"
    DOWN = "down"
    UP = "up"
    NEXT = "next"
    PREVIOUS = "previous"
    BACK = "back"
    TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One row of the table. `binds` are the deeds with the keys that do them; none where the library's own do.

    `shown` and `about` are for people; a row without them is one that another row tells of.
    """

    name: str
    about: str
    bindings: tuple[tuple[KeyAction, tuple[str, ...]], ...] = ()


KEY_TABLE: tuple[KeyRow, ...] = (
    KeyRow(
        "@NAME words",
        "to that member, also during its turn; without @NAME to the agent that you view, at first the lead",
    ),
    KeyRow("!COMMAND", "your own shell command; the lead reads what it printed with your next words"),
    KeyRow("@PATH in a prompt", "attaches the file"),
    KeyRow(
        "Alt-Enter",
        "a new line · Tab completes @member, @path, /command",
        ((KeyAction.SEND, ("enter",)), (KeyAction.NEW_LINE, ("escape", "enter"))),
    ),
    KeyRow(
        "Down, Up",
        "on an empty line: into the members below, and out again; Enter views the one that is marked",
        ((KeyAction.DOWN, ("down",)), (KeyAction.UP, ("up",))),
    ),
    KeyRow(
        "Shift-Down, -Up",
        "the same, also with words in the line",
        ((KeyAction.NEXT, ("s-down",)), (KeyAction.PREVIOUS, ("s-up",))),
    ),
    KeyRow("Esc", "leaves the marked member; then the viewed one, back to the lead", ((KeyAction.BACK, ("escape",)),)),
    KeyRow("Ctrl-R", "searches the history; Enter or Esc takes the line that was found, another Enter sends it"),
    KeyRow("Ctrl-T", "shows and hides the task list", ((KeyAction.TASKS, ("c-t",)),)),
    KeyRow(
        "Ctrl-C",
        "clears the line; on an empty line ends the turn of the agent that you view, all others continue",
        ((KeyAction.INTERRUPT, ("c-c",)),),
    ),
    KeyRow(
        "Ctrl-B",
        "on an empty line: /bg, the lead's foreground work moves to the background",
        ((KeyAction.BACKGROUND, ("c-b",)),),
    ),
    KeyRow("Ctrl-D", "leave, like /quit"),
)
"""Every key there is, in the order of /help."""


HELP_COLUMN = 20
"""Columns of a key or a command in /help, one more than the longest has: two blanks make a column."""


def key_lines() -> list[str]:
    """The table, a line each."""
    return [f"{key.name:<{HELP_COLUMN}} {key.about}" for key in KEY_TABLE]


LEAVE_WINDOW_S = 2.0
"""Seconds within which a second Ctrl-C at an idle prompt leaves."""


class InterruptAction(StrEnum):
    """What a press of Ctrl-C does."""

    CLEAR = "clear"
    END_TURN = "end_turn"
    HINT = "hint"
    LEAVE = "leave"


@dataclass(slots=True)
class InterruptState:
    """Remembers the last press that did nothing but say how to leave."""

    hinted_at: float | None = None

    def press(self, *, line: bool, is_working: bool, now: float) -> InterruptAction:
        """What this press does. `line`: something is typed; `now`: a monotonic time in seconds."""
        if line or is_working:
            self.hinted_at = None
            return InterruptAction.CLEAR if line else InterruptAction.END_TURN
        if self.hinted_at is not None and now - self.hinted_at <= LEAVE_WINDOW_S:
            self.hinted_at = None
            return InterruptAction.LEAVE
        self.hinted_at = now
        return InterruptAction.HINT

    def reset(self) -> None:
        """Something else was done: the next press is a first one again."""
        self.hinted_at = None
