"""Integrate members' branches: one entry at a time is merged, checked, and moved onto the integration branch.

The person's checkout is not touched: `git merge-tree` merges without a checkout, and checks run in a worktree of their
own. Each step is safe to repeat. An entry whose commit the integration branch contains is merged, so a kill at any step
integrates it exactly once.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import CannotStart, TeamwrightError, WorktreeRefused
from teamwright.protocol.task import IntegrationState, TaskIntegration
from teamwright.worktrees.commit_limits import require_no_loss
from teamwright.worktrees.integration_store import IntegrationEntry, IntegrationStore, task_entry_id
from teamwright.worktrees.repository_git import RepositoryGit, git_error
from teamwright.worktrees.worktree_creation import SetupCommand, failure_text
from teamwright.worktrees.worktree_list import require_free
from teamwright.worktrees.worktree_record import (
    WorktreeRecord,
    integrated_ref,
    integration_branch,
    repository_directory,
)


class MergeStrategy(StrEnum):
    """The ways in which a member's commits get to the integration branch."""

    MERGE = "merge"
    REBASE = "rebase"
    SQUASH = "squash"


TRIES = 20
"""Attempts of one entry while another process moves the integration branch."""

MAX_PATHS = 100
"""Paths that the record of a conflict names."""

MAX_COMMITS = 10
"""Commits of each side that the reason of a conflict names."""

FAILS_BEFORE = "The check fails without this commit too"
"""The beginning of the reason of an entry whose check fails on the integration branch already."""

STALE_LOCK_S = 2.0
"""Seconds after which the lock of the integration branch is one that a killed git left: only its worker moves it."""

_REFUSED = (IntegrationState.CONFLICT, IntegrationState.FAILED)


