"""The focus of the terminal window, and the signals when it has not.

A terminal that reports its focus decides. Elsewhere a person who has pressed no key for some time counts as absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct

from teamwright.protocol.events import RequestOpened, TeamEvent
from teamwright.session.notifications import Notification, NotificationSender
from teamwright.ui.display_text import clean, cut, one_line
from teamwright.ui.event_text import answer_command, request_subject
from teamwright.ui.terminal.event_formatter import display_name
from teamwright.ui.terminal.text_styles import PLAIN_TERMINALS

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
    fd: int = 1

    def note(self, event: TeamEvent) -> None:
        """Notify of a request that waits for the person."""
        if isinstance(event, RequestOpened):
            who = display_name(event.member)
            what = request_subject(event.kind, event.tool, event.what)
            self._notify(Notification(event.kind, who, what, answer_command(event.request, event.kind), self.session))

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
