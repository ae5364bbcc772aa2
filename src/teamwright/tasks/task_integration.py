"""The work of members in worktrees, as the task list knows it: a completion adds a commit, a claim moves the worktree.

The implementation of the port commits, merges and moves. Depends on task values.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.protocol.integration import IntegrationState, TaskIntegration
from teamwright.protocol.task import INTEGRATION, Task, TaskStatus
from teamwright.tasks.task_metadata import merge_metadata


class MemberWorktrees(Protocol):
    """The port to the worktrees of members."""

    async def save(self, task: Task, by: str) -> TaskIntegration | None:
        """Commit the uncommitted files of the task's owner, else of `by`, and return the commit to integrate.

        None: that member has no worktree, or no commit that is not integrated. Raises TaskRefused
        (`work_not_committed`); then the task is not completed.
        """
        ...

    def has(self, member: str) -> bool:
        """Return True when this member works in a worktree, as far as this process knows."""
        ...

    async def move(self, task: Task, member: str) -> None:
        """Move the worktree of a member that begins this task to the integrated work of the team. Raises nothing."""
        ...


def mark_integration(task: Task, integration: TaskIntegration | None) -> Task:
    """Return the task with a note of the commit that it adds; None removes the note of an earlier completion."""
    if integration is None and INTEGRATION not in (task.metadata or {}):
        return task
    noted = integration.to_json() if integration is not None else None
    return task.copy_with(metadata=merge_metadata(task.metadata, {INTEGRATION: noted}))


def settle_integration(task: Task, integration: TaskIntegration, *, keeps_owner: bool) -> Task:
    """Return the task with the outcome of its queued commit; unchanged when it awaits no outcome of this commit.

    A returned commit opens the task again, with its owner only where `keeps_owner`.
    """
    known = task.integration
    if known is None or known.state is not IntegrationState.QUEUED or known.tip != integration.tip:
        return task
    settled = mark_integration(task, integration)
    if integration.state is IntegrationState.MERGED or task.status is not TaskStatus.COMPLETED:
        return settled
    keeps_owner = keeps_owner and task.owner is not None
    back = TaskStatus.IN_PROGRESS if keeps_owner else TaskStatus.PENDING
    return settled.copy_with(status=back, owner=task.owner if keeps_owner else None)
