"""Read what a worktree has that is in no commit: modified, untracked and ignored files, and git's own state.

Also read are changes that `git status` leaves out: of files with certain bits in the index, and of checked out
submodules. Changes nothing.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.git.repository import discover
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.storage.file_lease import lease_holder
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_identity import require_directory
from teamwright.worktrees.worktree_list import list_worktrees
from teamwright.worktrees.worktree_record import BRANCHES, INTEGRATION, WorktreeRecord, integrated_ref

LOCK_REASON = "teamwright"
"""The beginning of the reason with which our worktrees are locked."""

_OPERATIONS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "sequencer": "a sequence of commits",
}

WorktreeCondition: TypeAlias = Literal["clean", "changed", "missing", "moved", "unreadable"]


class WorktreeState(Struct, frozen=True):
    """The present condition of a worktree.

    `commits` is the number of its commits that are in neither its base nor the integration branch. `ignored` leaves out
    what setup made. `moved_to` is its present path when git knows another one. `lock` is a foreign lock's reason.
    """

    state: WorktreeCondition
    head: str = ""
    branch: str = ""
    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    commits: int = 0
    is_merged: bool = False
    operation: str = ""
    lock: str = ""
    holder: int = 0
    moved_to: str = ""
    problem: str = ""
    submodules: tuple[str, ...] = ()
    """Sentences about losses in checked out submodules, whose repositories are removed with the worktree."""

    @property
    def keeps(self) -> tuple[str, ...]:
        """The reasons for which it is not removed; empty when nothing could be lost."""
        found = [
            f"{self.moved_to} is its new place" if self.moved_to else "",
            self.problem,
            f"{self.operation} is in progress" if self.operation else "",
            f"it is locked: {self.lock}" if self.lock else "",
            f"process {self.holder} works in it" if self.holder else "",
            _count(self.modified, "modified"),
            _count(self.untracked, "untracked"),
            _count(self.ignored, "ignored"),
            *self.submodules,
            f"{self.commits} commit{'s' if self.commits > 1 else ''} not merged" if self.commits else "",
        ]
        return tuple(reason for reason in found if reason)


def _count(paths: tuple[str, ...], kind: str) -> str:
    if not paths:
        return ""
    more = ", …" if len(paths) > 3 else ""
    return f"{len(paths)} {kind} file{'s' if len(paths) > 1 else ''} ({', '.join(paths[:3])}{more})"


def read_state(git: RepositoryGit, record: WorktreeRecord) -> WorktreeState:
    """Return the state of a worktree, from git and the disk. Raises WorktreeRefused, CannotStart when git fails."""
    moved, lock = _listed(git, record)
    holder = lease_holder(record.lease)
    holder = 0 if holder == os.getpid() else holder
    if moved:
        return WorktreeState("moved", branch=record.branch, lock=lock, holder=holder, moved_to=moved)
    if not record.tree.is_dir():
        head = git.commit_of(f"refs/heads/{record.branch}")
        commits, merged = _unmerged(git, record, head)
        return WorktreeState("missing", head, record.branch, commits=commits, is_merged=merged)
    found = discover(record.tree).repository
    real = Path(os.path.realpath(record.tree))
    if found is None or found.tree != real or found.common != git.common or not found.belongs_to_tree:
        return WorktreeState("unreadable", problem="its .git file is gone or names another repository", holder=holder)
    try:
        require_directory(record)
    except WorktreeRefused as problem:
        return WorktreeState("unreadable", problem=problem.what, holder=holder)
    modified, untracked, ignored = changed_files(git, record)
    hidden, submodules = find_hidden_changes(git, record.tree)
    modified += hidden
    head = git.commit_of("HEAD", record.tree)
    branch = git.call("branch", "--show-current", cwd=record.tree).output.strip()
    commits, merged = _unmerged(git, record, head)
    if branch != record.branch and (own := git.commit_of(f"refs/heads/{record.branch}")):
        commits += _unmerged(git, record, own)[0]
    operation = next((what for name, what in _OPERATIONS.items() if os.path.lexists(found.git_dir / name)), "")
    state = WorktreeState("clean", head, branch, modified, untracked, ignored, commits, merged, operation, lock, holder)
    if submodules:
        state = replace(state, submodules=submodules)
    if modified or untracked or ignored or submodules or commits or operation:
        return replace(state, state="changed")
    return state


def _listed(git: RepositoryGit, record: WorktreeRecord) -> tuple[str, str]:
    """Return the other path that git lists for the worktree's branch, and the reason of a foreign lock."""
    for one in list_worktrees(git):
        here = one.path == record.path or (record.made_by_hook and one.path == os.path.realpath(record.path))
        if one.branch != record.branch and not here:
            continue
        moved = one.path if not here and os.path.isdir(one.path) else ""
        foreign = one.lock is not None and not one.lock.startswith(LOCK_REASON)
        return moved, (one.lock or "without a reason") if foreign else ""
    return "", ""


