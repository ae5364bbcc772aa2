"""The output of the demo: one line for each event with its time, and on a terminal the panel below.

The panel shows members, tasks and mail from events; it has 80 columns and is readable without colours. After a write
error nothing more is written, and the caller is notified once. Without a terminal, on a dumb terminal and in a small
window, the lines come without the panel.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast

from msgspec import Struct, field

from teamwright.protocol.events import (
    LimitReached,
    MemberChanged,
    MessageSent,
    Notice,
    TaskChanged,
    TaskInfo,
    TeamEvent,
    ToolCalled,
)
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.members import MemberState
from teamwright.session.session import RunCounts
from teamwright.team_records.life_cycle import INCARNATION_ENDS
from teamwright.ui.display_text import cell_width, clean, cut, one_line, pad
from teamwright.ui.terminal.styles import is_plain_terminal

WIDTH = 80

_MARKS = {"pending": "·", "in_progress": "▸", "completed": "✓"}
_RESTING_STATES = INCARNATION_ENDS | {MemberState.IDLE}
_COLUMNS = (("members", 33), ("tasks", 27), ("mail", 11))
"""The titles of the columns, and the width of their texts."""


def fit(text: str, width: int) -> str:
    """Return the text on one line, cut or padded to exactly `width` columns."""
    return pad(cut(one_line(text), width), width)


def number_list(ids: Sequence[str]) -> str:
    """Return task numbers as a text: `#2 and #3`."""
    shown_ids = [f"#{one}" for one in ids]
    return " and ".join([", ".join(shown_ids[:-1]), shown_ids[-1]] if len(shown_ids) > 1 else shown_ids)


class TeamPanel(Struct):
    """The state of a run as far as its events show it."""

    members: dict[str, MemberState] = field(default_factory=lambda: {LEAD: MemberState.WORKING})
    tasks: dict[str, TaskInfo] = field(default_factory=dict[str, TaskInfo])
    totals: RunCounts = field(default_factory=RunCounts)

    def note(self, event: TeamEvent) -> None:
        """Update the state with an event."""
        self.totals.count(event)
        match event:
            case MemberChanged():
                self.members[event.member] = event.state
            case TaskChanged() if event.task.status == "deleted":
                self.tasks.pop(event.task.id, None)
            case TaskChanged():
                self.tasks[event.task.id] = event.task
            case _:
                pass

    def open_blockers(self, task: TaskInfo) -> list[str]:
        """Return the open tasks that block this one."""
        return [one for one in task.blocked_by if one in self.tasks and self.tasks[one].status != "completed"]

    def tasks_freed_by(self, number: str) -> list[str]:
        """Return the tasks that this one blocked and that are not blocked any more."""
        waited = [task for task in self.tasks.values() if number in task.blocked_by and task.status == "pending"]
        return [task.id for task in waited if not self.open_blockers(task)]

    def lines(self) -> list[str]:
        """Return the lines of the panel with its top and bottom rule."""
        marked = [f"{_MARKS[task.status]}{task.id}" for task in self.tasks.values() if task.status in _MARKS]
        tasks = [" ".join(marked[at : at + 7]) for at in range(0, len(marked), 7)]
        mail = [f"{self.totals.sent} sent", f"{self.totals.seen} seen", f"{len(self.totals.waiting)} waiting"]
        rows = [[self._member(name) for name in self.members], tasks, mail]
        table = [_rule("┌┬┐", [f" {title} " for title, _ in _COLUMNS])]
        for at in range(max(map(len, rows))):
            texts = [row[at] if at < len(row) else "" for row in rows]
            parts = [" " + pad(cut(text, width), width) for text, (_, width) in zip(texts, _COLUMNS, strict=True)]
            table.append(" │" + "│".join(parts) + "│")
        return [*table, _rule("└┴┘", ["", "", ""])]

    def _member(self, name: str) -> str:
        state = self.members[name]
        own = [f"#{t.id}" for t in self.tasks.values() if t.owner == name and t.status == "in_progress"]
        return f"{'○' if state in _RESTING_STATES else '●'} {fit(display_name(name), 10)} {state:<9} {' '.join(own)}"


def _rule(corners: str, titles: Sequence[str]) -> str:
    parts = [title + "─" * (width + 1 - cell_width(title)) for title, (_, width) in zip(titles, _COLUMNS, strict=True)]
    return " " + corners[0] + corners[1].join(parts) + corners[2]


def is_contentless(event: MessageSent) -> bool:
    """Return True for an idle notification without content, which does not count as a message."""
    return event.wire == "idle_notification" and event.summary == "idle"


ABOUT_WIDTH = 20
"""The width of a command's description."""