class Integration(Struct, frozen=True):
    """The integration of one team's branches. `root` is the directory of all worktrees.

    `check` is the command that must pass on each merge before the branch moves; it runs in one detached worktree, which
    `setup` prepares. `strategy` says how commits are added.
    """

    git: RepositoryGit
    root: Path
    team: str
    store: IntegrationStore
    check: SetupCommand
    setup: SetupCommand = field(default_factory=SetupCommand)
    strategy: MergeStrategy = MergeStrategy.MERGE
    report: Callable[[IntegrationEntry], None] = lambda entry: None
    """Receives each entry with its new state."""
    checked: dict[str, str] = field(default_factory=dict[str, str])
    """Commits of the branch whose check has run, with the reason why it failed."""

    @property
    def branch(self) -> str:
        return integration_branch(self.team)

    @property
    def worktree(self) -> IntegrationWorktree:
        """The worktree of the checks."""
        directory = repository_directory(self.root, self.git.common)
        return IntegrationWorktree(self.git, directory / f".integration-{self.branch.split('/')[1]}")

    @property
    def lease_file(self) -> Path:
        """The lease of the queue: one process works it."""
        tree = self.worktree.tree
        return tree.with_name(f"{tree.name}.lease")

    async def add(self, record: WorktreeRecord, tip: str) -> bool:
        """Add the newest commit of a member's branch without a task; False when this tip is in the queue already.

        It comes after the entries of tasks.
        """
        id = f"{record.tree.name}-{tip[:12]}"
        order = record.created_at
        return await self.store.add(
            IntegrationEntry(id, record.branch, tip, record.base, record.member, record.team, "", order)
        )

    async def add_task(self, task: str, work: TaskIntegration, member: str) -> IntegrationEntry:
        """Add the commit of a completed task, and return its entry, which may be in any state already."""
        id = task_entry_id(task, work)
        entry = IntegrationEntry(id, work.branch, work.tip, work.base, member, self.team, task, int(task))
        if not await self.store.add(entry):
            return await self.store.get(id) or entry
        self.report(entry)
        return entry

    async def run(self) -> list[IntegrationEntry]:
        """Work the open entries in order. Returns each with its final state. Raises TeamwrightError.

        Without any, a deleted integration branch comes back whose commits the person's checkout does not contain.
        """
        entries = [entry for entry in await self.store.entries() if entry.is_open]
        if not entries:
            await _run_in_thread(self._bring_back)
        return [await self.work(entry) for entry in entries]

    async def work(self, entry: IntegrationEntry) -> IntegrationEntry:
        """Merge one entry, or decide why it cannot be merged. Returns it with its final state.

        Raises TeamwrightError when the fault is not the entry's: a disk, a git that fails. It is queued then.
        """
        try:
            return await self._integrate(entry)
        except TeamwrightError as problem:
            await self._set(entry, IntegrationState.QUEUED, detail=problem.what)
            raise

    async def _integrate(self, entry: IntegrationEntry) -> IntegrationEntry:
        if not await _run_in_thread(self.git.commit_of, entry.tip):
            detail = f"the repository does not have the commit {entry.tip[:12]} of {entry.branch}"
            return await self._set(entry, IntegrationState.FAILED, detail=detail)
        await _run_in_thread(require_free, self.git, self.branch)
        if not await _run_in_thread(self.git.commit_of, f"refs/heads/{self.branch}"):
            await _run_in_thread(self._begin, entry, await self.store.entries())
        for _ in range(TRIES):
            old = await _run_in_thread(self._tip)
            if await _run_in_thread(self._is_merged, entry, old):
                return await self._finish(entry)
            try:
                merged = await _run_in_thread(BranchMerge(self.git, self.worktree, self.strategy).make, entry, old)
            except WorktreeRefused:
                if await _run_in_thread(self._is_related, entry, old):
                    raise
                detail = f"{entry.branch} has no commit in common with {self.branch}: it has another first commit"
                return await self._set(entry, IntegrationState.FAILED, detail=detail)
            if isinstance(merged, MergeConflict):
                paths = merged.paths[:MAX_PATHS]
                more = len(merged.paths) - MAX_PATHS
                detail = await _run_in_thread(self._describe_conflict, entry, old, merged)
                detail += f"; {more} more files conflict" if more > 0 else ""
                return await self._set(entry, IntegrationState.CONFLICT, detail=detail, paths=paths)
            entry = await self._set(entry, IntegrationState.CHECKING, commit=merged)
            if refused := await self._check_merge(merged):
                if before := await self._check_before(old):
                    refused = f"{FAILS_BEFORE}, on {old[:12]} of {self.branch}: {before}"
                return await self._set(entry, IntegrationState.FAILED, detail=refused)
            if await _run_in_thread(self._move, merged, old):
                self.checked[merged] = ""
                return await self._finish(entry)
        raise WorktreeRefused("worktree-refused", f"{self.branch} is moved by another process all the time")

    def _bring_back(self) -> None:
        kept = self.git.commit_of(integrated_ref(self.branch))
        if not kept or self.git.commit_of(f"refs/heads/{self.branch}"):
            return
        head = self.git.commit_of("HEAD")
        if not head or not self.git.contains(kept, head):
            self.git.call("update-ref", f"refs/heads/{self.branch}", kept, "0" * len(kept))

    def _begin(self, entry: IntegrationEntry, entries: Sequence[IntegrationEntry]) -> None:
        """Make the integration branch: at the base of the first entry, or where it was before it was deleted."""
        begin = self.git.commit_of(integrated_ref(self.branch))
        for one in entries:
            commit = self.git.commit_of(one.commit) if one.state is IntegrationState.MERGED and one.commit else ""
            if commit and (not begin or self.git.contains(begin, commit)):
                begin = commit
        self.git.call("update-ref", f"refs/heads/{self.branch}", begin or entry.base, "0" * len(entry.base))

    def _tip(self) -> str:
        """Return the commit of the integration branch."""
        return self.git.read("rev-parse", "--verify", f"refs/heads/{self.branch}")

    def _is_related(self, entry: IntegrationEntry, old: str) -> bool:
        """Return True when the entry and the branch have a commit in common; git cannot merge others."""
        return self.git.call("merge-base", old, entry.tip).exit_code != 1

    def _is_merged(self, entry: IntegrationEntry, old: str) -> bool:
        """Return True when the integration branch contains the entry: also one that a kill interrupted after the move.

        A rebased or squashed commit is not its tip, so the commit that was made for it counts too.
        """
        return any(one and self.git.contains(one, old) for one in (entry.tip, entry.commit))

    def _move(self, merged: str, old: str) -> bool:
        """Move the branch from the old commit to the merge; False when it is not at the old one.

        A second ref moves with it, which keeps the commits when another program deletes the branch.
        """
        require_free(self.git, self.branch)
        name = f"refs/heads/{self.branch}"
        kept = integrated_ref(self.branch)
        orders = f"update {name} {merged} {old}\nupdate {kept} {merged}\n"
        done = self.git.call("update-ref", "--stdin", text=orders)
        if not done.ok and any([self._remove_stale_lock(name), self._remove_stale_lock(kept)]):
            done = self.git.call("update-ref", "--stdin", text=orders)
        return done.ok and self.git.contains(merged, self.branch)

    def _remove_stale_lock(self, name: str) -> bool:
        lock = self.git.common / f"{name}.lock"
        try:
            if time.time() - os.stat(lock).st_mtime > STALE_LOCK_S:
                os.unlink(lock)
                return True
        except OSError:
            pass
        return False

    async def _finish(self, entry: IntegrationEntry) -> IntegrationEntry:
        """Keep the member's own commits by a ref, which a squash or rebase replaces, and store that it is merged."""
        if self.strategy is not MergeStrategy.MERGE:
            await _run_in_thread(self.git.read, "update-ref", integrated_ref(entry.branch), entry.tip)
        return await self._set(entry, IntegrationState.MERGED, commit=entry.commit or entry.tip)

    def _describe_conflict(self, entry: IntegrationEntry, old: str, conflict: MergeConflict) -> str:
        """Return the kind of conflict where no markers show it, and the newest commits of both sides that made it."""
        sides = {self.branch: (entry.tip, old), entry.branch: (old, entry.tip)}
        lines = [f"it conflicts with {self.branch} at {old[:12]}", *conflict.notes[:MAX_COMMITS]]
        for name, (other, own) in sides.items():
            args = ("log", f"--max-count={MAX_COMMITS}", "--no-merges", "--format=%h %s", f"{other}..{own}", "--")
            commits = self.git.read("--literal-pathspecs", *args, *conflict.paths[:MAX_PATHS]).splitlines()
            if commits:
                lines.append(f"{name} has {', '.join(commits)}")
        return "; ".join(lines)

    async def _check_before(self, old: str) -> str:
        """Run the check on the branch without the entry, once for each of its commits. Returns why it failed."""
        if old not in self.checked:
            self.checked[old] = await self._check_merge(old)
        return self.checked[old]

    async def _check_merge(self, commit: str) -> str:
        """Run setup and the check on the merge in the integration worktree. Returns why one failed; empty: they passed.

        Setup runs until it succeeded once. Raises WorktreeRefused when the worktree cannot be made.
        """
        if not self.check.command:
            return ""
        tree = self.worktree.tree
        variables = {"TEAMWRIGHT_WORKTREE": str(tree), "TEAMWRIGHT_BRANCH": self.branch}
        await _run_in_thread(self.worktree.check_out, commit)
        mark = self.worktree.set_up_mark
        try:
            if not mark.exists() and await self.setup.run(tree, variables):
                mark.touch()
            await self.check.run(tree, variables)
        except WorktreeRefused as problem:
            return failure_text(problem)
        return ""

    async def note_returned(self, entry: IntegrationEntry) -> IntegrationEntry:
        """Record that the member was notified of an entry that cannot be merged."""
        return await self.store.change(entry.id, lambda now: replace(now, returned=True))

    async def _set(
        self,
        entry: IntegrationEntry,
        state: IntegrationState,
        *,
        commit: str = "",
        detail: str = "",
        paths: tuple[str, ...] = (),
    ) -> IntegrationEntry:
        def change(now: IntegrationEntry) -> IntegrationEntry:
            returned = now.returned or (state in _REFUSED and not now.task)
            return replace(now, state=state, commit=commit or now.commit, detail=detail, paths=paths, returned=returned)

        changed = await self.store.change(entry.id, change)
        self.report(changed)
        return changed


