"""The files of one task list: each is read and written under its lock.

Locks: `.lock` (so `.lock.lock`) for the list, then one task's lock; at most these two. A change is a function that the
caller provides. Depends on `storage` and the index.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import Task
from teamwright.storage.files import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.locks import FileLock, LockHold, lock_at
from teamwright.storage.paths import make_private
from teamwright.tasks.task_file import LOCK_FILE, WATERMARK_FILE, read_watermark
from teamwright.tasks.task_index import TaskIndex
from teamwright.tasks.task_rules import not_found_error, sort_ids
from teamwright.tasks.task_store import DamagedTask, damaged_error


class TaskFiles:
    """One directory of tasks. `guard_of` returns the path of a guard file; with `fsync` writes survive power loss."""

    def __init__(self, directory: Path, guard_of: Callable[[Path], Path], *, fsync: bool = False) -> None:
        self.directory = directory
        self.index = TaskIndex(directory)
        self._guard_path = guard_of
        self._fsync = fsync
        self._watermarks = (directory / WATERMARK_FILE, guard_of(directory / WATERMARK_FILE))

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────────

    def list_lock(self) -> FileLock:
        """Return the lock for creation, deletion and edges."""
        return lock_at(str(self.directory / LOCK_FILE), self._guard_path)

    def task_lock(self, id: str) -> FileLock:
        """Return the lock of one task's file."""
        return lock_at(self.index.path(int(id)), self._guard_path)

    def is_locked(self, id: str) -> bool:
        """Return True while a process changes the task."""
        return os.path.exists(f"{self.index.path(int(id))}.lock")

    def path(self, id: str) -> Path:
        """Return the path of a task's file."""
        return self.directory / f"{id}.json"

    def prepare(self) -> None:
        """Create the directory and its empty lock file. Raises StorageError."""
        try:
            make_private(self.directory)
            os.close(os.open(self.directory / LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as problem:
            raise storage_error(problem, self.directory) from problem

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, id: str) -> Task | None:
        """Read the task from its file; return None when there is none. Raises StorageError (`damaged-file`)."""
        task = self.index.refresh_task(int(id), fresh=True)
        if self.index.is_damaged(int(id)):
            raise self._damaged_error(id)
        return task

    def damaged_tasks(self) -> list[DamagedTask]:
        """Return the files that could not be read at the last check, in numeric order."""
        index = self.index
        return [
            DamagedTask(str(n), index.path(n), index.damage_reason(n), index.is_open(n))
            for n in index.damaged_numbers()
        ]

    def _damaged_error(self, id: str) -> StorageError:
        return damaged_error(self.index.path(int(id)), self.index.damage_reason(int(id)))

    def open_blockers(self, task: Task, more: Sequence[str] = ()) -> list[str]:
        """Read and return the ids of open blockers. An unreadable task counts as open."""
        ids = [i for i in sort_ids((*task.blocked_by, *more)) if i.isascii() and i.isdigit()]
        for id in ids:
            self.index.refresh_task(int(id))
        return [i for i in ids if self.index.is_open(int(i))]

    def watermark(self) -> int:
        """Return the highest number ever deleted. A second copy beside the guards replaces a lost or damaged one."""
        return read_watermark(*self._watermarks)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────

    async def change(self, id: str, change: Callable[[Task], Task]) -> tuple[Task, Task]:
        """Read a task under its lock, change it, and write it when it differs. Return it before and after.

        `change` does not await and may refuse by raising; then nothing is written. Raises TaskRefused
        (`task_not_found`), LockTimeout, LockLost, StorageError.
        """
        if not os.path.exists(self.index.path(int(id))):
            raise not_found_error(id)
        lock = self.task_lock(id)
        async with lock.hold() as hold:
            before = self._read_or_restore(id, hold)
            if before is None:
                raise not_found_error(id)
            after = change(before).with_times(before)
            if after != before:
                hold.check()
                raw = after.encode()
                write_atomic(lock.target, raw, fsync=self._fsync)
                self.index.note_written(after, raw)
        return before, after

    def _read_or_restore(self, id: str, hold: LockHold) -> Task | None:
        """Read the task with its lock held.

        A file that another program damaged is set aside and the last valid state restored. Raises StorageError
        (`damaged-file`) when this process never saw a valid state.
        """
        task = self.index.refresh_task(int(id), fresh=True)
        path = self.path(id)
        if not self.index.is_damaged(int(id)):
            return task
        if task is None:
            raise self._damaged_error(id)
        hold.check()
        keep_damaged_copy(path)
        raw = task.encode()
        write_atomic(path, raw, fsync=self._fsync)
        self.index.note_written(task, raw)
        return task

    def create(self, make_task: Callable[[str], Task], hold: LockHold) -> Task:
        """Write a new task under the next free number, with the list's lock held.

        The file is created exclusively, so that a program without locks is never overwritten.
        """
        number = max(self.watermark(), self.index.highest_number()) + 1
        while True:
            task = make_task(str(number)).with_times(None)
            raw = task.encode()
            hold.check()
            if write_new(self.path(task.id), raw):
                self.index.note_written(task, raw)
                return task
            self.index.list_all()
            number = max(self.watermark(), self.index.highest, number) + 1

    async def remove(self, id: str, require_allowed: Callable[[Task], None], hold: LockHold) -> Task:
        """Remove a task's file with the list's lock held. Return the removed task.

        The watermark is written first, so that a number is never used twice, also after a kill.
        """
        async with self.task_lock(id).hold() as inner:
            task = self.read(id)
            if task is None:
                raise not_found_error(id)
            require_allowed(task)
            hold.check()
            inner.check()
            self.raise_watermark(task.number)
            self.unlink(id)
            inner.remove_guard()
        return task

    def raise_watermark(self, number: int) -> None:
        """Raise both copies of the watermark to at least this number, with the list's lock held."""
        for path in self._watermarks:
            if read_watermark(path) < number:
                write_atomic(path, str(max(number, self.watermark())).encode(), fsync=self._fsync)

    def remove_spare_watermark(self) -> None:
        """Remove the second copy of the watermark: the list was removed on purpose, and its name may be used again."""
        self._watermarks[1].unlink(missing_ok=True)

    def unlink(self, id: str) -> None:
        """Delete one file. Raises StorageError."""
        try:
            self.path(id).unlink(missing_ok=True)
        except OSError as problem:
            raise storage_error(problem, self.path(id)) from problem
        self.index.note_removed(int(id))
