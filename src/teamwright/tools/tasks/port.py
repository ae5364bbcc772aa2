"""What the task tools need of whoever makes them: the list, who is calling, and a way to tell a new owner.

Filled in `app`. The caller's name is set by the runtime, never by the model.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.protocol.task import Task
from teamwright.tasks.task_list import TaskList


class TaskPort(Protocol):
    """The port of the task tools."""

    @property
    def tasks(self) -> TaskList:
        """The list that the caller shares now: its team's, or its session's own."""
        ...

    def me(self) -> tuple[str, bool]:
        """The caller's name, and whether it is the lead."""
        ...

    async def assigned(self, task: Task, by: str, call: str, *, again: bool) -> None:
        """Tell the task's new owner of it, once for each `call`; `again`: a kill cut the call off before."""
        ...
