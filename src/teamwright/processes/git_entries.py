"""Parts of a repository that could make a reading git command run a program, or read another repository.

Read from the files, without running git: reading an untrusted repository must not run a program. Every file is read
within bounds; a part that cannot be judged is an entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from teamwright.processes.git_config import (
    GitEntry,
    SeenFiles,
    config_entries,
    hash_size,
    text_digest,
    unreadable_digest,
)
from teamwright.processes.git_index import read_index
from teamwright.processes.repository_discovery import Discovery, GitRepository, discover, names_common_dir
from teamwright.storage.read_bounded import read_plain

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
    git_dir, common, tree = repository.git_dir, repository.common, repository.tree
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
            yield GitEntry(common / "modules", "submodules", "")
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
        places = (os.fsencode(os.path.realpath(path)) for path in links)
        yield GitEntry(objects, "another repository's objects", text_digest(*places))
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
            yield GitEntry(path, "a file elsewhere", text_digest(os.fsencode(real)))


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
