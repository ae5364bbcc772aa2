"""Append-only files of one JSON object a line: one writer, many readers, loadable after any kill.

A line counts when its newline is there. Below it: the operating system. Refuses to know what a line says.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from teamwright.storage.atomic import storage_error
from teamwright.storage.paths import make_private

_BLOCK = 1 << 16


class Journal:
    """The one writer of a file of lines. Another writer at the same time is the caller's mistake (see Lease)."""

    __slots__ = ("_fd", "_torn", "path", "size")

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        """Bytes in the file, all of them whole lines."""
        self._fd = fd
        self._torn = False

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open or make the file, 0600, and cut what stands behind its last newline. Raises StorageError."""
        try:
            fd = _open(path)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        try:
            size = os.fstat(fd).st_size
            whole = _end_of_last_line(fd, size)
            if whole != size:
                os.ftruncate(fd, whole)
        except OSError as problem:
            os.close(fd)
            raise storage_error(problem, path) from problem
        return cls(path, fd, whole)

    def append(self, *lines: bytes) -> None:
        """Write the lines with one call; each gets its newline here (one it brings is accepted).

        When the disk takes only a part, the file goes back to what it was. Raises StorageError (`disk-full`) then,
        and ValueError for a line that has a newline inside.
        """
        content = b"".join([line if line[-1:] == b"\n" else line + b"\n" for line in lines])
        if content.count(b"\n") != len(lines):
            raise ValueError("a line of a journal has a newline inside")
        if self._torn:
            self._cut()
        try:
            written = os.write(self._fd, content)
            if written != len(content):
                raise OSError(errno.ENOSPC, "the disk took only a part")
        except OSError as problem:
            self._torn = True
            self._cut()
            raise storage_error(problem, self.path) from problem
        self.size += written

    def close(self) -> None:
        """Close the file; harmless when closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _cut(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        self._torn = False


def read_lines(path: Path) -> Iterator[bytes]:
    """The whole lines from the first on, without their newline; blank ones are left out. No file, no lines."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=_BLOCK) as file:
        for line in file:
            if line[-1:] == b"\n" and line != b"\n":
                yield line[:-1]


def read_backward(path: Path) -> Iterator[bytes]:
    """The whole lines from the last to the first, without their newline; blank ones are left out.

    Reads in blocks from the end: looking at the last lines of a file costs the same whatever its size.
    """
    with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        position = _end_of_last_line(file.fileno(), os.fstat(file.fileno()).st_size)
        pieces: list[bytes] = []  # of the line that began before `position`, the last piece first
        while position > 0:
            start = max(0, position - _BLOCK)
            block = os.pread(file.fileno(), position - start, start)
            position = start
            first, *rest = block.split(b"\n")
            if rest:
                pieces.append(rest.pop())
                yield from _joined(pieces)
                yield from (line for line in reversed(rest) if line)
                pieces = []
            pieces.append(first)
        yield from _joined(pieces)


def _joined(pieces: list[bytes]) -> Iterator[bytes]:
    line = b"".join(reversed(pieces))
    if line:
        yield line


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(path, flags, 0o600)


def _end_of_last_line(fd: int, size: int) -> int:
    """Where the last newline ends: everything behind it is the tail of a line that was never finished."""
    position = size
    while position > 0:
        start = max(0, position - _BLOCK)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0
