"""The rows below the input line: members, tasks and the status line, built from the session at each redraw.

Keeps only the selection, the visibility of tasks, and the running calls of each member, which come from events. A timer
runs only while an age is shown, until its text changes. Depends on a StatusSource: the session, or one member.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import (
    MemberChanged,
    SubagentChanged,
    TaskChanged,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.member_states import MemberState
from teamwright.session.platform_check import mask_secrets
from teamwright.session.session import Session
from teamwright.tasks.task_store import ExternalTaskChange
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.member_status import MemberStatus
from teamwright.ui.display_text import one_line, window_size
from teamwright.ui.terminal.member_rows import (
    RowContext,
    RowStyle,
    age_starts,
    member_rows,
    seconds_until_change,
    status_line,
    task_rows,
)
from teamwright.ui.terminal.status_script import StatusScript, make_status_script
from teamwright.ui.terminal.text_styles import Paint
from teamwright.views.live_status import SessionStatusSource, StatusSource, TaskBoard


class Selection(Struct):
    """The selected row; `name` is empty while keys go to the input line."""

    name: str = ""

    def move(self, by: int, names: Sequence[str]) -> bool:
        """Move by `by` rows (1 down, -1 up) among `names`. Returns False when the input line keeps the key."""
        self.settle(names)
        if not self.name:
            self.name = names[0] if names and by > 0 else ""
            return bool(self.name)
        at = names.index(self.name) + by
        self.name = "" if at < 0 else names[min(at, len(names) - 1)]
        return True

    def settle(self, names: Sequence[str]) -> None:
        """Unselect a member that has ended."""
        if self.name not in names:
            self.name = ""

    def leave(self) -> bool:
        """Unselect the member. Returns True when one was selected."""
        was, self.name = self.name, ""
        return bool(was)


MAX_ROWS = 8
"""The maximum number of member rows, and of task rows; each uses at most a third of a low window."""

TICK_S = 1.0
"""The minimum number of seconds between two redraws for ages."""


class Panel(Struct):
    """A status area. `viewed_name` returns the viewed agent; `open_member` views another; it may be None."""

    source: StatusSource
    running_calls: RunningCalls
    paint: Paint
    viewed_name: Callable[[], str]
    open_member: Callable[[str], None] | None
    mask: Callable[[str], str]
    board: TaskBoard = field(default_factory=TaskBoard)
    selection: Selection = field(default_factory=Selection)
    tasks_shown: bool = False
    script: StatusScript | None = None
    """The person's own rows above the status line."""
    changed: Callable[[], None] = lambda: None
    """A callback that lets the editor compare and redraw the rows."""
    _timer: asyncio.TimerHandle | None = None
    _reading: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def begin(self) -> None:
        """Read the task list; later changes come as events."""
        self._start_read()
        if self.script is not None:
            self.script.begin()

    def note_external_task(self, change: ExternalTaskChange) -> None:
        """Update the task list with a change by another process, which is no event here."""
        self.board.add_external_change(change.before, change.after)
        self.changed()

    def end(self) -> None:
        """Stop the timer and the readers."""
        self._stop_timer()
        if self.script is not None:
            self.script.end()
        for task in self._reading:
            task.cancel()

    def note(self, event: TeamEvent) -> None:
        """Update the task list and the calls with an event."""
        if self.script is not None:
            self.script.note(event)
        match event:
            case TeamChanged():
                self._start_read()
            case TaskChanged():
                self.board.add_event(event)
            case _:
                pass

    # ── StatusArea ─────────────────────────────────────────────────────────────────────────────────────────────

    def lines(self) -> list[str]:
        """Return the current rows for the current size of the window."""
        size = window_size()
        width, most = max(size.columns - 1, 1), max(1, min(MAX_ROWS, size.lines // 3))
        members, now = self._members(), time.time()
        self.selection.settle([one.name for one in members])
        row_style = RowStyle(width, most, now, self.selection.name, self.viewed_name(), self.paint, self.mask)
        rows = member_rows(members, self._row_context(members), row_style)
        self._redraw_when_due(now, age_starts(members) if rows else [])
        tasks = task_rows(self.board, width, most, self.paint, self.mask) if self.tasks_shown else []
        status = status_line(self.source.now(self.board), width - 1)
        own = [] if self.script is None else [f" {row}" for row in self.script.lines(width - 1)]
        return [*rows, *tasks, *own, self.paint("dim", f" {status}")]

    def move(self, by: int) -> bool:
        """See StatusArea."""
        if self.open_member is None:
            return False
        return self.selection.move(
            by,
            [
                one.name
                for one in self._members()
                if one.name != self.viewed_name() and one.state is not MemberState.STARTING
            ],
        )

    def is_marked(self) -> bool:
        """See StatusArea."""
        return bool(self.selection.name)

    def open_marked(self) -> bool:
        """See StatusArea."""
        name = self.selection.name
        if not self.selection.leave() or self.open_member is None:
            return False
        self.open_member(name)
        return True

    def leave(self) -> bool:
        """See StatusArea."""
        return self.selection.leave()

    def toggle_tasks(self) -> None:
        """See StatusArea."""
        self.tasks_shown = not self.tasks_shown

    # ── data for the rows ───────────────────────────────────────────────────────────────────────────────────────

    def _members(self) -> list[MemberStatus]:
        """Return the rows of lead and members, then those of background sub-agents."""
        return [*self.source.members(self.board), *map(_subagent_row, self.running_calls.background_agents())]

    def _row_context(self, members: list[MemberStatus]) -> RowContext:
        names = [one.name for one in members]
        calls = {name: call for name in names if (call := self.running_calls.current_call(name))}
        jobs = {event.agent: _job_text(event) for event in self.running_calls.background_agents()}
        return RowContext(
            calls | {id: f"{job} · {calls[id]}" if id in calls else job for id, job in jobs.items()},
            {name: behind for name in names if (behind := self.running_calls.background_count(name))},
        )

    def _start_read(self) -> None:
        task = asyncio.create_task(self._read_board(), name="reading the task list")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_board(self) -> None:
        with suppress(TeamwrightError):  # an unreadable list is not shown; commands on it report the error
            await self.source.read(self.board)
        self.changed()

    def _redraw_when_due(self, now: float, since: list[float]) -> None:
        self._stop_timer()
        if since:
            wait = max(min(seconds_until_change(now - one) for one in since), TICK_S)
            self._timer = asyncio.get_running_loop().call_later(wait, self.changed)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _subagent_row(event: SubagentChanged) -> MemberStatus:
    return MemberStatus(event.agent, MemberState.WORKING, since=event.at)


def _job_text(event: SubagentChanged) -> str:
    return f"{event.kind}: {event.description}" if event.kind else event.description


_RESTING_STATES = frozenset({MemberState.IDLE, MemberState.AWAITING})
"""States in which a member runs no call; its sub-agents may."""


class RunningCalls(Struct):
    """The running call and the background sub-agents of each member."""

    calls: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    subagents: dict[str, dict[str, SubagentChanged]] = field(default_factory=dict[str, "dict[str, SubagentChanged]"])

    def note(self, event: TeamEvent) -> None:
        """Update the calls with an event."""
        match event:
            case ToolStarted():
                self.calls.setdefault(event.member, {})[event.call] = f"{event.tool} {one_line(event.summary)}"
            case ToolCalled():
                self.calls.get(event.member, {}).pop(event.call, None)
            case TurnEnded():
                self.clear_member(event.member)
            case MemberChanged() if event.state in _RESTING_STATES | ENDED_STATES:
                self.clear_member(event.member)
                if event.state in ENDED_STATES:
                    self.subagents.pop(event.member, None)
            case SubagentChanged():
                self._note_subagent(event)
            case TeamChanged():
                self._keep_only_lead()
            case _:
                pass

    def _note_subagent(self, event: SubagentChanged) -> None:
        in_background = self.subagents.setdefault(event.member, {})
        if event.state == "background":
            in_background[event.agent] = event
        else:
            in_background.pop(event.agent, None)

    def _keep_only_lead(self) -> None:
        """Forget the members of an earlier team after a change of the team."""
        self.calls = {LEAD: self.calls.get(LEAD, {})}
        self.subagents = {LEAD: self.subagents.get(LEAD, {})}

    def current_call(self, name: str) -> str:
        """Return the newest running call of a member; empty without one."""
        running = list(self.calls.get(name, {}).values())
        return running[-1] if running else ""

    def background_count(self, name: str) -> int:
        """Return the number of a member's background sub-agents."""
        return len(self.subagents.get(name, ()))

    def background_agents(self) -> list[SubagentChanged]:
        """Return the background sub-agents of all members, by their newest events."""
        return [event for own in self.subagents.values() for event in own.values()]

    def clear_member(self, member: str) -> None:
        """Forget the running calls of a member that is not in a turn any more."""
        self.calls.pop(member, None)


def make_session_panel(
    session: Session,
    running_calls: RunningCalls,
    paint: Paint,
    viewed_name: Callable[[], str],
    open_member: Callable[[str], None],
    redraw: Callable[[], None],
) -> Panel:
    """Return the status area of a session at its lead's terminal, with the person's status line script."""
    env = os.environ if session.options.env is None else session.options.env

    def mask(text: str) -> str:
        return mask_secrets(text, env)

    source, script = SessionStatusSource(session), make_status_script(session, mask, redraw)
    return Panel(source, running_calls, paint, viewed_name, open_member, mask, script=script, changed=redraw)