def fast_forward(git: RepositoryGit, branch: str, target: str) -> str:
    """Move a person's branch forward to a commit, with the files of a clean checkout. Returns the new commit.

    Raises WorktreeRefused for a branch with unmerged commits, one that is checked out in another worktree, a checkout
    with changed files, and a commit without most of the branch's files; nothing changes.
    """
    tip = git.commit_of(f"refs/heads/{branch}")
    goal = git.commit_of(target)
    if not tip or not goal:
        raise WorktreeRefused("worktree-refused", f"there is no branch {branch if not tip else target}")
    if not git.contains(tip, goal):
        raise WorktreeRefused(
            "worktree-refused",
            f"{branch} has commits that {target} does not contain",
            do=[f"git merge {target}", f"git rebase {branch} in a worktree, then integrate again"],
            note="nothing was changed",
        )
    require_no_loss(git, branch, tip, goal)
    if git.call("branch", "--show-current").output.strip() != branch:
        require_free(git, branch)
        git.read("update-ref", f"refs/heads/{branch}", goal, tip)
        return goal
    if git.read("status", "--porcelain=v1", "--untracked-files=no"):
        raise WorktreeRefused(
            "worktree-refused",
            f"the checkout {git.tree} has uncommitted changes",
            do=["git commit or git stash them first"],
            note="nothing was changed",
        )
    args = ("merge", "--ff-only", "--quiet", goal)
    done = git.change_files(*args)
    if not done.ok:
        raise git_error(args, done, git.tree)
    return goal


