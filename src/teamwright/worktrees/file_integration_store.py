"""The integration queue on files: one file an entry, and a lock file for changes.

Format: docs/reference/formats/integration.md. Depends on storage.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from msgspec import ValidationError, convert, to_builtins

from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import storage_error, write_atomic, write_new
from teamwright.storage.paths import make_private
from teamwright.storage.read_bounded import read_plain
from teamwright.worktrees.integration_store import ChangeEntry, IntegrationEntry

VERSION = 1


class FileIntegrationStore:
    """The queue in a directory; see IntegrationStore."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def add(self, entry: IntegrationEntry) -> bool:
        """See IntegrationStore."""
        make_private(self._directory)
        return write_new(self._path(entry.id), _encode(entry))

    async def entries(self) -> list[IntegrationEntry]:
        """See IntegrationStore."""
        found = [_read(path) for path in self._directory.glob("*.json")]
        return sorted(found, key=lambda entry: (entry.order, entry.id))

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        """See IntegrationStore."""
        path = self._path(id)
        if not path.exists():
            raise KeyError(id)
        with self._alone():
            entry = change(_read(path))
            write_atomic(path, _encode(entry))
        return entry

    def _path(self, id: str) -> Path:
        return self._directory / f"{quote(id, safe='')}.json"

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Hold the lock of the queue. The body is plain synchronous code."""
        try:
            fd = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise storage_error(problem, self._directory) from problem
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _encode(entry: IntegrationEntry) -> bytes:
    return (json.dumps({"version": VERSION, **to_builtins(entry)}, indent=2) + "\n").encode("utf-8", "surrogateescape")


def _read(path: Path) -> IntegrationEntry:
    try:
        return convert(json.loads(read_plain(path).decode("utf-8", "surrogateescape")), IntegrationEntry)
    except (OSError, ValueError, ValidationError) as problem:
        raise StorageError("damaged-file", f"{path} is not an entry of an integration queue: {problem}") from None
