"""The task store on files, which other programs read and write too. Depends on the files of a list and the index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.protocol.events import FileMark
from teamwright.protocol.task import Task, TaskStatus
from teamwright.storage.file_watcher import file_mark
from teamwright.tasks.draft_tasks import claimable_at
from teamwright.tasks.task_file import task_number
from teamwright.tasks.task_index import TaskIndex
from teamwright.tasks.task_list_files import TaskFiles
from teamwright.tasks.task_rules import (
    Actor,
    Edge,
    apply_claim,
    may_claim,
    not_found_error,
    sort_ids,
    still_draft_error,
)
from teamwright.tasks.task_store import (
    ChangeTask,
    ClaimAttempt,
    OnExternalChange,
    TaskChange,
    TaskInterest,
    TaskSnapshot,
)
from teamwright.tasks.write_sets import begins_writing, blocking_conflicts, must_wait, refuse_overlap

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher
    from teamwright.tasks.external_changes import ExternalChanges

_NOTHING = TaskSnapshot()


class FileTaskStore:
    """The task list in one directory, which is created with the first task; see `TaskStore`.

    Locks: the list's for creation, removal and edges, then one task's. A change is plain code under a lock.
    """

    def __init__(self, directory: Path, guard_of: Callable[[Path], Path], *, fsync: bool = False) -> None:
        """Create the store. `guard_of` returns the path of a guard file; with `fsync` writes survive power loss."""
        self.files = TaskFiles(directory, guard_of, fsync=fsync)

    @property
    def directory(self) -> Path:
        return self.files.directory

    @property
    def exists(self) -> bool:
        """True when the directory exists."""
        return self.files.directory.is_dir()

    async def read(self, ids: Collection[str] | None = None, *, drafts_of: str | None = None) -> TaskSnapshot:
        """See TaskStore. Of the drafts this process knows, which is sufficient: they are read again for a change."""
        files, index = self.files, self.files.index
        if drafts_of is not None:
            found = index.known_drafts(drafts_of)
            return TaskSnapshot(found) if found else _NOTHING
        if ids is None:
            index.list_all()
            known = index.known_tasks()
            return TaskSnapshot(known, files.damaged_tasks(), index.open_ids())
        tasks: list[Task] = []
        open_ids: set[str] = set()
        for id in sort_ids(ids):
            task = index.refresh_task(int(id), fresh=True)
            if index.is_open(int(id)):
                open_ids.add(id)
            if task is not None:
                tasks.append(task)
                if task.blocked_by:
                    open_ids.update(files.open_blockers(task))
        damaged = [one for one in files.damaged_tasks() if one.id in ids] if index.has_damage else ()
        return TaskSnapshot(tasks, damaged, open_ids)

    async def change(
        self, id: str, change: ChangeTask, edges: Sequence[Edge] = (), *, exclusive: bool = False
    ) -> TaskChange:
        files = self.files
        if not edges:

            def alone(task: Task) -> Task:
                return change(task, lambda: files.open_blockers(task))

            before, after = await (_change_exclusively if exclusive else TaskFiles.change)(files, id, alone)
            return TaskChange(before, after, {}, self._find_unblocked(before, after))
        from teamwright.tasks.dependency_changes import add_edges, refuse_bad_edges

        more = [blocker for blocker, blocked in edges if blocked == id]
        if not self.exists:
            raise not_found_error(id)  # without a list there is no lock file
        async with files.list_lock().hold() as hold:
            refuse_bad_edges(files, edges)

            def connected(task: Task) -> Task:
                after = change(task, lambda: files.open_blockers(task, more))
                if exclusive:
                    refuse_overlap(task, after, partial(_all_tasks, files))
                return after

            before, after = await files.change(id, connected)
            touched = await add_edges(files, edges, hold)
        after = touched.pop(id, after)
        return TaskChange(before, after, touched, self._find_unblocked(before, after))

    async def claim_next(self, actor: Actor, settle_ms: int = 0) -> ClaimAttempt:
        taken = await _claim_next(self.files, actor, settle_ms)
        if taken is not None:
            return ClaimAttempt(TaskChange(*taken))
        times = [_claimable_at(self.files.index, task, settle_ms) for task in self.files.index.ready_tasks()]
        return ClaimAttempt(None, min((moment for moment in times if moment), default=0))

    async def create(self, make_task: Callable[[str], Task], blockers: Sequence[str] = ()) -> Task:
        """See TaskStore. Writes the list's directory first."""
        from teamwright.tasks.dependency_changes import add_edges

        files = self.files
        files.prepare()
        async with files.list_lock().hold() as hold:
            for id in blockers:
                if files.read(id) is None:
                    raise not_found_error(id)
            task = files.create(make_task, hold)
            await add_edges(files, [(blocker, task.id) for blocker in blockers], hold)
        return task

    async def remove(self, id: str, require_allowed: Callable[[Task], None]) -> TaskChange:
        from teamwright.tasks.dependency_changes import remove_references

        files = self.files
        if not files.path(id).exists():
            raise not_found_error(id)  # without a list there is no lock file
        async with files.list_lock().hold() as hold:
            dependents = files.index.dependents(int(id))
            gone = await files.remove(id, require_allowed, hold)
            touched = await remove_references(files, gone, hold)
        freed = self._find_free((*gone.blocks, *map(str, dependents))) if not gone.is_finished else ()
        return TaskChange(gone, gone, touched, freed)

    @property
    def directories(self) -> Sequence[Path]:
        return (self.files.directory,)

    def mark(self, id: str) -> FileMark | None:
        """See FollowedTaskStore. The list is in the directory `tasks` of the state root."""
        return file_mark(self.directory.parent.parent, self.files.path(id))

    def watch(
        self,
        watcher: Watcher,
        on_change: Callable[[Collection[str] | None], None],
        interest: TaskInterest | None = None,
    ) -> Callable[[], None]:
        return watcher.follow_directory(self.directory, on_change, lambda name: task_number(name) is not None)

    def follow(self, on_outside: OnExternalChange) -> ExternalChanges:
        from teamwright.tasks.external_changes import ExternalChanges

        return ExternalChanges(self.files, on_outside)

    # ── whole lists ──────────────────────────────────────────────────────────────────────────────────────────

    async def archive_all(self, target: Path) -> int:
        """Move all tasks into `target`. Numbers continue where they were. Return how many were moved."""

        from teamwright.tasks import archive_and_adoption

        return await archive_and_adoption.archive_all(self.files, target)

    async def archive_finished(self, target: Path, days: float) -> int:
        """Move tasks that were finished long ago into `target`; see `task_transfers`. Return how many were moved."""

        from teamwright.tasks import archive_and_adoption

        return await archive_and_adoption.archive_finished(self.files, target, days)

    async def archive_and_remove(self, target: Path) -> int:
        """Move all tasks into `target` and remove the directory; a new list of that name starts at 1."""

        from teamwright.tasks import archive_and_adoption

        return await archive_and_adoption.archive_and_remove(self.files, target)

    async def adopt_open_tasks(self, other: FileTaskStore) -> list[Task]:
        """Move the open tasks of another list here under their numbers. Return them."""

        from teamwright.tasks import archive_and_adoption

        return await archive_and_adoption.adopt_open_tasks(self.files, other.files)

    # ── internal ─────────────────────────────────────────────────────────────────────────────────────────────

    def _find_unblocked(self, before: Task, after: Task) -> Sequence[Task]:
        """Return the tasks that this task unblocks because it is finished now; none for another change."""
        if before.is_finished or not after.is_finished:
            return ()
        return self._find_free((*after.blocks, *map(str, self.files.index.dependents(after.number))))

    def _find_free(self, ids: Iterable[str]) -> tuple[Task, ...]:
        files, index = self.files, self.files.index
        near = [index.refresh_task(int(i)) for i in sort_ids(ids) if i.isascii() and i.isdigit()]
        pending = [t for t in near if t and t.status is TaskStatus.PENDING and not t.is_internal]
        return tuple(t for t in pending if not (index.is_blocked(t) and files.open_blockers(t)))


