"""One task file, and the two small files beside it. Reads are repeated, because other programs truncate and then write.

Depends on `storage`. Format, as observed: one JSON object `<id>.json`, an empty `.lock`, a decimal `.highwatermark`.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from teamwright.protocol.task import Task, parse_task, task_fault
from teamwright.storage.files import storage_error

LOCK_FILE = ".lock"
WATERMARK_FILE = ".highwatermark"

_NAME = re.compile(r"([1-9][0-9]{0,9})\.json")
_RETRIES = 3
_RETRY_S = 0.002
_RACY_NS = 12_000_000
"""The age below which a file may change again without a new mtime: file clocks have steps of 1 to 10 ms."""


class FileSignature(NamedTuple):
    """The signature by which a changed file is detected."""

    inode: int
    size: int
    mtime_ns: int


class TaskFile(Struct, frozen=True):
    """A task file as it was read. `is_stable`: the same signature later means the same content."""

    task: Task
    signature: FileSignature
    is_stable: bool
    raw: bytes


class DamagedTaskFile(Struct, frozen=True):
    """An existing file that is not a valid task, also after retries. It never counts as a missing task.

    `reason` describes the damage.
    """

    signature: FileSignature
    reason: str


TaskFileReading: TypeAlias = TaskFile | DamagedTaskFile | None
"""The result of reading a task file. None: the file does not exist."""


def file_signature(path: str) -> FileSignature | None:
    """Return the file's signature, None when the file does not exist. Raises StorageError."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    return FileSignature(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def read_task(path: str, id: str, last: TaskFile | None = None, *, patient: bool = True) -> TaskFileReading:
    """Read a task file. An empty or cut one is tried again 3 times, 2 ms apart. Raises StorageError.

    Without `patient` it is tried once, for a caller that is notified when the writer is done. Bytes equal to those of
    the `last` reading are not parsed again.
    """
    patience = _RETRIES if patient else 0
    while True:
        read = _read(path)
        if read is None:
            return None
        raw, mark = read
        task = last.task if last is not None and last.raw and last.raw == raw else parse_task(raw, id)
        if task is not None:
            return TaskFile(task, mark, time.time_ns() - mark.mtime_ns > _RACY_NS, raw)
        if not patience or _is_whole_json(raw):
            return DamagedTaskFile(mark, task_fault(raw))
        patience -= 1
        time.sleep(_RETRY_S)


def task_number(name: str) -> int | None:
    """Return the number in a task file's name; None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def list_numbers(directory: Path) -> set[int]:
    """Return the numbers of all task files, damaged ones included.

    A missing directory has none. Raises StorageError.
    """
    try:
        with os.scandir(directory) as entries:
            found = [_NAME.fullmatch(entry.name) for entry in entries]
    except FileNotFoundError:
        return set()
    except OSError as problem:
        raise storage_error(problem, directory) from problem
    return {int(match[1]) for match in found if match}


def read_watermark(*copies: Path) -> int:
    """Return the highest number that was ever deleted: the highest of the copies.

    A missing or damaged copy counts as 0.
    """
    return max(map(_watermark, copies), default=0)


def _watermark(path: Path) -> int:
    try:
        text = path.read_bytes()[:20].strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def _read(path: str) -> tuple[bytes, FileSignature] | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    try:
        stat = os.fstat(fd)
        raw = os.read(fd, stat.st_size + 1)
        while len(raw) > stat.st_size:  # the file grew during the read
            stat = os.fstat(fd)
            raw = os.pread(fd, stat.st_size + 1, 0)
    except OSError as problem:
        raise storage_error(problem, path) from problem
    finally:
        os.close(fd)
    return raw, FileSignature(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _is_whole_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
