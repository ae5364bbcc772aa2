"""A stamp of directories: two are equal when no file was added, removed or changed in between.

Files that were written lately count by their content, so that writing the same again is no change. Hidden files and
what builds leave behind are passed over. Knows the file system alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

MOST_ENTRIES = 5_000
"""Files that are looked at; in a larger tree changes beyond them are not seen."""

MOST_BYTES = 1024 * 1024
"""A larger file counts by its time of change."""

PASSED_OVER = frozenset({"node_modules", "__pycache__", "target", "build", "dist", "venv"})


def stamp(places: Iterable[Path], since: float) -> bytes:
    """The stamp of these directories; contents of files that were written since this time are part of it."""
    digest, left = blake2b(digest_size=16), MOST_ENTRIES
    for place in places:
        for entry in _files(place):
            if not left:
                return digest.digest()
            left -= 1
            with suppress(OSError):
                digest.update(f"{entry.path}\0{_state(entry, since)}\0".encode("utf-8", "surrogateescape"))
    return digest.digest()


def _state(entry: os.DirEntry[str], since: float) -> str:
    stat = entry.stat(follow_symlinks=False)
    if stat.st_mtime < since or not entry.is_file(follow_symlinks=False):
        return str(stat.st_size)
    if stat.st_size > MOST_BYTES:
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return blake2b(Path(entry.path).read_bytes(), digest_size=16).hexdigest()


def _files(place: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(place)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in PASSED_OVER:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry
