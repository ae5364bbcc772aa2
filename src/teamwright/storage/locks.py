"""File locks in two levels: a guard among Teamwright processes, and the lock directory that other products understand.

The guard is an `flock` on a file that exists as long as the file that it protects. It ends with its process and
contains a record of the lock directory created under it, so that a killed owner is recognised at once. The directory is
`<file>.lock`, created by mkdir, always empty, stale by its mtime (the convention of the npm package proper-lockfile).
The record is an *intent* (the time) before the directory is created, and its inode and mtime after; an inode number
alone proves nothing, it is reused at once.

The body of a hold is plain synchronous code: nothing awaits under a lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import fcntl
import os
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from teamwright.protocol.errors import LockLost, LockTimeout
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

R = TypeVar("R")

STALE_S = 10.0
"""Age in seconds from which the lock directory of another product is stale (the convention of proper-lockfile)."""

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


def lock_for(target: Path, guard: Path) -> FileLock:
    """Return the one lock of this file in the running loop. Raises RuntimeError when no loop runs."""
    return _LOCKS.get(str(target), lambda: FileLock(target, guard))


def lock_at(target: str, guard_of: Callable[[Path], Path]) -> FileLock:
    """Return `lock_for` a path that is a string; `guard_of` is called only when the lock is constructed."""

    def make_lock() -> FileLock:
        path = Path(target)
        return FileLock(path, guard_of(path))

    return _LOCKS.get(target, make_lock)


async def past_dead_lock(work: Callable[[], Awaitable[R]]) -> R:
    """Run `work`, again after each LockTimeout for as long as the lock of a killed program may be in its way.

    Another product leaves its lock directory when it is killed, which shows only when the directory is stale. For work
    that must not be given up before that: it may run several times. Raises LockTimeout when the lock is held longer,
    so by a program that runs.
    """
    last_start = time.monotonic() + STALE_S + _STALE_MARGIN_S
    while True:
        try:
            return await work()
        except LockTimeout:
            if time.monotonic() >= last_start:
                raise


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
        age = directory_age_s(self.directory)
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


class LockHold:
    """One hold of a lock. `recovered`: its last owner was killed while holding it, so check the protected file."""

    __slots__ = ("_checked", "_fd", "_last", "_lock", "_mark", "_since", "recovered")

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock
        self._fd = -1
        self._mark: DirectoryMark | None = None
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
                remove_lock_dir(self._lock.directory, self._mark)
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
        if directory_mark(self._lock.directory) != self._mark:
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

    def _is_still_held(self, mark: DirectoryMark) -> bool:
        """Return True when the lock directory is the one of this hold, so that only it is removed."""
        if time.monotonic() - self._checked < _MOMENT_S:
            return True
        return directory_mark(self._lock.directory) == mark

    def _make_directory(self) -> bool:
        """Create the directory while the guard is held, or remove a dead one. Return False when another owner holds
        it.
        """
        for _ in range(3):
            self._mark = make_lock_dir(self._fd, self._lock.directory)
            if self._mark is not None:
                self._since = time.monotonic()
                return True
            verdict = judge_lock_dir(self._fd, self._lock.directory)
            if verdict is LockVerdict.LIVE:
                return False
            self.recovered |= verdict is LockVerdict.REMOVED
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
    return [target for target in targets if _remove_dead_lock(target, guard_of(target))]


def _remove_dead_lock(target: Path, guard: Path) -> bool:
    try:
        fd = os.open(guard, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        is_locked = _flock(fd) and os.fstat(fd).st_nlink > 0  # a removed guard protects nothing
        return is_locked and judge_lock_dir(fd, f"{target}.lock") is LockVerdict.REMOVED
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


_RECORD = 64
"""Bytes of a record. The guard file has two records: the last directory created, and an intent during creation."""

_NO_INTENT = b" " * _RECORD
_INTENT_WINDOW_NS = (-20_000_000, 50_000_000)
"""Age in ns, relative to an intent, of a directory that its process created; file clocks may lag by a tick."""
_INTENT_STOOD_S = 1.0
_AHEAD_S = 2.0
"""Seconds by which a directory may be newer than now (other products set up to 1 s). Beyond it the clock was set back.
"""


class DirectoryMark(NamedTuple):
    """The inode and mtime by which a process recognises its own directory."""

    inode: int
    mtime_ns: int


class LockVerdict(enum.Enum):
    """The outcome for a lock directory that already existed."""

    LIVE = "live"
    GONE = "gone"
    REMOVED = "taken away"


def directory_mark(directory: str) -> DirectoryMark | None:
    """Return inode and mtime of the entry at this path; None when there is none."""
    try:
        found = os.stat(directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return DirectoryMark(found.st_ino, found.st_mtime_ns)


def directory_age_s(directory: str) -> float | None:
    """Return the seconds since the directory's owner last touched it; None when there is none."""
    mark = directory_mark(directory)
    return None if mark is None else time.time() - mark.mtime_ns / 1e9


