"""The repair of worktrees whose repository was moved or renamed: git's links, and our records.

Depends on git and on the records.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from teamwright.storage.read_bounded import read_plain
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_check import require_worktree, with_identity
from teamwright.worktrees.worktree_record import WorktreeRecord, list_records

_MAX_LINK = 8_192


def repair_worktrees(git: RepositoryGit, root: Path) -> list[WorktreeRecord]:
    """Connect worktrees again after their repository was moved or renamed. Returns their new records.

    A worktree is repaired if the repository names it, and its record names a repository that is gone. Its files and its
    branch stay as they are. Raises WorktreeRefused, CannotStart, StorageError.
    """
    known = {_linked_tree(directory) for directory in (git.common / "worktrees").glob("*")}
    repaired: list[WorktreeRecord] = []
    for record in list_records(root)[0]:
        if os.path.realpath(record.path) not in known or (Path(record.repository) / ".git").exists():
            continue
        git.read("worktree", "repair", record.path)
        moved = with_identity(replace(record, repository=str(git.main_tree)))
        require_worktree(git, moved)
        moved.save()
        repaired.append(moved)
    return repaired


def _linked_tree(directory: Path) -> str:
    """Return the real path of the worktree that a directory of git describes; empty when it names none."""
    try:
        link = os.fsdecode(read_plain(directory / "gitdir", _MAX_LINK)).strip()
    except (OSError, ValueError):
        return ""
    return os.path.realpath(os.path.dirname(link))
