"""Checks: commands that must succeed before a task counts as completed.

Below it: the words of a task. What is to be checked, and whether it held, is decided here; running a command, and who
may have one run, is the business of whoever fills the port. Pure but for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import CHECK, CHECKED, Task, TaskStatus
from teamwright.protocol.values import dataclass
from teamwright.tasks.task_rules import merge_metadata


@dataclass(frozen=True, slots=True)
class TaskCheckResult:
    """How the checks of a task went. `ran` False: nobody of ours allowed one of them, so nothing was run.

    `why` names the one that failed and how, `output` is the end of what it wrote.
    """

    passed: bool
    was_run: bool = True
    reason: str = ""
    output: str = ""


class CheckRunner(Protocol):
    """The port of whoever runs checks: filled in `app`."""

    def commands(self, task: Task) -> tuple[str, ...]:
        """What must succeed before this task is completed: its own check, then that of all tasks."""
        ...

    def allow(self, command: str, seen_from: Path | None) -> None:
        """One of ours set this command as a check, and was allowed to: it may be run from now on.

        `seen_from` is the directory that it was decided on in; None: the session's.
        """
        ...

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> TaskCheckResult:
        """Run them one after the other, for the member that completes the task; ends at the first that fails."""
        ...


@dataclass(frozen=True, slots=True)
class CheckProof:
    """What was found of a task, as it was then, while no lock was held."""

    task: Task
    commands: tuple[str, ...]
    result: TaskCheckResult

    def complete(self, now: Task, after: Task, commands: tuple[str, ...]) -> Task:
        """The completed task with what was proved; `commands` are those that hold now, under the lock.

        Raises TaskRefused (`changed`) when it is not the task that was checked.
        """
        if _checked_content(now) != _checked_content(self.task) or commands != self.commands:
            raise task_changed_error(now)
        return mark_checked(after, self.commands if self.result.was_run else None)


def own_check(metadata: Mapping[str, Any] | None) -> str:
    """The command that this metadata sets as a check; empty when it sets none."""
    return Task("0", "", "", metadata=metadata).check


def with_check(task: Task, check: str) -> Task:
    """The task with this check, if it has none."""
    return task if task.check or not check else task.copy_with(metadata=merge_metadata(task.metadata, {CHECK: check}))


def mark_checked(task: Task, commands: tuple[str, ...] | None) -> Task:
    """The task with a note of the checks that it passed; None: it passed none."""
    note = list(commands) if commands is not None else None
    return task.copy_with(metadata=merge_metadata(task.metadata, {CHECKED: note}))


def reopen(task: Task, check: str, *, keeps_owner: bool) -> Task:
    """A completion that did not hold, taken back; the check stays that it was measured by."""
    back = TaskStatus.IN_PROGRESS if keeps_owner and task.owner else TaskStatus.PENDING
    owner = task.owner if keeps_owner else None
    return mark_checked(with_check(task, check).copy_with(status=back, owner=owner), None)


def check_failed_error(task: Task, checked: TaskCheckResult) -> TaskRefused:
    """The check says that the task is not done."""
    end = f" The end of its output:\n{checked.output}" if checked.output else " It wrote nothing."
    return TaskRefused(
        "check_failed",
        f"#{task.id} is not completed: {checked.reason}",
        do=[f"Fix the problems that the check found, then complete the task again.{end}"],
    )


def task_changed_error(task: Task) -> TaskRefused:
    """Somebody changed the task while its check ran."""
    return TaskRefused(
        "changed",
        f"#{task.id} was changed while its check ran, and is not completed",
        do=["Read it with TaskGet; if it is still done, complete it again."],
    )


def _checked_content(task: Task) -> tuple[object, ...]:
    """What a completion is about: others may add edges and notes meanwhile."""
    return (task.owner, task.status, task.subject, task.description)
