"""Leases: one process at a time drives a session's files.

A lease is an exclusive `flock` on one file, which the operating system releases when the process ends in any way.
Depends on the operating system alone.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import iso_time
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

LEASE = "lease"


def lease_path(directory: Path) -> Path:
    """Return the lease file in the directory of a session or of a member process, which its process holds."""
    return directory / LEASE


_NOTE_WAIT_S = 0.5
"""Seconds a refused process waits for the holder's note: the holder writes it just after it has the lock."""

_NOTE_PAUSE_S = 0.005
"""Seconds between two reads of the note."""

_WAIT_PAUSE_S = 0.05
"""Seconds between two attempts to take a lease that is held."""


class Lease:
    """A lease that this process holds. Children started with exec do not inherit it."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def take(cls, path: Path, owner: str, *, pid: int = 0) -> Lease:
        """Take the lease at once or fail; `owner` tells a person which program holds it.

        `pid` is the process that readers see as the holder; 0: this one.

        Raises CannotStart (`session-busy`) naming the process that has it, StorageError for the disk's refusals.
        """
        lease = cls.take_free(path, owner, pid=pid)
        if lease is None:
            raise _held_error(path)
        return lease

    @classmethod
    def take_free(cls, path: Path, owner: str, *, pid: int = 0) -> Lease | None:
        """Take the lease as `take` does; None when it is held. Raises StorageError."""
        try:
            fd = _open_locked(path)
            if fd is None:
                return None
            note = json.dumps({"pid": pid or os.getpid(), "who": owner, "since": iso_time()}, ensure_ascii=False)
            os.ftruncate(fd, 0)
            os.pwrite(fd, note.encode("utf-8", "replace"), 0)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        return cls(path, fd)

    @classmethod
    def hold_copy(cls, path: Path, note: bytes) -> Lease | None:
        """Hold a copy of a lease file with the note of its holder on another machine; None when the copy is held.

        Raises StorageError.
        """
        try:
            if (fd := _open_locked(path)) is None:
                return None
            os.ftruncate(fd, 0)
            os.pwrite(fd, note, 0)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        return cls(path, fd)

    def release(self) -> None:
        """Release the lease; harmless when already released. The file stays: deleting it would let two processes in."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # at once, also while a child is between fork and exec
            os.close(self._fd)
            self._fd = -1


async def wait_for_lease(path: Path, owner: str) -> Lease:
    """Take the lease as soon as it is free. Raises StorageError."""
    while True:
        if (lease := Lease.take_free(path, owner)) is not None:
            return lease
        await asyncio.sleep(_WAIT_PAUSE_S)


def lease_held(path: Path) -> bool:
    """Return True when a process holds the lease. The file of a released lease is empty, so it is not locked to find
    out."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.fstat(fd).st_size:
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def lease_holder(path: Path) -> int:
    """Return the pid of the process that holds the lease file; 0 when none does, or the file does not name it."""
    if not lease_held(path):
        return 0
    try:
        note: Any = json.loads(path.read_bytes())
        return int(cast("dict[str, Any]", note)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def process_exists(pid: int) -> bool:
    """Return True when a process has this pid, also one of another user."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # the note of a damaged file may hold any number
        return False
    except OSError:
        return True  # the process belongs to another user
    return True


def _open_locked(path: Path) -> int | None:
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, fd):
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # the file was replaced between open and flock: other processes will lock the new one


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(path, flags, 0o600)


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _held_error(path: Path) -> CannotStart:
    note = _read_note(path)
    if note is None:
        return CannotStart("session-busy", "another process drives this session", looked_at=[("lease", str(path))])
    return CannotStart(
        "session-busy",
        f"process {note['pid']} drives this session already ({note['who']})",
        looked_at=[("lease", str(path)), ("since", str(note.get("since", "unknown")))],
        do=[
            "continue in the terminal where it runs",
            "add --fork-session, to continue in a copy of the session",
            f"end it with: kill {note['pid']}",
        ],
        note="nothing was started",
    )


def _read_note(path: Path) -> dict[str, Any] | None:
    """Return the note of the holder. A note that is missing or names a dead process is that of an earlier holder or is
    being written, so it is read again for a moment."""
    deadline = time.monotonic() + _NOTE_WAIT_S
    while True:
        note = _parse_note(path)
        if note is not None and process_exists(note["pid"]):
            return note
        if time.monotonic() >= deadline:
            return None
        time.sleep(_NOTE_PAUSE_S)


def _parse_note(path: Path) -> dict[str, Any] | None:
    try:
        note = cast("dict[str, Any]", json.loads(path.read_bytes()))
        return note | {"pid": int(note["pid"]), "who": str(note["who"])}
    except (OSError, ValueError, TypeError, KeyError):
        return None
