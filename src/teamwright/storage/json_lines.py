"""Append-only files of one JSON object a line: one writer, many readers, loadable after any kill.

A line counts once its newline is written. The one writer of a file repairs it: unreadable lines are found, copied, and
replaced in place; the caller defines which lines are readable. Depends on the operating system alone.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import islice
from pathlib import Path
from threading import Lock

from msgspec import Struct

from teamwright.storage.files import keep_damaged_copy, storage_error
from teamwright.storage.paths import make_private

MAX_OPEN = 1_000
"""Files that the journals of a process keep open at once, and never more than a quarter of its descriptor limit."""

_BLOCK = 1 << 16
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC


class Journal:
    """The one writer of a file of lines. A second writer at the same time is an error of the caller (see Lease).

    There may be thousands: the files that were written least recently are closed, and opened again when needed.
    """

    __slots__ = ("_closed", "_fd", "_torn", "path", "size")

    def __init__(self, path: Path, fd: int, size: int) -> None:
        self.path = path
        self.size = size
        """The number of bytes in the file, all of them whole lines."""
        self._fd = fd
        self._torn = False
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Open or create the file, 0600, and remove the bytes after its last newline. Raises StorageError."""
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
        journal = cls(path, fd, whole)
        with _lock:
            journal._mark_used()
        return journal

    def append(self, *lines: bytes) -> None:
        """Write the lines with one call, each with a newline (one that it has already is accepted).

        When the disk takes only a part, the file goes back to what it was. Raises StorageError (`disk-full`) then, and
        ValueError for a line with a newline inside, or when the journal is closed.
        """
        content = b"".join([line if line[-1:] == b"\n" else line + b"\n" for line in lines])
        if content.count(b"\n") != len(lines):
            raise ValueError("a line of a journal has a newline inside")
        with _lock:
            self._write(content)

    def close(self) -> None:
        """Close the file; harmless when closed."""
        with _lock:
            self._closed = True
            self._release_file()
            _in_use.pop(self, None)

    def _write(self, content: bytes) -> None:
        if self._closed:
            raise ValueError("the journal is closed")
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, _FLAGS)
            self._mark_used()
            if self._torn:
                self._cut()
            written = os.write(self._fd, content)
            if written != len(content):
                raise OSError(errno.ENOSPC, "the disk took only a part")
        except OSError as problem:
            self._torn = True
            with contextlib.suppress(OSError):
                self._cut()
            raise storage_error(problem, self.path) from problem
        self.size += written

    def _cut(self) -> None:
        os.ftruncate(self._fd, self.size)
        self._torn = False

    def _mark_used(self) -> None:
        """Mark this journal as the last used; close the file of the least recently used one when too many are open."""
        _in_use[self] = None
        _in_use.move_to_end(self)
        if len(_in_use) > _max_open():
            _in_use.popitem(last=False)[0]._release_file()

    def _release_file(self) -> None:
        """Close the descriptor until the next line is written."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yield the whole lines from the byte `start`, without their newline and without blank ones; none when the file is
    missing."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=_BLOCK) as file:
        file.seek(start)
        for line in file:
            if line[-1:] == b"\n" and line != b"\n":
                yield line[:-1]


def read_backward(path: Path, upto: int | None = None) -> Iterator[bytes]:
    """Yield the whole lines from the last to the first, without their newline; blank ones are left out.

    Reads in blocks from the end, so the cost of the last lines does not depend on the size of the file. `upto` is the
    number of bytes of the file that are read; None: all.
    """
    with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        position = _end_of_last_line(file.fileno(), size if upto is None else min(size, upto))
        pieces: list[bytes] = []  # parts of the line that began before `position`, the last part first
        while position > 0:
            start = max(0, position - _BLOCK)
            block = os.pread(file.fileno(), position - start, start)
            position = start
            first, *rest = block.split(b"\n")
            if rest:
                pieces.append(rest.pop())
                yield from _join_pieces(pieces)
                yield from (line for line in reversed(rest) if line)
                pieces = []
            pieces.append(first)
        yield from _join_pieces(pieces)


def read_backward_with_offsets(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield lines as `read_backward`, each with the offset after its newline. The file must have no blank lines."""
    end = 0
    with contextlib.suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        end = _end_of_last_line(file.fileno(), os.fstat(file.fileno()).st_size)
    for line in read_backward(path, end):
        yield end, line
        end -= len(line) + 1


def _join_pieces(pieces: list[bytes]) -> Iterator[bytes]:
    line = b"".join(reversed(pieces))
    if line:
        yield line


_lock = Lock()
"""Held while a file is written: another thread must not close the file at that moment."""
_in_use: OrderedDict[Journal, None] = OrderedDict()
"""The journals whose files are open, the last used one at the end."""


@cache
def _max_open() -> int:
    """Return how many files all journals of this process may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_OPEN if soft == resource.RLIM_INFINITY else max(1, min(MAX_OPEN, soft // 4))


def _open(path: Path) -> int:
    try:
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)


def _end_of_last_line(fd: int, size: int) -> int:
    """Return the offset after the last newline: the bytes after it are an unfinished line."""
    position = size
    while position > 0:
        start = max(0, position - _BLOCK)
        found = os.pread(fd, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


LOST = b'{"type":"lost"'
"""The beginning of a line that replaces an unreadable one."""

_SHORTEST = LOST + b"}"


class LostLines(Struct, frozen=True):
    """Unreadable lines of a file; `copy` has their bytes."""

    path: Path
    count: int
    copy: Path

    def __str__(self) -> str:
        lines = "1 line" if self.count == 1 else f"{self.count} lines"
        were = "was" if self.count == 1 else "were"
        return (
            f"{lines} of {self.path} could not be read and {were} left out. The damaged bytes are kept in {self.copy}."
        )


def set_aside_damaged_lines(
    path: Path, is_whole: Callable[[bytes], bool], is_last: Callable[[bytes], bool], most: int
) -> LostLines | None:
    """Replace damaged lines by lines of the same length that report the damage; return None when there are none.

    Searches backward from the end, at most `most` lines and not beyond a whole line for which `is_last` holds. An
    unfinished last line is ignored. The bytes are copied first, to `<file>.bad.<ms>`. Raises StorageError.
    """
    try:
        found = _find_damaged(path, is_whole, is_last, most)
        if not found:
            return None
        copy = keep_damaged_copy(path, b"".join(line + b"\n" for _, line in reversed(found)))
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            for start, line in found:
                os.pwrite(fd, _replacement(len(line)), start)
        finally:
            os.close(fd)
    except OSError as problem:
        raise storage_error(problem, path) from problem
    return LostLines(path, len(found), copy)


def _find_damaged(
    path: Path, is_whole: Callable[[bytes], bool], is_last: Callable[[bytes], bool], most: int
) -> list[tuple[int, bytes]]:
    """Return offsets and bytes of damaged lines, the last line first."""
    found: list[tuple[int, bytes]] = []
    for start, line in islice(_lines_backward(path), most):
        if line and not is_whole(line):
            found.append((start, line))
        elif is_last(line):
            break
    return found


def _lines_backward(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the finished lines with their offsets, the last first; none when the file is missing."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb"))
        except FileNotFoundError:
            return
        if os.fstat(file.fileno()).st_size == 0:
            return
        content = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        end = content.rfind(b"\n")
        while end >= 0:
            start = content.rfind(b"\n", 0, end) + 1
            yield start, content[start:end]
            end = start - 1


def _replacement(length: int) -> bytes:
    text = _SHORTEST if length >= len(_SHORTEST) else b"{}" if length >= 2 else b"0"
    return text.ljust(length)