async def _claim_next(files: TaskFiles, actor: Actor, settle_ms: int = 0) -> tuple[Task, Task] | None:
    """Claim the lowest task that is free, not blocked, not a draft, and fits the actor; return None when there is none
    now. `settle_ms` is the time in ms that a file must be unchanged, for a list whose lead is another program: its
    drafts have no mark."""
    files.index.list_once()
    while True:
        arrivals = files.index.arrivals
        taken = await _claim_first_free(files, actor, settle_ms, wait=False)
        taken = taken or await _claim_first_free(files, actor, settle_ms, wait=True)
        if taken is not None:
            return taken
        files.index.refresh_ready(files.watermark())
        if files.index.arrivals == arrivals:
            return None


async def _claim_first_free(files: TaskFiles, actor: Actor, settle_ms: int, *, wait: bool) -> tuple[Task, Task] | None:
    """Try the candidates once. Without `wait`, a task whose lock is held by another process is skipped."""
    index = files.index
    at = 0
    while (number := index.next_ready(at)) is not None:
        index.refresh_in_flight(below=number)
        number = min(number, index.next_ready(at) or number)
        at = number
        task = index.refresh_task(number)
        if task is None or index.next_ready(number - 1) != number or not may_claim(task, actor):
            continue
        if _claimable_at(index, task, settle_ms) or (not wait and files.is_locked(task.id)):
            continue
        if task.writes and not actor.in_worktree and _waits_for_others(index, task, actor):
            continue
        try:
            return await _change_exclusively(
                files, str(number), lambda now: _claim_for_idle(files, now, actor, settle_ms)
            )
        except (TaskRefused, LockTimeout):
            continue  # another member was faster or holds the lock: try the next task
        except StorageError as problem:
            if problem.slug != "damaged-file":
                raise
    return None


