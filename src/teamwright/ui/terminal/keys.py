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


class Deed(StrEnum):
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
class Key:
    """One row of the table. `binds` are the deeds with the keys that do them; none where the library's own do.

    `shown` and `about` are for people; a row without them is one that another row tells of.
    """

    shown: str
    about: str
    binds: tuple[tuple[Deed, tuple[str, ...]], ...] = ()


TABLE: tuple[Key, ...] = (
    Key(
        "@NAME words",
        "to that member, also during its turn; without @NAME to the agent that you view, at first the lead",
    ),
    Key("!COMMAND", "your own shell command; the lead reads what it printed with your next words"),
    Key("@PATH in a prompt", "attaches the file"),
    Key(
        "Alt-Enter",
        "a new line · Tab completes @member, @path, /command",
        ((Deed.SEND, ("enter",)), (Deed.NEW_LINE, ("escape", "enter"))),
    ),
    Key(
        "Down, Up",
        "on an empty line: into the members below, and out again; Enter views the one that is marked",
        ((Deed.DOWN, ("down",)), (Deed.UP, ("up",))),
    ),
    Key(
        "Shift-Down, -Up",
        "the same, also with words in the line",
        ((Deed.NEXT, ("s-down",)), (Deed.PREVIOUS, ("s-up",))),
    ),
    Key("Esc", "leaves the marked member; then the viewed one, back to the lead", ((Deed.BACK, ("escape",)),)),
    Key("Ctrl-R", "searches the history; Enter or Esc takes the line that was found, another Enter sends it"),
    Key("Ctrl-T", "shows and hides the task list", ((Deed.TASKS, ("c-t",)),)),
    Key(
        "Ctrl-C",
        "clears the line; on an empty line ends the turn of the agent that you view, all others continue",
        ((Deed.INTERRUPT, ("c-c",)),),
    ),
    Key(
        "Ctrl-B",
        "on an empty line: /bg, the lead's foreground work moves to the background",
        ((Deed.BACKGROUND, ("c-b",)),),
    ),
    Key("Ctrl-D", "leave, like /quit"),
)
"""Every key there is, in the order of /help."""


HELP_COLUMN = 20
"""Columns of a key or a command in /help, one more than the longest has: two blanks make a column."""


def key_lines() -> list[str]:
    """The table, a line each."""
    return [f"{key.shown:<{HELP_COLUMN}} {key.about}" for key in TABLE]


WINDOW_S = 2.0
"""Seconds within which a second Ctrl-C at an idle prompt leaves."""


class Act(StrEnum):
    """What a press of Ctrl-C does."""

    CLEAR = "clear"
    END_TURN = "end_turn"
    HINT = "hint"
    LEAVE = "leave"


@dataclass(slots=True)
class Interrupts:
    """Remembers the last press that did nothing but say how to leave."""

    hinted_at: float | None = None

    def pressed(self, *, line: bool, lead_works: bool, now: float) -> Act:
        """What this press does. `line`: something is typed; `now`: a monotonic time in seconds."""
        if line or lead_works:
            self.hinted_at = None
            return Act.CLEAR if line else Act.END_TURN
        if self.hinted_at is not None and now - self.hinted_at <= WINDOW_S:
            self.hinted_at = None
            return Act.LEAVE
        self.hinted_at = now
        return Act.HINT

    def typed(self) -> None:
        """Something else was done: the next press is a first one again."""
        self.hinted_at = None