def integrated_commits(git: RepositoryGit, record: WorktreeRecord) -> list[str]:
    """Return the commits whose ancestors are integrated: the integration branch, and the member's newest original.

    A squashed or rebased commit is not contained in the integration branch; a ref keeps it.
    """
    names = (f"refs/heads/{record.integration_branch}", integrated_ref(record.branch))
    return [commit for name in names if (commit := git.commit_of(name))]


def _unmerged(git: RepositoryGit, record: WorktreeRecord, head: str) -> tuple[int, bool]:
    """Return the number of commits that no target contains, and True when it has commits and all are contained."""
    if not head:
        return 0, False
    targets = [record.base, *integrated_commits(git, record), git.commit_of("HEAD")]
    count = git.read("rev-list", "--count", head, "--not", *(target for target in targets if target))
    return int(count), head != record.base and count == "0"


def changed_files(
    git: RepositoryGit, record: WorktreeRecord
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the modified, the untracked and the ignored files, without those that setup made."""
    modified: list[str] = []
    others: dict[str, list[str]] = {"??": [], "!!": []}
    for kind, path in listed_changes(git, record.tree):
        if kind not in others:
            modified.append(path)
        elif not _is_from_setup(record, path) and not (kind == "!!" and _is_cache(record.tree / path)):
            others[kind].append(path)
    return tuple(modified), tuple(others["??"]), tuple(others["!!"])


def listed_changes(git: RepositoryGit, tree: Path) -> list[tuple[str, str]]:
    """Return each path that differs from the commit, with the two letters of `git status`.

    An untracked or ignored directory without tracked files is one path that ends in a slash. A renamed file is two
    paths. A submodule is listed when another commit of it is checked out.
    """
    # `dirty` runs no git in a submodule.
    args = ("--ignored=traditional", "--untracked-files=normal", "--no-renames", "--ignore-submodules=dirty")
    output = git.read("status", "--porcelain=v1", "-z", *args, cwd=tree)
    return [(part[:2], part[3:]) for part in output.split("\0") if len(part) > 3]


_MAX_WALKED = 50_000


def measure(path: Path) -> tuple[int, int]:
    """Return the number of files at or below a path, and the newest change of one in ns; -1 where there are too
    many.
    """
    count = 0
    newest = 0
    try:
        if not stat.S_ISDIR((own := os.lstat(path)).st_mode):
            return 1, own.st_mtime_ns
        for place, directories, files in os.walk(path):
            count += len(files)
            if count > _MAX_WALKED:
                return -1, 0
            for name in (*directories, *files):
                newest = max(newest, os.lstat(os.path.join(place, name)).st_mtime_ns)
    except OSError:
        return -1, 0
    return count, newest


def _is_from_setup(record: WorktreeRecord, path: str) -> bool:
    measured = record.setup.get(path)
    return measured is not None and measured[0] >= 0 and measure(record.tree / path) == tuple(measured)


_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Ignored directories with generated files only."""


def _is_cache(directory: Path) -> bool:
    """Return True for a directory whose files are all in directories of generated files."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    walked = 0
    for place, below, files in os.walk(directory):
        if os.path.basename(place) in _CACHES:
            below.clear()
            continue
        walked += len(below)
        if files or walked > _MAX_WALKED or any(os.path.islink(os.path.join(place, name)) for name in below):
            return False
    return True


def teams_with_work(git: RepositoryGit) -> list[str]:
    """Return the names in branches of the teams whose integrated work is not in the commit of the checkout."""
    pattern = f"refs/heads/{BRANCHES}/*/{INTEGRATION}"
    done = git.call("for-each-ref", "--format=%(refname)", "--no-merged=HEAD", pattern)
    return [ref.split("/")[-2] for ref in done.output.split()] if done.ok else []


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
    place = tree / path
    found = list[str]()
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
