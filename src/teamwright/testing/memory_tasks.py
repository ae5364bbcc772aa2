"""A task store in memory, for tests of teams without files.

Depends on the port of task stores and its rules. Several stores on one table act like several processes on one list.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct, field

from teamwright.protocol.task import Task, TaskStatus
from teamwright.protocol.timestamps import now_ms
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.draft_tasks import claimable_at
from teamwright.tasks.task_graph import Edge, add_ids, refuse_cycles, remove_id, sort_ids
from teamwright.tasks.task_rules import Actor, apply_claim, may_claim, not_found_error
from teamwright.tasks.task_store import (
    ChangeTask,
    ClaimAttempt,
    DamagedTask,
    ExternalTaskChange,
    OnExternalChange,
    TaskChange,
    TaskInterest,
    TaskSnapshot,
)
from teamwright.tasks.write_sets import must_wait, refuse_overlap


class MemoryTaskTable(Struct):
    """The tasks of one list. A change holds the lock, and gives way to others before it begins."""

    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    changed_ms: dict[str, int] = field(default_factory=dict[str, int])
    highest: int = 0
    followers: list[MemoryTaskFollower] = field(default_factory=list["MemoryTaskFollower"])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def transaction(self, writer: MemoryTaskStore) -> AsyncGenerator[dict[str, Task]]:
        """Give the tasks to change; an error changes nothing. The stores of other writers are notified."""
        async with self._lock:
            await asyncio.sleep(0)
            draft = dict(self.tasks)
            yield draft
            before, self.tasks = self.tasks, draft
        others = [follower for follower in self.followers if follower.store is not writer]
        for id in sort_ids(id for id in before.keys() | draft.keys() if before.get(id) is not draft.get(id)):
            self.changed_ms[id] = now_ms()
            for follower in others:
                follower.note(id, before.get(id), draft.get(id))


class MemoryTaskStore:
    """A task store; see FollowedTaskStore. Stores with one table share a list."""

    def __init__(self, table: MemoryTaskTable | None = None) -> None:
        self.table = table or MemoryTaskTable()

    async def read(self, ids: Collection[str] | None = None, *, drafts_of: str | None = None) -> TaskSnapshot:
        """See TaskStore."""
        await asyncio.sleep(0)
        tasks = self.table.tasks
        wanted_ids = sort_ids(tasks if ids is None else ids)
        found = [tasks[id] for id in wanted_ids if id in tasks]
        if drafts_of is not None:
            found = [task for task in found if task.draft is not None and task.draft.by == drafts_of]
        return TaskSnapshot(found, (), frozenset(id for id, task in tasks.items() if _is_open(task)))

    async def change(
        self, id: str, change: ChangeTask, edges: Sequence[Edge] = (), *, exclusive: bool = False
    ) -> TaskChange:
        """See TaskStore."""
        async with self.table.transaction(self) as tasks:
            _refuse_edges(tasks, edges)
            before = _get(tasks, id)
            more = [blocker for blocker, blocked in edges if blocked == id]
            tasks[id] = change(before, lambda: _open_blockers(tasks, before, more)).with_times(before)
            if exclusive:
                refuse_overlap(before, tasks[id], tasks.values)
            touched = _add_edges(tasks, edges)
            after = touched.pop(id, tasks[id])
            finished = after.is_finished and not before.is_finished
            return TaskChange(before, after, touched, _unblocked(tasks, after) if finished else ())

    async def claim_next(self, actor: Actor, settle_ms: int = 0) -> ClaimAttempt:
        """See TaskStore."""
        async with self.table.transaction(self) as tasks:
            later: list[int] = []
            for id in sort_ids(tasks):
                task = tasks[id]
                if task.owner is not None or task.status is not TaskStatus.PENDING or task.is_internal:
                    continue
                if _open_blockers(tasks, task) or must_wait(task, actor, tasks.values()):
                    continue
                if moment := claimable_at(task, self._drafts, self.table.changed_ms.get(id, 0), settle_ms):
                    later.append(moment)
                elif may_claim(task, actor):
                    tasks[id] = apply_claim(task, actor, lambda: ()).with_times(task)
                    return ClaimAttempt(TaskChange(task, tasks[id]))
            return ClaimAttempt(None, min(later, default=0))

    async def create(self, make_task: Callable[[str], Task], blockers: Sequence[str] = ()) -> Task:
        """See TaskStore."""
        async with self.table.transaction(self) as tasks:
            for id in blockers:
                _get(tasks, id)
            self.table.highest += 1
            task = make_task(str(self.table.highest)).with_times(None)
            tasks[task.id] = task
            _add_edges(tasks, [(blocker, task.id) for blocker in blockers])
            return task

    async def remove(self, id: str, require_allowed: Callable[[Task], None]) -> TaskChange:
        """See TaskStore."""
        async with self.table.transaction(self) as tasks:
            gone = _get(tasks, id)
            require_allowed(gone)
            waited = gone.copy_with(blocks=tuple(sort_ids({*gone.blocks, *_dependents(tasks, id)})))
            del tasks[id]
            touched: dict[str, Task] = {}
            for other in sort_ids({*gone.blocked_by, *waited.blocks} & tasks.keys()):
                task = tasks[other]
                tasks[other] = touched[other] = task.copy_with(
                    blocks=remove_id(task.blocks, id), blocked_by=remove_id(task.blocked_by, id)
                ).with_times(task)
            return TaskChange(gone, gone, touched, _unblocked(tasks, waited) if _is_open(gone) else ())

    @property
    def directories(self) -> Sequence[Path]:
        """See FollowedTaskStore."""
        return ()

    def mark(self, id: str) -> None:
        """See FollowedTaskStore."""

    def watch(
        self,
        watcher: Watcher,
        on_change: Callable[[Collection[str] | None], None],
        interest: TaskInterest | None = None,
    ) -> Callable[[], None]:
        """See FollowedTaskStore. The watcher, which watches files, is not used."""
        follower = MemoryTaskFollower(self, lambda _change: None, lambda id: on_change([id]))
        self.table.followers.append(follower)
        return follower.close

    def follow(self, on_outside: OnExternalChange) -> MemoryTaskFollower:
        """See FollowedTaskStore."""
        follower = MemoryTaskFollower(self, on_outside)
        self.table.followers.append(follower)
        return follower

    def _drafts(self, creator: str) -> Iterable[Task]:
        return [task for task in self.table.tasks.values() if task.draft is not None and task.draft.by == creator]


class MemoryTaskFollower:
    """A subscription to the changes of other stores; see TaskFollower."""

    def __init__(
        self, store: MemoryTaskStore, on_outside: OnExternalChange, notify: Callable[[str], None] = lambda _id: None
    ) -> None:
        self.store = store
        self._on_outside = on_outside
        self._notify = notify
        self._changes: list[ExternalTaskChange] = []

    def note(self, id: str, before: Task | None, after: Task | None) -> None:
        """Record a change by another store."""
        self._changes.append(ExternalTaskChange(before, after))
        self._notify(id)

    async def check_files(self, names: Collection[str] | None = None) -> Mapping[str, DamagedTask]:
        """See TaskFollower. Nothing in memory is damaged."""
        changes, self._changes = self._changes, []
        for change in changes:
            self._on_outside(change)
        return {}

    def close(self) -> None:
        """See TaskFollower."""
        if self in self.store.table.followers:
            self.store.table.followers.remove(self)


def _get(tasks: Mapping[str, Task], id: str) -> Task:
    if id not in tasks:
        raise not_found_error(id)
    return tasks[id]


def _is_open(task: Task) -> bool:
    return not task.is_finished


def _open_blockers(tasks: Mapping[str, Task], task: Task, more: Sequence[str] = ()) -> list[str]:
    return [id for id in sort_ids((*task.blocked_by, *more)) if id in tasks and _is_open(tasks[id])]


def _dependents(tasks: Mapping[str, Task], id: str) -> list[str]:
    return [task.id for task in tasks.values() if id in task.blocked_by]


def _unblocked(tasks: Mapping[str, Task], done: Task) -> tuple[Task, ...]:
    near = [tasks[id] for id in sort_ids((*done.blocks, *_dependents(tasks, done.id))) if id in tasks]
    pending = [task for task in near if task.status is TaskStatus.PENDING and not task.is_internal]
    return tuple(task for task in pending if not _open_blockers(tasks, task))


def _refuse_edges(tasks: Mapping[str, Task], edges: Sequence[Edge]) -> None:
    for id in sort_ids(id for edge in edges for id in edge):
        _get(tasks, id)
    refuse_cycles(edges, lambda id: {*tasks[id].blocks, *_dependents(tasks, id)} if id in tasks else ())


def _add_edges(tasks: dict[str, Task], edges: Sequence[Edge]) -> dict[str, Task]:
    """Write both sides of each edge. Return the tasks that changed, by id."""
    touched: dict[str, Task] = {}
    for blocker, blocked in edges:
        for id, changes in (
            (blocker, {"blocks": add_ids(tasks[blocker].blocks, [blocked])}),
            (blocked, {"blocked_by": add_ids(tasks[blocked].blocked_by, [blocker])}),
        ):
            after = tasks[id].copy_with(**changes)
            if after != tasks[id]:
                tasks[id] = touched[id] = after.with_times(tasks[id])
    return touched
