"""The table of keys, for the editor that binds them and for /help; the meaning of Ctrl-C; signals to an absent person.

    text in the line ──▶ clear the line
    empty line, the viewed agent is working ──▶ end its turn, and no other
    empty line, it is idle ──▶ first: say how to leave; again within the window: leave

No key loses data: the history keeps a cleared line, and a conversation continues after an interrupted turn. Keys have
the names of prompt_toolkit, which this module does not import. A terminal that reports its focus says whether the
person is there; elsewhere a person who has pressed no key for some time counts as absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from teamwright.protocol.events import RequestOpened, TeamEvent
from teamwright.session.notifications import Notification, NotificationSender
from teamwright.ui.display_text import clean, cut, one_line
from teamwright.ui.event_text import answer_command, request_subject
from teamwright.ui.terminal.events import display_name
from teamwright.ui.terminal.styles import PLAIN_TERMINALS


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
    SUGGESTION = "suggestion"


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
        "Tab, Right",
        "on an empty line: takes the line that is suggested there (side_calls.prompt_suggestion)",
        ((KeyAction.SUGGESTION, ("tab",)), (KeyAction.SUGGESTION, ("right",))),
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


PRESENT_S = 20.0
"""Seconds after a key for which the person counts as present, at a terminal that does not report its focus."""

FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
"""The sequences that start and end the terminal's reports of its focus."""

MAX_CHARS = 200
"""The longest text of a notification of a terminal, in columns."""

_OSC9_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_OSC777_TERMS = ("foot", "rxvt")


class WindowFocus(Struct):
    """The focus of the window and the time of the last key. `focused` is None until the terminal reports it."""

    clock: Callable[[], float] = time.monotonic
    focused: bool | None = None
    _last_key: float = float("-inf")

    def note_key(self) -> None:
        """Note that a key was pressed."""
        self._last_key = self.clock()

    def note_focus(self, focused: bool) -> None:
        """Note a report of the terminal."""
        self.focused = focused

    @property
    def is_present(self) -> bool:
        """True when the person is likely to look at the window."""
        return self.clock() - self._last_key < PRESENT_S if self.focused is None else self.focused


def signal_of(setting: str, env: Mapping[str, str]) -> str:
    """Return the signal for this terminal: bell, osc9, osc777, or an empty text for none.

    Inside tmux the bell is used, which tmux shows in its status line.
    """
    term = env.get("TERM", "")
    if setting == "off" or term in PLAIN_TERMINALS:
        return ""
    if setting != "auto":
        return setting
    if env.get("TMUX"):
        return "bell"
    if env.get("TERM_PROGRAM", "") in _OSC9_PROGRAMS or term == "xterm-kitty":
        return "osc9"
    return "osc777" if term.startswith(_OSC777_TERMS) else "bell"


def signal_sequence(signal: str, notification: Notification) -> str:
    """Return the sequence of a signal. Texts of agents are cleaned, so that they cannot end the sequence."""
    text = cut(one_line(clean(f"{notification.title}: {notification.what}".rstrip(": "))), MAX_CHARS)
    match signal:
        case "osc9":
            return f"\x1b]9;{text}\x07"
        case "osc777":
            return f"\x1b]777;notify;teamwright;{text.replace(';', ',')}\x07"
        case "bell":
            return "\x07"
        case _:
            return ""


class Notifier(Struct):
    """Notifies an absent person: by the terminal's signal, and by the command and the webhook of the settings."""

    sender: NotificationSender
    focus: WindowFocus
    session: str
    env: Mapping[str, str]
    root: str | None = None
    """The home that was named for this run."""
    fd: int = 1

    def note(self, event: TeamEvent) -> None:
        """Notify of a request that waits for the person."""
        if isinstance(event, RequestOpened):
            who = display_name(event.member)
            what = request_subject(event.kind, event.tool, event.what)
            answer = answer_command(event.request, event.kind, self.root)
            self._notify(Notification(event.kind, who, what, answer, self.session))

    def team_done(self, team: str, text: str) -> None:
        """Notify of the end of all work. `text` is the lead's last answer."""
        who = f"team {team}" if team else "the lead"
        self._notify(Notification("done", who, cut(one_line(text), MAX_CHARS), "", self.session))

    def _notify(self, notification: Notification) -> None:
        if self.focus.is_present:
            return
        signal = signal_sequence(signal_of(self.sender.settings.terminal, self.env), notification)
        if signal:
            with suppress(OSError):  # the terminal was closed
                os.write(self.fd, self.sender.mask(signal).encode("utf-8", "replace"))
        self.sender.send(notification)
