"""A mailbox in memory, for tests of teams without files.

Depends on the port of mailboxes and its limits. Several mailboxes on one table act like several processes on one inbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.mail.inbox_layout import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.mail.mailbox import OnArrival, OnLoss
from teamwright.mail.unread_quota import MAX_RUNTIME_BYTES, MAX_UNREAD_BYTES, check_text_size, inbox_full_error
from teamwright.protocol.clock import iso_time
from teamwright.protocol.ids import message_id
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_protocol
from teamwright.storage.file_watcher import Watcher


class MemoryMailTable(Struct):
    """The entries of one mailbox, by id in the order of their arrival, and the callbacks of those who watch it."""

    reader: str = "reader"
    entries: dict[str, InboxEntry] = field(default_factory=dict[str, InboxEntry])
    watchers: list[tuple[MemoryMailbox, Callable[[], None]]] = field(
        default_factory=list[tuple["MemoryMailbox", Callable[[], None]]]
    )
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MemoryMailbox:
    """A mailbox; see FollowedMailbox. Mailboxes with one table share their messages."""

    def __init__(self, table: MemoryMailTable | None = None) -> None:
        self.table = table or MemoryMailTable()
        self._own: set[str] = set()
        self._known: set[str] = set()
        self._on_arrival: OnArrival | None = None

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        """See Mailbox."""
        check_text_size(entry.text)
        id = entry.msg_id or message_id()
        whole = replace(entry, msg_id=id, timestamp=entry.timestamp or iso_time(), read=False)
        async with self.table.lock:
            await asyncio.sleep(0)
            replaced = {one.msg_id for one in self._unread() if _is_idle(one, entry.sender)} if _is_idle(entry) else ()
            kept = [one for one in self._unread() if one.msg_id not in replaced]
            size = sum(len(one.encode()) for one in (*kept, whole))
            most = MAX_UNREAD + (MAX_RUNTIME_UNREAD if runtime else 0)
            if len(kept) + 1 > most or size > MAX_UNREAD_BYTES + (MAX_RUNTIME_BYTES if runtime else 0):
                raise inbox_full_error(self.table.reader, len(kept), size)
            self._own.add(id)
            self.table.entries = {key: one for key, one in self.table.entries.items() if key not in replaced}
            self.table.entries[id] = whole
        for mailbox, notify in list(self.table.watchers):
            if mailbox is not self:
                notify()
        return id

    async def unread(self) -> list[InboxEntry]:
        """See Mailbox."""
        await asyncio.sleep(0)
        unread = self._unread()
        fresh = [one for one in unread if one.msg_id not in self._own and one.msg_id not in self._known]
        self._known.update(one.msg_id for one in fresh if one.msg_id)
        if fresh and self._on_arrival is not None:
            self._on_arrival(fresh)
        return unread

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        """See Mailbox."""
        async with self.table.lock:
            await asyncio.sleep(0)
            for id in ids:
                if id in self.table.entries:
                    self.table.entries[id] = replace(self.table.entries[id], read=True)
        return False

    async def contains(self, msg_id: str) -> bool:
        """See Mailbox."""
        await asyncio.sleep(0)
        return msg_id in self.table.entries

    def entries(self) -> list[InboxEntry]:
        """See FollowedMailbox."""
        return list(self.table.entries.values())

    def mark(self) -> None:
        """See FollowedMailbox."""

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See FollowedMailbox. The watcher, which watches files, is not used."""
        self.table.watchers.append(watched := (self, on_change))
        return lambda: self.table.watchers.remove(watched)

    def set_listeners(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """See FollowedMailbox. No other program can remove an entry here, so nothing is ever lost."""
        self._on_arrival = on_arrival
        self._known = {one.msg_id for one in self._unread() if one.msg_id}

    def _unread(self) -> list[InboxEntry]:
        return [one for one in self.table.entries.values() if not one.read]


def _is_idle(entry: InboxEntry, sender: str | None = None) -> bool:
    """Return True for a notice that says only idle, of this sender if one is given."""
    message = parse_protocol(entry.text)
    return isinstance(message, IdleNotification) and message.is_contentless and sender in {None, entry.sender}
