"""The task list: the operations of members, tools and user interfaces on tasks.

The store makes each change atomic; this module decides which changes are allowed. Checks and commits come before a
completion and hold no lock; a review may come after it. `on_change` reports changes; the caller decides on
notifications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from msgspec import Struct

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.ids import parse_recipient, task_id
from teamwright.protocol.task import REVIEW, Reviewer, Task, TaskIntegration, TaskStatus, stricter_reviewer
from teamwright.tasks.completion_conditions import (
    CheckProof,
    CheckRunner,
    MemberWorktrees,
    ReviewAnswer,
    TaskCheckResult,
    answer_review,
    approve_directly,
    check_failed_error,
    choose_reviewer,
    mark_checked,
    mark_integration,
    needs_review,
    open_review,
    own_check,
    reopen,
    settle_integration,
    submit,
    submit_unapproved,
    task_changed_error,
    with_check,
    withdraw,
)
from teamwright.tasks.draft_tasks import Drafts, finish_draft, mark_draft
from teamwright.tasks.task_rules import (
    DELETED,
    RUNTIME_KEYS,
    Actor,
    FindOpenBlockers,
    NewTask,
    TaskWishes,
    apply_release,
    apply_update,
    change_word,
    changed_fields,
    is_owner,
    note_start,
    requested_edges,
    requested_metadata,
    require_deletable,
    require_metadata,
    require_subject,
    sort_ids,
    with_realm,
)
from teamwright.tasks.task_store import (
    ChangeTask,
    ExternalTaskChange,
    FollowedTaskStore,
    OnExternalChange,
    TaskChange,
    TaskFollower,
    TaskSnapshot,
    damaged_error,
)

OnChange = Callable[[Task, str, str], None]
"""Called after each change with the task, the change and its author. Changes are created, claimed, assigned, completed,
released, deleted and updated. It must neither block nor raise."""


class TaskUpdateResult(Struct, frozen=True):
    """The result of an update. `changed` names the fields as on disk, or is `("deleted",)`.

    `assigned` is a new owner other than the actor. `removed_from` is the owner, other than the actor, that lost an open
    task; `unblocked` are the tasks that are no longer blocked.
    """

    task: Task
    changed: tuple[str, ...]
    assigned: str | None = None
    removed_from: str | None = None
    unblocked: tuple[Task, ...] = ()


class TaskList:
    """One shared list of tasks in a store."""

    def __init__(
        self,
        store: FollowedTaskStore,
        *,
        on_change: OnChange | None = None,
        realm: str = "",
        check: CheckRunner | None = None,
        work: MemberWorktrees | None = None,
        review: Reviewer | None = None,
    ) -> None:
        """Create the list object. `check` runs the checks of tasks; without it no task is checked.

        `work` commits the files of members in worktrees; without it no task adds a commit. `review` is the least
        review of every new task.

        `realm`, on a list that several sessions share, distinguishes their members: owners are `name@realm` in the
        store. Results have the bare names of this realm's members, and full names of all others.
        """
        self.store = store
        self.next_claim_at = 0
        """The time in ms since 1970 when a free draft becomes claimable, by the last claim; 0 without such a draft."""
        self._on_change = on_change
        self._realm = realm
        self._check = check
        self._work = work
        self._review = review
        self._drafts = Drafts(self.store)
        self._names = MemberNames(realm)

    @property
    def check_search_path(self) -> str:
        """The PATH on which checks find their programs; empty when no check runs."""
        return self._check.search_path if self._check is not None else ""

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str) -> Task | None:
        """Read the task. Raises InvalidName, StorageError (`damaged-file`)."""
        task, _ = await self.get_with_blockers(id)
        return task

    async def get_with_blockers(self, id: str) -> tuple[Task | None, list[str]]:
        """Read the task, and the ids of its open blockers. Raises InvalidName, StorageError (`damaged-file`)."""
        found = await self._read([task_id(id)])
        task = found.tasks[0] if found.tasks else None
        return (self._names.own_task(task), found.open_blockers(task)) if task is not None else (None, [])

    async def all(self, *, internal: bool = False) -> list[Task]:
        """Return all tasks in numeric order; internal tasks of other programs only with `internal`.

        An unreadable task is returned as it was seen last. Raises StorageError.
        """
        return list((await self.snapshot(internal=internal)).tasks)

    async def snapshot(self, *, internal: bool = False) -> TaskSnapshot:
        """Return the same tasks with the damaged ones and with the state of blockers. Raises StorageError."""
        found = await self.store.read()
        tasks = [self._names.own_task(task) for task in found.tasks if internal or not task.is_internal]
        return TaskSnapshot(tasks, found.damaged, found.open_ids)

    def watch_external_changes(self, on_outside: OnExternalChange) -> TaskFollower:
        """Report changes by other processes from now on; see FollowedTaskStore. Raises StorageError."""

        def report_change(change: ExternalTaskChange) -> None:
            own = self._names.own_task
            on_outside(
                change._replace(before=change.before and own(change.before), after=change.after and own(change.after))
            )

        return self.store.follow(report_change)

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, subject: str, description: str, *, by: str, **more: Unpack[NewTask]) -> Task:
        """Add a task under the next number. `blocked_by` names tasks that must be completed before it.

        Raises UsageError (no subject), TaskRefused (`task_not_found`), StorageError; then nothing was added.
        """
        subject = require_subject(subject)
        owner = more.get("owner", "").strip()
        blockers = sort_ids(task_id(i) for i in more.get("blocked_by", ()))
        requested = more.get("metadata") or {}
        metadata = {key: value for key, value in requested.items() if key not in RUNTIME_KEYS}
        self._allow(metadata, more.get("seen_from"))
        if (review := stricter_reviewer((self._review, Task("0", "", "", metadata=metadata).review))) is not None:
            metadata[REVIEW] = str(review)

        def make_task(id: str) -> Task:
            task = Task(
                id=id,
                subject=subject,
                description=description,
                active_form=more.get("active_form") or None,
                owner=with_realm(parse_recipient(owner, None), self._realm) if owner else None,
                blocked_by=tuple(blockers),
                metadata=metadata or None,
            )
            task = open_review(task)
            return mark_draft(task, with_realm(by, self._realm)) if more.get("draft") else task

        task = await self.store.create(make_task, blockers)
        self._notify(task, "created", by)
        return task

    async def update(self, id: str, *, by: str, lead: bool = False, **wish: Unpack[TaskWishes]) -> TaskUpdateResult:
        """Change a task; see TaskWishes for the fields. The update is complete, or nothing changes.

        A member that names itself as owner, or starts a task without an owner, claims it. Raises TaskRefused
        (`task_not_found already_claimed already_resolved blocked reserved cycle self_edge check_failed check_kept
        changed work_not_committed writes_overlap review_kept`), UsageError, InvalidName, StorageError. A completion
        waits for the task's check and for the commit of its owner's files, without any lock. A task that requires a
        review stays in progress then, and waits for `answer_review`.
        """
        number = task_id(id)
        actor = Actor(with_realm(by, self._realm), lead)
        if wish.get("status") == DELETED:
            removed = await self.store.remove(number, lambda task: require_deletable(task, actor))
            gone = removed.before
            self._notify(gone, "deleted", actor.name)
            for neighbour in removed.touched.values():
                self._notify(neighbour, "updated", actor.name)
            removed_from = self._other_owner(gone, actor) if gone.status is not TaskStatus.COMPLETED else None
            return TaskUpdateResult(
                self._names.own_task(gone), (DELETED,), None, removed_from, tuple(removed.unblocked)
            )
        self._allow(requested_metadata(wish), wish.get("seen_from"))
        edges = requested_edges(number, wish)
        change = await self._prepare_change(number, wish, actor)
        await self._drafts.renew(actor.name, number)
        done = await self.store.change(number, change, edges, exclusive=True)
        if done.begins_task:
            await self._move_worktree(done.after)
        for other in done.touched.values():
            self._notify(other, "updated", actor.name)
        return self._report_change(done, actor)

    async def claim_next(self, by: str, tools: frozenset[str] | None = None, settle_ms: int = 0) -> Task | None:
        """Claim the lowest task that is free, not blocked, no draft, and fits this member; return None without one.

        `settle_ms` is the time in ms that a file must be unchanged, for a list whose lead is another program.
        """
        by = with_realm(by, self._realm)
        actor = Actor(by, tools=tools, in_worktree=self._is_in_worktree(by))
        claimed, self.next_claim_at = await self.store.claim_next(actor, settle_ms)
        if claimed is None:
            return None
        await self._move_worktree(claimed.after)
        if claimed.after != claimed.before:
            self._notify(claimed.after, "claimed", by)
        return self._names.own_task(claimed.after)

    async def answer_review(self, id: str, answer: ReviewAnswer, *, by: str, lead: bool = False) -> Task:
        """Approve or return the finished work of a task. The first answer counts.

        Raises TaskRefused (`task_not_found not_in_review reserved`), UsageError for a return without a comment,
        StorageError.
        """
        actor = Actor(with_realm(by, self._realm), lead)
        done = await self.store.change(task_id(id), lambda task, _: answer_review(task, answer, actor))
        author = done.after.owner or by
        self._notify(done.after, "completed" if answer.approves else "updated", author if answer.approves else by)
        return self._names.own_task(done.after)

    async def choose_reviewer(self, task: Task, name: str) -> Task | None:
        """Store the reviewer that is asked now; None when the review of this task has gone further.

        Raises StorageError, LockTimeout.
        """
        note = task.review_note
        if note is None:
            return None
        try:
            done = await self.store.change(
                task.id, lambda now, _: choose_reviewer(now, note.round, note.reviewer, name)
            )
        except TaskRefused:
            return None  # deleted
        if done.after == done.before:
            return None
        self._notify(done.after, "updated", "task-list")
        return self._names.own_task(done.after)

    async def finish_drafts(self, by: str) -> None:
        """Let idle members claim the drafts of this creator, whose turn has ended."""
        for task in await self._drafts.finish(with_realm(by, self._realm)):
            self._notify(task, "updated", by)

    async def release(self, owner: str, *, by: str = "system") -> list[Task]:
        """Release the open tasks of a member that has ended: pending, without owner. Return them."""
        owner = with_realm(owner, self._realm)
        released: list[Task] = []
        for task in (await self.store.read()).tasks:
            if not is_owner(task.owner, owner):
                continue
            try:
                done = await self.store.change(task.id, lambda now, _: apply_release(now, owner))
            except TaskRefused:
                continue  # deleted since the listing
            if done.after != done.before:
                released.append(done.after)
        for task in released:
            self._notify(task, "released", by)
        return released

    async def verify(self, task: Task, check: str, *, keeps_owner: bool) -> TaskCheckResult | None:
        """Check a completion by another program. A failed check undoes the completion, a passed one is noted.

        `check` is the check that the task had before, if that program removed it. Return None when no check applies or
        the task has changed since. Raises LockTimeout, StorageError.
        """
        if self._check is None:
            return None
        measured = with_check(task, check)
        commands = self._check.commands(measured)
        if not commands or task.passed_checks(*commands):
            return None
        checked = await self._check.run(measured, commands, task.owner or "")
        if not checked.was_run:
            return checked

        def change(now: Task, _: FindOpenBlockers) -> Task:
            if now.status is not TaskStatus.COMPLETED or self._names.own_task(now).owner != task.owner:
                return now
            if checked.passed:
                return mark_checked(now, commands)
            return withdraw(now, reopen(now, measured.check, keeps_owner=keeps_owner))

        done = await self.store.change(task.id, change)
        if done.after == done.before:
            return None
        self._notify(done.after, "updated" if checked.passed or keeps_owner else "released", "task-list")
        return checked

    async def submit_unapproved(self, task: Task, review: Reviewer | None = None) -> Task | None:
        """Submit a task that another program completed to its review, with the commit of its owner's files.

        `review` is what the task required before, if that program removed it. Returns None when it needs no approval
        or has changed since. Raises TaskRefused (`work_not_committed`), LockTimeout, StorageError.
        """
        required = stricter_reviewer((task.review, review))
        if required is None or (task.review is required and not task.awaits_approval):
            return None
        work = await self._work.save(task, task.owner or "") if self._work is not None and task.owner else None

        def change(now: Task, _: FindOpenBlockers) -> Task:
            if now.status is not TaskStatus.COMPLETED or self._names.own_task(now).owner != task.owner:
                return now
            return now if now.review is required and not now.awaits_approval else submit_unapproved(now, required, work)

        done = await self.store.change(task.id, change)
        if done.after == done.before:
            return None
        self._notify(done.after, "updated", "task-list")
        return self._names.own_task(done.after)

    async def settle(self, id: str, integration: TaskIntegration, *, keeps_owner: bool) -> Task | None:
        """Store the outcome of a task's queued commit: its dependents are free, or it is open again.

        `keeps_owner`: its owner can continue with it. Returns None when the task awaits no outcome of this commit.
        Raises StorageError, LockTimeout.
        """
        try:
            done = await self.store.change(
                task_id(id), lambda now, _: withdraw(now, settle_integration(now, integration, keeps_owner=keeps_owner))
            )
        except TaskRefused:
            return None  # deleted
        if done.after == done.before:
            return None
        released = done.after.owner is None and done.before.owner is not None
        self._notify(done.after, "released" if released else "updated", "task-list")
        return self._names.own_task(done.after)

    def is_unverified(self, task: Task) -> bool:
        """Return True when a completed task has a check, its own or one of all tasks, that is not noted as passed."""
        if task.status is not TaskStatus.COMPLETED:
            return False
        commands = self._check.commands(task) if self._check is not None else ()
        return task.is_unverified or not task.passed_checks(*commands)

    # ── completing ───────────────────────────────────────────────────────────────────────────────────────────

    async def _prepare_change(self, id: str, wish: TaskWishes, actor: Actor) -> ChangeTask:
        """Return the change of an update. Checks and commits of a completion are made now, without any lock.

        Raises TaskRefused, UsageError, StorageError; then nothing is changed.
        """
        proof: CheckProof | None = None
        work: TaskIntegration | None = None
        if wish.get("status") == TaskStatus.COMPLETED and (found := await self._find_completion(id, wish, actor)):
            before, after = found
            proof = await self._run_checks(before, after, actor)
            if self._work is not None:
                work = await self._work.save(self._names.own_task(after), self._names.own_name(actor.name))

        def change(task: Task, waiting: FindOpenBlockers) -> Task:
            if _repeats_submission(task, wish, actor):
                return task
            after = apply_update(task, wish, actor, waiting)
            after = finish_draft(after) if wish.get("ready") else self._drafts.with_renewed_note(after, actor.name)
            after = note_start(task, withdraw(task, after), in_worktree=self._is_inside(task, after, actor))
            if task.status is TaskStatus.COMPLETED or after.status is not TaskStatus.COMPLETED:
                return after
            after = self._with_proof(task, after, proof)
            if needs_review(after, actor):
                return submit(after, work)
            return approve_directly(mark_integration(after, work), actor)

        return change

    async def _find_completion(self, id: str, wish: TaskWishes, actor: Actor) -> tuple[Task, Task] | None:
        """Return the task that the actor completes, before and after; None when nothing precedes its completion.

        Raises TaskRefused when the actor may not complete it.
        """
        if self._check is None and self._work is None:
            return None
        blockers = [task_id(i) for i in wish.get("add_blocked_by", ())]
        found = await self._read([id])
        task = found.tasks[0] if found.tasks else None
        if task is None or task.status is TaskStatus.COMPLETED or _repeats_submission(task, wish, actor):
            return None
        waits = found.open_blockers(task)
        if blockers:
            waits += (await self.store.read(blockers)).open_blockers(task.copy_with(blocked_by=blockers))
        return task, apply_update(task, wish, actor, lambda: sort_ids(waits))

    async def _run_checks(self, task: Task, after: Task, actor: Actor) -> CheckProof | None:
        """Run the checks of a task that is completed; return None when there are none. Raises TaskRefused."""
        if self._check is None:
            return None
        commands = self._check.commands(after)
        if not commands:
            return None
        checked = await self._check.run(self._names.own_task(after), commands, self._names.own_name(actor.name))
        if checked.was_run and not checked.passed:
            raise check_failed_error(task, checked)
        return CheckProof(task, commands, checked)

    def _with_proof(self, task: Task, after: Task, proof: CheckProof | None) -> Task:
        """Return the completed task with a note of its checks. Raises TaskRefused when they did not run."""
        if self._check is None:
            return after
        commands = self._check.commands(after)
        if proof is not None:
            return proof.complete(task, after, commands)
        if commands:
            raise task_changed_error(task)
        return after

    def _is_inside(self, before: Task, after: Task, actor: Actor) -> bool:
        """Return True when the owner of the changed task works in a worktree, as its own process noted."""
        if before.owner == after.owner and before.status is after.status and not is_owner(after.owner, actor.name):
            return before.in_worktree
        return self._is_in_worktree(after.owner or "")

    def _is_in_worktree(self, owner: str) -> bool:
        """Return True when this member works in a worktree, as far as this process knows."""
        return self._work is not None and self._work.has(self._names.own_name(owner))

    # ── internal ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, ids: Sequence[str]) -> TaskSnapshot:
        """Read these tasks. Raises StorageError (`damaged-file`) when one is damaged."""
        found = await self.store.read(ids)
        for damaged in found.damaged:
            raise damaged_error(damaged.place, damaged.reason)
        return found

    def _allow(self, metadata: Mapping[str, Any] | None, seen_from: Path | None) -> None:
        """Record a check that a Teamwright agent sets and may run. Raises UsageError."""
        require_metadata(metadata)
        if self._check is not None and (command := own_check(metadata)):
            self._check.allow(command, seen_from)

    async def _move_worktree(self, task: Task) -> None:
        """Move the worktree of the owner, which begins the task, to the integrated work."""
        if self._work is not None:
            await self._work.move(self._names.own_task(task), self._names.own_name(task.owner or ""))

    def _report_change(self, done: TaskChange, actor: Actor) -> TaskUpdateResult:
        before, after = done.before, done.after
        changed = changed_fields(before, after)
        if not changed and before.in_review == after.in_review:
            return TaskUpdateResult(self._names.own_task(after), ())
        self._notify(after, change_word(before, after, actor.name), actor.name)
        new_owner = after.owner if after.owner != before.owner else None
        assigned = None if new_owner is None or is_owner(new_owner, actor.name) else self._names.own_name(new_owner)
        taken = after.owner != before.owner and before.status is not TaskStatus.COMPLETED
        removed_from = self._other_owner(before, actor) if taken else None
        return TaskUpdateResult(self._names.own_task(after), changed, assigned, removed_from, tuple(done.unblocked))

    def _other_owner(self, task: Task, actor: Actor) -> str | None:
        """Return the task's owner, unless that is the actor or there is none."""
        return None if task.owner is None or is_owner(task.owner, actor.name) else self._names.own_name(task.owner)

    def _notify(self, task: Task, change: str, by: str) -> None:
        if self._on_change is not None:
            self._on_change(self._names.own_task(task), change, self._names.own_name(by))


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


def _repeats_submission(task: Task, wish: TaskWishes, actor: Actor) -> bool:
    """Return True when the owner completes a task that is in review already: that changes nothing."""
    completes = wish.get("status") == TaskStatus.COMPLETED
    return completes and task.in_review and not actor.is_user and is_owner(task.owner, actor.name)
