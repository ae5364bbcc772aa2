"""Bounded reading of files of other programs: plain files only, up to a maximum size.

Reading a pipe would block, a device never ends, and a repository may contain links to both. Depends on the operating
system alone.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 16_000_000
"""The default maximum of bytes that are read."""

_BLOCK_BYTES = 1 << 20


def read_plain(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of a plain file, links followed. Raises OSError, also for a longer file and for a path that is
    no plain file."""
    fd = open_plain(path)
    try:
        if os.fstat(fd).st_size > most:
            raise _too_long(path, most)
        parts: list[bytes] = []
        left = most + 1
        while left > 0 and (part := os.read(fd, min(left, _BLOCK_BYTES))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(fd)
    if left <= 0:
        raise _too_long(path, most)
    return b"".join(parts)


def read_beginning(path: str | Path, length: int) -> bytes:
    """Return the first bytes of a plain file of any length, links followed. Raises OSError as `read_plain` does."""
    fd = open_plain(path)
    try:
        return os.read(fd, length)
    finally:
        os.close(fd)


def open_plain(path: str | Path) -> int:
    """Open a plain file for reading, links followed; the caller closes the descriptor. Raises OSError for other kinds
    of files."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def _too_long(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is longer than {most:,} bytes", str(path))
