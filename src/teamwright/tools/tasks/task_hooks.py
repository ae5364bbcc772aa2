"""The port for hooks on tasks, which may refuse a new task or a completion; implemented in `session`."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from teamwright.protocol.task import Task
from teamwright.teams.team import SessionTeam


class CompletionReview(Struct, frozen=True):
    """`refusal` is the reason why a task is not completed, else empty; `ends_turn`: the member's turn ends."""

    refusal: str = ""
    ends_turn: bool = False


class TaskHooks(Protocol):
    """The hooks on changes of tasks. `name` is the member that makes the change."""

    def review_new_tasks(self) -> bool:
        """Return True when hooks review new tasks. Without them, creating a task has no extra cost."""
        ...

    async def after_task_created(self, name: str, task: Task, team: SessionTeam) -> str:
        """Return why hooks refuse a new task; empty when they accept it."""
        ...

    async def before_task_completed(self, name: str, task: Task, team: SessionTeam) -> CompletionReview:
        """Return the review of a task's completion."""
        ...
