"""What the demo shows: a line an event with its time, and on a terminal a panel of members, tasks and mail.

Pure but for the stream it is handed. 80 columns, readable without colour; off a terminal the same lines without
the panel. Knows events; knows no script and no repository.
"""

from __future__ import annotations

import time
import unicodedata
from dataclasses import dataclass, field
from typing import TextIO

from teamwright.protocol.events import MemberChanged, MessageSeen, MessageSent, TaskChanged, TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, LEAD_ALIAS

WIDTH = 80
_MARKS = {"pending": "·", "in_progress": "▸", "completed": "✓"}


def shown(name: str) -> str:
    """A member's name as people read it."""
    return LEAD_ALIAS if name == LEAD else name


def columns(text: str) -> int:
    """How many columns a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """The text on one line of at most this many columns, with an ellipsis where it was cut."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if columns(flat) <= width:
        return flat
    while flat and columns(flat) > width - 1:
        flat = flat[:-1]
    return flat + "…"


def fill(text: str, width: int) -> str:
    """The text cut and filled up to exactly this many columns."""
    made = cut(text, width)
    return made + " " * (width - columns(made))


@dataclass(slots=True)
class Board:
    """The state that the panel shows, fed by events."""

    members: dict[str, str] = field(default_factory=lambda: {LEAD: "working"})
    doing: dict[str, str] = field(default_factory=dict[str, str])
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    sent: int = 0
    seen: int = 0
    waiting: set[str] = field(default_factory=set[str])

    def note(self, event: TeamEvent) -> None:
        """Take an event in."""
        match event:
            case MemberChanged():
                self.members[event.member] = event.state
            case TaskChanged():
                self.tasks[event.task.id] = (event.task.status, event.task.owner or "")
                if event.task.status == "deleted":
                    del self.tasks[event.task.id]
            case MessageSent() if not quiet(event):
                self.sent += 1
                self.waiting.add(event.message_id)
            case MessageSeen():
                known = self.waiting.intersection(event.message_ids)
                self.seen += len(known)
                self.waiting -= known
            case _:
                pass

    def lines(self) -> list[str]:
        """The panel, top and bottom rule included."""
        open_tasks = [f"{_MARKS[status]}{task}" for task, (status, _) in self.tasks.items() if status in _MARKS]
        mail = [f"{self.sent} sent", f"{self.seen} seen", f"{len(self.waiting)} waiting"]
        members = [self._member(name) for name in self.members]
        rows = max(len(members), 3)
        right = [" ".join(open_tasks[i : i + 7]) for i in range(0, len(open_tasks), 7)]
        made = [" ┌ members " + "─" * 26 + "┬ tasks " + "─" * 21 + "┬ mail " + "─" * 6 + "┐"]
        for i in range(rows):
            cells = [part[i] if i < len(part) else "" for part in (members, right, mail)]
            made.append(f" │ {fill(cells[0], 34)}│ {fill(cells[1], 27)}│ {fill(cells[2], 11)}│")
        made.append(" └" + "─" * 35 + "┴" + "─" * 28 + "┴" + "─" * 12 + "┘")
        return made

    def _member(self, name: str) -> str:
        state = self.members[name]
        own = " ".join(
            f"#{task}" for task, (status, owner) in self.tasks.items() if owner == name and status == "in_progress"
        )
        dot = "○" if state in {"idle", "completed"} else "●"
        return f"{dot} {shown(name):<10} {state:<9} {own}"


def quiet(event: MessageSent) -> bool:
    """Whether the event is a notice of idleness without content, which is no message."""
    return event.wire == "idle_notification" and event.summary == "idle"


def line_of(event: TeamEvent) -> str | None:
    """What an event says, behind time and name; None for what would only be noise."""
    match event:
        case ToolCalled(tool="Bash"):
            return _command(event)
        case ToolCalled(tool="TeamCreate" | "TeamDelete" | "Agent"):
            return event.summary
        case ToolCalled(outcome="failed" | "denied"):
            return f"{event.tool} {event.summary} ({event.outcome})"
        case MessageSent() if not quiet(event):
            return _message(event)
        case TaskChanged(change="claimed"):
            return f"claims #{event.task.id}"
        case TaskChanged(change="completed"):
            return f"✓ #{event.task.id}  {event.task.subject}"
        case TaskChanged(change="lost"):
            return f"#{event.task.id} went to somebody else: {event.detail}"
        case MemberChanged(state="completed" | "failed" | "killed") if event.member != LEAD:
            return f"ended: {event.detail}" if event.detail else "ended"
        case _:
            return None


def _command(event: ToolCalled) -> str:
    """What a command was for, and the first line that it printed; the command itself is behind the receipt."""
    first = next((line for line in event.output.splitlines() if line.strip()), "")
    said = {"failed": "failed: ", "denied": "refused: "}.get(event.outcome, "") + first.partition(": ")[2] or first
    about = event.input.get("description") or event.summary
    return f"Bash   {fill(str(about), 24)} {fill(said, 24)} [{event.call}]"


def _message(event: MessageSent) -> str | None:
    """Mail as a line; what the runtime says of an end is shown by the end itself."""
    match event.wire:
        case "shutdown_request":
            return f"shutdown? → {shown(event.to)}"
        case "shutdown_rejected":
            return f"not yet, {event.summary}" if event.summary != event.wire else "not yet"
        case "shutdown_approved" | "teammate_terminated" | "task_assignment":
            return None
        case _:
            return f"→ {shown(event.to)}   {event.summary}"


@dataclass(slots=True)
class Screen:
    """Prints lines, and on a terminal keeps the panel below them."""

    out: TextIO
    panel: bool
    board: Board = field(default_factory=Board)
    started: float = field(default_factory=time.monotonic)
    _drawn: int = 0

    def event(self, event: TeamEvent) -> None:
        """Show an event."""
        self.board.note(event)
        said = line_of(event)
        if said is not None:
            at = time.monotonic() - self.started
            self.line(cut_keeping_receipt(f"{at:5.1f}  {shown(event.member):<10} ", said))
        elif self.panel:
            self._redraw([])

    def line(self, text: str) -> None:
        """One line above the panel."""
        self._redraw([text])

    def close(self) -> None:
        """Take the panel away."""
        if self._drawn:
            self.out.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0
        self.out.flush()

    def _redraw(self, lines: list[str]) -> None:
        below = self.board.lines() if self.panel else []
        up = f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""
        self.out.write(up + "".join(line + "\n" for line in [*lines, *below]))
        self.out.flush()
        self._drawn = len(below)


def cut_keeping_receipt(left: str, said: str) -> str:
    """The line within 80 columns; a receipt at its end is never cut."""
    body, bracket, receipt = said.rpartition(" [c")
    if bracket and receipt.endswith("]"):
        tail = f" [c{receipt}"
        return left + fill_to(body, WIDTH - columns(left) - columns(tail)) + tail
    return left + cut(said, WIDTH - columns(left))


def fill_to(text: str, width: int) -> str:
    """The text cut and filled up, blanks inside kept."""
    if columns(text) > width:
        while columns(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - columns(text))
