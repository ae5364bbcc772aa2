"""The unread quota of an inbox, maintained without parsing the inbox at each send.

Entries that other programs appended are read from the end of the last own write. The count may be too high, when other
programs flagged entries since, never too low. At the limit the file is counted again, and parsed only where that could
change the result.
"""

from __future__ import annotations

from msgspec import Struct

from teamwright.mail.inbox_layout import MAX_RUNTIME_UNREAD, MAX_UNREAD, split_array
from teamwright.protocol.errors import InboxFull
from teamwright.storage.json_array import TAIL_BYTES, ArrayFile, FileStamp

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
    unread, consumed = content.count(_UNREAD_BEFORE_OTHERS), content.count(_CONSUMED_BEFORE_OTHERS)
    if content.count(b"\n") != unread + consumed + 2:
        return None
    unread += content.endswith(_LAST_ENDINGS[0])
    return unread, len(content) if unread else 0


def _count(file: ArrayFile, content: bytes) -> UnreadQuota:
    unread = [item for item in split_array(content) if item.is_unread]
    size = sum(len(item.raw) for item in unread)
    return UnreadQuota(file.path.stem, file.stamp, content[-TAIL_BYTES:], len(unread), size)
