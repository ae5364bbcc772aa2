"""The lock directory that other products understand, and the record in the guard file that names its creator.

All functions but `directory_mark` and `directory_age_s` are called with the guard held. The record is an *intent* (the
time) before the directory is created, and its inode and mtime after; an inode number alone proves nothing, it is reused
at once.
"""

from __future__ import annotations

import contextlib
import enum
import os
import random
import secrets
import time
from typing import NamedTuple

STALE_S = 10.0
"""Age in seconds from which the lock directory of another product is stale (the convention of proper-lockfile)."""

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
    owner, intent = _numbers(record[:_RECORD], b"made"), _numbers(record[_RECORD:], b"intent")
    if owner and tuple(owner[:2]) == mark:
        return True
    first, last = _INTENT_WINDOW_NS
    stood = age >= _INTENT_STOOD_S or age < -_AHEAD_S
    return bool(intent) and first <= mark.mtime_ns - intent[0] <= last and stood


def _numbers(record: bytes, kind: bytes) -> list[int]:
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
