"""The record in a guard file, read without taking part in locking: for an audit of locks that were left.

Depends on the paths of guards and on the format that `locks` writes.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from msgspec import Struct

from teamwright.storage.locks import DirectoryMark
from teamwright.storage.paths import Home


class GuardRecord(Struct, frozen=True):
    """The record of a guard. `created` are inode, mtime in ns and pid of the newest lock directory, `intent` the time
    in ns before one was created. `is_held`: a process holds the guard, and nothing else is known.
    """

    created: tuple[int, ...] = ()
    intent: tuple[int, ...] = ()
    is_held: bool = False

    def creator_of(self, mark: DirectoryMark) -> int:
        """Return the pid of the process that created this lock directory; 0 for an unknown one."""
        return self.created[2] if len(self.created) > 2 and self.created[:2] == tuple(mark) else 0


def read_guard(home: Home, protected: Path) -> GuardRecord:
    """Return the record of the guard of this file; an empty one without a guard. Nothing is raised."""
    try:
        fd = os.open(home.guard(protected), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return GuardRecord()
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return GuardRecord(is_held=True)
        words = os.pread(fd, 4096, 0).split()
    finally:
        os.close(fd)
    return GuardRecord(_numbers_after(words, b"made"), _numbers_after(words, b"intent"))


def _numbers_after(words: list[bytes], kind: bytes) -> tuple[int, ...]:
    if kind not in words:
        return ()
    rest = words[words.index(kind) + 1 :]
    return tuple([int(word) for word in rest[:4] if word.isdigit()])
