"""Discovery of the repository that git finds from a directory, without running git.

Formats: gitrepository-layout(5); rules: `setup.c` of git. `unsafe_config` reads the configuration.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.git.unsafe_config import named_work_tree
from teamwright.storage.files import read_beginning, read_plain

_MAX_POINTER_BYTES = 8_192
"""Bytes of a file that contains only a path or a branch."""

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_HEAD = re.compile(rb"ref:[ \t\r\n]*refs/|[0-9a-fA-F]{40}")


class GitRepository(Struct, frozen=True):
    """A repository: its work tree, the git directory, and the directory that all its worktrees share.

    `belongs_to_tree`: the git directory is part of the work tree, or names it (a worktree, a submodule). All paths are
    real paths.
    """

    tree: Path
    git_dir: Path
    common: Path
    belongs_to_tree: bool


class Discovery(Struct, frozen=True):
    """The repository that git finds from a directory, and the paths that could make it find another one."""

    repository: GitRepository | None
    doubts: tuple[Path, ...] = ()


def discover(start: Path) -> Discovery:
    """Find the repository of a directory, with all parent entries that git could take for another one."""
    here = os.path.realpath(start)
    doubts: list[Path] = []
    for directory in _parents(here):
        dot = _mode(f"{directory}/.git")
        head = _mode(f"{directory}/HEAD")
        if stat.S_ISDIR(head):
            head = 0
        if not dot and not head:
            continue
        signs = [Path(directory, name) for name, mode in ((".git", dot), ("HEAD", head)) if mode]
        git_dir, plain = _git_dir_in(directory, dot)
        if directory != here and _device(directory) != _device(here):  # git searches one file system only
            doubts.append(Path(directory))
        if git_dir is None:
            doubts += signs
            if stat.S_ISREG(dot):  # git stops here
                break
            continue
        repository = _repository(directory, git_dir)
        known = repository.belongs_to_tree or (plain and repository.common.is_relative_to(directory))
        return Discovery(repository, tuple(doubts if plain and known and not head else (*doubts, *signs)))
    return Discovery(None, tuple(doubts))


def possible_trees(start: Path) -> list[Path]:
    """Return the work trees that a git command in this directory may show: at most one where git is certain."""
    found = discover(start)
    if not found.doubts:
        return [] if found.repository is None else [found.repository.tree]
    here = os.path.realpath(start)
    return [Path(one) for one in _parents(here) if _mode(f"{one}/.git") or _mode(f"{one}/HEAD")]


def find_git_dir(start: Path) -> tuple[Path, Path] | None:
    """Return the work tree that contains `start`, and its git directory (a `.git` file is followed); None outside
    git.
    """
    found = discover(start).repository
    return None if found is None else (found.tree, found.git_dir)


def common_dir(git_dir: Path) -> Path:
    """Return the real path of the directory that all worktrees of a repository share (`commondir`)."""
    try:
        text = _read_pointer(f"{git_dir}/commondir")
    except (OSError, ValueError):
        return git_dir
    return Path(os.path.realpath(os.path.join(git_dir, text)))


def names_common_dir(git_dir: Path) -> bool:
    """Return True when git uses `common_dir`: `commondir` does not exist, or names a path that can be read here.

    git also accepts a text that is longer than the limit here, or that ends in a NUL byte and more.
    """
    path = f"{git_dir}/commondir"
    if not _mode(path):
        return True
    try:
        return bool(_read_pointer(path))
    except (OSError, ValueError):
        return False


def trust_root(start: Path) -> Path:
    """Return the path to which trust in a repository is bound: its common directory, or outside git the directory
    itself.

    A `.git` that only points to another person's repository, without being known there, does not share its trust.
    """
    found = discover(start).repository
    if found is None:
        return Path(os.path.realpath(start))
    return found.common if found.belongs_to_tree else found.tree


def work_tree(start: Path) -> Path | None:
    """Return the real path of the root of the work tree that contains `start`; None outside git."""
    found = discover(start).repository
    return None if found is None else found.tree


def current_branch(start: Path) -> str | None:
    """Return the branch that is checked out; `(detached)`, `(unknown)` when HEAD does not say, None outside git."""
    found = discover(start).repository
    if found is None:
        return None
    try:
        head = read_plain(found.git_dir / "HEAD", _MAX_POINTER_BYTES).decode("utf-8").strip()
    except (OSError, ValueError):
        return "(unknown)"
    name = head.removeprefix("ref: refs/heads/")
    if name == head:
        return "(detached)" if _COMMIT.fullmatch(head) else "(unknown)"
    return name if name.isprintable() and not name.startswith(".") else "(unknown)"


def head_commit(start: Path) -> str:
    """Return the commit that is checked out; empty where only git can tell, as for a branch in `packed-refs`."""
    found = discover(start).repository
    if found is None:
        return ""
    try:
        text = read_plain(found.git_dir / "HEAD", _MAX_POINTER_BYTES).decode("utf-8").strip()
        if (name := text.removeprefix("ref: ")) != text:
            text = read_plain(found.common / name, _MAX_POINTER_BYTES).decode("utf-8").strip()
    except (OSError, ValueError):
        return ""
    return text if _COMMIT.fullmatch(text) else ""


def _parents(here: str) -> Iterator[str]:
    while True:
        yield here
        parent = os.path.dirname(here)
        if parent == here:
            return
        here = parent


def _mode(path: str) -> int:
    """Return the mode of the entry, links not followed; 0 for none, 1 where it cannot be read."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except (OSError, ValueError):
        return 1


