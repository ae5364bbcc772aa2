"""What an inbox's owner does to it: ids for strangers' entries, flags, and the archive of what is consumed.

Plain code on an array whose lock is held. An unread entry is never moved nor removed. Knows the layout of the
inbox; does not know when an entry counts as seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from teamwright.mail.layout import Item, split
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import message_id
from teamwright.storage.array import ArrayFile, Stamp, joined
from teamwright.storage.jsonl import Journal, read_backward

MOST_CONSUMED = 100
KEPT_CONSUMED = 50
"""Past 100 consumed entries those beyond the newest 50 go to the archive."""


def stamp_strangers(file: ArrayFile) -> tuple[Stamp | None, list[Item]]:
    """Give every unread entry without an id one. Returns the file's state and its elements."""
    if file.stamp is None:
        return None, []
    items = split(file.read())
    if all(item.msg_id for item in items if item.unread):
        return file.stamp, items
    items = [item.with_id(message_id()) if item.unread and not item.msg_id else item for item in items]
    file.replace(joined([item.raw for item in items]))
    return file.settle(), items


def flag(file: ArrayFile, ids: Collection[str], archive: Path) -> tuple[Stamp | None, list[Item]]:
    """Flag the entries of these ids as read; ids that are not there are fine. Returns state and elements.

    In place where that is safe; the file is renamed whole when it is not, and when enough is consumed to archive.
    """
    if file.stamp is None:
        return None, []
    content = file.read()
    items = split(content)
    hits = _hits(items, ids)
    if len(hits) < len(ids) and items and items[-1].rest:
        items = split(content, whole=True)
        hits = _hits(items, ids)
    consumed = sum(item.consumed for item in items) + len(hits)
    if not hits and consumed <= MOST_CONSUMED:
        return file.stamp, items
    flagged = [item.flagged() if item.unread and item.msg_id in ids else item for item in items]
    changes = [change for item in hits if (change := item.flip())]
    if len(changes) != len(hits) or not file.patch(changes):
        file.replace(joined([item.raw for item in flagged]))
    if consumed > MOST_CONSUMED:
        _compact(file, flagged, archive)
    return file.settle(), flagged


def _hits(items: Sequence[Item], ids: Collection[str]) -> list[Item]:
    return [item for item in items if item.unread and item.msg_id in ids]


def _compact(file: ArrayFile, items: list[Item], archive: Path) -> None:
    """Archive, then shorten. On a full disk the array stays long: the flags, which are set, matter more."""
    try:
        file.replace(joined([item.raw for item in _archived(items, archive)]))
    except StorageError as problem:
        if problem.slug != "disk-full":
            raise


def _archived(items: list[Item], archive: Path) -> list[Item]:
    """Write the older consumed elements to the archive; returns the others, in order."""
    consumed = [item for item in items if item.consumed]
    moved = {id(item): item.raw for item in consumed[:-KEPT_CONSUMED]}
    # After a kill between archive and rename the same elements come again.
    known = set(islice(read_backward(archive), len(moved)))
    journal = Journal.open(archive)
    try:
        journal.append(*[raw for raw in moved.values() if b'"msg_id":' not in raw or raw not in known])
    finally:
        journal.close()
    return [item for item in items if id(item) not in moved]
