"""A commit of a member's staged work by git's own commit command, with hooks, and the proof that it has that work.

A hook may format files, add a line or refuse the commit. It may also lose the work: empty the index, take files out of
the commit, take the commit back or delete files. Then the branch and the index are put back, and the completion is
refused. After a kill in the middle the next completion or move does the same. Depends on git and on the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from teamwright.protocol.errors import WorktreeRefused
from teamwright.worktrees.commit_limits import CommitLimits, UncommittedFiles, is_loss, require_limits, short_list
from teamwright.worktrees.repository_git import RepositoryGit, split_paths
from teamwright.worktrees.worktree_creation import SetupCommand
from teamwright.worktrees.worktree_identity import require_directory
from teamwright.worktrees.worktree_record import WorktreeRecord, committing_ref

_NAMES = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")


class _Staged(Struct, frozen=True):
    """The content of the next commit: the commit before, the tree of the index, and the other side of a merge.

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
    await asyncio.to_thread(_keep, git, record, staged)
    try:
        await commit.run(record.tree, variables)
        await asyncio.to_thread(_require_committed, git, record, staged, limits)
    except BaseException:
        await asyncio.to_thread(_put_back, git, record, staged)
        raise
    await asyncio.to_thread(_forget, git, record)


def undo_interrupted_commit(git: RepositoryGit, record: WorktreeRecord, limits: CommitLimits) -> None:
    """Take back a commit with hooks that a kill interrupted, unless it has the staged work. Else nothing is changed.

    Files that the hooks deleted come back. Raises WorktreeRefused when the member committed on top of a loss.
    """
    kept = git.commit_of(committing_ref(record.branch))
    if not kept:
        return
    tree = git.read("rev-parse", f"{kept}^{{tree}}")
    staged = _Staged(git.commit_of(f"{kept}^1"), tree, git.commit_of(f"{kept}^2"))
    try:
        _require_commit(git, record, staged, limits)
    except WorktreeRefused as problem:
        tip = git.commit_of(f"refs/heads/{record.branch}")
        if tip and staged.former not in {tip, git.commit_of(f"{tip}^1")}:
            raise WorktreeRefused(
                "worktree-refused",
                f"{problem.what}. A kill interrupted that commit, and there are commits after it",
                do=[f"git checkout {kept[:12]} -- . brings the files back; commit them"],
            ) from None
        _put_back(git, record, staged)
    git.call("checkout-index", "--all", cwd=record.tree)  # an existing file stays as it is
    _forget(git, record)


def _read_staged(git: RepositoryGit, record: WorktreeRecord) -> _Staged:
    head, merged = (git.commit_of(name, record.tree) for name in ("HEAD", "MERGE_HEAD"))
    return _Staged(head, git.read("write-tree", cwd=record.tree), merged, _deleted(git, record))


def _keep(git: RepositoryGit, record: WorktreeRecord, staged: _Staged) -> None:
    parents = [word for commit in (staged.former, staged.merged) if commit for word in ("-p", commit)]
    kept = git.read("commit-tree", staged.tree, *parents, "-m", "Staged work", cwd=record.tree, identity=True)
    git.read("update-ref", committing_ref(record.branch), kept)


def _forget(git: RepositoryGit, record: WorktreeRecord) -> None:
    git.call("update-ref", "-d", committing_ref(record.branch))


def _deleted(git: RepositoryGit, record: WorktreeRecord) -> frozenset[str]:
    return frozenset(split_paths(git.read("ls-files", "-z", "--deleted", cwd=record.tree)))


def _require_committed(git: RepositoryGit, record: WorktreeRecord, staged: _Staged, limits: CommitLimits) -> None:
    """Raise WorktreeRefused unless the branch has a new commit with the staged work, and the worktree its files.

    Reads the repository first: the commit counts, also when a hook removed the worktree after it.
    """
    tip = _require_commit(git, record, staged, limits)
    try:
        require_directory(record)
    except WorktreeRefused:
        return
    if deleted := sorted(_deleted(git, record) - staged.deleted):
        what = f"deleted {len(deleted)} files of the worktree: {short_list(deleted)}"
        raise _lost_by_hooks(what, ["git checkout-index --all brings them back"])
    if left := _left_out(git, record, staged, tip):
        raise _lost_by_hooks(f"left changes out of the commit: {short_list(left)}")


def _require_commit(git: RepositoryGit, record: WorktreeRecord, staged: _Staged, limits: CommitLimits) -> str:
    """Return the tip of the branch. Raises WorktreeRefused unless it is a new commit without loss or private files."""
    tip = git.commit_of(f"refs/heads/{record.branch}")
    if not tip or tip == staged.former or not git.contains(staged.former, tip):
        raise _lost_by_hooks(f"left no new commit on {record.branch}")
    gone = split_paths(git.read(*_NAMES, "--diff-filter=D", staged.tree, tip))
    tracked = len(split_paths(git.read("ls-tree", "-r", "-z", "--name-only", staged.tree))) if gone else 0
    if is_loss(len(gone), 0, tracked):
        raise _lost_by_hooks(f"took {len(gone)} of {tracked} files out of the commit: {short_list(gone)}")
    if added := tuple(split_paths(git.read(*_NAMES, "--diff-filter=A", staged.tree, tip))):
        require_limits(git, record.tree, UncommittedFiles(added, added, (), tracked), limits)
    return tip


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
    is_moved = git.commit_of(name) != staged.former
    with suppress(WorktreeRefused):
        require_directory(record)
        if is_moved:  # from there, so that the worktree's log of HEAD ends with this commit
            git.call("update-ref", name, staged.former, cwd=record.tree)
        git.call("read-tree", staged.tree, cwd=record.tree)
        if staged.merged and not git.commit_of("MERGE_HEAD", record.tree):
            git.call("update-ref", "MERGE_HEAD", staged.merged, cwd=record.tree)
    if is_moved and git.commit_of(name) != staged.former:
        git.call("update-ref", name, staged.former)
    _forget(git, record)


def _lost_by_hooks(what: str, do: Sequence[str] = ()) -> WorktreeRefused:
    return WorktreeRefused(
        "worktree-refused",
        f"the commit hooks {what}",
        do=[*do, "repair the hook, or set worktrees.commit_hooks to false"],
        note="nothing was committed",
    )
