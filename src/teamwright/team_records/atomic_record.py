"""The port of a document: one value that several processes read and change, as the roster and the state of a team.

Depends on the marks of events alone. `team_state` and `roster` implement it on files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from teamwright.protocol.events import FileMark

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher

T = TypeVar("T")


class AtomicRecord(Protocol[T]):
    """One shared value. Changes are atomic among all processes. Every call raises StorageError."""

    @property
    def place(self) -> str:
        """The place of the document, for a person."""
        ...

    async def read(self) -> T | None:
        """Return the value as it is now; None when there is none."""
        ...

    async def change(self, change: Callable[[T], T]) -> T:
        """Change the value, or change nothing when `change` raises. Return the value that is stored then.

        `change` does not await: it runs inside the critical section. Raises LockTimeout, LockLost, and an error when
        there is no value: a change never creates a document.
        """
        ...

    def mark(self) -> FileMark | None:
        """Return the mark of the document's file, which changes with it; None for a store without files."""
        ...

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change by another process. Returns the function that ends this."""
        ...
