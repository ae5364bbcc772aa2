"""The review of finished work, as the task list knows it: a completion submits it, a reviewer approves or returns it.

The task stays in progress until the approval, so its dependents wait and nothing of it is integrated. Depends on task
values. Choosing and asking reviewers is left to `teams`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.integration import IntegrationState, TaskIntegration
from teamwright.protocol.review import MAX_RETURNS, Reviewer, ReviewNote, ReviewState
from teamwright.protocol.task import REVIEW, REVIEWED, Task, TaskStatus
from teamwright.protocol.timestamps import now_ms
from teamwright.tasks.task_integration import mark_integration
from teamwright.tasks.task_metadata import merge_metadata
from teamwright.tasks.task_rules import Actor, is_owner
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
    who = LEAD_ALIAS if note.reviewer == LEAD else note.reviewer
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
    who = LEAD_ALIAS if note.reviewer == LEAD else note.reviewer or str(task.review)
    raise TaskRefused("reserved", f"#{task.id} is reviewed by {who}", do=[f"write your findings to {who}"])


def review_answer_change(answer: ReviewAnswer, actor: Actor) -> Callable[[Task, Any], Task]:
    """Return the change that stores an answer."""
    return lambda task, _waiting: answer_review(task, answer, actor)


def _with_note(task: Task, note: ReviewNote) -> Task:
    return task.copy_with(metadata=merge_metadata(task.metadata, {REVIEWED: note.to_json()}))
