"""The runtime does not commit private, generated or large files for a member, nor the loss of most files.

A person or the member can commit such a change by its own git command. Depends on git; changes nothing.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.protocol.errors import WorktreeRefused
from teamwright.sandbox.known_paths import GENERATED_DIRECTORIES, PRIVATE_CONTENTS, PRIVATE_NAMES, PUBLIC_NAMES
from teamwright.worktrees.repository_git import RepositoryGit, split_paths

MEGABYTE = 1_000_000

FEW_DELETIONS = 10
"""Deletions that are never too many, unless they are all files."""

_SHOWN = 10
_READ_BYTES = 4_096


class CommitLimits(Struct, frozen=True):
    """The most bytes of one file, and of all files of one commit, that the runtime commits. 0: no limit."""

    file_bytes: int = 5 * MEGABYTE
    commit_bytes: int = 50 * MEGABYTE


class UncommittedFiles(Struct, frozen=True):
    """Files of a worktree that a commit would take, as relative paths. `added` are in no commit yet.

    `deleted` were not removed by a command of git. `tracked` is the number of files in the index.
    """

    changed: tuple[str, ...]
    added: tuple[str, ...]
    deleted: tuple[str, ...]
    tracked: int


def read_uncommitted(git: RepositoryGit, tree: Path, without: Iterable[str] = ()) -> UncommittedFiles:
    """Return the files that a commit of everything would take, `without` some untracked ones: paths, and directories
    that end in a slash. Raises WorktreeRefused, CannotStart.
    """
    left_out = frozenset(without)
    directories = tuple(one for one in left_out if one.endswith("/"))
    others = [
        path
        for path in split_paths(git.read("ls-files", "-z", "--others", "--exclude-standard", cwd=tree))
        if path not in left_out and not path.startswith(directories)
    ]
    compare = ("diff-index", "-z", "--no-renames", "--name-only")
    staged = split_paths(git.read(*compare, "--cached", "--diff-filter=A", "HEAD", cwd=tree))
    changed = split_paths(git.read(*compare, "--diff-filter=AMTU", "HEAD", cwd=tree))
    deleted = split_paths(git.read("ls-files", "-z", "--deleted", cwd=tree))
    tracked = len(split_paths(git.read("ls-files", "-z", cwd=tree)))
    added = dict.fromkeys([*staged, *others])
    return UncommittedFiles(
        tuple(dict.fromkeys([*changed, *added])), tuple(added), tuple(dict.fromkeys(deleted)), tracked
    )


def require_limits(git: RepositoryGit, tree: Path, files: UncommittedFiles, limits: CommitLimits) -> None:
    """Raise WorktreeRefused with the list of files that the runtime does not commit."""
    if is_loss(len(files.deleted), len(files.added), files.tracked):
        raise WorktreeRefused(
            "worktree-refused",
            f"{len(files.deleted)} of {files.tracked} files are gone from the worktree, and no git command removed "
            f"them: {short_list(files.deleted, _SHOWN)}",
            do=[
                "git checkout-index --all brings them back",
                "git rm them, if they should go, then complete the task again",
            ],
            note="nothing was committed",
        )
    problems = [*_private(tree, files.added), *_large(git, tree, files, limits)]
    if problems:
        raise WorktreeRefused(
            "worktree-refused",
            f"files that are not committed without being named: {short_list(problems, _SHOWN)}",
            do=[
                "add their names to .gitignore, or delete them, then complete the task again",
                "git add and git commit them by name, if they belong to the work",
            ],
            note="nothing was committed",
        )


def is_loss(gone: int, added: int, tracked: int) -> bool:
    """Return True when all or most files are gone, and no new files are in their place."""
    if not gone or added >= gone:
        return False
    return gone >= tracked or (gone > FEW_DELETIONS and 2 * gone > tracked)


def require_no_loss(git: RepositoryGit, branch: str, tip: str, goal: str) -> None:
    """Raise WorktreeRefused when a move of a person's branch from `tip` to `goal` would delete most of its files."""
    compare = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
    gone = split_paths(git.read(*compare, "--diff-filter=D", tip, goal))
    added = split_paths(git.read(*compare, "--diff-filter=A", tip, goal)) if gone else []
    tracked = len(split_paths(git.read("ls-tree", "-r", "-z", "--name-only", tip))) if gone else 0
    if is_loss(len(gone), len(added), tracked):
        raise WorktreeRefused(
            "worktree-refused",
            f"{len(gone)} of {tracked} files of {branch} would be deleted: {short_list(gone, _SHOWN)}",
            do=[
                f"git log --stat {branch}..{goal[:12]} shows who deleted them",
                f"git merge {goal[:12]}, if you want it",
            ],
            note="nothing was changed",
        )


