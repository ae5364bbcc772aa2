"""Parts of a repository that could make a reading git command run a program, or read another repository.

Read from the files, without running git: reading an untrusted repository must not run a program. Every file is read
within bounds; a part that cannot be judged is an entry. Paths of git's index are checked to stay in the working tree
(format: gitformat-index(5)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.git.repository import Discovery, GitRepository, discover, names_common_dir
from teamwright.git.unsafe_config import (
    GitEntry,
    SeenFiles,
    config_entries,
    hash_size,
    text_digest,
    unreadable_digest,
)
from teamwright.storage.files import read_plain

MAX_INDEX_BYTES = 128 << 20
"""Bytes of an index that are read; a longer one is not judged."""

SUBMODULES = "submodules"
"""The name of the entry for an index with submodules."""

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
        content = self.content
        size = self.size
        end = self.end
        at = 12
        previous = b""
        for number in range(count):
            flags = at + 40 + size
            name = flags + (4 if content[flags] & _EXTENDED else 2)
            length = (content[flags] << 8 | content[flags + 1]) & _LONG
            shared = 0
            if prefixed:
                shared, name = _shared_prefix(content, name, len(previous))
            stop = content.index(b"\0", name, end)
            if shared < 0 or (length != _LONG and shared + stop - name != length):
                return None
            if shared == 0:
                self.starts[at] = number
            previous = previous[:shared] + content[name:stop]
            self.names.append(previous)
            self.submodules = self.submodules or content[at + 26] & 0xF0 == _GITLINK
            at = stop + 1 if prefixed else at + (stop - at + 8) // 8 * 8
        return at if at <= end else None

    def _extensions(self, at: int) -> bool:
        """Return True when the extensions match the entries that were read: git may start reading at their offsets."""
        content = self.content
        first = at
        while at + 8 <= self.end:
            name = content[at : at + 4]
            length = int.from_bytes(content[at + 4 : at + 8], "big")
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


__all__ = ["GitEntry", "GitSurvey", "git_entries", "survey_git"]

_SHOWN_DIRECTORIES = ("", "info", "rebase-merge", "rebase-apply", "sequencer")
"""Directories of a git directory with files from which git prints lines."""

_PART = 1 << 20
_MAX_MODULES = 500
_MAX_NAMES = 1_000
_READING_HOOKS = ("post-index-change", "fsmonitor", "watchman")
"""Parts of names of hooks that reading commands run: the last two where a person's own configuration uses them."""


class GitSurvey(Struct, frozen=True):
    """The entries of a repository, and the files on which they depend."""

    entries: tuple[GitEntry, ...]
    files: SeenFiles


def git_entries(start: Path) -> tuple[GitEntry, ...]:
    """Return the parts that could make a reading git command in this directory run a program; empty where none can."""
    return survey_git(discover(start)).entries


def survey_git(found: Discovery) -> GitSurvey:
    """Return the entries of a discovered repository."""
    files = SeenFiles()
    entries = [_doubtful_entry(path, found.repository) for path in found.doubts]
    if found.repository is not None:
        entries += _repository_entries(found.repository, files)
    return GitSurvey(tuple(dict.fromkeys(entries)), files)


def _repository_entries(repository: GitRepository, files: SeenFiles) -> Iterator[GitEntry]:
    git_dir = repository.git_dir
    common = repository.common
    tree = repository.tree
    files.add(git_dir / "commondir")
    if not names_common_dir(git_dir):
        yield GitEntry(git_dir / "commondir", "a common directory that cannot be read", unreadable_digest())
    for path in (common / "config", git_dir / "config.worktree"):
        yield from config_entries(path, git_dir, tree, files)
    yield from _module_entries(common / "modules", files)
    yield from _hook_entries(common / "hooks", files)
    yield from _index_entries(git_dir, common, files)
    yield from _object_entries(common / "objects", files)
    for place in dict.fromkeys((git_dir, common)):
        for name in _SHOWN_DIRECTORIES:
            yield from _link_entries(place / name, (git_dir, common), files)


def _doubtful_entry(path: Path, repository: GitRepository | None) -> GitEntry:
    """Return an entry for a parent directory that git could take for another repository."""
    try:
        says = os.fsencode(os.readlink(path)) if path.is_symlink() else read_plain(path, _PART)
    except (OSError, ValueError):
        says = b""
    place = "" if repository is None else f"{repository.git_dir}\n{repository.common}"
    return GitEntry(path, "another repository", text_digest(says, os.fsencode(place)))


