"""Moving tasks between lists: into an archive, or from a session's list into its team's.

Below it: the store. A move keeps every number and every watermark; it never overwrites. Refuses to know why.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from teamwright.protocol.task import Task, TaskStatus
from teamwright.storage.atomic import storage_error, write_new
from teamwright.storage.paths import make_private
from teamwright.tasks.files import LOCK, numbers_in
from teamwright.tasks.store import TaskStore


async def set_aside(store: TaskStore, target: Path) -> int:
    """Move all task files into `target` and keep the watermark. Returns how many were moved."""
    store.prepare()
    async with store.list_lock().hold() as held:
        there = sorted(numbers_in(store.directory))
        if not there:
            return 0
        held.check()
        store.raise_watermark(max(there))
        _move_files(store, there, target)
    return len(there)


async def move_away(store: TaskStore, target: Path) -> int:
    """Move all task files into `target` and remove the list: its name may begin anew. Returns how many were moved."""
    if not store.directory.is_dir():
        store.drop_spare_watermark()
        return 0
    async with store.list_lock().hold() as held:
        held.check()
        _move_directory(store, target)
    with contextlib.suppress(OSError):  # our own lock directory moved along
        (target / f"{LOCK}.lock").rmdir()
    return len(numbers_in(target))


async def take_over(store: TaskStore, source: TaskStore) -> list[Task]:
    """Move the open tasks of another list into this one under their numbers. Returns them as they are here.

    Edges to what stays behind are cut. A number that is taken here stays where it is.
    """
    if not source.directory.is_dir():
        return []
    store.prepare()
    first, second = sorted((store, source), key=lambda s: str(s.directory))
    async with first.list_lock().hold() as one, second.list_lock().hold() as two:
        source.index.list_all()
        leaving = [t for t in source.index.known() if t.status is not TaskStatus.COMPLETED and not t.internal]
        ids = {t.id for t in leaving}
        moved: list[Task] = []
        for task in leaving:
            here = task.with_(
                blocks=tuple(i for i in task.blocks if i in ids),
                blocked_by=tuple(i for i in task.blocked_by if i in ids),
            )
            one.check()
            two.check()
            raw = here.encode()
            if write_new(store.path(task.id), raw):
                source.raise_watermark(source.index.highest)
                source.unlink(task.id)
                store.index.written(here, raw)
                moved.append(here)
        store.raise_watermark(max(source.watermark(), source.index.highest))
    return moved


def _move_directory(store: TaskStore, target: Path) -> None:
    """In one step, so that a task made at the last moment is moved as well."""
    try:
        make_private(target.parent)
        shutil.move(store.directory, target)
    except OSError as problem:
        raise storage_error(problem, target) from problem
    for task in store.index.known():
        store.index.forget(task.number)
    store.drop_spare_watermark()


def _move_files(store: TaskStore, numbers: list[int], target: Path) -> None:
    try:
        make_private(target)
        for number in numbers:
            path = store.path(str(number))
            try:
                shutil.move(path, target / path.name)
            except FileNotFoundError:
                continue
            store.index.forget(number)
    except OSError as problem:
        raise storage_error(problem, target) from problem
