"""The worktrees of a repository as git lists them, and who has a branch checked out.

Depends on git. Changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.files import read_plain
from teamwright.worktrees.repository_git import USAGE_ERROR, RepositoryGit, git_error

CHECKOUT = "checkout"
"""The key of the places in which a branch is checked out, in the error about them."""

_REBASES = ("rebase-merge", "rebase-apply")
_MAX_NAME = 8_192


class ListedWorktree(Struct, frozen=True):
    """One worktree in git's list. `branch` is empty for a detached HEAD. `lock` is the reason of a lock."""

    path: str
    branch: str = ""
    lock: str | None = None


def list_worktrees(git: RepositoryGit) -> list[ListedWorktree]:
    """Return the worktrees of the repository. Raises WorktreeRefused, CannotStart."""
    done = git.call("worktree", "list", "--porcelain", "-z")
    if done.exit_code == USAGE_ERROR:  # a git before 2.36 has no -z
        done = git.call("worktree", "list", "--porcelain")
        done = replace(done, output=done.output.replace("\n", "\0"))
    if not done.ok:
        raise git_error(("worktree", "list"), done, git.tree)
    found: list[ListedWorktree] = []
    for block in done.output.split("\0\0"):
        lines: dict[str, str] = {}
        for line in block.strip("\0").split("\0"):
            key, _, value = line.partition(" ")
            lines[key] = value
        if "worktree" in lines:
            branch = lines.get("branch", "").removeprefix("refs/heads/")
            found.append(ListedWorktree(lines["worktree"], branch, lines.get("locked")))
    return found


def find_holders(git: RepositoryGit, branch: str) -> list[Path]:
    """Return the worktrees in which a branch is checked out or being rebased. Raises WorktreeRefused, CannotStart.

    A worktree that is gone does not count, unless it is locked: it may be on a disk that is not mounted.
    """
    if not branch:
        return []
    listed = [one for one in list_worktrees(git) if one.branch == branch]
    found = [Path(one.path) for one in listed if os.path.isdir(one.path) or one.lock is not None]
    return [*found, *(tree for tree in _rebasing(git, branch) if tree not in found)]


def _rebasing(git: RepositoryGit, branch: str) -> Iterator[Path]:
    """Yield the worktrees that rebase a branch: git lists them with a detached HEAD."""
    linked = sorted((git.common / "worktrees").glob("*"))
    for git_dir in (git.common, *linked):
        names = (_read(git_dir / rebase / "head-name") for rebase in _REBASES)
        if f"refs/heads/{branch}" in names:
            yield git.main_tree if git_dir == git.common else Path(_read(git_dir / "gitdir")).parent


def _read(path: Path) -> str:
    try:
        return os.fsdecode(read_plain(path, _MAX_NAME)).strip()
    except (OSError, ValueError):
        return ""


def require_free(git: RepositoryGit, branch: str, *own: Path) -> None:
    """Raise WorktreeRefused (`branch-in-use`) while someone has the branch checked out, except in `own`."""
    mine = {os.path.realpath(path) for path in own}
    others = [path for path in find_holders(git, branch) if os.path.realpath(path) not in mine]
    if others:
        raise WorktreeRefused(
            "branch-in-use",
            f"{branch} is checked out in {others[0]}, whose files would differ from the moved branch",
            looked_at=[(CHECKOUT, str(path)) for path in others],
            do=[f"git -C {others[0]} switch --detach, or switch to another branch there"],
            note="the branch was not moved",
        )
