"""The sending side of one inbox: concurrent sends of a process are committed together, up to the limits of an inbox.

Each entry has its own outcome. A send with an unknown outcome looks for its id in the file before it writes again. The
unread quota is maintained without parsing the inbox at each send. It may be too high, when other programs flagged
entries since, never too low; at the limit the file is counted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from teamwright.mail.inbox_file import (
    MAX_RUNTIME_UNREAD,
    MAX_UNREAD,
    RETRIES,
    InboxItem,
    LockedInbox,
    replace_unread,
    split_array,
)
from teamwright.protocol.errors import InboxFull, LockLost, StorageError
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_protocol
from teamwright.storage.json_array import TAIL_BYTES, ArrayFile, FileStamp

OnCommit = Callable[[FileStamp | None, FileStamp, Sequence["PendingEntry"], Sequence[InboxItem]], None]
"""Called after entries were appended, with the file's state before and after, and the notices that they replaced."""


class PendingEntry:
    """An entry that is being sent. `runtime` marks the runtime's own notices, for which some room is reserved.

    `is_idle_notice`: it is an idle notification; `is_contentless`: it says nothing else.
    """

    __slots__ = ("_waiter", "entry", "is_contentless", "is_idle_notice", "problem", "raw", "runtime", "settled")

    def __init__(self, entry: InboxEntry, raw: bytes, *, runtime: bool) -> None:
        self.entry = entry
        self.raw = raw
        self.runtime = runtime
        found = _idle_notice(entry.text)
        self.is_idle_notice = found is not None
        self.is_contentless = found is not None and found.is_contentless
        self.settled = False
        self.problem: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def copy(self) -> PendingEntry:
        """Return the entry for another attempt to send it."""
        return PendingEntry(self.entry, self.raw, runtime=self.runtime)

    @property
    def is_abandoned(self) -> bool:
        """True when its sender was cancelled while it waited."""
        return self._waiter is not None and self._waiter.cancelled()

    async def wait_for_commit(self) -> None:
        """Wait until another sender's commit includes it."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def settle(self, problem: Exception | None) -> None:
        """Set the outcome: None for an entry in the file, else the error."""
        self.settled = True
        self.problem = problem
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class InboxWriter:
    """All sends of this process to one inbox."""

    __slots__ = (
        "_busy",
        "_committed_in_tick",
        "_drain_task",
        "_inbox",
        "_on_commit",
        "_queue",
        "_quota",
    )

    def __init__(self, inbox: LockedInbox, on_commit: OnCommit) -> None:
        self._inbox = inbox
        self._on_commit = on_commit
        self._queue: list[PendingEntry] = []
        self._busy = False
        self._committed_in_tick = False
        self._quota: UnreadQuota | None = None
        self._drain_task: asyncio.Task[None] | None = None

    async def send(self, outgoing: PendingEntry) -> None:
        """Write the entry to the file. Raises InboxFull, LockTimeout, LockLost, StorageError."""
        self._queue.append(outgoing)
        if self._busy:
            await outgoing.wait_for_commit()
        else:
            self._busy = True
            try:
                # A second commit in one tick of the loop lets the others of the tick join.
                if self._committed_in_tick:
                    await asyncio.sleep(0)
                else:
                    self._committed_in_tick = True
                    asyncio.get_running_loop().call_soon(self._end_tick)
                await self._commit_waiting()
            finally:
                self._hand_over(outgoing)
        if outgoing.problem is not None:
            raise outgoing.problem

    def _end_tick(self) -> None:
        self._committed_in_tick = False

    def _hand_over(self, outgoing: PendingEntry) -> None:
        """Stop leading the commits: a cancelled leader withdraws its entry, and another sender serves the later
        ones.
        """
        if not outgoing.settled and outgoing in self._queue:
            self._queue.remove(outgoing)
        if self._queue:
            self._drain_task = asyncio.get_running_loop().create_task(self._drain())
        else:
            self._busy = False

    async def _drain(self) -> None:
        try:
            while self._queue:
                await self._commit_waiting()
        except Exception as problem:  # all waiting senders must receive the error
            for outgoing in self._queue:
                outgoing.settle(problem)
            self._forget_settled()
        finally:
            self._busy = False

    async def _commit_waiting(self) -> None:
        """Commit all waiting entries once; a failure is the outcome of those that waited from its beginning."""
        first = tuple(self._queue)
        in_doubt = False
        problem: StorageError | None = None
        for _ in range(1 + RETRIES):
            try:
                await self._inbox.change(partial(self._commit, in_doubt=in_doubt))
                return
            except LockLost as lost:
                problem = lost
                in_doubt = True
            except StorageError as refused:
                problem = refused
                break
        for outgoing in first:
            if not outgoing.settled:
                outgoing.settle(problem)
        self._forget_settled()

    def _commit(self, file: ArrayFile, *, in_doubt: bool) -> None:
        batch = [outgoing for outgoing in self._queue if not outgoing.is_abandoned]
        if in_doubt:
            batch = _not_in_file(file, batch)
        before = file.stamp
        tally = measure_unread(file, self._quota, sum(len(outgoing.raw) for outgoing in batch), len(batch))
        refused = {
            outgoing: problem for outgoing in batch if (problem := tally.add(outgoing.raw, runtime=outgoing.runtime))
        }
        accepted = [outgoing for outgoing in batch if outgoing not in refused] if refused else batch
        if accepted:
            self._note_commit(file, before, tally, accepted, _write(file, accepted))
        elif tally.is_exact:
            self._quota = tally  # the next send is refused without reading the whole file
        for outgoing in [outgoing for outgoing in refused if outgoing.is_idle_notice]:
            if self._replace(file, tally, outgoing):
                del refused[outgoing]
        for outgoing in batch:
            outgoing.settle(refused.get(outgoing))
        self._forget_settled()

    def _replace(self, file: ArrayFile, tally: UnreadQuota, outgoing: PendingEntry) -> bool:
        """Replace the oldest unread notice of the sender, because the inbox is full. Return False when there is
        none.
        """
        before = file.stamp
        if before is None:
            return False
        content, old = replace_unread(file.read(), {outgoing.entry.sender}, _is_notice, [outgoing.raw], most=1)
        if old:
            file.replace(content)
            tally.unread += 1
            tally.size += len(outgoing.raw)
            self._note_commit(file, before, tally, [outgoing], old)
        return bool(old)

    def _note_commit(
        self,
        file: ArrayFile,
        before: FileStamp | None,
        tally: UnreadQuota,
        entries: Sequence[PendingEntry],
        replaced: Sequence[InboxItem],
    ) -> None:
        """Count and report what was written. Raises LockLost when it may not be in the file."""
        after = file.final_stamp()
        tally.unread -= len(replaced)
        tally.size -= sum(len(old.raw) for old in replaced)
        self._quota = tally.after_write(after, entries[-1].raw)
        self._on_commit(before, after, entries, replaced)

    def _forget_settled(self) -> None:
        self._queue = [outgoing for outgoing in self._queue if not (outgoing.settled or outgoing.is_abandoned)]


def _write(file: ArrayFile, entries: Sequence[PendingEntry]) -> list[InboxItem]:
    """Write the entries to the file; return the older notices that they replaced."""
    idle = {outgoing.entry.sender for outgoing in entries if outgoing.is_contentless}
    raws = [outgoing.raw for outgoing in entries]
    if idle and file.stamp is not None:
        content, old = replace_unread(file.read(), idle, _is_contentless_notice, raws)
        if old:
            file.replace(content)
            return old
    file.append(raws)
    return []


def _not_in_file(file: ArrayFile, entries: Sequence[PendingEntry]) -> list[PendingEntry]:
    """Return the entries whose id is not in the file; the others arrived, and get that outcome."""
    content = file.read()
    for outgoing in entries:
        if (outgoing.entry.msg_id or "").encode() in content:
            outgoing.settle(None)
    return [outgoing for outgoing in entries if not outgoing.settled]


def _idle_notice(text: str) -> IdleNotification | None:
    if "idle_notification" not in text:
        return None
    message = parse_protocol(text)
    return message if isinstance(message, IdleNotification) else None


def _is_notice(entry: InboxEntry) -> bool:
    return _idle_notice(entry.text) is not None


def _is_contentless_notice(entry: InboxEntry) -> bool:
    notice = _idle_notice(entry.text)
    return notice is not None and notice.is_contentless


MAX_UNREAD_BYTES = 1_000_000
MAX_RUNTIME_BYTES = 256_000
"""Limits of unread entries, and the room beyond them that is reserved for the runtime's own notices."""

