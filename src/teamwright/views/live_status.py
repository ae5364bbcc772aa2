"""The status of a running session for user interfaces that always show it: members, model, money, window, tasks.

Computed for each call from live members, events and usage, so that ended members never remain. The task list is loaded
from the files and then changed by events: every change of a task is an event, also a change by another program.
Depends on sessions, events and tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.events import TaskChanged, TaskInfo, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import Task
from teamwright.sandbox.policy import SandboxReport
from teamwright.tasks.task_rules import task_info
from teamwright.team_records.team_status import MemberStatus
from teamwright.teams.member_state import OpenTask, with_state

if TYPE_CHECKING:
    from teamwright.session.session import Session
    from teamwright.teams.team import SessionTeam
    from teamwright.teams.teammate import Teammate


class SessionRow(Struct, frozen=True):
    """The status of a session for one line. `context` and `window` are the lead's, in tokens, 0 when unknown.

    `usd` is None for an unknown price; `usd_cap` None without a cap. `requests` wait for a person. At a member's own
    terminal all values are the member's, and `alone` says that its lead is gone.
    """

    model: str
    mode: str
    context: int
    window: int
    usd: float | None
    usd_cap: float | None
    tokens: int
    requests: int
    done: int
    tasks: int
    alone: bool = False


class StatusSource(Protocol):
    """The source of a status: a session at its lead's terminal, or a member at its own."""

    def members(self, board: TaskBoard, /) -> list[MemberStatus]:
        """Return the rows of lead and members."""
        ...

    def now(self, board: TaskBoard, /) -> SessionRow:
        """Return the values of the status line."""
        ...

    async def read(self, board: TaskBoard, /) -> None:
        """Reload the board from the files. Raises StorageError."""


class SessionStatusSource(Struct, frozen=True):
    """The status of a lead and its team, a `StatusSource`."""

    session: Session

    def members(self, board: TaskBoard, /) -> list[MemberStatus]:
        return member_rows(self.session, board)

    def now(self, board: TaskBoard, /) -> SessionRow:
        return session_row(self.session, board)

    async def read(self, board: TaskBoard, /) -> None:
        await board.read(self.session.team)


def member_rows(session: Session, board: TaskBoard) -> list[MemberStatus]:
    """Return the lead, then all live or starting members, in the order of joining."""
    team = session.team
    tasks = board.open_tasks_by_id()
    rows = [_lead(session, board)]
    for teammate in team.running_members:
        row = with_state(known_status(team, teammate), team.status, tasks)
        if teammate.state is MemberState.PENDING:
            row = replace(row, state=MemberState.STARTING, reason="")
        rows.append(replace(row, color=teammate.color, task=board.task_of(teammate.name)))
    return [*rows, *(MemberStatus(name, MemberState.STARTING) for name in team.starting_names)]


def known_status(team: SessionTeam, teammate: Teammate) -> MemberStatus:
    """Return what the events say of a member; its state alone before the first one."""
    return team.status.members.get(teammate.name) or MemberStatus(teammate.name, teammate.state)


def _lead(session: Session, board: TaskBoard) -> MemberStatus:
    """Return the lead's row. The lead knows that it works before an event says so."""
    status = session.team.status
    known = status.members.get(LEAD)
    if not session.lead.busy or known is None:
        state = MemberState.WORKING if session.lead.busy else MemberState.IDLE
        row = replace(known or MemberStatus(LEAD), state=state)
    else:
        row = with_state(known, status, {})
        if row.state is MemberState.IDLE:  # the event about its work has not arrived yet
            row = replace(row, state=MemberState.WORKING, reason="")
    return replace(row, task=board.task_of(LEAD))


def session_row(session: Session, board: TaskBoard) -> SessionRow:
    """Return the present values of the status line."""
    team_status = session.team.status
    budget_tracker = session.agent_factory.budget_tracker
    card = session.lead.agent.model.card
    known = team_status.members.get(LEAD)
    used = team_status.usage
    return SessionRow(
        model=card.name,
        mode=str(session.modes.mode),
        context=known.context if known is not None and known.context else budget_tracker.context.get(LEAD, 0),
        window=card.context_tokens,
        usd=used.usd,
        usd_cap=budget_tracker.budget.usd,
        tokens=used.tokens,
        requests=len(team_status.requests),
        done=board.done,
        tasks=board.done + len(board.open),
    )


async def sandbox_report(session: Session) -> SandboxReport | None:
    """Return what confines the session's commands, and its limits."""
    sandbox = session.agent_factory.toolset.use_sandbox()
    return await sandbox.report() if sandbox is not None else None


_CLOSED = frozenset({"completed", "deleted"})


class TaskBoard(Struct):
    """The open tasks, by number, and the number of completed ones."""

    open: dict[str, TaskInfo] = field(default_factory=dict[str, TaskInfo])
    _done: set[str] = field(default_factory=set[str])
    _heard: set[str] = field(default_factory=set[str])
    """Tasks with events since the load began, for which the files may be outdated."""

    @property
    def done(self) -> int:
        """The number of completed tasks."""
        return len(self._done)

    def add_event(self, event: TeamEvent) -> None:
        if isinstance(event, TaskChanged):
            self._heard.add(event.task.id)
            self._put(event.task)

    def add_external_change(self, before: Task | None, after: Task | None) -> None:
        """Add a change by another process; None is a task that did not exist, or was removed."""
        if (task := after or before) is None or task.is_internal:
            return
        self._heard.add(task.id)
        if after is not None:
            self._put(task_info(after))
        else:
            self.open.pop(task.id, None)
            self._done.discard(task.id)

    async def read(self, team: SessionTeam) -> None:
        """Reload from the files of the team's present list. Raises StorageError."""
        self._heard.clear()
        tasks = team.tasks
        found = await tasks.all()
        if team.tasks is not tasks:
            return
        heard = [task for id, task in self.open.items() if id in self._heard]
        self._done &= self._heard
        self.open.clear()
        for task in found:
            if task.id not in self._heard:
                self._put(task_info(task))
        self.open |= {task.id: task for task in heard}

    def waits_for(self, task: TaskInfo) -> list[str]:
        """Return the open tasks that block this one."""
        return [id for id in task.blocked_by if id in self.open]

    def task_of(self, name: str) -> TaskInfo | None:
        """Return this member's latest task in progress."""
        lower = name.lower()
        mine = [one for one in self.open.values() if one.status == "in_progress" and (one.owner or "").lower() == lower]
        return mine[-1] if mine else None

    def open_tasks_by_id(self) -> Mapping[str, OpenTask]:
        """Return the open tasks as the team's status reads them."""
        return {id: OpenTask(task.owner or "", self.waits_for(task)) for id, task in self.open.items()}

    def _put(self, task: TaskInfo) -> None:
        self._done.discard(task.id)
        if task.status not in _CLOSED:
            before = self.open.get(task.id)
            if before is not None and before.status != task.status:
                del self.open[task.id]  # the latest claim is the last one
            self.open[task.id] = task
            return
        self.open.pop(task.id, None)
        if task.status == "completed":
            self._done.add(task.id)
