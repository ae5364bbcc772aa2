"""The table of keys, for the editor that binds them and for /help, and the meaning of Ctrl-C.

    text in the line ──▶ clear the line
    empty line, the viewed agent is working ──▶ end its turn, and no other
    empty line, it is idle ──▶ first: say how to leave; again within the window: leave

No key loses data: the history keeps a cleared line, and a conversation continues after an interrupted turn. Keys have
the names of prompt_toolkit, which this module does not import.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class KeyAction(StrEnum):
    """The actions of keys."""

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
    MODE = "mode"
    OUTPUT = "output"
    KEYS = "keys"
    BACKSPACE = "backspace"


class KeyRow(Struct, frozen=True):
    """A row of the table: the keys and their meaning as /help prints them, and the actions with the keys of each.

    `bindings` is empty for keys that the library binds, and for words that are typed.
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
    KeyRow("#NOTE", "stores the note in an instruction file of your choice; nothing is sent"),
    KeyRow(
        "@PATH in a prompt",
        "attaches the file, also an image; Tab finds tracked files by parts of their names",
    ),
    KeyRow(
        "a paste",
        "of more than 5 lines is shown as a placeholder and sent whole; the path of an image is attached",
        ((KeyAction.BACKSPACE, ("c-h",)),),
    ),
    KeyRow(
        "Alt-Enter, \\ Enter",
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
    KeyRow(
        "Esc",
        "leaves the marked member, then the viewed one; at the lead it ends the lead's turn. Esc Esc is /rewind",
        ((KeyAction.BACK, ("escape",)),),
    ),
    KeyRow("Shift-Tab", "the lead's next mode: default, acceptEdits, plan", ((KeyAction.MODE, ("s-tab",)),)),
    KeyRow("Ctrl-O", "all output of the last call that was shown in part", ((KeyAction.OUTPUT, ("c-o",)),)),
    KeyRow("Ctrl-R", "searches the history; Enter or Esc takes the line that was found, another Enter sends it"),
    KeyRow("Ctrl-T", "shows and hides the task list", ((KeyAction.TASKS, ("c-t",)),)),
    KeyRow(
        "Ctrl-C",
        "clears the line; on an empty line ends the turn of the agent that you view, all others continue",
        ((KeyAction.INTERRUPT, ("c-c",)),),
    ),
    KeyRow(
        "Ctrl-B",
        "on an empty line: what the lead itself waits for moves to the background",
        ((KeyAction.BACKGROUND, ("c-b",)),),
    ),
    KeyRow("?", "on an empty line shows these keys", ((KeyAction.KEYS, ("?",)),)),
    KeyRow("Ctrl-D", "leave, like /quit"),
)
"""All keys, in the order of /help."""


HELP_COLUMN = 20
"""The width of the first column of /help, with two blanks after the longest entry."""


def key_lines() -> list[str]:
    """Return the lines of the table."""
    return [f"{key.name:<{HELP_COLUMN}} {key.about}" for key in KEY_TABLE]


LEAVE_WINDOW_S = 2.0
"""Seconds within which a second Ctrl-C at an idle prompt leaves."""


class InterruptAction(StrEnum):
    """The actions of Ctrl-C."""

    CLEAR = "clear"
    END_TURN = "end_turn"
    HINT = "hint"
    LEAVE = "leave"


ESCAPE_WINDOW_S = 1.0
"""Seconds within which a second Esc lists the earlier prompts."""


class InterruptState(Struct):
    """The time of the last Ctrl-C that only showed how to leave, and of the last Esc."""

    hinted_at: float | None = None
    escaped_at: float | None = None

    def press_escape(self, now: float) -> bool:
        """Return True when this is the second Esc within the window. `now`: a monotonic time in seconds."""
        is_second = self.escaped_at is not None and now - self.escaped_at <= ESCAPE_WINDOW_S
        self.escaped_at = None if is_second else now
        return is_second

    def press(self, *, line: bool, is_working: bool, now: float) -> InterruptAction:
        """Return the action of Ctrl-C. `line`: the line contains text; `now`: a monotonic time in seconds."""
        if line or is_working:
            self.hinted_at = None
            return InterruptAction.CLEAR if line else InterruptAction.END_TURN
        if self.hinted_at is not None and now - self.hinted_at <= LEAVE_WINDOW_S:
            self.hinted_at = None
            return InterruptAction.LEAVE
        self.hinted_at = now
        return InterruptAction.HINT

    def reset(self) -> None:
        """Forget the last press after any other action."""
        self.hinted_at = self.escaped_at = None
