"""Moves of tasks between lists: into an archive, or from a session's list into its team's.

A move keeps all numbers and the watermark, and never overwrites a file. Depends on the files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from teamwright.protocol.task import Task
from teamwright.storage.files import storage_error, write_new
from teamwright.storage.paths import make_private
from teamwright.tasks.task_file import LOCK_FILE, list_numbers, task_number
from teamwright.tasks.task_list_files import TaskFiles

MAX_ARCHIVED = 500
"""The most finished tasks that one call archives. The next call archives more."""

ARCHIVE_DIVISOR = 4
"""One call archives at most this fraction of the list, so that a wrong clock does limited harm."""

_DAY_MS = 86_400_000


async def archive_all(files: TaskFiles, target: Path) -> int:
    """Move all task files into `target` and keep the watermark. Return how many were moved."""
    files.prepare()
    async with files.list_lock().hold() as hold:
        there = sorted(list_numbers(files.directory))
        if not there:
            return 0
        hold.check()
        files.raise_watermark(max(there))
        _move_files(files, there, target)
    return len(there)


async def archive_finished(files: TaskFiles, target: Path, days: float) -> int:
    """Move tasks that were finished long ago into `target`, and remove their guards. Return how many were moved.

    A task is old when it was not changed for `days` days before the newest change of the list; the clock is not used. A
    task with an edge to an open one stays. One call moves at most a quarter of the list and at most MAX_ARCHIVED tasks,
    the oldest first.
    """
    if not _has_old(files.directory, days):
        return 0
    moved = 0
    async with files.list_lock().hold() as hold:
        files.index.list_all()
        numbers = _long_finished(files, days)
        if numbers:
            hold.check()
            files.raise_watermark(files.index.highest)
        for number in numbers:
            hold.check()
            moved += await _archive(files, number, target)
    return moved


def _long_finished(files: TaskFiles, days: float) -> list[int]:
    known = files.index.known_tasks()
    changed = files.index.changed_ms
    limit = max((changed(task.number) for task in known), default=0) - days * _DAY_MS
    finished = [task for task in known if task.is_finished]
    unfinished = [task for task in known if not task.is_finished]
    tied = {id for task in unfinished for id in (*task.blocks, *task.blocked_by)}
    old = [task.number for task in finished if task.id not in tied and changed(task.number) < limit]
    return sorted(old, key=changed)[: min(MAX_ARCHIVED, -(-len(known) // ARCHIVE_DIVISOR))]


async def _archive(files: TaskFiles, number: int, target: Path) -> bool:
    """Move one task that is still finished. Its number is never used again, so its guard is removed too."""
    async with files.task_lock(str(number)).hold() as hold:
        task = files.index.refresh_task(number, fresh=True)
        if task is None or not task.is_finished:
            return False
        hold.check()
        _move_files(files, [number], target)
        hold.remove_guard()
        return True


def _has_old(directory: Path, days: float) -> bool:
    """Return True when a task file is older than the newest one by this much."""
    try:
        with os.scandir(directory) as entries:
            changed = [entry.stat().st_mtime for entry in entries if task_number(entry.name) is not None]
    except OSError:
        return False
    return bool(changed) and min(changed) < max(changed) - days * _DAY_MS / 1000


async def archive_and_remove(files: TaskFiles, target: Path) -> int:
    """Move all task files into `target` and remove the list, so that its name can be used again.

    Return the number of moved files.
    """
    if not files.directory.is_dir():
        files.remove_spare_watermark()
        return 0
    async with files.list_lock().hold() as hold:
        hold.check()
        _move_directory(files, target)
    with contextlib.suppress(OSError):  # the lock directory was moved too
        (target / f"{LOCK_FILE}.lock").rmdir()
    return len(list_numbers(target))


async def adopt_open_tasks(files: TaskFiles, source: TaskFiles) -> list[Task]:
    """Move the open tasks of another list into this one under their numbers. Return them as they are here.

    Edges to tasks that stay are removed. A task whose number is used here stays in the other list.
    """
    if not source.directory.is_dir():
        return []
    files.prepare()
    first, second = sorted((files, source), key=lambda s: str(s.directory))
    async with first.list_lock().hold() as one, second.list_lock().hold() as two:
        source.index.list_all()
        leaving = [t for t in source.index.known_tasks() if not t.is_finished and not t.is_internal]
        ids = {t.id for t in leaving}
        moved: list[Task] = []
        for task in leaving:
            here = task.copy_with(
                blocks=tuple(i for i in task.blocks if i in ids),
                blocked_by=tuple(i for i in task.blocked_by if i in ids),
            )
            here = here.with_times(task)
            one.check()
            two.check()
            raw = here.encode()
            if write_new(files.path(task.id), raw):
                source.raise_watermark(source.index.highest)
                source.unlink(task.id)
                files.index.note_written(here, raw)
                moved.append(here)
        files.raise_watermark(max(source.watermark(), source.index.highest))
    return moved


def _move_directory(files: TaskFiles, target: Path) -> None:
    """Rename the directory in one step, so that a task that is created at the last moment is moved too."""
    try:
        make_private(target.parent)
        shutil.move(files.directory, target)
    except OSError as problem:
        raise storage_error(problem, target) from problem
    for task in files.index.known_tasks():
        files.index.note_removed(task.number)
    files.remove_spare_watermark()


def _move_files(files: TaskFiles, numbers: list[int], target: Path) -> None:
    try:
        make_private(target)
        for number in numbers:
            path = files.path(str(number))
            try:
                shutil.move(path, target / path.name)
            except FileNotFoundError:
                continue
            files.index.note_removed(number)
    except OSError as problem:
        raise storage_error(problem, target) from problem