class _NeedsListLock(Exception):
    """Raised inside a change of one task that needs the lock of the list, so that two such changes do not meet."""


async def _change_exclusively(files: TaskFiles, id: str, change: Callable[[Task], Task]) -> tuple[Task, Task]:
    """Change a task; a change that begins a task with a write set holds the lock of the list and may be refused."""

    def alone(task: Task) -> Task:
        after = change(task)
        if begins_writing(task, after):
            raise _NeedsListLock
        return after

    def beside_others(task: Task) -> Task:
        after = change(task)
        refuse_overlap(task, after, partial(_all_tasks, files))
        return after

    try:
        return await files.change(id, alone)
    except _NeedsListLock:
        async with files.list_lock().hold():
            return await files.change(id, beside_others)


def _all_tasks(files: TaskFiles) -> Iterable[Task]:
    files.index.list_all()
    return files.index.known_tasks()


def _waits_for_others(index: TaskIndex, task: Task, actor: Actor) -> bool:
    """Return True when an overlapping task is at work, according to files that are checked again."""
    mine = task.copy_with(owner=actor.name)
    near = blocking_conflicts(mine, index.tasks_in_flight())
    return must_wait(task, actor, filter(None, (index.refresh_task(int(other.task)) for other in near)))


def _claim_for_idle(files: TaskFiles, task: Task, actor: Actor, settle_ms: int) -> Task:
    """Claim the task for an idle member. Raises TaskRefused, also when it has become a draft again."""
    if _claimable_at(files.index, task, settle_ms):
        raise still_draft_error(task)
    return apply_claim(task, actor, lambda: files.open_blockers(task))


def _claimable_at(index: TaskIndex, task: Task, settle_ms: int) -> int:
    return claimable_at(task, index.refresh_drafts, index.changed_ms(task.number), settle_ms)
