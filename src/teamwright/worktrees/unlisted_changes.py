"""Changes of a worktree that `git status` leaves out: files with certain bits in the index, and checked out submodules.

Depends on git. Changes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.worktrees.repository_git import RepositoryGit

_SUBMODULE = "160000"
_MAX_COMPARED = 100
"""The most files with such a bit whose content is compared; further ones count as changed."""


def find_hidden_changes(git: RepositoryGit, tree: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return changed files with the bits assume-unchanged or skip-worktree, and what submodules could lose.

    Raises WorktreeRefused, CannotStart.
    """
    changed: list[str] = []
    submodules: list[str] = []
    compared = 0
    for line in git.read("ls-files", "-v", "--stage", "-z", cwd=tree).split("\0"):
        about, _, path = line.partition("\t")
        if not path:
            continue
        tag, mode, content, _ = about.split()
        if mode == _SUBMODULE:
            if os.path.lexists(tree / path / ".git"):
                submodules += _submodule_losses(git, tree, path)
        elif (tag == "S" or tag.islower()) and os.path.lexists(tree / path):
            compared += 1
            if compared > _MAX_COMPARED or not _is_unchanged(git, tree, path, content):
                changed.append(path)
    return tuple(changed), tuple(submodules)


def _is_unchanged(git: RepositoryGit, tree: Path, path: str, content: str) -> bool:
    file = tree / path
    if file.is_symlink() or not file.is_file():
        return False
    return git.read("hash-object", "--", path, cwd=tree) == content


def _submodule_losses(git: RepositoryGit, tree: Path, path: str) -> list[str]:
    """Return what is only in a checked out submodule: changed files, and commits that no remote has."""
    place, found = tree / path, list[str]()
    try:
        args = ("--ignored=traditional", "--untracked-files=normal", "--ignore-submodules=dirty")
        if git.read("status", "--porcelain=v1", "-z", *args, cwd=place):
            found.append(f"the submodule {path} has changed files")
        count = git.read("rev-list", "--count", "HEAD", "--all", "--not", "--remotes", cwd=place)
        if count != "0":
            found.append(f"the submodule {path} has {count} commits that no remote has")
        files, below = find_hidden_changes(git, place)
        found += [f"the submodule {path} has changed files"] * bool(files and not found)
        return [*found, *below]
    except (CannotStart, WorktreeRefused) as problem:
        return [f"the submodule {path} cannot be read ({problem.what})"]
