"""The task list for user interfaces that always show it: loaded from the files, then changed by events.

Every change of a task is an event, also a change by another program. So the files are read only when the team's list
changes. Depends on events and tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from teamwright.protocol.events import TaskChanged, TaskInfo, TeamEvent
from teamwright.protocol.values import dataclass
from teamwright.teams.status.member_state import OpenTask
from teamwright.teams.team import SessionTeam, task_info

_CLOSED = frozenset({"completed", "deleted"})


@dataclass(slots=True)
class TaskBoard:
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
        """Add an event."""
        if isinstance(event, TaskChanged):
            self._heard.add(event.task.id)
            self._put(event.task)

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
