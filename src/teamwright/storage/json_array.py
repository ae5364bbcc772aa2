"""Files that contain one JSON array, changed under their lock: appended to within one page, else replaced by rename.

A write inside one 4,096-byte page is either complete or absent after any kill; larger changes use a rename. Layout of
Teamwright: `[`, one element a line, `]`. The whole elements of a damaged file are found among its bytes;
`atomic.keep_damaged_copy` keeps the bytes. Leaves the content of the elements to the callers.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, cast

from teamwright.protocol.errors import LockLost, StorageError
from teamwright.storage.files import PendingFile, storage_error
from teamwright.storage.locks import LockHold

PAGE_BYTES = 4096
"""Bytes that a kill cannot split when they are between two multiples of it."""

TAIL_BYTES = 64
"""Bytes before the end that a snapshot remembers, to recognise the array after other writers appended."""

_END = b"}\n]"


class NotAnArray(Exception):
    """The content does not end like an array: another program is writing it, or the file is damaged."""


class FileStamp(NamedTuple):
    """The fields that distinguish one state of a file from another."""

    inode: int
    size: int
    mtime_ns: int


def file_stamp(path: Path | str) -> FileStamp | None:
    """Return the file's current state, None when the file is missing."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)


def read_with_stamp(path: Path) -> tuple[FileStamp, bytes] | None:
    """Return the content and the state in which it was read (or an older one, never a newer); None when the file is
    missing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(fd)
        return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns), _read(fd, found.st_size)
    finally:
        os.close(fd)


def encode_array(elements: Sequence[bytes]) -> bytes:
    """Return the whole file of these elements, each on its line."""
    return b"[\n" + b",\n".join(elements) + b"\n]" if elements else b"[]"


class ArrayFile:
    """The array, opened by path for one hold of its lock; a missing file is an empty array that will be created.

    Every change checks the lock before it commits; `final_stamp` proves afterwards that the path leads to the changed
    file. Raises StorageError for the disk's refusals.
    """

    __slots__ = ("_expected", "_fd", "_lock", "_name", "path", "stamp")

    def __init__(self, path: Path, lock: LockHold) -> None:
        self.path = path
        self._name = str(path)
        self._lock = lock
        self._fd = -1
        self._expected = 0
        self.stamp: FileStamp | None = None
        """The state of the file when it was opened or replaced; None when the file is missing."""

    def __enter__(self) -> ArrayFile:
        try:
            self._fd = os.open(self._name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return self
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        self._restamp()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, start: int = 0) -> bytes:
        """Return the bytes from `start` to the end."""
        return _read(self._fd, os.fstat(self._fd).st_size - start, start) if self._fd >= 0 else b""

    def tail(self) -> bytes:
        """Return the last bytes, at most TAIL_BYTES."""
        if self.stamp is None:
            return b""
        return os.pread(self._fd, TAIL_BYTES, max(0, self.stamp.size - TAIL_BYTES))

    def append(self, elements: Sequence[bytes], tail: bytes | None = None) -> None:
        """Append elements. `tail` is the result of an earlier `tail()`, if the caller has one.

        Raises NotAnArray when the file does not end like an array; then nothing was written. Raises LockLost.
        """
        if self.stamp is None:
            self.replace(encode_array(elements))
            return
        tail = self.tail() if tail is None else tail
        if tail.endswith(_END):
            start = self.stamp.size - 2
            addition = b",\n" + b",\n".join(elements) + b"\n]"
            if start // PAGE_BYTES == (start + len(addition) - 1) // PAGE_BYTES:
                self._lock.check()
                self._extend(start, addition)
                return
        self.replace(_append_elements(self.read(), elements))

    def patch(self, changes: Sequence[tuple[int, bytes]]) -> bool:
        """Overwrite bytes in place. Return False, and write nothing, when one of the changes crosses a page
        boundary.
        """
        if any(start // PAGE_BYTES != (start + len(content) - 1) // PAGE_BYTES for start, content in changes):
            return False
        self._lock.check()
        for start, content in changes:
            self._write_at(start, content)
        return True

    def replace(self, content: bytes) -> None:
        """Replace the whole file. Raises LockLost."""
        draft = PendingFile(self.path, content)
        try:
            self._lock.check()
            draft.commit()
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = draft.detach()
            self._restamp()
        except BaseException:
            draft.discard()
            raise
        finally:
            draft.close()

    def final_stamp(self) -> FileStamp:
        """Return the state after the changes. Raises LockLost when it is unknown whether they reached the path."""
        self._lock.check()
        now = file_stamp(self._name)
        if now is None or self.stamp is None or (now.inode, now.size) != (self.stamp.inode, self._expected):
            raise LockLost("lock-lost", f"{self.path} was changed from outside while it was being written")
        return now

    def _restamp(self) -> None:
        found = os.fstat(self._fd)
        self.stamp = FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)
        self._expected = found.st_size

    def _extend(self, start: int, addition: bytes) -> None:
        try:
            self._write_at(start, addition)
        except StorageError:
            with contextlib.suppress(OSError):  # a full disk may have stored a part: restore the old end
                os.ftruncate(self._fd, start + 2)
                os.pwrite(self._fd, b"\n]", start)
            raise
        self._expected = start + len(addition)

    def _write_at(self, start: int, content: bytes) -> None:
        try:
            if os.pwrite(self._fd, content, start) != len(content):
                raise OSError(errno.ENOSPC, "the disk took only a part")
        except OSError as problem:
            raise storage_error(problem, self.path) from problem


def _append_elements(content: bytes, elements: Sequence[bytes]) -> bytes:
    """Return the array with the elements appended, in any layout; its own bytes are kept."""
    addition = b",\n" + b",\n".join(elements) + b"\n]"
    if content.startswith(b"[") and content.endswith(_END):
        return b"".join((memoryview(content)[:-2], addition))
    body = content.rstrip()
    if not body.startswith(b"[") or not body.endswith(b"]"):
        raise NotAnArray
    body = body[:-1].rstrip()
    if body == b"[":
        return encode_array(elements)
    if not body.endswith((b"}", b"]", b'"')) and not body[-1:].isalnum():
        raise NotAnArray
    return body + addition


def _read(fd: int, size: int, start: int = 0) -> bytes:
    """Read up to `size` bytes; a file that shrinks during the read gives fewer."""
    pieces: list[bytes] = []
    while size > 0:
        piece = os.pread(fd, size, start)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_START = re.compile(r"(?:^|[\[,]|\n)\s*(?=\{)")
_MAX_DAMAGED_PLACES = 500


def salvage_entries(content: bytes) -> list[dict[str, Any]]:
    """Return every whole entry in the bytes, in order: an object with a `text` or a `from`, at a place where one may
    begin.

    Tries only places outside other whole objects, and at most 500 places that turn out to be incomplete.
    """
    text = content.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    saved: list[dict[str, Any]] = []
    position = tears = 0
    while tears < _MAX_DAMAGED_PLACES:
        start = _START.search(text, position)
        if start is None:
            break
        try:
            value, position = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            position = start.end() + 1
            tears += 1
            continue
        entry = cast("dict[str, Any]", value)
        if "text" in entry or "from" in entry:
            saved.append(entry)
    return saved
