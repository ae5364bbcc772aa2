"""The lock directory that other products understand, and the record in the guard file that says who made it.

All functions but `mark_of` and `age_s` are called with the guard held. The record is an *intent* (the time) before
the directory is made and its inode and mtime after; an inode number alone proves nothing, it is reused at once.
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
"""Age from which a stranger's lock directory counts as left behind (the convention of proper-lockfile)."""

_RECORD = 64
"""The guard file holds two records of that many bytes: the last directory made, and an intent while one is made."""

_NO_INTENT = b" " * _RECORD
_INTENT_WINDOW_NS = (-20_000_000, 50_000_000)
"""A directory made by the process of an intent is that much younger; file clocks may lag by a tick."""
_INTENT_STOOD_S = 1.0
_AHEAD_S = 2.0
"""A directory that is younger than now by more than this (strangers set up to 1 s): the clock was set back."""


class DirectoryMark(NamedTuple):
    """What makes a directory ours: inode and mtime."""

    inode: int
    mtime_ns: int


class LockVerdict(enum.Enum):
    """What became of a directory that was in the way."""

    LIVE = "live"
    GONE = "gone"
    REMOVED = "taken away"


def directory_mark(directory: str) -> DirectoryMark | None:
    """Inode and mtime of what stands there; None when nothing does."""
    try:
        found = os.stat(directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return DirectoryMark(found.st_ino, found.st_mtime_ns)


def directory_age_s(directory: str) -> float | None:
    """Seconds since the directory's owner last touched it; None when there is none."""
    mark = directory_mark(directory)
    return None if mark is None else time.time() - mark.mtime_ns / 1e9


def make_lock_dir(guard: int, directory: str) -> DirectoryMark | None:
    """Make the directory and record it; None when something stands there already.

    Raises FileNotFoundError where the protected file has no directory: whoever locks makes nothing anew.
    """
    before = os.pread(guard, _RECORD, _RECORD)
    if before.strip() and directory_mark(directory) is not None:
        return None  # that intent may be all that explains what stands there: it is not written over
    now = time.time_ns()
    os.pwrite(guard, (b"intent %d" % now).ljust(_RECORD), _RECORD)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)  # it may be the one that explains what stands there
        return None
    except OSError:
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)
        raise
    # Random digits below the millisecond, which is all that strangers compare, make the mtime unique.
    touched = now - now % 1_000_000 + int(random.random() * 999_999) + 1
    with contextlib.suppress(FileNotFoundError):
        os.utime(directory, ns=(touched, touched))
    mark = directory_mark(directory)
    if mark is None:  # a stranger removed it, taking it for the stale one that stood there before
        os.pwrite(guard, before.ljust(_RECORD), _RECORD)
        return None
    os.pwrite(guard, (b"made %d %d by %d" % (*mark, os.getpid())).ljust(_RECORD) + _NO_INTENT, 0)
    return mark


def judge_lock_dir(guard: int, directory: str) -> LockVerdict:
    """What is in the way: a dead owner of ours is removed at once, a stranger's only when it is stale."""
    mark = directory_mark(directory)
    if mark is None:
        return LockVerdict.GONE
    age = time.time() - mark.mtime_ns / 1e9
    if age > STALE_S or _has_dead_owner(os.pread(guard, 2 * _RECORD, 0), mark, age):
        return LockVerdict.REMOVED if _remove_judged(directory, mark) else LockVerdict.LIVE
    return LockVerdict.LIVE


def remove_lock_dir(directory: str, mark: DirectoryMark) -> None:
    """End a hold: remove the directory that was just proved ours."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return
    except OSError:  # somebody put something inside, which would bar strangers for ever
        _remove_judged(directory, mark)


def _has_dead_owner(record: bytes, mark: DirectoryMark, age: float) -> bool:
    """Whoever reads this has the guard, so the process that wrote the record is no longer inside."""
    made, intent = _numbers(record[:_RECORD], b"made"), _numbers(record[_RECORD:], b"intent")
    if made and tuple(made[:2]) == mark:
        return True
    first, last = _INTENT_WINDOW_NS
    stood = age >= _INTENT_STOOD_S or age < -_AHEAD_S
    return bool(intent) and first <= mark.mtime_ns - intent[0] <= last and stood


def _numbers(record: bytes, kind: bytes) -> list[int]:
    """The numbers of a record of this kind; none when it is another, blank, or never written."""
    word, *rest = record.split() or [b""]
    return [int(text) for text in rest if text.isdigit()] if word == kind else []


def _remove_judged(directory: str, mark: DirectoryMark) -> bool:
    """Rename it to a name of its own, look whether it is the one that was judged, then remove it.

    A stranger may have freed and taken the lock between look and rename: then its directory is put back.
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
    with contextlib.suppress(OSError):  # what is not an empty directory stays beside, for a person to look at
        os.rmdir(aside)
    return True