P = ParamSpec("P")
T = TypeVar("T")


async def _run_in_thread(call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Call git in a thread. A cancellation waits for it: nothing else may use the worktree while git changes it."""
    running = asyncio.ensure_future(asyncio.to_thread(call, *args, **more))
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait({running})


MERGE_TREE_VERSION = (2, 38)
"""The first version of git whose `merge-tree` merges two commits."""

MAX_SUBJECTS = 50
"""The most subjects of commits in the message of a squashed one."""


@lru_cache(maxsize=1)
def _git_version(git: RepositoryGit) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", git.read("version"))
    return tuple(map(int, found.groups())) if found is not None else (0, 0)


class BranchMerge(Struct, frozen=True):
    """Makes the commit that adds a member's commits to the integration branch. Moves no branch."""

    git: RepositoryGit
    worktree: IntegrationWorktree
    strategy: MergeStrategy = MergeStrategy.MERGE

    def make(self, entry: IntegrationEntry, old: str) -> str | MergeConflict:
        """Return the commit of the entry on top of `old`, or the conflict. Raises WorktreeRefused."""
        integrated = self._integrated(entry, old)
        tree = self._merged_tree(entry, old, integrated)
        if isinstance(tree, MergeConflict):
            return tree
        if self.strategy is MergeStrategy.REBASE and not self._has_merges(entry, old, integrated):
            return self._rebase(entry, old, integrated)
        parents = ("-p", old, "-p", entry.tip) if self.strategy is MergeStrategy.MERGE else ("-p", old)
        return self.git.read("commit-tree", tree, *parents, "-F", "-", text=self._message(entry, old), identity=True)

    def _integrated(self, entry: IntegrationEntry, old: str) -> str:
        """Return the member's own commit that `old` has squashed or rebased, and to which the entry adds; else empty.

        Empty too after a merge of the integration branch into the entry: then git finds the newer base itself.
        """
        if self.strategy is MergeStrategy.MERGE:
            return ""
        commit = self.git.commit_of(integrated_ref(entry.branch))
        if not commit or not self.git.contains(commit, entry.tip):
            return ""
        base = self.git.call("merge-base", old, entry.tip).output.strip()
        return commit if base and self.git.contains(base, commit) else ""

    def _has_merges(self, entry: IntegrationEntry, old: str, integrated: str) -> bool:
        """Return True when a rebase would drop a merge, which may resolve a conflict: one commit replaces it then."""
        args = ("--count", "--merges", entry.tip, f"^{old}", *([f"^{integrated}"] if integrated else []))
        return self.git.read("rev-list", *args) != "0"

    def _merged_tree(self, entry: IntegrationEntry, old: str, integrated: str) -> str | MergeConflict:
        ours = old
        theirs = entry.tip
        if integrated:
            # Commits whose one common parent is the base: `merge-tree --merge-base` needs git 2.40.
            ours, theirs = (
                self.git.read("commit-tree", f"{side}^{{tree}}", "-p", integrated, "-m", "side", identity=True)
                for side in (ours, theirs)
            )
        if _git_version(self.git) < MERGE_TREE_VERSION:
            self.worktree.check_out(ours, filtered=False)
            args = ("merge", "--quiet", "--no-commit", "--no-ff", theirs)
            paths = self._run_in_worktree(args)
            return MergeConflict(paths) if paths else self.git.read("write-tree", cwd=self.worktree.tree)
        args = ("merge-tree", "--write-tree", "--name-only", "--messages", "-z", ours, theirs)
        done = self.git.call(*args)
        if done.exit_code not in {0, 1}:
            raise git_error(args, done, self.git.tree)
        return _read_conflict(done.output) if done.exit_code else done.output.partition("\0")[0]

    def _rebase(self, entry: IntegrationEntry, old: str, integrated: str) -> str | MergeConflict:
        self.worktree.check_out(entry.tip, filtered=False)
        self.git.call("rebase", "--quit", cwd=self.worktree.tree)  # one that a kill interrupted
        conflict = self._run_in_worktree(("rebase", "--quiet", "--onto", old, integrated or old))
        return MergeConflict(conflict) if conflict else self.git.read("rev-parse", "HEAD", cwd=self.worktree.tree)

    def _run_in_worktree(self, args: tuple[str, ...]) -> tuple[str, ...]:
        """Run a merge or rebase there, and return the paths in conflict, after which it is undone."""
        tree = self.worktree.tree
        done = self.git.call(*args, cwd=tree, identity=True, programs_off=True)
        if done.ok:
            return ()
        paths = tuple(dict.fromkeys(_real_name(tree, path) for path in conflicting_paths(self.git, tree)))
        self.git.call(args[0], "--abort", cwd=tree, programs_off=True)
        if not paths:
            raise git_error(args, done, tree)
        return paths

    def _message(self, entry: IntegrationEntry, old: str) -> str:
        task = f"task {entry.task} of " if entry.task else ""
        trailer = f"Teamwright-Entry: {entry.id}\n"
        if self.strategy is MergeStrategy.MERGE:
            return f"Merge {task}{entry.member}\n\n{trailer}"
        subjects = self.git.read(
            "log", f"--max-count={MAX_SUBJECTS}", "--no-merges", "--reverse", "--format=* %s", f"{old}..{entry.tip}"
        )
        return f"Add {task}{entry.member}\n\n{subjects}\n\n{trailer}"


def conflicting_paths(git: RepositoryGit, tree: Path) -> tuple[str, ...]:
    """Return the paths of a worktree with a conflict that git has not been told to be resolved."""
    output = git.read("diff", "--name-only", "--diff-filter=U", "-z", cwd=tree)
    return tuple(dict.fromkeys(path for path in output.split("\0") if path))


def _real_name(tree: Path, path: str) -> str:
    """Return the path of a file that git gave another name because the other side has a directory in its place."""
    name = _SIDE.sub("", path)
    return name if (tree / name).is_dir() else path


class MergeConflict(Struct, frozen=True):
    """The paths in conflict, and sentences about those in which no markers show it."""

    paths: tuple[str, ...]
    notes: tuple[str, ...] = ()


_SENTENCES = {
    "file/directory": (1, "{1} is a file on one side and a directory on the other"),
    "distinct modes": (0, "{0} is a file on one side and a link on the other"),
    "distinct types": (0, "{0} is a file on one side and a link on the other"),
    "directory rename suggested": (1, "{1} is new in a directory that the other side moved; it may belong at {0}"),
    "modify/delete": (0, "{0} was changed on one side and deleted on the other"),
    "rename/delete": (0, "{0} was renamed on one side and deleted on the other"),
    "binary": (0, "{0} is binary and was changed on both sides"),
}
"""Sentences about kinds of conflicts, from the paths that git names, with the index of the path in the repository."""

_SIDES_WITHOUT_ROOM = frozenset({"file/directory", "distinct modes", "distinct types"})
"""Kinds of conflicts in which git gives a side another name (`a.txt~main`), also in its later messages."""

_SIDE = re.compile(r"~[^/]*$")
_KIND = re.compile(r"CONFLICT \(([^)]*)\)")


def _read_conflict(output: str) -> MergeConflict:
    """Return the conflict that `git merge-tree -z` describes after the tree. Format: git-merge-tree(1)."""
    listed, _, rest = output.partition("\0\0")
    paths = [path for path in listed.split("\0")[1:] if path]
    notes: list[str] = []
    real_names: dict[str, str] = {}
    fields = iter(rest.split("\0"))
    for count in fields:
        if not count.strip().isdigit():
            break
        named = [next(fields, "") for _ in range(int(count))]
        kind = _KIND.fullmatch(next(fields, ""))
        next(fields, "")
        sentence = _SENTENCES.get(kind[1]) if kind is not None else None
        if sentence is None or len(named) <= sentence[0]:
            continue
        named = [real_names.get(name, name) for name in named]
        real = named[sentence[0]]
        notes.append(sentence[1].format(*named))
        if kind is not None and kind[1] in _SIDES_WITHOUT_ROOM:
            real_names |= dict.fromkeys(named, real)
        paths = [path for path in paths if path == real or path not in named] + [real] * (real not in paths)
    return MergeConflict(tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(notes)))


