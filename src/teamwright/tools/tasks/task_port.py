"""What the task tools need of whoever makes them: the list, who is calling, and a way to notify owners.

Filled in `app`. The caller's name is set by the runtime, never by the model.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.tasks.task_list import TaskList, TaskUpdateResult


@dataclass(frozen=True, slots=True)
class CompletionReview:
    """`refusal` says why a task is not completed, empty when it may be; `ends`: whoever asks for it is to stop."""

    refusal: str = ""
    ends_turn: bool = False


class TaskReview(Protocol):
    """The port of whoever may refuse what becomes of a task: filled in `app`."""

    def is_active(self) -> bool:
        """Whether anybody looks at new tasks: without, making one costs nothing more."""
        ...

    async def review_created(self, task: Task) -> str:
        """Why a task that was just made is taken back; empty when it stays."""
        ...

    async def review_completion(self, task: Task) -> CompletionReview:
        """Whether a task may be completed."""
        ...


class TaskPort(Protocol):
    """The port of the task tools."""

    @property
    def tasks(self) -> TaskList:
        """The list that the caller shares now: its team's, or its session's own."""
        ...

    def caller_identity(self) -> tuple[str, bool]:
        """The caller's name, and whether it is the lead."""
        ...

    async def require_owner(self, owner: str | None, *, id: str = "") -> None:
        """Check that a name can own a task. `id` is the task that is changed. Raises UnknownMember."""
        ...

    async def notify_owners(self, change: TaskUpdateResult, call: str, *, is_rerun: bool) -> None:
        """Notify a task's new and former owner, once for each `call`; `again`: a kill cut the call off before."""
        ...
