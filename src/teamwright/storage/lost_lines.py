"""Repair of journals: unreadable lines are found, copied, and replaced in place, so that the file is valid again.

The caller defines which lines are readable. Only the one writer of a file may call it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import keep_damaged_copy, storage_error

LOST = b'{"type":"lost"'
"""The beginning of a line that replaces an unreadable one."""

_SHORTEST = LOST + b"}"


@dataclass(frozen=True, slots=True)
class LostLines:
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
