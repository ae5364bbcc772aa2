"""The port of a mailbox: what one agent receives, wherever the messages are; and the events that other processes cause.

Such events are arrivals, and own entries that disappear before they are read. Depends on the values of mail. `inbox`
implements the port on files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.mail.inbox_file import InboxItem
from teamwright.protocol.events import FileMark
from teamwright.protocol.mail import InboxEntry

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher


MAX_OWN = 1_064
"""The number of own entries that are remembered; more cannot be unread, so the oldest ones have been read."""

MAX_PAST = 512
"""The number of ids of read entries that are remembered, for other programs that restore an old copy."""

OnArrival = Callable[[Sequence[InboxEntry]], None]
OnLoss = Callable[[Sequence["LostEntry"]], None]


class LostEntry(Struct, frozen=True):
    """An entry of this process that its reader never saw: another program removed it, or flagged it (`was_flagged`)."""

    msg_id: str
    sender: str
    summary: str
    was_flagged: bool


class _OwnEntry(Struct):
    """An entry of this process that is not yet read. `is_in_file`: it is, or was, certainly in the file.

    An `is_quiet` one may disappear without a report: a notice that a newer one replaces, or an entry with an unknown
    outcome.
    """

    sender: str
    summary: str
    is_quiet: bool
    is_in_file: bool = False


class InboxEvents:
    """The events of one inbox. `known` are the ids of its unread entries at the beginning."""

    def __init__(self, on_arrival: OnArrival, on_loss: OnLoss, known: set[str]) -> None:
        self._on_arrival = on_arrival
        self._on_loss = on_loss
        self._known = known
        self._seen_ids: dict[str, None] = {}
        self._own_entries: dict[str, _OwnEntry] = {}

    def note_sending(self, entry: InboxEntry, *, quiet: bool) -> None:
        """Note that the entry, which has its id, is about to be written."""
        self._own_entries[entry.msg_id or ""] = _OwnEntry(entry.sender, entry.summary or "", quiet)
        if len(self._own_entries) > MAX_OWN:
            del self._own_entries[next(iter(self._own_entries))]

    def note_sent(self, msg_id: str) -> None:
        """Note that the entry is in the file."""
        if (own := self._own_entries.get(msg_id)) is not None:
            own.is_in_file = True

    def note_failed(self, msg_id: str, *, is_certain: bool) -> None:
        """Note that the entry is not in the file; without `is_certain` the outcome is unknown."""
        own = self._own_entries.get(msg_id)
        if own is not None and is_certain:
            del self._own_entries[msg_id]
        elif own is not None:
            own.is_quiet = True

    def note_seen(self, ids: Collection[str]) -> None:
        """Note that the reader has these entries and is about to flag them.

        Another program that writes an old copy may restore one: that is no new arrival.
        """
        self._seen_ids |= dict.fromkeys(ids)
        while len(self._seen_ids) > MAX_PAST:
            del self._seen_ids[next(iter(self._seen_ids))]
        for msg_id in ids:
            self._own_entries.pop(msg_id, None)

    def compare(self, unread: Sequence[InboxEntry], items: Sequence[InboxItem]) -> None:
        """Compare the file with the known entries: `unread` are its unread entries, `items` all or the first of its
        elements."""
        more = bool(items) and items[-1].is_rest
        ids = {entry.msg_id for entry in unread if entry.msg_id}
        known = (self._known, self._seen_ids, self._own_entries)
        fresh = [e for e in unread if e.msg_id and not any(e.msg_id in one for one in known)]
        self._known = ids
        lost: list[LostEntry] = []
        for msg_id, own in list(self._own_entries.items()):
            if msg_id in ids:
                own.is_in_file = True
            elif own.is_in_file and not more:  # else it may be after the parsed part
                del self._own_entries[msg_id]
                if not own.is_quiet:
                    lost.append(LostEntry(msg_id, own.sender, own.summary, _is_in(msg_id, items)))
        if fresh:
            self._on_arrival(fresh)
        if lost:
            self._on_loss(lost)


def _is_in(msg_id: str, items: Sequence[InboxItem]) -> bool:
    encoded_id = msg_id.encode()
    return any(encoded_id in item.raw for item in items if item.is_consumed)


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
