"""The task list of a tool's caller, with notifications of owners, and the port for reviews by hooks.

The caller's name is set by the runtime, never by the model. Depends on the team of the caller.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from teamwright.protocol.task import Task
from teamwright.tasks.task_list import TaskList, TaskUpdateResult
from teamwright.teams.outgoing_mail import SendCall
from teamwright.teams.team_creation import notify_owners, require_owner
from teamwright.tools.caller import Caller


class CompletionReview(Struct, frozen=True):
    """`refusal` is the reason why a task is not completed, else empty; `ends_turn`: the member's turn ends."""

    refusal: str = ""
    ends_turn: bool = False


class TaskReview(Protocol):
    """The port for reviews, which may refuse a new task or a completion; implemented in `session`."""

    def is_active(self) -> bool:
        """Return True when new tasks are reviewed. Without reviews, creating a task has no extra cost."""
        ...

    async def review_created(self, task: Task) -> str:
        """Return the reason why a new task is removed; empty when it stays."""
        ...

    async def review_completion(self, task: Task) -> CompletionReview:
        """Return the review of a task's completion."""
        ...


class CallerTaskList(Struct, frozen=True):
    """The task list that the caller of a tool uses."""

    caller: Caller

    @property
    def tasks(self) -> TaskList:
        """The task list that the caller uses now: its team's, or its session's."""
        return self.caller.team.tasks

    def caller_identity(self) -> tuple[str, bool]:
        """Return the caller's name, and True for the lead."""
        return self.caller.name, self.caller.is_lead

    async def require_owner(self, owner: str | None, *, id: str = "") -> None:
        """Check that a name can own a task. `id` is the task that is changed. Raises UnknownMember."""
        await require_owner(self.caller.team, owner, self.caller.name, id=id)

    async def notify_owners(self, change: TaskUpdateResult, call: str, *, is_rerun: bool) -> None:
        """Notify a task's new and former owner, once for each `call`; `is_rerun`: a kill interrupted it before."""
        await notify_owners(self.caller.team, change, self.caller.name, SendCall(call, is_rerun))
