"""The repair of worktrees whose repository was moved or renamed: git's links, and our records.

Depends on git and on the records.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.git.repository import common_dir, discover
from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.files import read_plain
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_identity import require_worktree, with_identity
from teamwright.worktrees.worktree_record import WorktreeRecord, list_records

_MAX_LINK = 8_192


class Repair(Struct, frozen=True):
    """One worktree that was connected again. `problem` says what is wrong with it besides; empty: it is whole."""

    record: WorktreeRecord
    problem: str = ""


def repair_worktrees(git: RepositoryGit, root: Path) -> list[Repair]:
    """Connect worktrees again after their repository was moved or renamed. Returns each with its new record.

    A worktree is repaired if this repository names it, and the one of its record does not. Its files and its branch
    stay as they are. One that is gone or damaged does not stop the others. Raises CannotStart, StorageError.
    """
    own = _linked_trees(git.common)
    done: list[Repair] = []
    for record in list_records(root)[0]:
        path = os.path.realpath(record.path)
        recorded = discover(Path(record.repository)).repository
        common = common_dir(recorded.git_dir) if recorded is not None else None
        if path not in own or common == git.common or (common is not None and path in _linked_trees(common)):
            continue
        git.call("worktree", "repair", record.path)
        moved = with_identity(replace(record, repository=str(git.main_tree)))
        problem = ""
        try:
            require_worktree(git, moved)
        except WorktreeRefused as refused:
            is_gone = not os.path.lexists(record.path)
            problem = "its directory is gone: it is made again when its member continues" if is_gone else refused.what
        moved.save()
        done.append(Repair(moved, problem))
    return done


def _linked_trees(common: Path) -> set[str]:
    """Return the real paths of the worktrees that a git directory names."""
    return {tree for directory in (common / "worktrees").glob("*") if (tree := _linked_tree(directory))}


def _linked_tree(directory: Path) -> str:
    """Return the real path of the worktree that a directory of git describes; empty when it names none."""
    try:
        link = os.fsdecode(read_plain(directory / "gitdir", _MAX_LINK)).strip()
    except (OSError, ValueError):
        return ""
    return os.path.realpath(os.path.dirname(link))
