"""A commit of a member's staged work by git's own commit command, with hooks, and the proof that it has that work.

A hook may format files, add a line or refuse the commit. It may also lose the work: empty the index, take files out of
the commit, take the commit back or delete files. Then the branch and the index are put back, and the completion is
refused. Depends on git and on the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from teamwright.protocol.errors import WorktreeRefused
from teamwright.worktrees.commit_limits import CommitLimits, UncommittedFiles, is_loss, require_limits, short_list
from teamwright.worktrees.repository_git import RepositoryGit, split_paths
from teamwright.worktrees.worktree_check import require_directory
from teamwright.worktrees.worktree_creation import SetupCommand
from teamwright.worktrees.worktree_record import WorktreeRecord

_NAMES = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")


class _Staged(Struct, frozen=True):
    """What is about to be committed: the commit before, the tree of the index, and the other side of a merge.

    `deleted` are files that the worktree does not have although they are staged.
    """

    former: str
    tree: str
    merged: str = ""
    deleted: frozenset[str] = frozenset()


async def commit_with_hooks(
    git: RepositoryGit, record: WorktreeRecord, commit: SetupCommand, variables: Mapping[str, str], limits: CommitLimits
) -> None:
    """Run the commit command on the index, and prove that the branch has what was staged.

    Raises WorktreeRefused when the command fails or the hooks lost something. The branch and the index are then as
    before, so that no later commit takes what a hook left there.
    """
    staged = await asyncio.to_thread(_read_staged, git, record)
    try:
        await commit.run(record.tree, variables)
        await asyncio.to_thread(_require_committed, git, record, staged, limits)
    except BaseException:
        await asyncio.to_thread(_put_back, git, record, staged)
        raise


def _read_staged(git: RepositoryGit, record: WorktreeRecord) -> _Staged:
    head, merged = (git.commit_of(name, record.tree) for name in ("HEAD", "MERGE_HEAD"))
    return _Staged(head, git.read("write-tree", cwd=record.tree), merged, _deleted(git, record))


def _deleted(git: RepositoryGit, record: WorktreeRecord) -> frozenset[str]:
    return frozenset(split_paths(git.read("ls-files", "-z", "--deleted", cwd=record.tree)))


def _require_committed(git: RepositoryGit, record: WorktreeRecord, staged: _Staged, limits: CommitLimits) -> None:
    """Raise WorktreeRefused unless the branch has a new commit with the staged work. Reads the repository first: the
    commit counts, also when a hook removed the worktree after it.
    """
    tip = git.commit_of(f"refs/heads/{record.branch}")
    if not tip or tip == staged.former or not git.contains(staged.former, tip):
        raise _lost_by_hooks(f"left no new commit on {record.branch}")
    gone = split_paths(git.read(*_NAMES, "--diff-filter=D", staged.tree, tip))
    tracked = len(split_paths(git.read("ls-tree", "-r", "-z", "--name-only", staged.tree))) if gone else 0
    if is_loss(len(gone), 0, tracked):
        raise _lost_by_hooks(f"took {len(gone)} of {tracked} files out of the commit: {short_list(gone)}")
    try:
        require_directory(record)
    except WorktreeRefused:
        return
    if deleted := sorted(_deleted(git, record) - staged.deleted):
        what = f"deleted {len(deleted)} files of the worktree: {short_list(deleted)}"
        raise _lost_by_hooks(what, ["git checkout-index --all brings them back"])
    if left := _left_out(git, record, staged, tip):
        raise _lost_by_hooks(f"left changes out of the commit: {short_list(left)}")
    if added := tuple(split_paths(git.read(*_NAMES, "--diff-filter=A", staged.tree, tip))):
        require_limits(git, record.tree, UncommittedFiles(added, added, (), tracked), limits)


def _left_out(git: RepositoryGit, record: WorktreeRecord, staged: _Staged, tip: str) -> list[str]:
    """Return the staged paths that the commit does not change, and that are still uncommitted in the worktree."""
    committed = set(split_paths(git.read(*_NAMES, staged.former, tip)))
    missing = [path for path in split_paths(git.read(*_NAMES, staged.former, staged.tree)) if path not in committed]
    if not missing:
        return []
    args = ("--ignored=no", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    changed = {part[3:] for part in split_paths(git.read("status", "--porcelain=v1", "-z", *args, cwd=record.tree))}
    return [path for path in missing if path in changed]


def _put_back(git: RepositoryGit, record: WorktreeRecord, staged: _Staged) -> None:
    """Put the branch and the index back. Of a worktree that is gone or another one only the branch is put back."""
    name = f"refs/heads/{record.branch}"
    if git.commit_of(name) != staged.former:
        git.call("update-ref", name, staged.former)
    try:
        require_directory(record)
    except WorktreeRefused:
        return
    git.call("read-tree", staged.tree, cwd=record.tree)
    if staged.merged and not git.commit_of("MERGE_HEAD", record.tree):
        git.call("update-ref", "MERGE_HEAD", staged.merged, cwd=record.tree)


def _lost_by_hooks(what: str, do: Sequence[str] = ()) -> WorktreeRefused:
    return WorktreeRefused(
        "worktree-refused",
        f"the commit hooks {what}",
        do=[*do, "repair the hook, or set worktrees.commit_hooks to false"],
        note="nothing was committed",
    )
