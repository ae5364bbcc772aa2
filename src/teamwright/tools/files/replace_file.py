"""Replacing a user's file: locked between our processes and replaced whole. Every change of a file uses it.

The rename is atomic and keeps mode, owner and the followed link; a reader sees the old file or the new.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

MAX_BYTES = 64 * 1024 * 1024
"""The largest file that is read or changed whole, in bytes."""

LOCK_TIMEOUT_S = 2.0
"""Seconds to wait for another program's lock on a file."""

_NO_RENAME_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV})


def open_regular(path: Path) -> int:
    """Return a descriptor for reading. Raises OSError; a pipe or a device never blocks and is refused as EINVAL."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return fd


def read_all(fd: int) -> bytes:
    """Return the whole content from the beginning."""
    size = os.fstat(fd).st_size
    pieces: list[bytes] = []
    at = 0
    while piece := os.pread(fd, max(65_536, size - at + 1), at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


@asynccontextmanager
async def lock_file(real: Path) -> AsyncGenerator[int | None]:
    """Open the file and lock it against other processes of this program; None when it does not exist.

    Raises OSError.
    """
    deadline = asyncio.get_running_loop().time() + LOCK_TIMEOUT_S
    while True:
        try:
            fd = open_regular(real)
        except FileNotFoundError:
            yield None
            return
        try:
            if _try_lock(fd) and _is_same_file(fd, real):
                yield fd
                return
        finally:
            os.close(fd)
        if asyncio.get_running_loop().time() > deadline:
            raise OSError(errno.EAGAIN, "another program has locked it")
        await asyncio.sleep(0.005)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: only the check for newer content remains
        return True
    return True


def _is_same_file(fd: int, real: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.stat(real))
    return False


def write_file(real: Path, content: bytes, fd: int | None) -> None:
    """Write the content: by rename, or as a new file only if there still is none.

    `fd` is the result of `lock_file`. Raises FileExistsError when a file has appeared, OSError when the write fails.
    """
    if fd is None:
        real.parent.mkdir(parents=True, exist_ok=True)
    elif not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    tmp = real.with_name(f".{real.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        _write_temporary(tmp, content, fd)
        if fd is not None:
            os.replace(tmp, real)
            return
        os.link(tmp, real)
    except OSError as problem:
        if problem.errno not in _NO_RENAME_ERRORS:
            raise
        # The directory takes no new names, or the file is a mount point. The edit journal has the former content
        # already.
        _write_in_place(real, content, new=fd is None)
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink(missing_ok=True)


def _write_temporary(tmp: Path, content: bytes, fd: int | None) -> None:
    # A new file gets its mode from the umask; a replacement is private until it has the old mode.
    descriptor = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if fd is None else 0o600)
    try:
        with open(descriptor, "wb", buffering=0, closefd=False) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
        if fd is not None:
            old = os.fstat(fd)
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    finally:
        os.close(descriptor)


def _write_in_place(real: Path, content: bytes, *, new: bool) -> None:
    with open(real, "xb" if new else "r+b") as file:
        if not new and os.fstat(file.fileno()).st_nlink > 1:
            raise OSError(errno.EMLINK, "it has another name (a hard link), and its directory takes no new file")
        file.write(content)
        file.truncate()
