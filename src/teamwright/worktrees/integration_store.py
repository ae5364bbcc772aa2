"""The integration queue: its port, wherever the entries are stored, and the queue on files.

On files: one file an entry, and a lock file for changes. Format: docs/reference/formats/integration.md. Depends on
storage.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from msgspec import Struct, ValidationError, convert, to_builtins

from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import IntegrationState, TaskIntegration
from teamwright.storage.files import read_plain, write_atomic, write_new
from teamwright.storage.locks import hold_exclusive
from teamwright.storage.paths import make_private


class IntegrationEntry(Struct, frozen=True):
    """The work of one member that is to be merged."""

    id: str
    """The last part of the member's branch, the task, and twelve digits of `tip`; without a task the directory of the
    worktree and the digits."""
    branch: str
    """The member's branch."""
    tip: str
    """The commit to merge."""
    base: str
    """The commit at which the branch began."""
    member: str
    """The owner of the work."""
    team: str
    """The owner's team."""
    task: str = ""
    """The number of the task; may be empty."""
    order: int = 0
    """The number of the task, else the time at which the worktree was created, in ms."""
    state: IntegrationState = IntegrationState.QUEUED
    """`queued`, `checking`, `merged`, `conflict` or `failed`."""
    commit: str = ""
    """The newest commit that was made for the entry, for the integration branch."""
    detail: str = ""
    """The reason of a returned entry; for a conflict also the newest ten commits of each side."""
    paths: tuple[str, ...] = ()
    """The files in conflict, at most 100."""
    returned: bool = False
    """True when the task of a returned entry is open again, and its member was notified."""

    @property
    def is_open(self) -> bool:
        """True while it is not decided whether the entry is merged."""
        return self.state in {IntegrationState.QUEUED, IntegrationState.CHECKING}

    @property
    def is_settled(self) -> bool:
        """True when nothing is left to do: it is merged, or it was returned."""
        return self.state is IntegrationState.MERGED or self.returned


ChangeEntry = Callable[[IntegrationEntry], IntegrationEntry]
"""Returns the changed entry. It does not await: it runs inside the store's critical section."""


class IntegrationStore(Protocol):
    """One integration queue. Changes are atomic among all processes. Every call raises StorageError."""

    async def add(self, entry: IntegrationEntry) -> bool:
        """Add an entry; False, and no change, when there is one of its id."""
        ...

    async def get(self, id: str) -> IntegrationEntry | None:
        """Return one entry; None for an unknown id."""
        ...

    async def entries(self) -> list[IntegrationEntry]:
        """Return all entries in the order in which they are worked."""
        ...

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        """Change an entry, and return it. Raises KeyError for an unknown id."""
        ...


VERSION = 1


class FileIntegrationStore:
    """The queue in a directory; see IntegrationStore."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def add(self, entry: IntegrationEntry) -> bool:
        make_private(self._directory)
        return write_new(_path(self._directory, entry.id), encode_entry(entry))

    async def get(self, id: str) -> IntegrationEntry | None:
        return read_entry(self._directory, id)

    async def entries(self) -> list[IntegrationEntry]:
        return read_entries(self._directory)

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        path = _path(self._directory, id)
        if not path.exists():
            raise KeyError(id)
        with hold_exclusive(self._directory / ".lock", self._directory):
            entry = change(_read(path))
            write_atomic(path, encode_entry(entry))
        return entry


def task_entry_id(task: str, work: TaskIntegration) -> str:
    """Return the id of the entry for the commit of a completed task."""
    return f"{work.branch.rpartition('/')[2]}-{task}-{work.tip[:12]}"


def read_entries(directory: Path) -> list[IntegrationEntry]:
    """Return all entries of a queue on files, in the order in which they are worked. Raises StorageError."""
    found = [_read(path) for path in directory.glob("*.json")]
    return sorted(found, key=lambda entry: (entry.order, entry.id))


def read_entry(directory: Path, id: str) -> IntegrationEntry | None:
    """Return one entry of a queue on files; None for an unknown id. Raises StorageError."""
    path = _path(directory, id)
    return _read(path) if path.exists() else None


def _path(directory: Path, id: str) -> Path:
    return directory / f"{quote(id, safe='')}.json"


def encode_entry(entry: IntegrationEntry) -> bytes:
    """Return the entry as its file has it."""
    return (json.dumps({"version": VERSION, **to_builtins(entry)}, indent=2) + "\n").encode("utf-8", "surrogateescape")


def parse_entry(content: bytes, place: object) -> IntegrationEntry:
    """Return the entry in a file or row, `place`. Raises StorageError (`damaged-file`)."""
    try:
        return convert(json.loads(content.decode("utf-8", "surrogateescape")), IntegrationEntry)
    except (ValueError, ValidationError) as problem:
        raise StorageError("damaged-file", f"{place} is not an entry of an integration queue: {problem}") from None


def _read(path: Path) -> IntegrationEntry:
    try:
        return parse_entry(read_plain(path), path)
    except OSError as problem:
        raise StorageError("damaged-file", f"{path} cannot be read: {problem}") from None