def _private(tree: Path, paths: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        directory = next((at for at, part in enumerate(parts[:-1]) if part in GENERATED_DIRECTORIES), None)
        if directory is not None:
            found["/".join(parts[: directory + 1]) + "/ (generated)"] = None
        elif is_private(tree, path):
            found[f"{path} (private)"] = None
    return list(found)


def is_private(tree: Path, path: str) -> bool:
    """Return True for a file with the usual name of a key or password, as far as its content does not say otherwise."""
    name = os.path.basename(path).lower()
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in PUBLIC_NAMES):
        return False
    if any(f"/{path}/".lower().find(f"/{one}/") >= 0 for one in PRIVATE_NAMES if "*" not in one):
        return True
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in PRIVATE_NAMES):
        return True
    texts = [text for pattern, text in PRIVATE_CONTENTS.items() if fnmatch.fnmatchcase(name, pattern)]
    return bool(texts) and re.search("|".join(texts), _beginning(tree / path)) is not None


def _beginning(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    try:
        with open(path, "rb") as file:
            return file.read(_READ_BYTES).decode("latin-1")
    except OSError:
        return ""


def _large(git: RepositoryGit, tree: Path, files: UncommittedFiles, limits: CommitLimits) -> list[str]:
    sizes = {path: size for path in files.changed if (size := _size(tree / path))}
    whole = sum(sizes.values())
    over_file = [path for path, size in sizes.items() if limits.file_bytes and size > limits.file_bytes]
    if not over_file and not (limits.commit_bytes and whole > limits.commit_bytes):
        return []
    filtered = _filtered(git, tree, list(sizes))
    found = [
        f"{path} ({sizes[path] / MEGABYTE:.1f} MB; the limit is {limits.file_bytes / MEGABYTE:g} MB)"
        for path in over_file
        if path not in filtered and not _was_large(git, tree, path, limits)
    ]
    whole = sum(size for path, size in sizes.items() if path not in filtered)
    if not found and limits.commit_bytes and whole > limits.commit_bytes:
        largest = sorted(sizes.items(), key=lambda one: -one[1])[:_SHOWN]
        found = [f"{path} ({size / MEGABYTE:.1f} MB)" for path, size in largest]
        found.append(f"together {whole / MEGABYTE:.0f} MB; the limit is {limits.commit_bytes / MEGABYTE:g} MB")
    return found


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size if not path.is_dir() else 0
    except OSError:
        return 0


def _filtered(git: RepositoryGit, tree: Path, paths: Sequence[str]) -> set[str]:
    """Return the paths of which git commits a pointer, as with git-lfs."""
    text = "".join(f"{path}\0" for path in paths)
    answers = git.read("check-attr", "-z", "--stdin", "filter", cwd=tree, text=text).split("\0")
    found = zip(answers[::3], answers[2::3], strict=False)
    return {path for path, value in found if value not in {"unspecified", "unset", "set", ""}}


def _was_large(git: RepositoryGit, tree: Path, path: str, limits: CommitLimits) -> bool:
    done = git.call("cat-file", "-s", f"HEAD:{path}", cwd=tree)
    return done.ok and int(done.output) > limits.file_bytes


def short_list(names: Sequence[str], most: int = 5) -> str:
    """Return the first names as a text, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
