"""Checks: commands that must succeed before a task counts as completed.

This module decides which commands apply and whether they passed. The implementation of the port runs them and decides
who may run one. Depends on task values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import CHECK, CHECKED, Task, TaskStatus
from teamwright.tasks.task_metadata import merge_metadata


class TaskCheckResult(Struct, frozen=True):
    """The result of a task's checks. `was_run` False: a command was not allowed, so nothing ran.

    `reason` names the failed command and its failure, `output` is the end of its output.
    """

    passed: bool
    was_run: bool = True
    reason: str = ""
    output: str = ""


class CheckRunner(Protocol):
    """The port for running checks."""

    @property
    def search_path(self) -> str:
        """The PATH on which a check finds its programs: by it the command is judged."""
        ...

    def commands(self, task: Task) -> tuple[str, ...]:
        """Return the commands that must succeed for this task: its check, then those of all tasks."""
        ...

    def allow(self, command: str, seen_from: Path | None) -> None:
        """Record that an agent that may run this command has set it as a check. It may be run from now on.

        `seen_from` is the directory in which the verdict was made; None: the session's.
        """
        ...

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> TaskCheckResult:
        """Run the commands one after another for the member that completes the task; stop at the first failure."""
        ...


class CheckProof(Struct, frozen=True):
    """The result of a task's checks and the task as it was before them. No lock is held while checks run."""

    task: Task
    commands: tuple[str, ...]
    result: TaskCheckResult

    def complete(self, now: Task, after: Task, commands: tuple[str, ...]) -> Task:
        """Return the completed task with a note of its checks. `commands` are those that apply now, under the lock.

        Raises TaskRefused (`changed`) when the task is not the one that was checked.
        """
        if _checked_content(now) != _checked_content(self.task) or commands != self.commands:
            raise task_changed_error(now)
        return mark_checked(after, self.commands if self.result.was_run else None)


def own_check(metadata: Mapping[str, Any] | None) -> str:
    """Return the command that this metadata sets as a check; empty when it sets none."""
    return Task("0", "", "", metadata=metadata).check


def with_check(task: Task, check: str) -> Task:
    """Return the task with this check, if it has none."""
    return task if task.check or not check else task.copy_with(metadata=merge_metadata(task.metadata, {CHECK: check}))


def mark_checked(task: Task, commands: tuple[str, ...] | None) -> Task:
    """Return the task with a note of the checks that it passed; None removes the note."""
    note = list(commands) if commands is not None else None
    return task.copy_with(metadata=merge_metadata(task.metadata, {CHECKED: note}))


def reopen(task: Task, check: str, *, keeps_owner: bool) -> Task:
    """Return the task with its completion undone, and with the check that failed."""
    back = TaskStatus.IN_PROGRESS if keeps_owner and task.owner else TaskStatus.PENDING
    owner = task.owner if keeps_owner else None
    return mark_checked(with_check(task, check).copy_with(status=back, owner=owner), None)


def check_failed_error(task: Task, checked: TaskCheckResult) -> TaskRefused:
    """Return the error for a failed check."""
    end = f" The end of its output:\n{checked.output}" if checked.output else " It wrote nothing."
    return TaskRefused(
        "check_failed",
        f"#{task.id} is not completed: {checked.reason}",
        do=[f"Fix the problems that the check found, then complete the task again.{end}"],
    )


def task_changed_error(task: Task) -> TaskRefused:
    """Return the error for a task that changed while its check ran."""
    return TaskRefused(
        "changed",
        f"#{task.id} was changed while its check ran, and is not completed",
        do=["Read it with TaskGet; if it is still done, complete it again."],
    )


def _checked_content(task: Task) -> tuple[object, ...]:
    """Return the fields that a check covers. Other members may add edges and notes during a check."""
    return (task.owner, task.status, task.subject, task.description)