_LARGE = 4_000_000
"""Bytes from which a file is counted only up to a full inbox."""


def inbox_full_error(reader: str, unread: int, size: int) -> InboxFull:
    """Return the error that refuses one more entry and names the recipient. `size`: bytes of the unread entries."""
    return InboxFull(
        "inbox-full",
        f"{reader} is not reading its mail: {unread} messages ({size // 1000} kB) wait",
        looked_at=[("most", f"{MAX_UNREAD} messages or {MAX_UNREAD_BYTES // 1000} kB unread")],
        do=[f"wait until {reader} has read some", f"ask the lead what {reader} is doing"],
        note="nothing was sent",
    )


_UNREAD_BEFORE_OTHERS = b'"read":false},\n{"'
_CONSUMED_BEFORE_OTHERS = b'"read":true },\n{"'
_LAST_ENDINGS = (b'"read":false}\n]', b'"read":true }\n]')
"""The endings of elements in Teamwright's layout: long strings are counted faster than short ones."""


class UnreadQuota(Struct):
    """The number and bytes of unread entries in one state of the file; `tail` are the state's last bytes."""

    reader: str
    stamp: FileStamp | None
    tail: bytes
    unread: int = 0
    size: int = 0
    is_exact: bool = True

    def add(self, raw: bytes, *, runtime: bool) -> InboxFull | None:
        """Count one more entry, or return the error that refuses it and names the recipient."""
        most = MAX_UNREAD + (MAX_RUNTIME_UNREAD if runtime else 0)
        most_bytes = MAX_UNREAD_BYTES + (MAX_RUNTIME_BYTES if runtime else 0)
        if self.unread + 1 > most or self.size + len(raw) > most_bytes:
            return inbox_full_error(self.reader, self.unread, self.size)
        self.unread += 1
        self.size += len(raw)
        return None

    def has_room(self, size: int, count: int) -> bool:
        """Return True when that much more may be unread."""
        return self.unread + count <= MAX_UNREAD and self.size + size <= MAX_UNREAD_BYTES

    def after_write(self, stamp: FileStamp, last: bytes) -> UnreadQuota:
        """Return the same count for the file after an own write, which ends with the element `last`."""
        return _copy(self, stamp, (last + b"\n]")[-TAIL_BYTES:])


