"""The branch of a member in its worktree: its files are committed, and commits of the team are merged into it.

Git commands only; who calls them, and when, is decided above. Depends on git and on the record.
"""

from __future__ import annotations

import os
import time

from teamwright.protocol.errors import WorktreeRefused
from teamwright.worktrees.branch_merge import conflicting_paths
from teamwright.worktrees.repository_git import RepositoryGit, git_error
from teamwright.worktrees.worktree_contents import changed_files, integrated_commits
from teamwright.worktrees.worktree_record import WorktreeRecord

STALE_LOCK_S = 10.0
"""Seconds after which the lock of a worktree's index is one that a killed git left."""

_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


def stage_work(git: RepositoryGit, record: WorktreeRecord) -> bool:
    """Add all uncommitted files to the index, except those of setup. Returns False when there is nothing to commit.

    Raises WorktreeRefused while another branch is checked out, or a file has conflict markers.
    """
    _require_branch(git, record)
    if marked := [path for path in conflicting_paths(git, record.tree) if _has_markers(record, path)]:
        raise WorktreeRefused(
            "worktree-refused",
            f"conflict markers are left in {short_list(marked)}",
            do=["edit these files, so that both sides are kept and no marker is left"],
        )
    modified, untracked, _ = changed_files(git, record)
    paths = (*modified, *untracked)
    if paths:
        _remove_stale_lock(git, record)
        args = ("--literal-pathspecs", "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.read(*args, cwd=record.tree, text="\0".join(paths) + "\0")
    return bool(paths) or _is_merging(git, record)


def has_uncommitted(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Return the names of the first uncommitted files, as a text; empty when there are none."""
    modified, untracked, _ = changed_files(git, record)
    return short_list((*modified, *untracked))


def abort_merge(git: RepositoryGit, record: WorktreeRecord) -> None:
    """Undo a merge with conflicts. Raises WorktreeRefused."""
    git.read("merge", "--abort", cwd=record.tree)


def commit_staged(git: RepositoryGit, record: WorktreeRecord, message: str) -> None:
    """Commit the index, without hooks and without a signature. Raises WorktreeRefused."""
    git.read("commit", "--quiet", "--no-verify", "-F", "-", cwd=record.tree, text=message, identity=True)


def unintegrated_tip(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Return the newest commit of the branch; empty when it has none that is not integrated."""
    tip = git.commit_of(f"refs/heads/{record.branch}")
    if not tip or tip == record.base or any(git.contains(tip, one) for one in integrated_commits(git, record)):
        return ""
    return tip


def merge_commit(git: RepositoryGit, record: WorktreeRecord, commit: str, name: str) -> tuple[str, ...]:
    """Merge a commit of the team into the member's branch. Returns the paths in conflict, whose files have markers.

    A branch whose commits are all integrated moves to the newest integrated commit. Raises WorktreeRefused, and changes
    nothing, for a worktree with uncommitted files or another branch, and while a merge or rebase is in progress.
    """
    _require_branch(git, record)
    head, commit = git.commit_of("HEAD", record.tree), git.commit_of(commit)
    if not commit or git.contains(commit, head):
        return ()
    modified, _, _ = changed_files(git, record)
    if modified or _is_merging(git, record):
        what = f"uncommitted changes: {short_list(modified)}" if modified else "a merge in progress"
        raise WorktreeRefused(
            "worktree-refused",
            f"the worktree of {record.member} has {what}",
            do=["git add and git commit, then continue"],
            note="nothing was changed",
        )
    _remove_stale_lock(git, record)
    is_newest = commit == git.commit_of(f"refs/heads/{record.integration_branch}")
    if is_newest and any(git.contains(head, one) for one in integrated_commits(git, record)):
        # All its commits are integrated, perhaps squashed or rebased: the originals have a ref.
        git.read("reset", "--keep", "--quiet", commit, cwd=record.tree)
        return ()
    args = ("merge", "--quiet", "--no-edit", "-m", f"Merge {name} into {record.branch}", commit)
    done = git.call(*args, cwd=record.tree, identity=True)
    if done.ok:
        return ()
    paths = conflicting_paths(git, record.tree)
    if not paths:
        raise git_error(args, done, record.tree)
    return paths


def _require_branch(git: RepositoryGit, record: WorktreeRecord) -> None:
    """Raise WorktreeRefused while another branch is checked out: it belongs to somebody else."""
    branch = git.call("symbolic-ref", "-q", "--short", "HEAD", cwd=record.tree).output.strip()
    if branch != record.branch:
        raise WorktreeRefused(
            "worktree-refused",
            f"{branch or 'no branch'} is checked out in the worktree of {record.member}, not {record.branch}",
            do=[f"git checkout {record.branch}", "end a rebase first: git rebase --continue, or --abort"],
        )


def _is_merging(git: RepositoryGit, record: WorktreeRecord) -> bool:
    return bool(git.commit_of("MERGE_HEAD", record.tree))


def _has_markers(record: WorktreeRecord, path: str) -> bool:
    try:
        lines = (record.tree / path).read_bytes().splitlines()
    except OSError:
        return False  # deleted: that resolves the conflict
    return all(any(line.startswith(marker) for line in lines) for marker in _MARKERS)


def _remove_stale_lock(git: RepositoryGit, record: WorktreeRecord) -> None:
    lock = record.tree / git.read("rev-parse", "--git-path", "index.lock", cwd=record.tree)
    try:
        if time.time() - os.stat(lock).st_mtime > STALE_LOCK_S:
            os.unlink(lock)
    except OSError:
        pass


def short_list(paths: tuple[str, ...] | list[str]) -> str:
    """Return the first paths as a text, and the number of the others."""
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return ", ".join(paths[:5]) + more
