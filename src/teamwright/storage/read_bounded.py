"""Reading a file that somebody else put there: a plain one, and not without end.

A pipe would be waited for, a device never ends, and a repository may hold links to both. Knows the operating
system alone.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_BYTES = 16_000_000
"""Bytes that are read unless the caller says otherwise."""

_BLOCK_BYTES = 1 << 20


def read_plain(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """The content of a plain file, links followed. Raises OSError, also for a longer file and for what is no file."""
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
    """The first bytes of a plain file of any length, links followed. Raises OSError as `read_plain` does."""
    fd = open_plain(path)
    try:
        return os.read(fd, length)
    finally:
        os.close(fd)


def open_plain(path: str | Path) -> int:
    """A descriptor to read a plain file, links followed; the caller closes it. Raises OSError for what is no file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def _too_long(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is longer than {most:,} bytes", str(path))