def _device(directory: str) -> int:
    """Return the file system of a directory, or of its future place; -1 where it cannot be read."""
    for place in _parents(directory):
        try:
            return os.stat(place).st_dev
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            break
    return -1


def _git_dir_in(directory: str, mode: int) -> tuple[str | None, bool]:
    """Return the git directory that git finds here, and True if a plain `.git` leads to it. `mode` is that of the
    entry."""
    dot = f"{directory}/.git"
    if stat.S_ISDIR(mode):
        if _is_git_dir(dot):
            return dot, True
        if not _is_git_dir(directory):  # git searches the parents; people take a broken repository for theirs
            return (dot if os.path.lexists(f"{dot}/HEAD") else None), False
    elif mode and os.path.isfile(dot):
        named = _named_git_dir(directory, dot)
        return named, stat.S_ISREG(mode) and named is not None and _is_git_dir(named)
    elif mode and _is_git_dir(dot):
        return dot, False
    return (directory if _is_git_dir(directory) else None), False


def _named_git_dir(directory: str, dot: str) -> str | None:
    """Return the git directory that a file `.git` names."""
    try:
        text = _read_pointer(dot)
    except (OSError, ValueError):
        return None
    return os.path.join(directory, text[8:]) if text.startswith("gitdir: ") else None


def _is_git_dir(directory: str) -> bool:
    """Return True when git accepts this as a git directory: a HEAD that names a branch or commit, objects and refs."""
    head = f"{directory}/HEAD"
    try:
        if stat.S_ISLNK(os.lstat(head).st_mode):
            valid = os.readlink(head).startswith("refs/")
        else:
            valid = _HEAD.match(read_beginning(head, 255)) is not None
    except (OSError, ValueError):
        return False
    common = directory
    if valid and os.path.lexists(f"{directory}/commondir"):
        common = str(common_dir(Path(directory)))
    return valid and os.access(f"{common}/objects", os.X_OK) and os.access(f"{common}/refs", os.X_OK)


def _repository(directory: str, git_dir: str) -> GitRepository:
    own = git_dir == directory or (git_dir == f"{directory}/.git" and not os.path.islink(git_dir))
    real = Path(git_dir if own else os.path.realpath(git_dir))
    tree = Path(directory)
    common = common_dir(real)
    return GitRepository(tree, real, common, _belongs_to_tree(tree, real, common))


def _belongs_to_tree(tree: Path, git_dir: Path, common: Path) -> bool:
    """Return True when the git directory belongs to the work tree, as its own or as a worktree or submodule that names
    it."""
    dot = tree / ".git"
    if dot.is_symlink():
        return False
    if git_dir in {tree, dot}:
        return common == git_dir
    if common == git_dir:
        return named_work_tree(common / "config") == str(tree)
    try:
        named = os.path.join(git_dir, _read_pointer(os.path.join(git_dir, "gitdir")))
    except (OSError, ValueError):
        return False
    return git_dir.parent == common / "worktrees" and os.path.realpath(named) == str(dot)


def _read_pointer(path: str) -> str:
    """Return the path that a file of git names. Raises OSError, and ValueError for an invalid path."""
    text = os.fsdecode(read_plain(path, _MAX_POINTER_BYTES)).rstrip("\r\n")
    if "\0" in text or not text:
        raise ValueError("it names no path")
    return text
