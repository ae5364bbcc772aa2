"""The task list: the operations of members, tools and user interfaces on tasks.

Changes are safe among processes that take the locks, and careful with programs that do not. `on_change` reports
changes; the caller decides on notifications. Depends on the store, edges, claims and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from teamwright.protocol.ids import parse_recipient, task_id
from teamwright.protocol.task import Task, TaskStatus
from teamwright.protocol.values import dataclass
from teamwright.tasks import claim, moves
from teamwright.tasks.claim import Drafts, finish_draft, mark_draft, next_claim_at
from teamwright.tasks.edge_changes import add_edges, refuse_bad_edges, remove_references
from teamwright.tasks.external_changes import ExternalChanges
from teamwright.tasks.task_check import (
    CheckProof,
    CheckRunner,
    TaskCheckResult,
    check_failed_error,
    mark_checked,
    own_check,
    reopen,
    task_changed_error,
    with_check,
)
from teamwright.tasks.task_graph import Edge, sort_ids
from teamwright.tasks.task_index import OnExternalChange
from teamwright.tasks.task_rules import (
    DELETED,
    RUNTIME_KEYS,
    Actor,
    NewTask,
    TaskWishes,
    apply_update,
    change_word,
    changed_fields,
    is_owner,
    not_found_error,
    require_deletable,
    require_metadata,
    require_subject,
    with_realm,
)
from teamwright.tasks.task_store import TaskStore

OnChange = Callable[[Task, str, str], None]
"""Called after each change with the task, the change and its author. Changes are created, claimed, assigned, completed,
released, deleted and updated. It must neither block nor raise."""


@dataclass(frozen=True, slots=True)
class TaskUpdateResult:
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
    """One shared list of tasks in one directory, which is created with the first task."""

    def __init__(
        self,
        directory: Path,
        guard_of: Callable[[Path], Path],
        *,
        on_change: OnChange | None = None,
        fsync: bool = False,
        realm: str = "",
        check: CheckRunner | None = None,
    ) -> None:
        """Create the list object. `check` runs the checks of tasks; without it no task is checked.

        `realm`, on a list that several sessions share, distinguishes their members: owners are `name@realm` on disk.
        Results have the bare names of this realm's members, and full names of all others.
        """
        self.store = TaskStore(directory, guard_of, fsync=fsync)
        self._on_change = on_change
        self._realm = realm
        self._check = check
        self._drafts = Drafts(self.store)

    @property
    def directory(self) -> Path:
        """The directory of the files."""
        return self.store.directory

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str) -> Task | None:
        """Read the task from disk. Raises InvalidName, StorageError (`damaged-file`)."""
        task = self.store.read(task_id(id))
        return task and self._with_own_name(task)

    async def all(self, *, internal: bool = False) -> list[Task]:
        """Return all tasks in numeric order; internal tasks of other programs only with `internal`.

        An unreadable file is returned as it was seen last. Raises StorageError.
        """
        self.store.index.list_all()
        return [
            self._with_own_name(task) for task in self.store.index.known_tasks() if internal or not task.is_internal
        ]

    def watch_external_changes(self, on_outside: OnExternalChange) -> ExternalChanges:
        """Report changes by other processes from now on; see ExternalChanges. Raises StorageError."""

        def told(before: Task | None, after: Task | None) -> None:
            on_outside(before and self._with_own_name(before), after and self._with_own_name(after))

        return ExternalChanges(self.store, told)

    async def refresh(self) -> list[Task]:
        """Check every file and return the tasks that have changed since this process saw them."""
        before = {task.id: self._with_own_name(task) for task in self.store.index.known_tasks()}
        return [task for task in await self.all() if before.get(task.id) != task]

    def known_blockers(self, task: Task) -> list[str]:
        """Return the ids of the open blockers as seen last, for listings."""
        index = self.store.index
        return sort_ids(i for i in task.blocked_by if i.isascii() and i.isdigit() and index.is_open(int(i)))

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, subject: str, description: str, *, by: str, **more: Unpack[NewTask]) -> Task:
        """Add a task under the next number. `blocked_by` names tasks that must be completed before it.

        Raises UsageError (no subject), TaskRefused (`task_not_found`), StorageError; then nothing was added.
        """
        subject, owner = require_subject(subject), more.get("owner", "").strip()
        blockers = sort_ids(task_id(i) for i in more.get("blocked_by", ()))
        metadata = {key: value for key, value in (more.get("metadata") or {}).items() if key not in RUNTIME_KEYS}
        self._allow(metadata, more.get("seen_from"))

        def made(id: str) -> Task:
            task = Task(
                id=id,
                subject=subject,
                description=description,
                active_form=more.get("active_form") or None,
                owner=with_realm(parse_recipient(owner, None), self._realm) if owner else None,
                blocked_by=tuple(blockers),
                metadata=metadata or None,
            )
            return mark_draft(task, with_realm(by, self._realm)) if more.get("draft") else task

        self.store.prepare()
        async with self.store.list_lock().hold() as held:
            for id in blockers:
                if self.store.read(id) is None:
                    raise not_found_error(id)
            task = self.store.create(made, held)
            await add_edges(self.store, [(blocker, task.id) for blocker in blockers], held)
        self._notify(task, "created", by)
        return task

    async def update(self, id: str, *, by: str, lead: bool = False, **wish: Unpack[TaskWishes]) -> TaskUpdateResult:
        """Change a task; see TaskWishes for the fields. The update is complete, or nothing changes.

        A member that names itself as owner, or starts a task without an owner, claims it. Raises TaskRefused
        (`task_not_found already_claimed already_resolved blocked reserved cycle self_edge check_failed check_kept
        changed`), UsageError, InvalidName, StorageError. A completion waits for the task's check, without any lock.
        """
        number, actor = task_id(id), Actor(with_realm(by, self._realm), lead)
        if wish.get("status") == DELETED:
            return await self._delete(number, actor)
        self._allow(wish.get("metadata"), wish.get("seen_from"))
        proof = await self._run_checks(number, wish, actor) if wish.get("status") == TaskStatus.COMPLETED else None
        edges = _edges(number, wish)
        await self._drafts.renew(actor.name, number)
        if not edges:
            before, after = await self._rewrite(number, wish, actor, proof)
            return await self._report_change(before, after, actor)
        async with self.store.list_lock().hold() as held:
            refuse_bad_edges(self.store, edges)
            before, after = await self._rewrite(number, wish, actor, proof)
            touched = await add_edges(self.store, edges, held)
        for other in touched.values():
            if other.id != number:
                self._notify(other, "updated", actor.name)
        return await self._report_change(before, touched.get(number, after), actor)

    async def claim(self, id: str, by: str, tools: frozenset[str] | None = None) -> Task:
        """Claim this task and start it. A second claim by its owner succeeds. `tools` are those of the claimer.

        Raises TaskRefused (`task_not_found already_claimed already_resolved blocked reserved`), StorageError.
        """
        by = with_realm(by, self._realm)
        return self._report_claim(await claim.claim_task(self.store, task_id(id), Actor(by, tools=tools)), by)

    async def claim_next(self, by: str, tools: frozenset[str] | None = None, settle_ms: int = 0) -> Task | None:
        """Claim the lowest task that is free, not blocked, no draft, and fits this member; return None without one.

        `settle_ms` is the time in ms that a file must be unchanged, for a list whose lead is another program.
        """
        by = with_realm(by, self._realm)
        taken = await claim.claim_next(self.store, Actor(by, tools=tools), settle_ms)
        return None if taken is None else self._report_claim(taken, by)

    def next_claim_at(self, settle_ms: int = 0) -> int:
        """Return when a free draft becomes claimable, in ms since 1970; 0 when there is none."""
        return next_claim_at(self.store.index, settle_ms)

    async def finish_drafts(self, by: str) -> None:
        """Let idle members claim the drafts of this creator, whose turn has ended."""
        for task in await self._drafts.finish(with_realm(by, self._realm)):
            self._notify(task, "updated", by)

    async def release(self, owner: str, *, by: str = "system") -> list[Task]:
        """Release the open tasks of a member that has ended: pending, without owner. Return them."""
        back = [after for _, after in await claim.release_all(self.store, with_realm(owner, self._realm))]
        for task in back:
            self._notify(task, "released", by)
        return back

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

        def change(now: Task) -> Task:
            if now.status is not TaskStatus.COMPLETED or self._with_own_name(now).owner != task.owner:
                return now
            return (
                mark_checked(now, commands) if checked.passed else reopen(now, measured.check, keeps_owner=keeps_owner)
            )

        before, after = await self.store.change(task.id, change)
        if after == before:
            return None
        self._notify(after, "updated" if checked.passed or keeps_owner else "released", "task-list")
        return checked

    def is_unverified(self, task: Task) -> bool:
        """Return True when a completed task has a check, its own or one of all tasks, that is not noted as passed."""
        if task.status is not TaskStatus.COMPLETED:
            return False
        commands = self._check.commands(task) if self._check is not None else ()
        return task.is_unverified or not task.passed_checks(*commands)

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────────────

    async def reset_into_archive(self, target: Path) -> int:
        """Move all tasks into `target`. Numbers continue where they were. Return how many were moved."""
        return await moves.archive_all(self.store, target)

    async def remove_into_archive(self, target: Path) -> int:
        """Move all tasks into `target` and remove the directory; a new list of that name starts at 1."""
        return await moves.archive_and_remove(self.store, target)

    async def adopt_open_tasks(self, other: TaskList) -> list[Task]:
        """Move the open tasks of another list here under their numbers. Returns them."""
        return await moves.adopt_open_tasks(self.store, other.store)

    # ── internal ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _rewrite(self, id: str, wish: TaskWishes, actor: Actor, proof: CheckProof | None) -> tuple[Task, Task]:
        def change(task: Task) -> Task:
            after = self._apply_update(task, wish, actor)
            after = finish_draft(after) if wish.get("ready") else self._drafts.with_renewed_note(after, actor.name)
            completes = task.status is not TaskStatus.COMPLETED and after.status is TaskStatus.COMPLETED
            if self._check is None or not completes:
                return after
            commands = self._check.commands(after)
            if proof is not None:
                return proof.complete(task, after, commands)
            if commands:
                raise task_changed_error(task)
            return after

        return await self.store.change(id, change)

    def _apply_update(self, task: Task, wish: TaskWishes, actor: Actor) -> Task:
        more = [task_id(i) for i in wish.get("add_blocked_by", ())]
        return apply_update(task, wish, actor, lambda: self.store.open_blockers(task, more))

    def _allow(self, metadata: Mapping[str, Any] | None, seen_from: Path | None) -> None:
        """Record a check that a Teamwright agent sets and may run. Raises UsageError."""
        require_metadata(metadata)
        if self._check is not None and (command := own_check(metadata)):
            self._check.allow(command, seen_from)

    async def _run_checks(self, id: str, wish: TaskWishes, actor: Actor) -> CheckProof | None:
        """Run the task's checks if the actor may complete it; return None when there are none. Raises TaskRefused."""
        task = self.store.read(id) if self._check is not None else None
        if self._check is None or task is None or task.status is TaskStatus.COMPLETED:
            return None
        after = self._apply_update(task, wish, actor)
        commands = self._check.commands(after)
        if not commands:
            return None
        checked = await self._check.run(self._with_own_name(after), commands, self._own_name(actor.name))
        if checked.was_run and not checked.passed:
            raise check_failed_error(task, checked)
        return CheckProof(task, commands, checked)

    async def _report_change(self, before: Task, after: Task, actor: Actor) -> TaskUpdateResult:
        changed = changed_fields(before, after)
        if not changed:
            return TaskUpdateResult(self._with_own_name(after), ())
        kind = change_word(before, after, actor.name)
        self._notify(after, kind, actor.name)
        new_owner = after.owner if after.owner != before.owner else None
        assigned = None if new_owner is None or is_owner(new_owner, actor.name) else self._own_name(new_owner)
        taken = after.owner != before.owner and before.status is not TaskStatus.COMPLETED
        removed_from = self._other_owner(before, actor) if taken else None
        unblocked = self._find_unblocked(after) if kind == "completed" else ()
        return TaskUpdateResult(self._with_own_name(after), changed, assigned, removed_from, unblocked)

    def _other_owner(self, task: Task, actor: Actor) -> str | None:
        """Return the task's owner, unless that is the actor or there is none."""
        return None if task.owner is None or is_owner(task.owner, actor.name) else self._own_name(task.owner)

    async def _delete(self, id: str, actor: Actor) -> TaskUpdateResult:
        if not self.store.path(id).exists():
            raise not_found_error(id)  # without a list there is no lock file
        async with self.store.list_lock().hold() as held:
            dependents = self.store.index.dependents(int(id))
            gone = await self.store.remove(id, lambda task: require_deletable(task, actor), held)
            touched = await remove_references(self.store, gone, held)
        self._notify(gone, "deleted", actor.name)
        for other in touched.values():
            self._notify(other, "updated", actor.name)
        was_open = gone.status is not TaskStatus.COMPLETED
        waited = gone.copy_with(blocks=(*gone.blocks, *map(str, dependents)))
        removed_from = self._other_owner(gone, actor) if was_open else None
        return TaskUpdateResult(
            self._with_own_name(gone), (DELETED,), None, removed_from, self._find_unblocked(waited) if was_open else ()
        )

    def _find_unblocked(self, task: Task) -> tuple[Task, ...]:
        ids = sort_ids((*task.blocks, *map(str, self.store.index.dependents(task.number))))
        near = [self.store.index.refresh_task(int(i)) for i in ids if i.isascii() and i.isdigit()]
        pending = [t for t in near if t and t.status is TaskStatus.PENDING and not t.is_internal]
        return tuple(t for t in pending if not (self.known_blockers(t) and self.store.open_blockers(t)))

    def _report_claim(self, taken: tuple[Task, Task], by: str) -> Task:
        before, after = taken
        if after != before:
            self._notify(after, "claimed", by)
        return self._with_own_name(after)

    def _with_own_name(self, task: Task) -> Task:
        """Return the task with its owner's name as this session uses it."""
        if not self._realm or task.owner is None:
            return task
        own = self._own_name(task.owner)
        return task if own == task.owner else task.copy_with(owner=own)

    def _own_name(self, name: str) -> str:
        bare, _, realm = name.partition("@")
        return bare if realm and realm == self._realm else name

    def _notify(self, task: Task, change: str, by: str) -> None:
        if self._on_change is not None:
            self._on_change(self._with_own_name(task), change, self._own_name(by))


def _edges(id: str, wish: TaskWishes) -> list[Edge]:
    after = [(id, task_id(i)) for i in wish.get("add_blocks", ())]
    before = [(task_id(i), id) for i in wish.get("add_blocked_by", ())]
    return [*before, *after]
