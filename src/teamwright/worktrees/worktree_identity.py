"""The one check that a worktree is the one that was made: by its directory, and by what git takes it for.

It runs before an agent starts there, before a commit of the runtime and before a merge. Depends on git.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from teamwright.git.repository import discover
from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.directory_identity import DirectoryIdentity, directory_identity
from teamwright.storage.files import read_plain
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_list import find_holders
from teamwright.worktrees.worktree_record import WorktreeRecord

_NO_GIT_FILE = "its .git is gone"
_MAX_LOG = 10_000_000
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def require_worktree(git: RepositoryGit, record: WorktreeRecord) -> None:
    """Raise WorktreeRefused (`worktree-changed`) unless this is the worktree that was made, also for git."""
    problem = _directory_problem(record) or _git_problem(git, record)
    if problem:
        raise changed_error(record, problem)


def require_directory(record: WorktreeRecord) -> None:
    """Raise WorktreeRefused (`worktree-changed`) unless the directory is the one that was made. Runs no git."""
    if problem := _directory_problem(record):
        raise changed_error(record, problem)


def confirm_worktree(git: RepositoryGit, record: WorktreeRecord) -> tuple[WorktreeRecord, bool]:
    """Return the record of a worktree in which an agent begins, and True when its directory is another one than before.

    Between two sessions a person may have copied or restored it, so git's word counts. The record gets the identity of
    the present directory. Raises WorktreeRefused (`worktree-changed`).
    """
    if problem := _kind_problem(record) or _git_problem(git, record):
        raise changed_error(record, problem)
    confirmed = with_identity(record)
    if confirmed == record:
        return record, False
    confirmed.save()
    return confirmed, bool(record.inode) and (record.inode, record.git_file) != (confirmed.inode, confirmed.git_file)


def with_identity(record: WorktreeRecord) -> WorktreeRecord:
    """Return the record of a worktree that was just made, with the identity of its directory."""
    device, inode = _identity(record) or (0, 0)
    return replace(record, device=device, inode=inode, git_file=_git_file(record))


def _identity(record: WorktreeRecord) -> DirectoryIdentity | None:
    return directory_identity(os.path.realpath(record.path))


def _git_file(record: WorktreeRecord) -> int:
    """Return the time of change of the file `.git`; 0 for the directory of a whole repository, which often changes."""
    try:
        found = os.lstat(Path(record.path, ".git"))
    except OSError:
        return 0
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else 0


def _kind_problem(record: WorktreeRecord) -> str:
    if not os.path.lexists(record.path):
        return "its directory is gone"
    if os.path.islink(record.path) and not record.made_by_hook:
        return "a link is in its place"
    return "" if os.path.isdir(record.path) else "its directory is gone"


def _directory_problem(record: WorktreeRecord) -> str:
    if problem := _kind_problem(record):
        return problem
    device, inode = _identity(record) or (0, 0)
    # A device may have another number after a start of the machine; then the file `.git` says which directory it is.
    if record.inode and (inode != record.inode or not (record.git_file or device == record.device)):
        return "another directory is in its place"
    return f"{_NO_GIT_FILE} or another one" if record.git_file and _git_file(record) != record.git_file else ""


def _git_problem(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Return what git takes the directory for, where that is not the worktree; empty when it is.

    The files are looked at first, so that no git runs in another repository.
    """
    real = Path(os.path.realpath(record.path))
    found = discover(real).repository
    if found is None or found.tree != real or found.common != git.common or not found.belongs_to_tree:
        return f"{_NO_GIT_FILE} or names another repository"
    done = git.call("rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", cwd=real)
    answers = done.output.rstrip("\n").split("\n")
    if not done.ok or len(answers) != 3:
        return f"git does not take it for a worktree: {done.errors.strip()[-200:] or done.output[:200]}"
    top, git_dir, common = (Path(os.path.realpath(real / answer)) for answer in answers)
    if top != real:
        return f"git takes {top} for its top level"
    if git_dir != found.git_dir or common != git.common:
        return f"git uses the git directory {git_dir}"
    if record.branch and not git.commit_of(f"refs/heads/{record.branch}"):
        raise _branch_error(git, record, found.git_dir)
    others = [path for path in find_holders(git, record.branch) if Path(os.path.realpath(path)) != real]
    return f"its branch {record.branch} is also checked out in {others[0]}" if others else ""


def _branch_error(git: RepositoryGit, record: WorktreeRecord, git_dir: Path) -> WorktreeRefused:
    """Return the error for a worktree without its branch, with the command that brings the branch back."""
    now = git.call("branch", "--show-current", cwd=record.tree).output.strip()
    if now and now != record.branch:
        how = f"git -C {record.repository} branch -m {now} {record.branch}"
    else:
        how = f"git -C {record.repository} branch {record.branch} {_last_commit(git_dir) or record.base}"
    return changed_error(record, f"its branch {record.branch} was deleted or renamed", [how])


def _last_commit(git_dir: Path) -> str:
    """Return the commit that was checked out last, by the log of HEAD; empty without one."""
    try:
        lines = read_plain(git_dir / "logs" / "HEAD", _MAX_LOG).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return ""
    commit = lines[-1].split()[1] if lines and len(lines[-1].split()) > 1 else ""
    return commit if _COMMIT.fullmatch(commit) and commit.strip("0") else ""


def changed_error(record: WorktreeRecord, problem: str, do: Sequence[str] = ()) -> WorktreeRefused:
    """Return the error for a worktree that is not the one that was made; `do` are the ways to repair it."""
    if not do and problem.startswith(_NO_GIT_FILE):
        do = [f"git -C {record.repository} worktree repair, then resume the session"]
    return WorktreeRefused(
        "worktree-changed",
        f"the worktree of {record.member} is not the one that was made: {problem}",
        looked_at=[("worktree", record.path), ("branch", record.branch)],
        do=do or [f"git -C {record.repository} worktree list", f"teamwright worktrees show {record.tree.name}"],
        note="nothing was committed",
    )