def _module_entries(modules: Path, files: SeenFiles) -> Iterator[GitEntry]:
    """Yield the entries in the configurations of submodules."""
    waiting = [modules]
    looked_at = 0
    while waiting:
        place = waiting.pop()
        files.add(place)
        names = _names_in(place)
        looked_at += 1
        if names is None or looked_at > _MAX_MODULES:
            yield GitEntry(place, "submodules that cannot be read", unreadable_digest())
            return
        if "HEAD" in names:
            if "commondir" in names:
                yield GitEntry(place / "commondir", "another repository", _file_digest(place / "commondir"))
            for path in (place / "config", place / "config.worktree"):
                # its work tree is judged when git runs there
                found = config_entries(path, place, place, files)
                yield from (one for one in found if one.name.lower() != "core.worktree")
            names = [name for name in names if name == "modules"]
        waiting += [place / name for name in names if _may_be_directory(place / name)]


def _hook_entries(hooks: Path, files: SeenFiles) -> Iterator[GitEntry]:
    files.add(hooks)
    names = _names_in(hooks)
    if names is None:
        yield GitEntry(hooks, "hooks that cannot be read", unreadable_digest())
        return
    for name in names:
        plain = name.lower()
        if not plain.endswith(".sample") and any(part in plain for part in _READING_HOOKS):
            yield GitEntry(hooks / name, f"hook {name}", _file_digest(hooks / name))


def _index_entries(git_dir: Path, common: Path, files: SeenFiles) -> Iterator[GitEntry]:
    """Yield submodules, which git reads with their own configuration, and files outside the working tree."""
    names = _names_in(git_dir)
    if names is None:
        yield GitEntry(git_dir, "a git directory that cannot be read", unreadable_digest())
    size = hash_size(common / "config")
    for name in ("index", *(name for name in names or () if name.startswith("sharedindex."))):
        path = git_dir / name
        files.add(path)
        found = read_index(path, size)
        if not found.is_readable:
            yield GitEntry(path, "an index that cannot be read", unreadable_digest())
        if found.has_submodules:
            yield GitEntry(common / "modules", SUBMODULES, "")
        if found.has_outside_paths:
            yield GitEntry(path, "an index with files outside the working tree", unreadable_digest())


def _object_entries(objects: Path, files: SeenFiles) -> Iterator[GitEntry]:
    """Yield object stores in other places: the content of another repository."""
    alternates = objects / "info" / "alternates"
    files.add(objects)
    files.add(alternates)
    names = _names_in(objects)
    if names is None:
        yield GitEntry(objects, "objects that cannot be read", unreadable_digest())
    links = [path for path in (objects, *(objects / name for name in names or ())) if os.path.islink(path)]
    if links:
        places = [os.path.realpath(path) for path in links]
        digest = text_digest(*map(os.fsencode, places))
        yield GitEntry(objects, "another repository's objects", digest, "; ".join(places))
    if os.path.lexists(alternates):
        yield GitEntry(alternates, "another repository's objects", _file_digest(alternates))


def _link_entries(place: Path, inside: tuple[Path, ...], files: SeenFiles) -> Iterator[GitEntry]:
    """Yield links from the files of git to other places: git prints lines of `packed-refs`, `shallow`,
    `rebase-merge/done`."""
    files.add(place)
    for name in _names_in(place) or ():
        path = place / name
        real = Path(os.path.realpath(path))
        if os.path.islink(path) and not any(real.is_relative_to(one) for one in inside):
            yield GitEntry(path, "a file elsewhere", text_digest(os.fsencode(real)), str(real))


def _may_be_directory(path: Path) -> bool:
    """Return True for a directory that is no link; also where that is unknown."""
    return (os.path.isdir(path) and not os.path.islink(path)) or not os.path.lexists(path)


def _names_in(directory: Path) -> list[str] | None:
    """Return the sorted names in a directory, none for a missing one; None for too many, or unreadable ones."""
    try:
        with os.scandir(directory) as found:
            names = [entry.name for entry in islice(found, _MAX_NAMES + 1)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None
    return sorted(names) if len(names) <= _MAX_NAMES else None


def _file_digest(path: Path) -> str:
    try:
        return text_digest(read_plain(path))
    except (OSError, ValueError):
        return unreadable_digest()
