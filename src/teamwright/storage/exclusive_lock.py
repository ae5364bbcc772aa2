"""An exclusive lock on a lock file among Teamwright's processes, for short synchronous changes of a file.

The kernel releases it with its process. Leaves files that other products lock too to `file_lock`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from teamwright.storage.atomic_write import storage_error


@contextmanager
def hold_exclusive(lock: Path, target: Path) -> Generator[None]:
    """Hold the lock file `lock`, which protects `target`. The body is plain synchronous code. Raises StorageError."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise storage_error(problem, target) from problem
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
