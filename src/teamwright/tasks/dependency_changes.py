"""Changes of edges: both sides of each, under the list's lock, refused before anything is written.

The blocker's `blocks` is written before the other task's `blockedBy`, which is the side that blocks; only a new task
starts with its `blockedBy`. A process may be killed between the two writes, so cycles are searched on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import Task
from teamwright.storage.locks import LockHold
from teamwright.tasks.task_list_files import TaskFiles
from teamwright.tasks.task_rules import Edge, add_ids, not_found_error, refuse_cycles, remove_id, sort_ids


def refuse_bad_edges(files: TaskFiles, edges: Sequence[Edge]) -> None:
    """Raise TaskRefused (`self_edge task_not_found cycle`) if one of these edges is not allowed. Read-only."""
    files.index.list_all()  # reads the edges that a killed process wrote on one side only
    for id in sort_ids(i for edge in edges for i in edge):
        files.index.refresh_task(int(id))
        if not files.index.exists(int(id)):
            raise not_found_error(id)
    refuse_cycles(edges, lambda id: _blocks(files, id))


async def add_edges(files: TaskFiles, edges: Sequence[Edge], hold: LockHold) -> dict[str, Task]:
    """Write the missing sides of each edge. Return the tasks that changed, by id."""
    changed: dict[str, Task] = {}
    for blocker in sort_ids(a for a, _ in edges):
        more = [b for a, b in edges if a == blocker]
        await _apply(files, blocker, _with_blocks(more), hold, changed)
    for blocked in sort_ids(b for _, b in edges):
        more = [a for a, b in edges if b == blocked]
        await _apply(files, blocked, _with_blocked_by(more), hold, changed)
    return changed


async def remove_references(files: TaskFiles, gone: Task, hold: LockHold) -> dict[str, Task]:
    """Remove a deleted task from both sides of its neighbours. Return those that changed, by id."""
    changed: dict[str, Task] = {}
    neighbours = {*gone.blocks, *gone.blocked_by, *map(str, files.index.dependents(gone.number))}
    for id in sort_ids(i for i in neighbours if i.isascii() and i.isdigit()):
        try:
            await _apply(files, id, lambda t: _without(t, gone.id), hold, changed)
        except TaskRefused:
            continue  # the neighbour is deleted too
    return changed


async def _apply(
    files: TaskFiles, id: str, change: Callable[[Task], Task], hold: LockHold, changed: dict[str, Task]
) -> None:
    hold.check()
    before, after = await files.change(id, change)
    if after != before:
        changed[id] = after


def _blocks(files: TaskFiles, id: str) -> Iterable[str]:
    task = files.index.refresh_task(int(id)) if id.isascii() and id.isdigit() else None
    known = map(str, files.index.dependents(int(id))) if task else ()
    return {*(task.blocks if task else ()), *known}


def _with_blocks(more: Sequence[str]) -> Callable[[Task], Task]:
    return lambda task: task.copy_with(blocks=add_ids(task.blocks, more))


def _with_blocked_by(more: Sequence[str]) -> Callable[[Task], Task]:
    return lambda task: task.copy_with(blocked_by=add_ids(task.blocked_by, more))


def _without(task: Task, gone: str) -> Task:
    return task.copy_with(blocks=remove_id(task.blocks, gone), blocked_by=remove_id(task.blocked_by, gone))