_MISHAPS = {"failed": "failed: ", "denied": "refused: "}
_TASKS = {"created": "adds #{0} {1}", "claimed": "claims #{0}", "completed": "✓ #{0}", "released": "gives #{0} back"}


def demo_line(event: TeamEvent, team_panel: TeamPanel, *, new: bool = False) -> str | None:
    """Return the line for an event. `new` is True for the first event of its member."""
    match event:
        case ToolCalled():
            return _call(event)
        case TaskChanged():
            return _task(event, team_panel)
        case MessageSent(wire="idle_notification") if not is_contentless(event):
            return f"→ {display_name(event.to)}   {one_line(event.summary)}"
        case MemberChanged() if event.member != LEAD:
            return _member(event, new=new)
        case LimitReached() if event.detail:
            return event.detail
        case Notice(level="warning"):
            return one_line(event.text)
        case _:
            return None


def lay_out(prefix: str, text: str) -> str:
    """Return the line within 80 columns; a receipt at its end is never cut."""
    text = clean(text).replace("\n", " ")
    body, bracket, receipt = text.rpartition(" [c")
    if not (bracket and receipt.endswith("]")):
        return prefix + cut(text, WIDTH - cell_width(prefix))
    tail = f" [c{receipt}"
    width = WIDTH - cell_width(prefix) - cell_width(tail)
    return prefix + pad(cut(body, width), width) + tail


def _call(event: ToolCalled) -> str | None:
    mishap = _MISHAPS.get(event.outcome, "")
    match event.tool:
        case "Bash":
            return _command(event, mishap)
        case "SendMessage" if not mishap:
            return _message(event)
        case "TaskUpdate" if event.input.get("addBlockedBy") and not mishap:
            waits_for = [str(one) for one in cast("Sequence[object]", event.input["addBlockedBy"])]
            return f"#{one_line(str(event.input.get('taskId', '')))} waits for {number_list(waits_for)}"
        case "TeamCreate" if not mishap:
            return f"creates the team {one_line(str(event.input.get('team_name', '')))}"
        case "TeamDelete" if not mishap:
            return "deletes the team"
        case "Agent" if event.input.get("name") and not mishap:
            return None  # the member that joins reports this
        case "Read" | "Glob" | "Grep" | "Agent":
            return f"{event.tool} {fit(event.summary, ABOUT_WIDTH)} {mishap}{_first_line(event)} [{event.call}]"
        case _:
            return f"{event.tool} {one_line(event.summary)} ({mishap}{_first_line(event)})" if mishap else None


def _command(event: ToolCalled, mishap: str) -> str:
    """Return the description of a command and its first output line; the receipt shows the command."""
    first = _first_line(event)
    text = mishap + (first.partition(": ")[2] or first)
    return f"Bash {fit(str(event.input.get('description') or event.summary), ABOUT_WIDTH)} {text} [{event.call}]"


def _first_line(event: ToolCalled) -> str:
    return one_line(next((line for line in event.output.splitlines() if line.strip()), ""))


