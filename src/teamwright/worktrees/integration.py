"""The integration of members' branches: one entry at a time is merged, checked, and moved onto the integration branch.

The person's checkout is never touched. Each step is safe to repeat: an entry whose tip the integration branch contains
is merged, so a kill at any step integrates it exactly once. Depends on git and on the queue's port.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import WorktreeRefused
from teamwright.worktrees.integration_store import (
    IntegrationEntry,
    IntegrationState,
    IntegrationStore,
)
from teamwright.worktrees.repository_git import RepositoryGit, git_error
from teamwright.worktrees.setup_command import SetupCommand
from teamwright.worktrees.worktree_record import WorktreeRecord, integration_branch, repository_directory

TRIES = 20
"""Attempts of one entry while another process moves the integration branch."""


MAX_COMMITS = 10
"""Commits of each side that the reason of a conflict names."""


class Integration(Struct, frozen=True):
    """The integration of one team's branches. `root` is the directory of all worktrees.

    `check` is the command that must pass on each merge before the branch moves; it runs in one detached worktree.
    """

    git: RepositoryGit
    root: Path
    team: str
    store: IntegrationStore
    check: SetupCommand

    @property
    def branch(self) -> str:
        """The integration branch."""
        return integration_branch(self.team)

    async def add(self, record: WorktreeRecord, tip: str, task: str = "") -> bool:
        """Add the commits of a member's branch to the queue; False when this tip is in it already."""
        order = int(task) if task.isdigit() else record.created_at
        entry = IntegrationEntry(
            f"{record.tree.name}-{tip[:12]}", record.branch, tip, record.base, record.member, record.team, task, order
        )
        return await self.store.add(entry)

    async def run(self) -> list[IntegrationEntry]:
        """Work the open entries in order. Returns each with its final state. Raises TeamwrightError."""
        return [await self._integrate(entry) for entry in await self.store.entries() if entry.is_open]

    async def _integrate(self, entry: IntegrationEntry) -> IntegrationEntry:
        for _ in range(TRIES):
            old = await asyncio.to_thread(self._tip, entry)
            if await asyncio.to_thread(self.git.contains, entry.tip, old):
                return await self._set(entry, IntegrationState.MERGED)
            merged = await asyncio.to_thread(self._merge, entry, old)
            if isinstance(merged, tuple):
                detail = await asyncio.to_thread(self._describe_conflict, entry, old, merged)
                return await self._set(entry, IntegrationState.CONFLICT, detail=detail, paths=merged)
            entry = await self._set(entry, IntegrationState.CHECKING, commit=merged)
            try:
                await self._run_check(merged)
            except WorktreeRefused as problem:
                return await self._set(entry, IntegrationState.FAILED, detail=str(problem))
            moved = await asyncio.to_thread(self.git.call, "update-ref", f"refs/heads/{self.branch}", merged, old)
            if moved.ok and await asyncio.to_thread(self.git.contains, entry.tip, self.branch):
                return await self._set(entry, IntegrationState.MERGED)
        raise WorktreeRefused("worktree-refused", f"{self.branch} is moved by another process all the time")

    def _tip(self, entry: IntegrationEntry) -> str:
        """Return the commit of the integration branch, which begins at the base of the first entry."""
        name = f"refs/heads/{self.branch}"
        if not self.git.commit_of(name):
            self.git.call("update-ref", name, entry.base, "0" * len(entry.base))
        return self.git.read("rev-parse", "--verify", name)

    def _merge(self, entry: IntegrationEntry, old: str) -> str | tuple[str, ...]:
        """Return the merge commit of the entry onto a commit, or the paths in conflict. Changes no branch."""
        args = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", old, entry.tip)
        done = self.git.call(*args)
        if done.exit_code not in {0, 1}:
            raise git_error(args, done, self.git.tree)
        tree, *paths = [part for part in done.output.split("\0") if part]
        if done.exit_code == 1:
            return tuple(paths)
        subject = f"Merge {f'task {entry.task} of ' if entry.task else ''}{entry.member}"
        text = f"{subject}\n\nTeamwright-Entry: {entry.id}\n"
        return self.git.read("commit-tree", tree, "-p", old, "-p", entry.tip, "-F", "-", text=text, identity=True)

    def _describe_conflict(self, entry: IntegrationEntry, old: str, paths: tuple[str, ...]) -> str:
        """Return the commits of both sides that changed the paths in conflict, the newest first."""
        sides = {self.branch: (entry.tip, old), entry.branch: (old, entry.tip)}
        lines = [f"it conflicts with {self.branch} at {old[:12]}"]
        for name, (other, own) in sides.items():
            args = ("log", f"--max-count={MAX_COMMITS}", "--no-merges", "--format=%h %s", f"{other}..{own}", "--")
            commits = self.git.read("--literal-pathspecs", *args, *paths).splitlines()
            lines.append(f"{name} has {', '.join(commits)}")
        return "; ".join(lines)

    async def _run_check(self, commit: str) -> None:
        """Check out the merge in the integration worktree and run the check there. Raises WorktreeRefused."""
        if not self.check.command:
            return
        tree = repository_directory(self.root, self.git.common) / f".integration-{self.branch.split('/')[1]}"
        await asyncio.to_thread(self._check_out, tree, commit)
        await self.check.run(tree, {"TEAMWRIGHT_WORKTREE": str(tree), "TEAMWRIGHT_BRANCH": self.branch})

    def _check_out(self, tree: Path, commit: str) -> None:
        if not (tree / ".git").exists():
            self.git.read("worktree", "add", "--quiet", "--force", "--force", "--detach", str(tree), commit)
            return
        self.git.read("checkout", "--quiet", "--force", "--detach", commit, cwd=tree)
        self.git.read("clean", "-ffdq", cwd=tree)

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
            return replace(now, state=state, commit=commit or now.commit, detail=detail, paths=paths)

        return await self.store.change(entry.id, change)


def fast_forward(git: RepositoryGit, branch: str, target: str) -> str:
    """Move a person's branch forward to a commit, with the files of a clean checkout. Returns the new commit.

    Raises WorktreeRefused for a branch with unmerged commits and for a checkout with changed files; nothing changes.
    """
    tip, goal = git.commit_of(f"refs/heads/{branch}"), git.commit_of(target)
    if not tip or not goal:
        raise WorktreeRefused("worktree-refused", f"there is no branch {branch if not tip else target}")
    if not git.contains(tip, goal):
        raise WorktreeRefused(
            "worktree-refused",
            f"{branch} has commits that {target} does not contain",
            do=[f"git merge {target}", f"git rebase {branch} in a worktree, then integrate again"],
            note="nothing was changed",
        )
    if git.call("symbolic-ref", "-q", "--short", "HEAD").output.strip() != branch:
        git.read("update-ref", f"refs/heads/{branch}", goal, tip)
        return goal
    if git.read("status", "--porcelain=v1", "--untracked-files=no"):
        raise WorktreeRefused(
            "worktree-refused",
            f"the checkout {git.tree} has uncommitted changes",
            do=["git commit or git stash them first"],
            note="nothing was changed",
        )
    git.read("merge", "--ff-only", "--quiet", goal)
    return goal
