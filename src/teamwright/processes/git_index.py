"""The paths in git's index, with a check that they stay in the working tree.

Format: gitformat-index(5). git checks a path before it writes an index, and opens each path that it reads from one.
Runs nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from teamwright.storage.read_bounded import read_plain

MAX_INDEX_BYTES = 128 << 20
"""Bytes of an index that are read; a longer one is not judged."""

_GITLINK = 0xE0
_EXTENDED = 0x40
_LONG = 0xFFF
_OUTSIDE_PATH = re.compile(rb"(?:\A|[/\0])(?:\.{0,2}|\.git)(?:[/\0]|\Z)", re.IGNORECASE)
"""A part of a path that git never writes: an empty one, `.`, `..` and `.git`."""


class IndexFacts(Struct, frozen=True):
    """The entries of an index. `is_readable`: all its entries were parsed as git will read them."""

    is_readable: bool = True
    has_submodules: bool = False
    has_outside_paths: bool = False


def read_index(path: Path, hash_size: int) -> IndexFacts:
    """Return the entries of an index whose hashes have this many bytes; none for a missing index."""
    try:
        found = _Index(read_plain(path, MAX_INDEX_BYTES), hash_size)
    except FileNotFoundError:
        return IndexFacts()
    except (OSError, ValueError):
        return IndexFacts(is_readable=False)
    return IndexFacts(found.parse(), found.submodules, found.has_outside_paths)


class _Index:
    """One pass over an index."""

    def __init__(self, content: bytes, size: int) -> None:
        self.content = content
        self.size = size
        self.end = len(content) - size
        self.names: list[bytes] = []
        self.starts: dict[int, int] = {}  # offset of an entry that shares no prefix with the previous one: its number
        self.submodules = False

    @property
    def has_outside_paths(self) -> bool:
        # a directory of a sparse index ends in a slash; a split-off entry has no name
        names = [name.removesuffix(b"/") for name in self.names if name]
        return bool(names) and _OUTSIDE_PATH.search(b"\0".join(names)) is not None

    def parse(self) -> bool:
        """Read all entries; return False when git might read them differently."""
        content = self.content
        version = int.from_bytes(content[4:8], "big")
        if not self.size or content[:4] != b"DIRC" or version not in {2, 3, 4} or self.end < 12:
            return False
        try:
            at = self._entries(int.from_bytes(content[8:12], "big"), version == 4)
        except (IndexError, ValueError):  # it ends in the middle of an entry
            return False
        return at is not None and self._extensions(at)

    def _entries(self, count: int, prefixed: bool) -> int | None:
        """Read so many entries and return the offset after them, or None."""
        content, size, end = self.content, self.size, self.end
        at, previous = 12, b""
        for number in range(count):
            flags = at + 40 + size
            name = flags + (4 if content[flags] & _EXTENDED else 2)
            length = (content[flags] << 8 | content[flags + 1]) & _LONG
            kept = 0
            if prefixed:
                kept, name = _shared_prefix(content, name, len(previous))
            stop = content.index(b"\0", name, end)
            if kept < 0 or (length != _LONG and kept + stop - name != length):
                return None
            if kept == 0:
                self.starts[at] = number
            previous = previous[:kept] + content[name:stop]
            self.names.append(previous)
            self.submodules = self.submodules or content[at + 26] & 0xF0 == _GITLINK
            at = stop + 1 if prefixed else at + (stop - at + 8) // 8 * 8
        return at if at <= end else None

    def _extensions(self, at: int) -> bool:
        """Return True when the extensions match the entries that were read: git may start reading at their offsets."""
        content, first = self.content, at
        while at + 8 <= self.end:
            name, length = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "big")
            body = content[at + 8 : at + 8 + length]
            at += 8 + length
            if name == b"EOIE" and int.from_bytes(body[:4], "big") != first:
                return False
            if name == b"IEOT" and not self._blocks(body[4:]):
                return False
        return at == self.end

    def _blocks(self, table: bytes) -> bool:
        """Return True when the blocks that git reads in parallel are the blocks in sequence."""
        number = 0
        for at in range(0, len(table), 8):
            offset, count = (int.from_bytes(table[part : part + 4], "big") for part in (at, at + 4))
            if self.starts.get(offset) != number:
                return False
            number += count
        return number == len(self.names)


def _shared_prefix(content: bytes, at: int, length: int) -> tuple[int, int]:
    """Return how many bytes of the previous path are repeated, and the offset of the rest. The number is git's
    `varint`."""
    dropped = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        dropped = (dropped + 1 << 7) + (content[at] & 0x7F)
    return length - dropped, at + 1
