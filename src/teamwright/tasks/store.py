"""The files of one task list under their locks: read, rewrite, make, remove.

Below it: `storage` and the index of hints. Locks: `.lock` (so `.lock.lock`) for what concerns the list, then one
task's; at most the two. Refuses to know who may do what: a change is a function that is handed in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import storage_error, write_atomic, write_new
from teamwright.storage.lock import FileLock, Held, lock_at
from teamwright.storage.paths import make_private
from teamwright.tasks.files import LOCK, WATERMARK, damaged, read_watermark, set_aside
from teamwright.tasks.graph import in_order
from teamwright.tasks.index import Index
from teamwright.tasks.rules import not_found


@dataclass(frozen=True, slots=True)
class DamagedTask:
    """A task file that is not a whole task. `open`: it is not known to be completed."""

    id: str
    path: str
    why: str
    open: bool

    def __str__(self) -> str:
        return f"{self.path} is not a whole task: {self.why}"


class TaskStore:
    """One directory of tasks. `guard_of` gives the guard file of a path; with `fsync` writes survive power loss."""

    def __init__(self, directory: Path, guard_of: Callable[[Path], Path], *, fsync: bool = False) -> None:
        self.directory = directory
        self.index = Index(directory)
        self._guard_of = guard_of
        self._fsync = fsync
        self._watermarks = (directory / WATERMARK, guard_of(directory / WATERMARK))

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────────

    def list_lock(self) -> FileLock:
        """The lock of creation, deletion and edges."""
        return lock_at(str(self.directory / LOCK), self._guard_of)

    def task_lock(self, id: str) -> FileLock:
        """The lock of one task's file."""
        return lock_at(self.index.path(int(id)), self._guard_of)

    def is_locked(self, id: str) -> bool:
        """Whether somebody is changing the task at this moment."""
        return os.path.exists(f"{self.index.path(int(id))}.lock")

    def path(self, id: str) -> Path:
        """The file of a task."""
        return self.directory / f"{id}.json"

    def prepare(self) -> None:
        """Make the directory and its empty lock file. Raises StorageError."""
        try:
            make_private(self.directory)
            os.close(os.open(self.directory / LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as problem:
            raise storage_error(problem, self.directory) from problem

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, id: str) -> Task | None:
        """The task as its file has it now, None when there is none. Raises StorageError (`damaged-file`)."""
        task = self.index.look(int(id), fresh=True)
        if self.index.is_damaged(int(id)):
            raise self._damaged(id)
        return task

    def damaged_tasks(self) -> list[DamagedTask]:
        """The files that could not be read when the list was last looked at, in numeric order."""
        index = self.index
        return [DamagedTask(str(n), index.path(n), index.why_damaged(n), index.is_open(n)) for n in index.damaged()]

    def _damaged(self, id: str) -> StorageError:
        return damaged(self.index.path(int(id)), self.index.why_damaged(int(id)))

    def open_blockers(self, task: Task, more: Sequence[str] = ()) -> list[str]:
        """The ids that keep the task waiting, each looked at now; one that cannot be read counts as open."""
        ids = [i for i in in_order((*task.blocked_by, *more)) if i.isascii() and i.isdigit()]
        for id in ids:
            self.index.look(int(id))
        return [i for i in ids if self.index.is_open(int(i))]

    def watermark(self) -> int:
        """The highest number ever deleted; a second copy beside the guards stands in for a lost or damaged one."""
        return read_watermark(*self._watermarks)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────

    async def rewrite(self, id: str, change: Callable[[Task], Task]) -> tuple[Task, Task]:
        """Read a task under its lock, change it, write it when it differs. Returns before and after.

        `change` is plain code and may refuse by raising; then nothing is written. Raises TaskRefused
        (`task_not_found`), LockTimeout, LockLost, StorageError.
        """
        if not os.path.exists(self.index.path(int(id))):
            raise not_found(id)
        lock = self.task_lock(id)
        async with lock.hold() as held:
            before = self._whole(id, held)
            if before is None:
                raise not_found(id)
            after = change(before)
            if after != before:
                held.check()
                raw = after.encode()
                write_atomic(lock.target, raw, fsync=self._fsync)
                self.index.written(after, raw)
        return before, after

    def _whole(self, id: str, held: Held) -> Task | None:
        """The task, read with its lock held. What a stranger left torn is set aside, and the last whole state put back.

        Raises StorageError (`damaged-file`) when this process never saw it whole.
        """
        task, path = self.index.look(int(id), fresh=True), self.path(id)
        if not self.index.is_damaged(int(id)):
            return task
        if task is None:
            raise self._damaged(id)
        held.check()
        set_aside(path)
        raw = task.encode()
        write_atomic(path, raw, fsync=self._fsync)
        self.index.written(task, raw)
        return task

    def make(self, task_of: Callable[[str], Task], held: Held) -> Task:
        """Write a new task under the next free number; called with the list's lock held.

        The file is made exclusively, so that even one who takes no lock is never overwritten.
        """
        number = max(self.watermark(), self.index.top()) + 1
        while True:
            task = task_of(str(number))
            raw = task.encode()
            held.check()
            if write_new(self.path(task.id), raw):
                self.index.written(task, raw)
                return task
            self.index.list_all()
            number = max(self.watermark(), self.index.highest, number) + 1

    async def remove(self, id: str, allowed: Callable[[Task], None], held: Held) -> Task:
        """Remove a task's file; called with the list's lock held. Returns what it was.

        The watermark is written first: a number is never given twice, whenever the process dies.
        """
        async with self.task_lock(id).hold() as inner:
            task = self.read(id)
            if task is None:
                raise not_found(id)
            allowed(task)
            held.check()
            inner.check()
            self.raise_watermark(task.number)
            self.unlink(id)
            inner.remove_guard()
        return task

    def raise_watermark(self, number: int) -> None:
        """Both copies of the watermark reach at least this number; called with the list's lock held."""
        for path in self._watermarks:
            if read_watermark(path) < number:
                write_atomic(path, str(max(number, self.watermark())).encode(), fsync=self._fsync)

    def drop_spare_watermark(self) -> None:
        """Forget the second copy: the list is gone on purpose, and its name may begin anew."""
        self._watermarks[1].unlink(missing_ok=True)

    def unlink(self, id: str) -> None:
        """Remove one file. Raises StorageError."""
        try:
            self.path(id).unlink(missing_ok=True)
        except OSError as problem:
            raise storage_error(problem, self.path(id)) from problem
        self.index.forget(int(id))
