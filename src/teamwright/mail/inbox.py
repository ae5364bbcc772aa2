"""Inboxes: the files through which agents receive messages.

An inbox is a file with one JSON array, shared with other programs; writing takes its lock, reading does not. Depends on
`storage` and `protocol.mail`. Leaves permissions to send and the meaning of messages to others.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.mail.inbox_file import (
    RETRIES,
    RETRY_S,
    InboxItem,
    LockedInbox,
    OnDamage,
    RuntimeMailSigner,
    split_array,
)
from teamwright.mail.inbox_writer import InboxWriter, PendingEntry
from teamwright.mail.mailbox import InboxEvents, OnArrival, OnLoss
from teamwright.mail.message_size import check_text_size
from teamwright.protocol.errors import InboxFull, LockTimeout, StorageError
from teamwright.protocol.events import FileMark
from teamwright.protocol.ids import iso_time, message_id
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.storage.file_watcher import file_mark
from teamwright.storage.json_array import ArrayFile, FileStamp, NotAnArray, encode_array, file_stamp, read_with_stamp
from teamwright.storage.json_lines import Journal, read_backward
from teamwright.storage.locks import LoopCache

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher

MAX_CONSUMED = 100
CONSUMED_TO_KEEP = 50
"""Consumed entries that stay in the inbox: past 100, those beyond the newest 50 are moved to the archive."""


Split = Callable[[bytes], list[InboxItem]]
"""Returns the elements of an array, as `LockedInbox.split`."""


def add_missing_ids(file: ArrayFile, split: Split) -> tuple[FileStamp | None, list[InboxItem]]:
    """Give an id to every unread entry without one. Return the file's state and its elements."""
    if file.stamp is None:
        return None, []
    items = split(file.read())
    if not _lack_ids(items):
        return file.stamp, items
    items = [item.with_id(message_id()) if item.is_unread and not item.msg_id else item for item in items]
    file.replace(encode_array([item.raw for item in items]))
    return file.final_stamp(), items


def _lack_ids(items: Sequence[InboxItem]) -> bool:
    """Return True when another program wrote one of the unread elements without an id."""
    return any(item.is_unread and not item.msg_id for item in items)


def set_read_flags(
    file: ArrayFile, split: Split, ids: Collection[str], archive: Path
) -> tuple[FileStamp | None, list[InboxItem]]:
    """Flag the entries of these ids as read; unknown ids are ignored. Return state and elements.

    The flags are changed in place where that is safe. Otherwise, and when enough entries are consumed for the archive,
    the whole file is replaced by rename.
    """
    if file.stamp is None:
        return None, []
    content = file.read()
    items = split(content)
    hits = _matching_items(items, ids)
    if len(hits) < len(ids) and items and items[-1].is_rest:
        items = split_array(content, whole=True)
        hits = _matching_items(items, ids)
    consumed = sum(item.is_consumed for item in items) + len(hits)
    if not hits and consumed <= MAX_CONSUMED:
        return file.stamp, items
    flagged = [item.with_read_flag() if item.msg_id in ids else item for item in items]
    changes = [change for item in hits if (change := item.read_flag_patch())]
    if len(changes) != len(hits) or not file.patch(changes):
        file.replace(encode_array([item.raw for item in flagged]))
    if consumed > MAX_CONSUMED:
        _archive_consumed(file, flagged, archive)
    return file.final_stamp(), flagged


def _matching_items(items: Sequence[InboxItem], ids: Collection[str]) -> list[InboxItem]:
    return [item for item in items if item.msg_id in ids]


def _archive_consumed(file: ArrayFile, items: list[InboxItem], archive: Path) -> None:
    """Archive consumed entries, then shorten the array. On a full disk the array stays long: the flags, which are set,
    matter more."""
    try:
        file.replace(encode_array([item.raw for item in _write_archive(items, archive)]))
    except StorageError as problem:
        if problem.slug != "disk-full":
            raise


