"""Whole files: written beside their place and renamed into it, so that a reader sees the old or the new, never half.

Below it: the operating system. Refuses to know formats and locks; who may write is the caller's business.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import StorageError
from teamwright.storage.paths import make_private

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def storage_error(problem: OSError, path: Path | str) -> StorageError:
    """The operating system's refusal as an error of ours: `disk-full` for no space, quota and size, else `io-failed`.

    An error that is already ours is returned as it is.
    """
    if isinstance(problem, StorageError):
        return problem
    reason = problem.strerror or str(problem)
    if problem.errno in _FULL:
        return StorageError(
            "disk-full",
            f"{path} could not be written: {reason}",
            do=["make room on the disk and try again"],
            note="nothing half-written was left",
        )
    return StorageError("io-failed", f"{path}: {reason}", looked_at=[("path", str(path))])


def write_atomic(path: Path, content: bytes, *, fsync: bool = False) -> None:
    """Write the whole file, 0600, by rename; missing parents are made, 0700.

    With `fsync` the content and the name are on the disk before this returns. Raises StorageError; then the
    old file stands and nothing is left beside it.
    """
    draft = PendingFile(path, content, fsync=fsync)
    try:
        draft.commit()
    finally:
        draft.close()


def write_new(path: Path, content: bytes) -> bool:
    """Write the whole file if there is none of that name. Returns False, and changes nothing, when there is one.

    Of several writers exactly one gets True. Raises StorageError.
    """
    draft = PendingFile(path, content)
    try:
        os.link(draft.temporary_path, path)
    except FileExistsError:
        return False
    except OSError as problem:
        raise storage_error(problem, path) from problem
    finally:
        draft.discard()
        draft.close()
    return True


class PendingFile:
    """The next content of a file, complete under a name beside it: `<file>.tmp.<8 hex>`.

    Between making it and `commit` the caller may look once more whether it still may. `fd` stays open and is the
    new file after the commit. Raises StorageError.
    """

    __slots__ = ("_fsync", "fd", "path", "temporary_path")

    def __init__(self, path: Path, content: bytes, *, fsync: bool = False) -> None:
        self.path = path
        self.temporary_path = f"{path}.tmp.{secrets.token_hex(4)}"
        self._fsync = fsync
        try:
            self.fd = _create(self.temporary_path, path)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        try:
            _write_all(self.fd, content)
            if fsync:
                os.fsync(self.fd)
        except OSError as problem:
            self.discard()
            self.close()
            raise storage_error(problem, path) from problem

    def commit(self) -> None:
        """Rename it into its place."""
        try:
            os.rename(self.temporary_path, self.path)
            if self._fsync:
                _sync_directory(self.path.parent)
        except OSError as problem:
            self.discard()
            raise storage_error(problem, self.path) from problem

    def discard(self) -> None:
        """Remove the name beside; harmless after a commit."""
        try:
            os.unlink(self.temporary_path)
        except FileNotFoundError:
            return

    def close(self) -> None:
        """Close the descriptor; harmless when done already."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def detach(self) -> int:
        """The open descriptor, now the caller's to close."""
        fd, self.fd = self.fd, -1
        return fd


PENDING_MAX_AGE_S = 60.0
"""A draft that is older was left by a process that was killed: a write takes a moment."""

_PENDING_NAME = re.compile(r".+\.tmp\.[0-9a-f]{8}")


def keep_damaged_copy(path: Path) -> Path:
    """Keep the bytes of a damaged file as `<file>.bad.<ms since 1970>`. Returns the copy. Raises StorageError."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise storage_error(problem, path) from problem
    moment = now_ms()
    while not write_new(copy := path.with_name(f"{path.name}.bad.{moment}"), content):
        moment += 1
    return copy


def remove_old_pending_files(*directories: Path) -> None:
    """Remove what writes that were cut off left in these directories. What cannot be removed stays."""
    limit = time.time() - PENDING_MAX_AGE_S
    drafts = [
        entry for directory in directories for entry in _entries(directory) if _PENDING_NAME.fullmatch(entry.name)
    ]
    for draft in drafts:
        with suppress(OSError):
            if draft.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(draft.path)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(directory))
    except OSError:
        return []


def _create(tmp: str, path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(tmp, flags, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(tmp, flags, 0o600)


def _write_all(fd: int, content: bytes) -> None:
    written = os.write(fd, content)
    while written < len(content):
        written += os.write(fd, memoryview(content)[written:])


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
