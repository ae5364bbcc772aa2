"""The port of an integration queue: its entries, wherever they are stored.

Depends on values only. `file_integration_store` implements the port on files.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class IntegrationState(StrEnum):
    """The state of an entry. A kill leaves `queued` or `checking`; the others are final."""

    QUEUED = "queued"
    CHECKING = "checking"
    MERGED = "merged"
    CONFLICT = "conflict"
    FAILED = "failed"


class IntegrationEntry(Struct, frozen=True):
    """The work of one member that is to be merged: the commit `tip` of its branch, which began at `base`.

    `commit` is the merge commit, once it exists. `detail` says why the entry was returned, `paths` names the files in
    conflict. `order` sorts the queue: the number of the task, or the time of the entry.
    """

    id: str
    branch: str
    tip: str
    base: str
    member: str
    team: str
    task: str = ""
    order: int = 0
    state: IntegrationState = IntegrationState.QUEUED
    commit: str = ""
    detail: str = ""
    paths: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """True while the entry is neither merged nor returned."""
        return self.state in {IntegrationState.QUEUED, IntegrationState.CHECKING}


ChangeEntry = Callable[[IntegrationEntry], IntegrationEntry]
"""Returns the changed entry. It does not await: it runs inside the store's critical section."""


class IntegrationStore(Protocol):
    """One integration queue. Changes are atomic among all processes. Every call raises StorageError."""

    async def add(self, entry: IntegrationEntry) -> bool:
        """Add an entry; False, and no change, when there is one of its id."""
        ...

    async def entries(self) -> list[IntegrationEntry]:
        """Return all entries in the order in which they are worked."""
        ...

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        """Change an entry, and return it. Raises KeyError for an unknown id."""
        ...