def _write_archive(items: list[InboxItem], archive: Path) -> list[InboxItem]:
    """Write the older consumed elements to the archive; return the others, in order."""
    consumed = [item for item in items if item.is_consumed]
    moved = {id(item): item.raw for item in consumed[:-CONSUMED_TO_KEEP]}
    # After a kill between archive and rename the same elements are archived again.
    known = set(islice(read_backward(archive), len(moved)))
    journal = Journal.open(archive)
    try:
        journal.append(*[raw for raw in moved.values() if b'"msg_id":' not in raw or raw not in known])
    finally:
        journal.close()
    return [item for item in items if id(item) not in moved]


class Inbox:
    """A mailbox on files, in one event loop.

    Get it from `inbox_for`, so that the sends of a process are committed together.

    A call waits 5 s for the lock, then raises LockTimeout. Notices of the runtime, reads and read flags wait until a
    lock would be stale, unless `outlasts_locks` is False: a killed program must not cost the reader its mail. Raises
    StorageError when the disk refuses.
    """

    def __init__(
        self,
        path: Path,
        guard: Path,
        archive: Path,
        *,
        on_damage: OnDamage | None = None,
        outlasts_locks: bool = True,
    ) -> None:
        self.path = path
        self.archive = archive
        self.signer = RuntimeMailSigner(guard)
        self._file = LockedInbox(path, guard, on_damage, outlasts_locks=outlasts_locks)
        self._outbox = InboxWriter(self._file, self._note_commit)
        self._stamp: FileStamp | None = None
        self._unread: list[InboxEntry] = []  # of the state `_stamp`, with ids
        self._has_more = False  # than `unread` returned
        self._events: InboxEvents | None = None

    def entries(self) -> list[InboxEntry]:
        return read_entries(self.path)

    def mark(self) -> FileMark | None:
        """See FollowedMailbox. The state root contains `teams/<dir>/inboxes`."""
        return file_mark(self.path.parents[3], self.path)

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        return watcher.follow(self.path, on_change)

    def set_listeners(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """See FollowedMailbox. For the owner of the inbox in this process; None removes the callbacks."""
        self._events = None
        if on_arrival is not None and on_loss is not None:
            try:
                known = {
                    entry.msg_id
                    for entry in read_entries(self.path, only_first=True)
                    if entry.msg_id and not entry.read
                }
            except StorageError:
                known = set[str]()  # its owner will repair it
            self._events = InboxEvents(on_arrival, on_loss, known)

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        check_text_size(entry.text)
        msg_id = entry.msg_id or message_id()
        whole = entry
        if not entry.msg_id or not entry.timestamp or entry.read:
            time_ = entry.timestamp or iso_time()
            whole = InboxEntry(entry.sender, entry.text, entry.summary, time_, entry.color, msg_id, False, entry.extra)
        whole = self.signer.sign(whole)
        outgoing = PendingEntry(whole, whole.encode(), runtime=runtime)
        if (traffic := self._events) is None:
            await self._send(outgoing)
            return msg_id
        traffic.note_sending(whole, quiet=outgoing.is_contentless)
        try:
            await self._send(outgoing)
        except BaseException as problem:
            traffic.note_failed(msg_id, is_certain=isinstance(problem, InboxFull | LockTimeout))
            raise
        traffic.note_sent(msg_id)
        return msg_id

    async def _send(self, outgoing: PendingEntry) -> None:
        if outgoing.runtime:
            await self._file.outlast(lambda: self._outbox.send(outgoing.copy()))
        else:
            await self._outbox.send(outgoing)

    async def contains(self, msg_id: str) -> bool:
        """See Mailbox. Reads the inbox and the archive."""
        id_field = b'"msg_id":%s' % json.dumps(msg_id).encode()
        _, items = await self._file.read()
        if any(id_field in item.raw or (item.is_rest and _contains_id(item.raw, msg_id)) for item in items):
            return True
        return any(id_field in line for line in read_backward(self.archive))

    async def unread(self) -> list[InboxEntry]:
        """Return the unread entries in order, each with an id; entries of other programs get theirs on disk first.

        Of a very large inbox, which only other programs write, returns the first 1,064 entries; the others follow when
        these are read.

        An entry that claims a sender of the runtime without its proof has an unverified sender (see `inbox_file`).
        Costs one check of the file's state when nothing changed. For the inbox's owner only.
        """
        now = file_stamp(self.path)
        if now is None:
            if self._events is not None:
                self._events.compare((), ())
            return []
        if now != self._stamp:
            stamp, items = await self._file.read()
            if _lack_ids(items):
                stamp, items = await self._file.change_with_retry(partial(add_missing_ids, split=self._file.split))
            self._remember(stamp, items)
        return list(self._unread)

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        """See Mailbox. Past 100 consumed entries the older ones go to the archive."""
        if not ids:
            return self._has_more
        if self._events is not None:
            self._events.note_seen(ids)
        if file_stamp(self.path) is None:
            return False  # the file was removed: there is nothing to flag
        stamp, items = await self._file.change_with_retry(
            partial(set_read_flags, split=self._file.split, ids=frozenset(ids), archive=self.archive)
        )
        if not _lack_ids(items):
            self._remember(stamp, items)
        if self._has_more:
            self._stamp = None  # the next read parses the file again
        return self._has_more

    def _remember(self, stamp: FileStamp | None, items: Sequence[InboxItem]) -> None:
        self._stamp = stamp
        self._has_more = bool(items) and items[-1].is_rest
        self._unread = [self.signer.check(item.entry) for item in items if item.is_unread]
        if not self._unread:
            self._file.forget()
        if self._events is not None:
            self._events.compare(self._unread, items)

    def _note_commit(
        self,
        before: FileStamp | None,
        after: FileStamp,
        entries: Sequence[PendingEntry],
        replaced: Sequence[InboxItem],
    ) -> None:
        """Update the known state after a commit of this process, without reading the file.

        Newer notices replaced the older ones on purpose: they are not lost.
        """
        gone = {item.msg_id for item in replaced}
        if self._events is not None:
            for msg_id in gone:
                self._events.note_failed(msg_id or "", is_certain=True)
        if self._stamp is not None and self._stamp == before and not self._has_more:
            self._stamp = after
            if gone:
                self._unread = [entry for entry in self._unread if entry.msg_id not in gone]
            self._unread += [_stored_entry(outgoing) for outgoing in entries]


def _contains_id(raw: bytes, msg_id: str) -> bool:
    """Return True when an element in another program's layout has this id."""
    return re.search(rb'"msg_id":\s*%s' % re.escape(json.dumps(msg_id).encode()), raw) is not None


def _stored_entry(outgoing: PendingEntry) -> InboxEntry:
    """Return the entry as it will be read: characters that JSON or UTF-8 cannot contain were changed by encoding."""
    entry = outgoing.entry
    plain = entry.text.isascii() and not entry.extra and (entry.summary or "").isascii()
    return entry if plain else parse_entry(json.loads(outgoing.raw))


_INBOXES: LoopCache[Inbox] = LoopCache(256)


def inbox_for(path: Path, guard: Path, archive: Path) -> Inbox:
    """Return the one inbox of this path in the running loop. Raises RuntimeError when no loop runs."""
    return _INBOXES.get(str(path), lambda: Inbox(path, guard, archive))


def read_entries(path: Path, *, only_first: bool = False) -> list[InboxEntry]:
    """Return all entries in the file, read and unread, without a lock and without a change.

    Of a very large file with `only_first` only the first entries. Raises StorageError (`damaged-file`) when the content
    is no array, also 6 ms later.
    """
    for left in range(RETRIES, -1, -1):
        found = read_with_stamp(path)
        try:
            items = split_array(found[1], whole=not only_first) if found is not None else []
            return [item.entry for item in items if item.is_unread or item.is_consumed]
        except NotAnArray:
            time.sleep(RETRY_S if left else 0)
    raise StorageError("damaged-file", f"{path} is not an inbox now", note="its owner will repair it")