def measure_unread(file: ArrayFile, known: UnreadQuota | None, size: int, count: int) -> UnreadQuota:
    """Return the quota of the open file, based on the known one where it is still valid. Raises NotAnArray.

    It is exact whenever `count` more entries of `size` bytes would not fit, and when nothing was known.
    """
    if file.stamp is None:
        return UnreadQuota(file.path.stem, None, b"")
    if known is None:
        return _count(file, file.read())
    found = _copy(known, file.stamp, known.tail) if file.stamp == known.stamp else _known_and_appended(file, known)
    if found is None or not (found.is_exact or found.has_room(size, count)):
        content = file.read()
        found = _estimate(file, content) if len(content) < _LARGE else None
        if found is None or not found.has_room(size, count):
            found = _count(file, content)
    return found


def _copy(known: UnreadQuota, stamp: FileStamp | None, tail: bytes) -> UnreadQuota:
    return UnreadQuota(known.reader, stamp, tail, known.unread, known.size, known.is_exact)


def _known_and_appended(file: ArrayFile, known: UnreadQuota) -> UnreadQuota | None:
    """Return the known quota plus what was appended since; None when the file changed in another way.

    The last known element, which has a unique id, must be at the same offset; it may be flagged by now.
    """
    if known.stamp is None:
        return None
    start = known.stamp.size - len(known.tail)
    grown = file.read(start) if start >= 0 else b""
    last = known.tail[:-2]
    if len(grown) < len(known.tail) or _without_read_flag(grown[: len(last)]) != _without_read_flag(last):
        return None
    quota = _copy(known, file.stamp, grown[-TAIL_BYTES:])
    quota.is_exact = False
    added = grown[len(last) :]
    if added == b"\n]":
        return quota
    found = _max_unread(b"[" + added[1:]) if added.startswith(b",\n") else None
    if found is None:
        return None
    quota.unread += found[0]
    quota.size += found[1]
    return quota


def _without_read_flag(end: bytes) -> bytes:
    return end[:-6] if end.endswith((b'"read":false}', b'"read":true }')) else end


def _estimate(file: ArrayFile, content: bytes) -> UnreadQuota | None:
    """Return an upper limit of the unread entries in the file. None for another program's layout."""
    found = _max_unread(content)
    return found and UnreadQuota(file.path.stem, file.stamp, content[-TAIL_BYTES:], *found, is_exact=False)


def _max_unread(content: bytes) -> tuple[int, int] | None:
    """Return how many elements, of how many bytes, may be unread; None when a line has an ending of other programs."""
    if content[:4] != b'[\n{"' or not content.endswith(_LAST_ENDINGS):
        return None
    unread = content.count(_UNREAD_BEFORE_OTHERS)
    consumed = content.count(_CONSUMED_BEFORE_OTHERS)
    if content.count(b"\n") != unread + consumed + 2:
        return None
    unread += content.endswith(_LAST_ENDINGS[0])
    return unread, len(content) if unread else 0


def _count(file: ArrayFile, content: bytes) -> UnreadQuota:
    unread = [item for item in split_array(content) if item.is_unread]
    size = sum(len(item.raw) for item in unread)
    return UnreadQuota(file.path.stem, file.stamp, content[-TAIL_BYTES:], len(unread), size)
