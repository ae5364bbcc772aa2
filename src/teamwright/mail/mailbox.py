"""The port of a mailbox: what one agent receives, wherever the messages are.

Depends on the values of mail. `inbox` implements the port on files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from teamwright.protocol.events import FileMark
from teamwright.protocol.mail import InboxEntry

if TYPE_CHECKING:
    from teamwright.mail.inbox_events import OnArrival, OnLoss
    from teamwright.storage.file_watcher import Watcher


class Mailbox(Protocol):
    """The messages to one agent. Only its owner reads. Every call raises StorageError, LockTimeout."""

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        """Store the entry and return its id; a missing id or time is filled in.

        `runtime` uses the room that is reserved for the runtime's notices. Raises UsageError for a text over 256 kB,
        InboxFull when too much is unread, LockLost when it is unknown whether the entry is stored.
        """
        ...

    async def unread(self) -> list[InboxEntry]:
        """Return the unread entries in the order of their arrival, each with an id. For the owner."""
        ...

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        """Flag entries as read after their delivery; unknown ids are ignored. For the owner.

        Return True when more unread entries exist than `unread` returned.
        """
        ...

    async def contains(self, msg_id: str) -> bool:
        """Return True when an entry of this id was ever stored, read or not. For use after a kill."""
        ...


class FollowedMailbox(Mailbox, Protocol):
    """A mailbox that reports what other processes do to it."""

    def entries(self) -> list[InboxEntry]:
        """Return the entries that are still kept, read and unread, without a change. Raises StorageError."""
        ...

    def mark(self) -> FileMark | None:
        """Return the mark of the mailbox's file for an event; None for a store without files."""
        ...

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change by another process. Returns the function that ends this."""
        ...

    def set_listeners(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """Set the callbacks for entries that other processes add, and for own entries that the reader never saw."""
        ...
