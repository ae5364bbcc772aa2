"""Conditions of a completion, as the task list knows them: a review, checks, and the integration of a worktree.

A completion that needs a review only submits the task: it stays in progress until the approval, so its dependents wait
and nothing of it is integrated. Checks are commands that must succeed before a task counts as completed. A completion
adds the commit of its owner's worktree. The ports `CheckRunner` and `MemberWorktrees` run commands and commit files;
`teams` chooses the reviewers and asks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.ids import LEAD, display_name, now_ms
from teamwright.protocol.task import (
    CHECK,
    CHECKED,
    INTEGRATION,
    MAX_RETURNS,
    REVIEW,
    REVIEWED,
    IntegrationState,
    Reviewer,
    ReviewNote,
    ReviewState,
    Task,
    TaskIntegration,
    TaskStatus,
)
from teamwright.tasks.task_rules import Actor, is_owner, merge_metadata
from teamwright.tasks.write_sets import conflict_notes


class ReviewAnswer(Struct, frozen=True):
    """The answer of a reviewer. `comment` says what has to change in returned work."""

    approves: bool
    comment: str = ""


def open_review(task: Task) -> Task:
    """Return a new task with the note that its review needs, if it needs one."""
    return _with_note(task, ReviewNote(ReviewState.WORKING, now_ms())) if task.review is not None else task


def needs_review(task: Task, actor: Actor) -> bool:
    """Return True when this actor's completion of the task is only a submission.

    A person's completion counts, and the lead's where the lead reviews the work of another member.
    """
    if task.review is None or actor.is_user:
        return False
    return not (actor.lead and task.review is Reviewer.LEAD and not is_owner(task.owner, actor.name))


def submit(task: Task, work: TaskIntegration | None) -> Task:
    """Return a task, which its owner completes, in review. `work` is its commit in a worktree."""
    note = task.review_note or ReviewNote(ReviewState.WORKING, 0)
    submitted = ReviewNote(
        ReviewState.WAITING, note.begun, note.round + 1, note.returns, author=task.owner or "", work=work
    )
    return _with_note(task.copy_with(status=TaskStatus.IN_PROGRESS), submitted)


def approve_directly(task: Task, actor: Actor) -> Task:
    """Return a task, which its reviewer or a person completed, with the approval that it requires."""
    if task.review is None:
        return task
    note = task.review_note or ReviewNote(ReviewState.WORKING, 0)
    return _with_note(
        task, replace(note, state=ReviewState.APPROVED, by=actor.name, reviewer="", asked=(), comment="", work=None)
    )


def submit_unapproved(task: Task, review: Reviewer, work: TaskIntegration | None) -> Task:
    """Return a task that another program completed, in the review that it requires. An open review continues."""
    task = task.copy_with(metadata=merge_metadata(task.metadata, {REVIEW: str(review)}))
    if (note := task.review_note) is not None and note.state is ReviewState.WAITING:
        return task.copy_with(status=TaskStatus.IN_PROGRESS)
    return submit(task, work)


def withdraw(before: Task, after: Task) -> Task:
    """Return a changed task without its review when it was taken back or opened again, and with no returns for a new
    owner.
    """
    note = after.review_note
    if note is None:
        return after
    if before.status is TaskStatus.COMPLETED is not after.status and note.state is ReviewState.APPROVED:
        note = replace(note, state=ReviewState.WORKING)
    is_new = after.owner is not None and before.owner != after.owner
    if before.in_review and (is_new or after.status is not before.status or after.owner is None):
        note = replace(note, state=ReviewState.WORKING, reviewer="", asked=(), work=None)
    if is_new:
        note = replace(note, returns=0)
    return after if note == after.review_note else _with_note(after, note)


def choose_reviewer(task: Task, round: int, former: str, name: str) -> Task:
    """Return the task with a chosen reviewer, who is asked from now on; unchanged when the review has gone further.

    `round` and `former` are the review for which the reviewer was chosen, and the reviewer that is replaced.
    """
    note = task.review_note
    if note is None or not task.in_review or (note.round, note.reviewer) != (round, former):
        return task
    return _with_note(task, replace(note, reviewer=name, asked=(*note.asked, name), asked_at=now_ms()))


def answer_review(task: Task, answer: ReviewAnswer, actor: Actor) -> Task:
    """Return the task completed, or open again with its owner; after MAX_RETURNS returns it belongs to the lead.

    Raises TaskRefused (`not_in_review reserved`), and UsageError for a return without a comment.
    """
    note = task.review_note
    if note is None or not task.in_review:
        raise TaskRefused(
            "not_in_review", f"#{task.id} does not wait for a review", do=["TaskGet shows its present state"]
        )
    _require_reviewer(task, note, actor)
    if answer.approves:
        approved = replace(note, state=ReviewState.APPROVED, by=actor.name, comment="", work=None)
        return mark_integration(_with_note(task.copy_with(status=TaskStatus.COMPLETED), approved), note.work)
    comment = answer.comment.strip()
    if not comment:
        raise UsageError(
            "usage", "returned work needs a comment: what has to change", note="nothing was changed, the review is open"
        )
    returned = replace(
        note, state=ReviewState.RETURNED, returns=note.returns + 1, by=actor.name, comment=comment, work=None
    )
    after = _with_note(task, returned)
    if note.work is not None:
        after = mark_integration(after, replace(note.work, state=IntegrationState.RETURNED))
    if returned.returns >= MAX_RETURNS:
        return after.copy_with(owner=LEAD, status=TaskStatus.PENDING)
    return after


def task_notes(task: Task, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return texts about the review of a task and about the tasks at work that change the same paths."""
    return (*_review_notes(task), *conflict_notes(task, tasks))


def _review_notes(task: Task) -> list[str]:
    note = task.review_note
    if note is None or task.status is TaskStatus.COMPLETED:
        return []
    who = display_name(note.reviewer)
    if task.in_review:
        return [f"in review by {who}" if who else "in review"]
    return [f"returned by {who}"] if note.state is ReviewState.RETURNED else []


def _require_reviewer(task: Task, note: ReviewNote, actor: Actor) -> None:
    if actor.is_user or (is_owner(note.reviewer, actor.name) and not is_owner(note.author, actor.name)):
        return
    if is_owner(note.author, actor.name):
        raise TaskRefused(
            "reserved", f"#{task.id} is your own work, which another member reviews", do=["wait for its answer"]
        )
    if actor.lead and task.review is not Reviewer.HUMAN:
        return
    who = display_name(note.reviewer) or str(task.review)
    raise TaskRefused("reserved", f"#{task.id} is reviewed by {who}", do=[f"write your findings to {who}"])


def _with_note(task: Task, note: ReviewNote) -> Task:
    return task.copy_with(metadata=merge_metadata(task.metadata, {REVIEWED: note.to_json()}))


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

    async def run(self, task: Task, commands: tuple[str, ...], by: str) -> TaskCheckResult:
        """Run the commands one after another for the member that completes the task; stop at the first failure."""
        ...


class TaskCheckResult(Struct, frozen=True):
    """The result of a task's checks. `was_run` False: a command was not allowed, so nothing ran.

    `reason` names the failed command and its failure, `output` is the end of its output.
    """

    passed: bool
    was_run: bool = True
    reason: str = ""
    output: str = ""


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
