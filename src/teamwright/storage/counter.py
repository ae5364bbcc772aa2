"""A counter that several processes share: each value is given once, also across restarts.

The file has eight bytes under `flock`; a value takes a few microseconds. Depends on the operating system alone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from teamwright.storage.atomic import storage_error
from teamwright.storage.paths import make_private

_BYTES = 8

_Changing: TypeAlias = Callable[[int], int]


class Counter:
    """The counter in a file, which is created when it is missing. The owner calls `close`. Raises StorageError."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, at_least: int = 0) -> None:
        """Open the counter. `at_least` is the number of values that were given before the file existed."""
        self.path = path
        try:
            make_private(path.parent)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        self._raise_to_minimum(at_least)

    def next(self) -> int:
        """Return the next value, from 1. Raises StorageError."""
        return self._change(lambda before: before + 1)

    def _raise_to_minimum(self, least: int) -> None:
        self._change(lambda before: max(before, least))

    def _change(self, change: _Changing) -> int:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                value = change(int.from_bytes(os.pread(self._fd, _BYTES, 0), "big"))
                os.pwrite(self._fd, value.to_bytes(_BYTES, "big"), 0)
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return value

    def close(self) -> None:
        """Close the file; harmless when already closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
