"""File locks in two levels: a guard among Teamwright processes, and the lock directory that other products understand.

The guard is an `flock` on a file that exists as long as the file that it protects. It ends with its process and
contains a record of the lock directory created under it, so that a killed owner is recognised at once. The directory is
`<file>.lock`, created by mkdir, always empty, stale by its mtime (the convention of the npm package proper-lockfile).
The body of a hold is plain synchronous code: nothing awaits under a lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from teamwright.protocol.errors import LockLost, LockTimeout
from teamwright.protocol.time_limit import time_limit
from teamwright.storage import lock_dir
from teamwright.storage.atomic_write import storage_error
from teamwright.storage.loop_cache import LoopCache
from teamwright.storage.paths import make_private

R = TypeVar("R")

MAX_HOLD_S = 5.0
"""Seconds after which a hold commits nothing: other products take a lock over after 10 s."""

_FIRST_DELAY_S = 0.0005
_LAST_DELAY_S = 0.02
_LAST_OWN_DELAY_S = 0.002
"""Seconds between two attempts of a waiter. Teamwright holds are short and frequent: a waiter that polls slowly never
gets the lock."""
_MOMENT_S = 0.001
_STALE_MARGIN_S = 1.0
"""Seconds after which a stale lock directory is surely taken for one: file clocks may lag, or be ahead by this much."""
_MAX_LOCKS = 256


class FileLock:
    """The lock of one file in one event loop. `wait_s`: seconds that a hold waits for others before LockTimeout."""

    __slots__ = ("__weakref__", "_local", "directory", "guard", "target", "wait_s")

    def __init__(self, target: Path, guard: Path, *, wait_s: float = 5.0) -> None:
        self.target = target
        self.guard = str(guard)
        self.directory = f"{target}.lock"
        self.wait_s = wait_s
        self._local = asyncio.Lock()

    def hold(self) -> LockHold:
        """Return a hold for `async with lock.hold() as held:`. The caller calls `held.check()` before each commit.

        Entering raises LockTimeout past the deadline, StorageError when the disk refuses.
        """
        return LockHold(self)

    async def acquire_local(self, deadline: float) -> None:
        """Acquire the lock among the tasks of this process, in order of arrival, until `deadline` (of
        time.monotonic).
        """
        if not self._local.locked():
            await self._local.acquire()
            return
        try:
            async with time_limit(deadline - time.monotonic()):
                await self._local.acquire()
        except TimeoutError:
            raise self.timeout_error() from None

    def release_local(self) -> None:
        """Let the next task of this process acquire the lock."""
        self._local.release()

    def timeout_error(self) -> LockTimeout:
        """Return the error for a missed deadline: which lock, how old, and the way out."""
        age = lock_dir.directory_age_s(self.directory)
        if age is None:
            return LockTimeout(
                "lock-timeout",
                f"{self.target} is in use by another process of this program",
                looked_at=[("guard", self.guard), ("waited", f"{self.wait_s:g} s")],
                do=["try again"],
                note="nothing was written",
            )
        return LockTimeout(
            "lock-timeout",
            f"{self.target} is locked by another program",
            looked_at=[("lock", self.directory), ("age", f"{age:.1f} s"), ("waited", f"{self.wait_s:g} s")],
            do=["try again", f"when no other program uses it: rmdir {self.directory}"],
            note="nothing was written",
        )


_LOCKS: LoopCache[FileLock] = LoopCache(_MAX_LOCKS)


async def past_dead_lock(work: Callable[[], Awaitable[R]]) -> R:
    """Run `work`, again after each LockTimeout for as long as the lock of a killed program may be in its way.

    Another product leaves its lock directory when it is killed, which shows only when the directory is stale. For work
    that must not be given up before that: it may run several times. Raises LockTimeout when the lock is held longer,
    so by a program that runs.
    """
    last_start = time.monotonic() + lock_dir.STALE_S + _STALE_MARGIN_S
    while True:
        try:
            return await work()
        except LockTimeout:
            if time.monotonic() >= last_start:
                raise


def lock_for(target: Path, guard: Path) -> FileLock:
    """Return the one lock of this file in the running loop. Raises RuntimeError when no loop runs."""
    return _LOCKS.get(str(target), lambda: FileLock(target, guard))


def lock_at(target: str, guard_of: Callable[[Path], Path]) -> FileLock:
    """Return `lock_for` a path that is a string; `guard_of` is called only when the lock is constructed."""

    def make_lock() -> FileLock:
        path = Path(target)
        return FileLock(path, guard_of(path))

    return _LOCKS.get(target, make_lock)


class LockHold:
    """One hold of a lock. `recovered`: its last owner was killed while holding it, so check the protected file."""

    __slots__ = ("_checked", "_fd", "_last", "_lock", "_mark", "_since", "recovered")

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock
        self._fd = -1
        self._mark: lock_dir.DirectoryMark | None = None
        self._since = 0.0
        self._checked = 0.0
        self._last = False
        self.recovered = False

    async def __aenter__(self) -> LockHold:
        lock = self._lock
        deadline = time.monotonic() + lock.wait_s
        await lock.acquire_local(deadline)
        try:
            try:
                self._fd = _open_guard(lock.guard)
                if not self._take_guard() or not self._make_directory():
                    await self._wait(deadline)
            except OSError as problem:
                raise storage_error(problem, lock.target) from problem
        except BaseException:
            self._release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._mark is not None and self._is_still_held(self._mark):
                lock_dir.remove_lock_dir(self._lock.directory, self._mark)
            if self._last:
                with suppress(OSError):
                    os.unlink(self._lock.guard)
        finally:
            self._release()

    def check(self) -> None:
        """Prove, right before a commit, that the lock is still held and young enough. Raises LockLost."""
        self._checked = time.monotonic()
        age = self._checked - self._since
        if age > MAX_HOLD_S:
            raise LockLost(
                "lock-lost",
                f"the lock of {self._lock.target} was held for {age:.1f} s, longer than others respect it",
                note="nothing was written",
            )
        if lock_dir.directory_mark(self._lock.directory) != self._mark:
            self._checked = 0.0
            raise LockLost(
                "lock-lost",
                f"the lock of {self._lock.target} was taken over by another program",
                looked_at=[("lock", self._lock.directory)],
                note="nothing was written",
            )

    def remove_guard(self) -> None:
        """Remove the guard too at the end of this hold: the protected file is gone, and its name is not used again.

        Processes that wait with the removed guard open notice it, and open the current one.
        """
        self._last = True

    def _take_guard(self) -> bool:
        """Lock the current guard: the one that was opened may have been removed since."""
        while _flock(self._fd):
            if os.fstat(self._fd).st_nlink:
                return True
            os.close(self._fd)
            self._fd = -1
            self._fd = _open_guard(self._lock.guard)
        return False

    def _is_still_held(self, mark: lock_dir.DirectoryMark) -> bool:
        """Return True when the lock directory is the one of this hold, so that only it is removed."""
        if time.monotonic() - self._checked < _MOMENT_S:
            return True
        return lock_dir.directory_mark(self._lock.directory) == mark

    def _make_directory(self) -> bool:
        """Create the directory while the guard is held, or remove a dead one. Return False when another owner holds
        it.
        """
        for _ in range(3):
            self._mark = lock_dir.make_lock_dir(self._fd, self._lock.directory)
            if self._mark is not None:
                self._since = time.monotonic()
                return True
            verdict = lock_dir.judge_lock_dir(self._fd, self._lock.directory)
            if verdict is lock_dir.LockVerdict.LIVE:
                return False
            self.recovered |= verdict is lock_dir.LockVerdict.REMOVED
        return False

    async def _wait(self, deadline: float) -> None:
        delay = _FIRST_DELAY_S
        while True:
            if time.monotonic() >= deadline:
                raise self._lock.timeout_error()
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            if not self._take_guard():
                delay = min(delay * 1.5, _LAST_OWN_DELAY_S)
            elif self._make_directory():
                return
            else:
                delay = min(delay * 1.5, _LAST_DELAY_S)

    def _release(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # at once, also while a child is between fork and exec
            os.close(self._fd)
            self._fd = -1
        self._lock.release_local()


def remove_unused_guard(path: Path) -> None:
    """Remove the guard of a file that is gone, unless a process holds it. Raises OSError."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _flock(fd) and os.fstat(fd).st_nlink:
            os.unlink(path)
    finally:
        os.close(fd)


def remove_dead_locks(directory: Path, guard_of: Callable[[Path], Path]) -> list[Path]:
    """Remove the lock directories of killed Teamwright processes, and stale ones. Return the files that they locked.

    Other products wait for such a lock, or lose what they write, until it is 10 s old. A lock whose owner may live is
    left: its guard is held, or it belongs to another product and is younger than that. Raises nothing.
    """
    try:
        names = [entry.name for entry in os.scandir(directory) if entry.name.endswith(".lock") and entry.is_dir()]
    except OSError:
        return []
    targets = [directory / name.removesuffix(".lock") for name in names]
    return [target for target in targets if _remove_dead(target, guard_of(target))]


def _remove_dead(target: Path, guard: Path) -> bool:
    try:
        fd = os.open(guard, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_locked = _flock(fd) and os.fstat(fd).st_nlink > 0  # a removed guard protects nothing
        return is_locked and lock_dir.judge_lock_dir(fd, f"{target}.lock") is lock_dir.LockVerdict.REMOVED
    except OSError:
        return False
    finally:
        os.close(fd)


def _open_guard(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private(Path(path).parent)
        return os.open(path, flags, 0o600)


def _flock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
