"""The removal of a worktree: only when nothing in it could be lost, or after a copy to the archive.

`git worktree remove` deletes ignored files silently, so this module looks first. A branch is deleted only after its
commits are proved contained in another branch.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from msgspec import Struct

from teamwright.git.repository import discover
from teamwright.protocol.errors import CannotStart, StorageError, WorktreeRefused
from teamwright.storage.file_lease import Lease
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import release_ports
from teamwright.worktrees.worktree_list import find_holders
from teamwright.worktrees.worktree_record import WorktreeRecord, finished_ref, integrated_ref
from teamwright.worktrees.worktree_state import WorktreeState, integrated_commits, read_state


class Removal(Struct, frozen=True):
    """The result of a removal: the archived copy, if one was made, and the branch that stays, if its commits are
    needed.
    """

    archived: Path | None = None
    kept_branch: str = ""


def remove_worktree(git: RepositoryGit, root: Path, record: WorktreeRecord, *, archive: Path | None = None) -> Removal:
    """Remove a worktree in which nothing could be lost. `archive`: copy what could be lost into it first.

    Without `archive` a worktree with modified, untracked or ignored files, unmerged commits, a foreign lock or a
    running operation stays: WorktreeRefused names the reasons. A process that works in it is never disturbed.
    """
    state = read_state(git, record)
    if state.holder:
        raise _removal_refusal(record, f"process {state.holder} works in it", ["end its team first"])
    if state.moved_to:
        raise _removal_refusal(
            record, f"it was moved to {state.moved_to}", [f"git worktree move {state.moved_to} {record.path}"]
        )
    if state.lock:
        raise _removal_refusal(record, f"it is locked: {state.lock}", [f"git worktree unlock {record.path}"])
    if archive is None and state.keeps:
        raise _removal_refusal(
            record, ", ".join(state.keeps), [f"teamwright worktrees remove {record.tree.name} --force"]
        )
    if record.made_by_hook and record.tree.is_dir():
        real = os.path.realpath(record.path)
        raise _removal_refusal(record, "a hook made it", [f"git worktree remove {real}", "then this command again"])
    lease = _claim(record)
    try:
        copied = None
        if archive is not None and (
            state.modified or state.untracked or state.ignored or state.submodules or state.problem
        ):
            copied = _copy(record, state, archive)
        if record.made_by_hook:
            record.tree.unlink(missing_ok=True)
            branch = record.branch
        else:
            _remove_tree(git, record, state)
            branch = _delete_branch(git, record)
    finally:
        lease.release()
    release_ports(root, record.port)
    record.file.unlink(missing_ok=True)
    record.lease.unlink(missing_ok=True)
    record.work_lease.unlink(missing_ok=True)
    return Removal(copied, branch)


def _claim(record: WorktreeRecord) -> Lease:
    """Take the lease, so that no process begins to work in the worktree while it is removed."""
    try:
        return Lease.take(record.lease, "removal")
    except CannotStart as problem:
        raise _removal_refusal(record, problem.what, ["end its team first"]) from None


def _copy(record: WorktreeRecord, state: WorktreeState, archive: Path) -> Path:
    """Copy every file that is in no commit into a new directory of the archive. Raises StorageError."""
    target = archive / f"worktree-{record.tree.name}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.getpid()}"
    paths = [*state.modified, *state.untracked, *state.ignored]
    try:
        make_private(target)
        if state.submodules and (found := discover(record.tree).repository) is not None:
            shutil.copytree(found.git_dir / "modules", target / "modules", symlinks=True)
        if state.problem or state.submodules:
            shutil.copytree(record.tree, target / "files", symlinks=True, dirs_exist_ok=True)
        for path in paths:
            _copy_path(record.tree / path, target / "files" / path)
        shutil.copy2(record.file, target / "worktree.json")
    except OSError as problem:
        raise storage_error(problem, target) from problem
    return target


def _copy_path(source: Path, target: Path) -> None:
    if not os.path.lexists(source):
        return  # a deleted file
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _remove_tree(git: RepositoryGit, record: WorktreeRecord, state: WorktreeState) -> None:
    if state.state == "unreadable":
        shutil.rmtree(record.tree)
    if state.state in {"missing", "unreadable"}:
        git.forget_worktree(record.tree)
        return
    # --force twice: the worktree is locked by us, and files of setup are in it. Its contents were looked at before.
    git.read("worktree", "remove", "--force", "--force", record.path)


def _delete_branch(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Delete the branch when its commits are contained elsewhere and it is checked out nowhere.

    Returns its name when it stays.
    """
    tip = git.commit_of(f"refs/heads/{record.branch}")
    if not tip:
        return ""
    targets = [record.base, git.commit_of("HEAD"), *integrated_commits(git, record)]
    if not any(target and git.contains(tip, target) for target in targets):
        return record.branch
    if find_holders(git, record.branch):
        return record.branch
    git.delete_branch(record.branch, tip)
    git.call("update-ref", "-d", finished_ref(record.branch))
    whole = integrated_ref(record.integration_branch)
    if (kept := git.commit_of(whole)) and git.contains(kept, git.commit_of("HEAD")):
        git.call("update-ref", "-d", whole)
    return ""


def _removal_refusal(record: WorktreeRecord, why: str, do: list[str]) -> WorktreeRefused:
    looked_at = [("worktree", record.path), ("branch", record.branch)]
    return WorktreeRefused(
        "worktree-refused",
        f"the worktree of {record.member} stays: {why}",
        looked_at=looked_at,
        do=do,
        note="nothing was removed",
    )


class WorktreeCleanup(Struct):
    """The result of a removal of all worktrees of a session: the removed ones, and the others with the reasons."""

    removed: list[WorktreeRecord]
    remaining: list[tuple[WorktreeRecord, str]]


def remove_unneeded(git: RepositoryGit, root: Path, records: list[WorktreeRecord]) -> WorktreeCleanup:
    """Remove each of these worktrees in which nothing could be lost. Errors of one do not stop the others."""
    done = WorktreeCleanup([], [])
    for record in records:
        try:
            remove_worktree(git, root, record)
            done.removed.append(record)
        except (WorktreeRefused, StorageError, CannotStart) as problem:
            done.remaining.append((record, problem.what.partition(" stays: ")[2] or problem.what))
    return done