class IntegrationWorktree(Struct, frozen=True):
    """The one detached worktree in which merges are checked. Only the holder of its lease uses it."""

    git: RepositoryGit
    tree: Path

    @property
    def exists(self) -> bool:
        """True when it was created."""
        return (self.tree / ".git").exists()

    @property
    def set_up_mark(self) -> Path:
        """The file that says that setup ran in it; beside it, so that no checkout removes the mark."""
        return self.tree.with_name(f"{self.tree.name}.set-up")

    def check_out(self, commit: str, *, filtered: bool = True) -> None:
        """Check out a commit, without the files of an earlier one, in a new worktree if there is none.

        What a kill left in it is removed with it. `filtered`: git's filters run on its files, if their scripts are as
        they were trusted. Raises WorktreeRefused, CannotStart.
        """
        if not self._move(commit):
            self._remove_rest()
            args = ("worktree", "add", "--quiet", "--force", "--force", "--detach", str(self.tree), commit)
            done = self.git.call(*args, programs_off=True)
            if not done.ok:
                raise git_error(args, done, self.git.tree)
        if filtered:
            self.git.filter_files(self.tree)

    def _move(self, commit: str) -> bool:
        """Check out a commit in the worktree that is there. Returns False, and removes it, when git cannot."""
        if not self.exists:
            return False
        args = ("checkout", "--quiet", "--force", "--detach", commit)
        try:
            if self.git.call(*args, cwd=self.tree, programs_off=True).ok:
                self.git.read("clean", "-ffdq", cwd=self.tree)
                return True
        except (WorktreeRefused, CannotStart):  # CannotStart: git's own directory of the worktree is gone
            pass
        self.remove()
        return False

    def remove(self) -> None:
        """Remove it; it never has work. Raises WorktreeRefused."""
        if self.exists:
            self.git.call("worktree", "remove", "--force", "--force", str(self.tree))
        self._remove_rest()

    def _remove_rest(self) -> None:
        """Remove the files of a worktree that git does not know or could not remove, such as after a kill."""
        self.set_up_mark.unlink(missing_ok=True)
        if not os.path.lexists(self.tree):
            return
        try:
            shutil.rmtree(self.tree)
        except OSError as problem:
            raise WorktreeRefused(
                "worktree-refused",
                f"the rest of a worktree could not be removed: {problem}",
                looked_at=[("directory", str(self.tree))],
                do=[f"rm -rf {self.tree}"],
            ) from None
        self.git.forget_worktree(self.tree)