def _message(event: ToolCalled) -> str | None:
    """Return the text of a message, question or answer. An agreement to stop is left out, since the end reports it."""
    to = one_line(str(event.input.get("to") or event.input.get("recipient") or ""))
    body = event.input.get("message")
    if not isinstance(body, dict):
        about = event.input.get("summary") or body or event.input.get("content") or ""
        return f"→ {'all' if to == '*' else display_name(to)}   {one_line(str(about))}"
    protocol_message = cast("Mapping[str, Any]", body)
    if protocol_message.get("type") == "shutdown_request":
        return f"shutdown? → {display_name(to)}"
    if protocol_message.get("type") == "shutdown_response" and not protocol_message.get("approve"):
        return one_line(str(protocol_message.get("reason") or "not yet"))
    return None


def _task(event: TaskChanged, team_panel: TeamPanel) -> str | None:
    task = event.task
    if event.change == "lost":
        return f"#{task.id} went to another member: {one_line(event.detail)}"
    if event.change not in _TASKS:
        return None
    text = _TASKS[event.change].format(task.id, one_line(task.subject))
    if event.change == "completed" and (free := team_panel.tasks_freed_by(task.id)):
        text += f"   {number_list(free)} {'is' if len(free) == 1 else 'are'} free now"
    return text


def _member(event: MemberChanged, *, new: bool) -> str | None:
    if event.state in INCARNATION_ENDS:
        return f"ended: {one_line(event.detail)}" if event.detail else "ended"
    return "joins the team" if new else None


_MIN_ROWS_ABOVE = 3
"""The minimum number of rows above the panel."""


def can_redraw(out: TextIO, env: Mapping[str, str]) -> bool:
    """Return True when the stream is a terminal with a movable cursor, which `env` describes."""
    return out.isatty() and not is_plain_terminal(env)


class DemoScreen(Struct):
    """A screen that prints lines and keeps the panel below them. `failed` is the write error that stopped it."""

    out: TextIO
    panel: bool
    write_failed: asyncio.Event = field(default_factory=asyncio.Event)
    failed: OSError | None = None
    team_panel: TeamPanel = field(default_factory=TeamPanel)
    started: float = field(default_factory=time.monotonic)
    _drawn: int = 0

    def show_event(self, event: TeamEvent) -> None:
        new = event.member not in self.team_panel.members
        self.team_panel.note(event)
        line = demo_line(event, self.team_panel, new=new)
        if line is not None:
            at = time.monotonic() - self.started
            self.show_line(lay_out(f"{at:5.1f}  {display_name(event.member)[:10]:<10} ", line))
        elif self.panel:
            self._redraw([])

    def show_mark(self, sign: str, text: str) -> None:
        """Print a line about the program itself."""
        at = time.monotonic() - self.started
        self.show_line(lay_out(f"{at:5.1f}  {sign} ", text))

    def show_line(self, text: str) -> None:
        """Print one line above the panel."""
        self._redraw([text])

    def close(self) -> None:
        """Remove the panel; later lines come without it."""
        if self._drawn:
            self._write(self._erase_sequence())
        self.panel = False
        self._drawn = 0

    def _redraw(self, lines: list[str]) -> None:
        erased = self._erase_sequence()
        below = self._panel_lines()
        self._drawn = len(below)
        self._write(erased + "".join(line.rstrip() + "\n" for line in [*lines, *below]))

    def _panel_lines(self) -> list[str]:
        """Return the lines of the panel when the window has enough rows."""
        if not self.panel:
            return []
        columns, rows = self._size()
        lines = self.team_panel.lines()
        return lines if columns >= WIDTH and rows >= len(lines) + _MIN_ROWS_ABOVE else []

    def _erase_sequence(self) -> str:
        """Return the escape sequence that erases the panel. A window that became too narrow has wrapped the panel; it
        stays.
        """
        if not self._drawn or self._size()[0] < WIDTH:
            return ""
        return f"\r\x1b[{self._drawn}A\x1b[J"

    def _size(self) -> tuple[int, int]:
        try:
            return os.get_terminal_size(self.out.fileno())
        except (OSError, ValueError):
            return 0, 0

    def _write(self, text: str) -> None:
        if self.failed is not None:
            return
        try:
            self.out.write(text)
            self.out.flush()
        except OSError as problem:
            self.failed = problem
            self.panel = False
            self._drawn = 0
            self.write_failed.set()
