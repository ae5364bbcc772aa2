"""The changes of one task list that complete tasks: checks and commits come first, and a review may come after.

No lock is held while checks run and files are committed. Depends on the port of task stores and on the rules.
"""

from __future__ import annotations

from msgspec import Struct

from teamwright.protocol.ids import task_id
from teamwright.protocol.integration import TaskIntegration
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.draft_tasks import Drafts, finish_draft
from teamwright.tasks.task_check import CheckProof, CheckRunner, check_failed_error, task_changed_error
from teamwright.tasks.task_graph import sort_ids
from teamwright.tasks.task_integration import MemberWorktrees, mark_integration
from teamwright.tasks.task_review import approve_directly, needs_review, submit, withdraw
from teamwright.tasks.task_rules import Actor, FindOpenBlockers, TaskWishes, apply_update, is_owner, note_start
from teamwright.tasks.task_store import ChangeTask, FollowedTaskStore, damaged_error


class MemberNames(Struct, frozen=True):
    """The names of owners, in a list that several sessions share and as one session uses them.

    `realm` is the part after `@` of this session's members; empty on the list of one session.
    """

    realm: str

    def own_task(self, task: Task) -> Task:
        """Return the task with its owner's name as this session uses it."""
        if not self.realm or task.owner is None:
            return task
        own = self.own_name(task.owner)
        return task if own == task.owner else task.copy_with(owner=own)

    def own_name(self, name: str) -> str:
        """Return the name as this session uses it."""
        bare, _, realm = name.partition("@")
        return bare if realm and realm == self.realm else name


class TaskCompletions(Struct, frozen=True):
    """The updates of one list. `check` runs checks; `work` commits the files of members in worktrees."""

    store: FollowedTaskStore
    drafts: Drafts
    names: MemberNames
    check: CheckRunner | None
    work: MemberWorktrees | None

    def is_in_worktree(self, owner: str) -> bool:
        """Return True when this member works in a worktree, as far as this process knows."""
        return self.work is not None and self.work.has(self.names.own_name(owner))

    async def prepare_change(self, id: str, wish: TaskWishes, actor: Actor) -> ChangeTask:
        """Return the change of an update. Checks and commits of a completion are made now.

        Raises TaskRefused, UsageError, StorageError; then nothing is changed.
        """
        proof, work = None, None
        if wish.get("status") == TaskStatus.COMPLETED and (found := await self._find_completion(id, wish, actor)):
            before, after = found
            proof = await self._run_checks(before, after, actor)
            if self.work is not None:
                work = await self.work.save(self.names.own_task(after), self.names.own_name(actor.name))
        return self._make_change(wish, actor, proof, work)

    def _make_change(
        self, wish: TaskWishes, actor: Actor, proof: CheckProof | None, work: TaskIntegration | None
    ) -> ChangeTask:
        def change(task: Task, waiting: FindOpenBlockers) -> Task:
            if _repeats_submission(task, wish, actor):
                return task
            after = apply_update(task, wish, actor, waiting)
            after = finish_draft(after) if wish.get("ready") else self.drafts.with_renewed_note(after, actor.name)
            after = note_start(task, withdraw(task, after), in_worktree=self._is_inside(task, after, actor))
            if task.status is TaskStatus.COMPLETED or after.status is not TaskStatus.COMPLETED:
                return after
            after = self._with_proof(task, after, proof)
            if needs_review(after, actor):
                return submit(after, work)
            return approve_directly(mark_integration(after, work), actor)

        return change

    def _is_inside(self, before: Task, after: Task, actor: Actor) -> bool:
        """Return True when the owner of the changed task works in a worktree, as its own process noted."""
        if before.owner == after.owner and before.status is after.status and not is_owner(after.owner, actor.name):
            return before.in_worktree
        return self.is_in_worktree(after.owner or "")

    def _with_proof(self, task: Task, after: Task, proof: CheckProof | None) -> Task:
        """Return the completed task with a note of its checks. Raises TaskRefused when they did not run."""
        if self.check is None:
            return after
        commands = self.check.commands(after)
        if proof is not None:
            return proof.complete(task, after, commands)
        if commands:
            raise task_changed_error(task)
        return after

    async def _find_completion(self, id: str, wish: TaskWishes, actor: Actor) -> tuple[Task, Task] | None:
        """Return the task that the actor completes, before and after; None when nothing precedes its completion.

        Raises TaskRefused when the actor may not complete it.
        """
        if self.check is None and self.work is None:
            return None
        blockers = [task_id(i) for i in wish.get("add_blocked_by", ())]
        found = await self.store.read([id])
        for damaged in found.damaged:
            raise damaged_error(damaged.place, damaged.reason)
        task = found.tasks[0] if found.tasks else None
        if task is None or task.status is TaskStatus.COMPLETED or _repeats_submission(task, wish, actor):
            return None
        waits = found.open_blockers(task)
        if blockers:
            waits += (await self.store.read(blockers)).open_blockers(task.copy_with(blocked_by=blockers))
        return task, apply_update(task, wish, actor, lambda: sort_ids(waits))

    async def _run_checks(self, task: Task, after: Task, actor: Actor) -> CheckProof | None:
        """Run the checks of a task that is completed; return None when there are none. Raises TaskRefused."""
        if self.check is None:
            return None
        commands = self.check.commands(after)
        if not commands:
            return None
        checked = await self.check.run(self.names.own_task(after), commands, self.names.own_name(actor.name))
        if checked.was_run and not checked.passed:
            raise check_failed_error(task, checked)
        return CheckProof(task, commands, checked)


def _repeats_submission(task: Task, wish: TaskWishes, actor: Actor) -> bool:
    """Return True when the owner completes a task that is in review already: that changes nothing."""
    completes = wish.get("status") == TaskStatus.COMPLETED
    return completes and task.in_review and not actor.is_user and is_owner(task.owner, actor.name)
