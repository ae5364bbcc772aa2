"""The rows below the input line: members, tasks and the status line, built from the session at each redraw.

A row of a member has a mark and a word for the state, the name, the current activity, tokens and age. Idle members
share one row, and rows that do not fit are counted. While a member is selected each has a separate row, and the visible
rows follow the selection. Columns are left out to fit the width.

`Panel` keeps only the selection and the visibility of tasks; `RunningCalls` collects the running calls from events. A
timer runs only while an age is shown, until its text changes.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import (
    MemberChanged,
    SubagentChanged,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import ReviewState
from teamwright.session.command_start import mask_secrets
from teamwright.session.session import Session
from teamwright.tasks.task_store import ExternalTaskChange
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_status import MemberStatus
from teamwright.ui.display_text import cell_width, cut, model_name, one_line, pad, window_size
from teamwright.ui.terminal.events import display_name
from teamwright.ui.terminal.status_script import StatusScript, make_status_script
from teamwright.ui.terminal.styles import Paint
from teamwright.views.live_status import SessionRow, SessionStatusSource, StatusSource, TaskBoard


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
        width = max(size.columns - 1, 1)
        most = max(1, min(MAX_ROWS, size.lines // 3))
        members = self._members()
        now = time.time()
        self.selection.settle([one.name for one in members])
        row_style = RowStyle(width, most, now, self.selection.name, self.viewed_name(), self.paint, self.mask)
        rows = member_rows(members, self._row_context(members), row_style)
        self._redraw_when_due(now, age_starts(members) if rows else [])
        tasks = task_rows(self.board, width, most, self.paint, self.mask) if self.tasks_shown else []
        status = status_line(self.source.now(self.board), width - 1)
        own = [] if self.script is None else [f" {row}" for row in self.script.lines(width - 1)]
        return [*rows, *tasks, *own, self.paint("dim", f" {status}")]

    def move(self, by: int) -> bool:
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
        return bool(self.selection.name)

    def open_marked(self) -> bool:
        name = self.selection.name
        if not self.selection.leave() or self.open_member is None:
            return False
        self.open_member(name)
        return True

    def leave(self) -> bool:
        return self.selection.leave()

    def toggle_tasks(self) -> None:
        self.tasks_shown = not self.tasks_shown

    # ── data for the rows ───────────────────────────────────────────────────────────────────────────────────────

    def _members(self) -> list[MemberStatus]:
        """Return the rows of lead and members, then those of background sub-agents."""
        subagents = self.running_calls.background_agents()
        return [
            *self.source.members(self.board),
            *(MemberStatus(event.agent, MemberState.WORKING, since=event.at) for event in subagents),
        ]

    def _row_context(self, members: list[MemberStatus]) -> RowContext:
        names = [one.name for one in members]
        calls = {name: call for name in names if (call := self.running_calls.current_call(name))}
        jobs = {
            event.agent: f"{event.kind}: {event.description}" if event.kind else event.description
            for event in self.running_calls.background_agents()
        }
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

    source = SessionStatusSource(session)
    script = make_status_script(session, mask, redraw)
    return Panel(source, running_calls, paint, viewed_name, open_member, mask, script=script, changed=redraw)


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


class RowContext(Struct, frozen=True):
    """Facts about members in addition to their state: the running call, and the number of background sub-agents."""

    calls: Mapping[str, str] = field(default_factory=dict[str, str])
    background_counts: Mapping[str, int] = field(default_factory=dict[str, int])


class RowStyle(Struct, frozen=True):
    """The style of the rows. `now` is in seconds since 1970; `mask` hides secrets."""

    width: int
    max_rows: int
    now: float
    selected: str = ""
    viewed: str = LEAD
    paint: Paint = field(default_factory=Paint)
    mask: Callable[[str], str] = str


MARKS = {
    MemberState.WORKING: "●",
    MemberState.IDLE: "○",
    MemberState.BLOCKED: "?",
    MemberState.AWAITING: "?",
    MemberState.WAITING: "○",
    MemberState.STARTING: "…",
    MemberState.STOPPING: "…",
    MemberState.STALLED: "!",
    MemberState.DEAD: "✗",
}
"""The mark of each state; other states have `?`."""

SHORT_WORDS = {MemberState.BLOCKED: "asks", MemberState.AWAITING: "asks", MemberState.WAITING: "waits"}
"""Shorter words for states, where the usual word is too long for a row."""

_STYLES = {
    MemberState.WORKING: "green",
    MemberState.BLOCKED: "yellow",
    MemberState.AWAITING: "yellow",
    MemberState.STALLED: "red",
    MemberState.DEAD: "red",
}

SELECTED, VIEWED = ">", "@"

MAX_NAME = 16

MAX_TEXT = 1_000
"""The number of characters of an activity that are read; no window is wider."""

WORD_FROM, TOKENS_FROM, AGE_FROM = 60, 60, 30
"""The minimum widths in columns for the word of the state, the tokens and the age."""

_AGE, _TOKENS, _WORD = 7, 7, 8


def member_rows(members: Sequence[MemberStatus], context: RowContext, row_style: RowStyle) -> list[str]:
    """Return the rows of members; none while the lead is alone and idle."""
    if len(members) == 1 and members[0].state is MemberState.IDLE:
        return []
    names = min(MAX_NAME, max(1, row_style.width - 3), max(cell_width(_name(one)) for one in members))
    if row_style.selected:
        return _rows_around_selection(
            [(_member_row(one, context, row_style, names), one.name == row_style.selected) for one in members],
            row_style,
        )
    alone, resting = _split_idle(members, context, row_style)
    rows = [_member_row(one, context, row_style, names) for one in alone]
    last = [_idle_row(resting, row_style)] if resting else []
    room = max(1, row_style.max_rows - len(last))
    if len(rows) > room:
        left = len(rows) - (room - 1)
        rows = [*rows[: room - 1], _count_row(f"… {left} more: {_count_states(alone[room - 1 :])}", row_style)]
    return [*rows, *last]


def age_starts(members: Sequence[MemberStatus]) -> list[float]:
    """Return the start times of the states whose age is shown."""
    return [one.since for one in members if one.since and one.state is not MemberState.IDLE]


def _split_idle(
    members: Sequence[MemberStatus], context: RowContext, row_style: RowStyle
) -> tuple[list[MemberStatus], list[MemberStatus]]:
    """Return the members with a separate row, and the idle ones that share a row. A single idle member has a separate
    row.
    """
    resting = [
        one
        for one in members
        if one.state is MemberState.IDLE
        and one.name not in {LEAD, row_style.viewed}
        and not context.background_counts.get(one.name)
    ]
    if len(resting) < 2:
        resting = []
    return [one for one in members if one not in resting], resting


def _member_row(member: MemberStatus, context: RowContext, row_style: RowStyle, names: int) -> str:
    paint = row_style.paint
    style = _STYLES.get(member.state, "")
    mine = (
        SELECTED
        if member.name == row_style.selected
        else VIEWED
        if member.name == row_style.viewed and row_style.viewed != LEAD
        else " "
    )
    mark = MARKS.get(member.state, "?")
    name = pad(cut(_name(member), names), names)
    word = (
        f" {pad(cut(SHORT_WORDS.get(member.state, member.state), _WORD), _WORD)}"
        if row_style.width >= WORD_FROM
        else ""
    )
    end = _end(member, row_style)
    room = max(0, row_style.width - cell_width(f"{mine}{mark} {name}{word} ") - cell_width(end))
    activity = _activity_text(member, context)[:MAX_TEXT] or (
        "" if word else SHORT_WORDS.get(member.state, member.state)
    )
    # Mask before the cut: half a secret is not recognized.
    activity = pad(cut(row_style.mask(activity), room), room)
    styled = paint("bold" if member.name == LEAD else member.color or "", name)
    picked = paint("bold", mine) if mine.strip() else mine
    # No blanks at the end, so that a redraw sends no bytes for them.
    return f"{picked}{paint(style, mark)} {styled}{paint(style, word)} {activity}{paint('dim', end)}".rstrip()


def _end(member: MemberStatus, row_style: RowStyle) -> str:
    """Return tokens and age, aligned to the right."""
    tokens = (
        f"{format_count(member.tokens) if member.tokens else '':>{_TOKENS}}" if row_style.width >= TOKENS_FROM else ""
    )
    old = format_age(row_style.now - member.since) if member.since and member.state is not MemberState.IDLE else ""
    return f"{tokens}{old:>{_AGE}}" if row_style.width >= AGE_FROM else ""


def _name(member: MemberStatus) -> str:
    return one_line(display_name(member.name))


def _activity_text(member: MemberStatus, context: RowContext) -> str:
    """Return the reason of waiting, or how far the prompt is read; else the running call with its task; else the task;
    and background sub-agents.
    """
    call = one_line(context.calls.get(member.name, ""))
    if member.is_waiting or member.state is MemberState.STALLED or member.doing == "prompt":
        what = one_line(member.reason)
    elif member.task is not None:
        what = f"#{member.task.id} {call or one_line(member.reason) if call else one_line(member.task.subject)}"
    else:
        what = call or one_line(member.reason)
    behind = context.background_counts.get(member.name, 0)
    hint = f"+{behind} sub-agent{'' if behind == 1 else 's'}" if behind else ""
    return f"{hint} · {what}" if hint and what else hint or what


def _idle_row(resting: Sequence[MemberStatus], row_style: RowStyle) -> str:
    names = ", ".join(map(_name, resting))
    return cut(f" {MARKS[MemberState.IDLE]} {len(resting)} idle: {names}", row_style.width)


def _count_states(members: Sequence[MemberStatus]) -> str:
    """Return the number of members in each state: `3 working, 1 asks`."""
    words = [SHORT_WORDS.get(one.state, one.state) for one in members]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _count_row(words: str, row_style: RowStyle) -> str:
    return row_style.paint("dim", cut(f"  {words}", row_style.width))


def _rows_around_selection(rows: Sequence[tuple[str, bool]], row_style: RowStyle) -> list[str]:
    """Return the rows that fit, including the selected one; rows above and below are counted."""
    if len(rows) <= row_style.max_rows:
        return [row for row, _ in rows]
    at = next((number for number, (_, is_selected) in enumerate(rows) if is_selected), 0)
    if row_style.max_rows < 3:
        return [row for row, is_selected in rows if is_selected]
    room = row_style.max_rows - 2
    first = min(max(0, at - room // 2), len(rows) - room)
    above = first
    below = len(rows) - first - room
    head = [_count_row(f"↑ {above} more", row_style)] if above else []
    foot = [_count_row(f"↓ {below} more", row_style)] if below else []
    return [*head, *(row for row, _ in rows[first : first + room]), *foot]


_TASK_MARKS = {"in_progress": "▸"}


def task_rows(board: TaskBoard, width: int, max_rows: int, paint: Paint, mask: Callable[[str], str] = str) -> list[str]:
    """Return at most `max_rows` rows of at most `width` columns: tasks in progress, then pending, then blocked."""
    done = f"{board.done} done" if board.done else ""
    if not board.open:
        return [paint("dim", cut(f"   no open task{f', {done}' if done else ''}", width))]
    tasks = sorted(board.open.values(), key=lambda task: _task_order(board, task))
    room = len(tasks) if len(tasks) + bool(done) <= max_rows else max(1, max_rows - 1)
    rows = [_task_row(board, task, width, mask) for task in tasks[:room]]
    left = [f"… {len(tasks) - room} more open"] if len(tasks) > room else []
    rest = ", ".join([*left, *([done] if done else [])])
    return [*rows, paint("dim", cut(f"   {rest}", width))] if rest else rows


def _task_order(board: TaskBoard, task: TaskInfo) -> tuple[int, int, str]:
    rank = 0 if task.status == "in_progress" else 2 if board.waits_for(task) else 1
    return rank, int(task.id) if task.id.isdecimal() else 0, task.id


def _task_row(board: TaskBoard, task: TaskInfo, width: int, mask: Callable[[str], str]) -> str:
    waits = board.waits_for(task)
    owner = f"  {one_line(display_name(task.owner))}" if task.owner else ""
    end = owner + (f"  waits for {' '.join(f'#{id}' for id in waits)}" if waits else "")
    if task.review == ReviewState.WAITING and task.status == "in_progress":
        end += f"  in review{f' by {one_line(display_name(task.reviewer))}' if task.reviewer else ''}"
    head = f" {_TASK_MARKS.get(task.status, '·')} #{task.id} "
    # Owner and blockers are more important than the end of a long subject.
    room = max(8, width - cell_width(head) - cell_width(end))
    return cut(head + cut(mask(one_line(task.subject)), room) + end, width)


SEPARATOR = " · "


class StatusPart(Struct, frozen=True):
    """A part of the status line; when the line is too long, the part with the highest `gives_way` is left out first."""

    gives_way: int
    text: Callable[[SessionRow], str]


def _context(now: SessionRow) -> str:
    if not now.context or not now.window:
        return ""
    return f"context {100 * now.context // now.window}% of {format_count(now.window).replace('.0k', 'k')}"


def _money(now: SessionRow) -> str:
    used = "$ unknown" if now.usd is None else f"${now.usd:.2f}"
    return used if now.usd_cap is None else f"{used} of ${now.usd_cap:.2f}"


def _requests(now: SessionRow) -> str:
    return f"{now.requests} request{'s wait' if now.requests > 1 else ' waits'}" if now.requests else ""


STATUS_PARTS: tuple[StatusPart, ...] = (
    StatusPart(-1, lambda now: "its lead is gone" if now.alone else ""),
    StatusPart(6, lambda now: model_name(now.model)),
    StatusPart(4, lambda now: now.mode),
    StatusPart(2, _context),
    StatusPart(3, _money),
    StatusPart(7, lambda now: f"{format_count(now.tokens)} tokens" if now.tokens else ""),
    StatusPart(1, lambda now: f"{now.done}/{now.tasks} tasks" if now.tasks else ""),
    StatusPart(0, _requests),
)
"""The parts in their order on the line."""


def status_line(now: SessionRow, width: int) -> str:
    """Return the status line, with the parts that fit `width` columns."""
    parts = [(part.gives_way, words) for part in STATUS_PARTS if (words := part.text(now))]
    while len(parts) > 1 and cell_width(_join(parts)) > width:
        parts.remove(max(parts))
    return cut(_join(parts), width)


def _join(parts: list[tuple[int, str]]) -> str:
    return SEPARATOR.join(words for _, words in parts)


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def format_age(seconds: float) -> str:
    """Return an age: `12 s`, `3 min`, `2 h`, `4 d`."""
    whole = max(0, math.floor(seconds))
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def seconds_until_change(seconds: float) -> float:
    """Return the seconds until the text of this age changes; at least a tenth of a second."""
    step = next((size for size in (_DAY, _HOUR, _MINUTE) if seconds >= size), 1)
    return max(0.1, step - max(0.0, seconds) % step)


def format_count(tokens: int) -> str:
    """Return a number of tokens in at most five characters: `900`, `12.3k`, `1.2M`."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}k" if tokens < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"
