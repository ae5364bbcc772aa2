"""What a line could change, compared with a copy in memory and put back.

Depends on the standard library alone: the runner imports it inside the sandbox. Does not know what the files are for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """What is compared of one path, and what brings it back."""

    mode: int
    size: int
    changed: tuple[int, int, int]
    content: bytes = b""


@dataclass(slots=True)
class Snapshot:
    """Everything below `places`, but for `base` where it is not below them itself, and the names in `listed`."""

    places: tuple[Path, ...]
    base: Path
    listed: Path | None = None
    entries: dict[bytes, Entry] = field(default_factory=dict[bytes, Entry])

    def note(self, path: Path) -> None:
        """Take the path as it is now for what it should be."""
        entry = _entry(os.fsencode(path), with_content=True)
        if self.entries and entry is not None:
            self.entries[os.fsencode(path)] = entry

    def remember(self) -> None:
        """Take everything as it is now for what it should be."""
        self.entries = {path: entry for path in self._walk() if (entry := _entry(path, with_content=True))}

    def changes(self) -> dict[str, str]:
        """What differs from the snapshot: each path with `made`, `removed` or the new content."""
        found: dict[str, str] = {}
        seen: set[bytes] = set()
        for path in self._walk():
            seen.add(path)
            entry, known = _entry(path), self.entries.get(path)
            if entry is None or (known is not None and _same(entry, known)):
                continue
            full = _entry(path, with_content=True)
            if full is not None and known is not None and _lost_a_name(full, known):
                continue
            found[os.fsdecode(path)] = f"{'changed' if known else 'made'} {full.content[:200]!r}" if full else "?"
        found |= {os.fsdecode(path): "removed" for path in self.entries if path not in seen}
        return found

    def restore(self) -> None:
        """Put back everything that differs from the snapshot."""
        paths = list(self._walk())
        for path in sorted((path for path in paths if path not in self.entries), reverse=True):
            _remove(path)
        seen = set(paths)
        for path in sorted(self.entries):
            entry = _entry(path) if path in seen else None
            if entry is None or not _same(entry, self.entries[path]):
                _put_back(path, self.entries[path])

    def _walk(self) -> list[bytes]:
        found: list[bytes] = []
        for place in self.places:
            _below(os.fsencode(place), os.fsencode(self.base), found)
        if self.listed is not None:
            found += [os.path.join(os.fsencode(self.listed), name) for name in os.listdir(os.fsencode(self.listed))]
        return found


def _below(place: bytes, base: bytes, found: list[bytes]) -> None:
    try:
        with os.scandir(place) as entries:
            listed = list(entries)
    except OSError:
        return
    for entry in listed:
        if entry.path == base or base.startswith(entry.path + b"/"):
            continue
        found.append(entry.path)
        if entry.is_dir(follow_symlinks=False):
            _below(entry.path, base, found)


def _entry(path: bytes, with_content: bool = False) -> Entry | None:
    try:
        seen = os.lstat(path)
        content = _content(path, seen.st_mode) if with_content else b""
    except OSError:
        return None
    if stat.S_ISDIR(seen.st_mode):  # what is in it is compared entry by entry
        return Entry(seen.st_mode, 0, (0, 0, 0))
    return Entry(seen.st_mode, seen.st_size, (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino), content)


def _content(path: bytes, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    if not stat.S_ISREG(mode):
        return b""
    with open(path, "rb") as file:
        return file.read(1_000_000)


def _same(one: Entry, other: Entry) -> bool:
    return (one.mode, one.size, one.changed) == (other.mode, other.size, other.changed)


def _lost_a_name(one: Entry, other: Entry) -> bool:
    """Return True for a file whose other name went: only the time of its status changed."""
    (mtime, _, inode), (before, _, same) = one.changed, other.changed
    return (one.mode, one.content, mtime, inode) == (other.mode, other.content, before, same)


def _remove(path: bytes) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o755)
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _put_back(path: bytes, entry: Entry) -> None:
    if stat.S_ISDIR(entry.mode) and os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, stat.S_IMODE(entry.mode))
        return
    _remove(path)
    if stat.S_ISDIR(entry.mode):
        os.mkdir(path, stat.S_IMODE(entry.mode))
        return
    if stat.S_ISLNK(entry.mode):
        os.symlink(entry.content, path)
    else:
        with open(path, "wb") as file:
            file.write(entry.content)
    if not stat.S_ISLNK(entry.mode):
        os.chmod(path, stat.S_IMODE(entry.mode))
    os.utime(path, ns=(entry.changed[0], entry.changed[0]), follow_symlinks=False)