def make_lock_dir(guard: int, directory: str) -> DirectoryMark | None:
    """Create the directory and record it; return None when the path exists already.

    Raises FileNotFoundError where the protected file has no directory: locking creates no parents.
    """
    before = os.pread(guard, _RECORD, _RECORD)
    if before.strip() and directory_mark(directory) is not None:
        return None  # that intent may be the only record of the existing directory: do not overwrite it
    now = time.time_ns()
    os.pwrite(guard, (b"intent %d" % now).ljust(_RECORD), _RECORD)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)  # it may be the record of the existing directory
        return None
    except OSError:
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)
        raise
    # Other products compare milliseconds only. Random digits below the millisecond make the mtime unique.
    touched = now - now % 1_000_000 + int(random.random() * 999_999) + 1
    with contextlib.suppress(FileNotFoundError):
        os.utime(directory, ns=(touched, touched))
    mark = directory_mark(directory)
    if mark is None:  # another product removed it, taking it for the stale one before it
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)
        return None
    os.pwrite(guard, (b"made %d %d by %d" % (*mark, os.getpid())).ljust(_RECORD) + _NO_INTENT, 0)
    return mark


def judge_lock_dir(guard: int, directory: str) -> LockVerdict:
    """Judge an existing directory. One of a dead Teamwright process is removed at once, one of another product only
    when it is stale.
    """
    mark = directory_mark(directory)
    if mark is None:
        return LockVerdict.GONE
    age = time.time() - mark.mtime_ns / 1e9
    if age > STALE_S or _has_dead_owner(os.pread(guard, 2 * _RECORD, 0), mark, age):
        return LockVerdict.REMOVED if _remove_judged(directory, mark) else LockVerdict.LIVE
    return LockVerdict.LIVE


def remove_lock_dir(directory: str, mark: DirectoryMark) -> None:
    """End a hold: remove the directory that was just proved to be its own."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return
    except OSError:  # another program put a file inside, which would lock out other products for ever
        _remove_judged(directory, mark)


def _has_dead_owner(record: bytes, mark: DirectoryMark, age: float) -> bool:
    """Return True when the recorded process left the directory. The caller has the guard, so that process no longer has
    it."""
    owner = _record_numbers(record[:_RECORD], b"made")
    intent = _record_numbers(record[_RECORD:], b"intent")
    if owner and tuple(owner[:2]) == mark:
        return True
    first, last = _INTENT_WINDOW_NS
    stood = age >= _INTENT_STOOD_S or age < -_AHEAD_S
    return bool(intent) and first <= mark.mtime_ns - intent[0] <= last and stood


def _record_numbers(record: bytes, kind: bytes) -> list[int]:
    """Return the numbers of a record of this kind; none when it is another, blank, or never written."""
    word, *rest = record.split() or [b""]
    return [int(text) for text in rest if text.isdigit()] if word == kind else []


def _remove_judged(directory: str, mark: DirectoryMark) -> bool:
    """Rename the directory to a unique name, check that it is the judged one, then remove it.

    Another product may have released and taken the lock between check and rename: then its directory is put back.
    """
    aside = f"{directory}.stale.{secrets.token_hex(4)}"
    try:
        os.rename(directory, aside)
    except FileNotFoundError:
        return True
    if directory_mark(aside) != mark:
        with contextlib.suppress(OSError):
            os.rename(aside, directory)
        return False
    with contextlib.suppress(OSError):  # a path that is no empty directory stays for a person to look at
        os.rmdir(aside)
    return True


@contextmanager
def hold_exclusive(lock: Path, target: Path) -> Generator[None]:
    """Hold the lock file `lock`, which protects `target`. The body is plain synchronous code. Raises StorageError."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise storage_error(problem, target) from problem
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


T = TypeVar("T")


class LoopCache(Generic[T]):
    """Objects by key, separate for each running loop; `keep` of them are kept without other references."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopObjects[T]] = WeakKeyDictionary()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the object of this key; `make` creates it when there is none. Raises RuntimeError when no loop
        runs.
        """
        loop = asyncio.get_running_loop()
        objects = self._loops.get(loop)
        if objects is None:
            objects = self._loops[loop] = _LoopObjects()
        return objects.get(key, make, self._keep)


class _LoopObjects(Generic[T]):
    def __init__(self) -> None:
        self._living: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._recent: OrderedDict[str, T] = OrderedDict()

    def get(self, key: str, make: Callable[[], T], keep: int) -> T:
        found = self._recent.get(key)
        if found is not None:
            self._recent.move_to_end(key)
            return found
        found = self._living.get(key)
        if found is None:
            found = self._living[key] = make()
        self._recent[key] = found
        if len(self._recent) > keep:
            self._recent.popitem(last=False)
        return found


_LOCKS: LoopCache[FileLock] = LoopCache(_MAX_LOCKS)
