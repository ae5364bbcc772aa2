"""A commit of a member on top of the integration branch: merged, rebased or squashed, with the branch unchanged.

`git merge-tree` merges without a checkout; a git before 2.38 merges in the integration worktree. Depends on git.
"""

from __future__ import annotations

import os
import re
import shutil
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.repository_git import RepositoryGit, git_error
from teamwright.worktrees.worktree_record import integrated_ref

MERGE_TREE_VERSION = (2, 38)
"""The first version of git whose `merge-tree` merges two commits."""

MAX_SUBJECTS = 50
"""The most subjects of commits in the message of a squashed one."""


class MergeStrategy(StrEnum):
    """How a member's commits are added to the integration branch."""

    MERGE = "merge"
    REBASE = "rebase"
    SQUASH = "squash"


@lru_cache(maxsize=1)
def _git_version(git: RepositoryGit) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", git.read("version"))
    return tuple(map(int, found.groups())) if found is not None else (0, 0)


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

    def check_out(self, commit: str) -> None:
        """Check out a commit, without the files of an earlier one, in a new worktree if there is none.

        What a kill left in it is removed with it. Raises WorktreeRefused, CannotStart.
        """
        if self.exists:
            try:
                self.git.read("checkout", "--quiet", "--force", "--detach", commit, cwd=self.tree)
                self.git.read("clean", "-ffdq", cwd=self.tree)
            except (WorktreeRefused, CannotStart):  # CannotStart: git's own directory of the worktree is gone
                self.remove()
            else:
                return
        self._remove_rest()
        self.git.read("worktree", "add", "--quiet", "--force", "--force", "--detach", str(self.tree), commit)

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


class BranchMerge(Struct, frozen=True):
    """Makes the commit that adds a member's commits to the integration branch. Moves no branch."""

    git: RepositoryGit
    worktree: IntegrationWorktree
    strategy: MergeStrategy = MergeStrategy.MERGE

    def make(self, entry: IntegrationEntry, old: str) -> str | tuple[str, ...]:
        """Return the commit of the entry on top of `old`, or the paths in conflict. Raises WorktreeRefused."""
        integrated = self._integrated(entry, old)
        tree = self._merged_tree(entry, old, integrated)
        if isinstance(tree, tuple):
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

    def _merged_tree(self, entry: IntegrationEntry, old: str, integrated: str) -> str | tuple[str, ...]:
        ours, theirs = old, entry.tip
        if integrated:
            # Commits whose one common parent is the base: `merge-tree --merge-base` needs git 2.40.
            ours, theirs = (
                self.git.read("commit-tree", f"{side}^{{tree}}", "-p", integrated, "-m", "side", identity=True)
                for side in (ours, theirs)
            )
        if _git_version(self.git) < MERGE_TREE_VERSION:
            self.worktree.check_out(ours)
            args = ("merge", "--quiet", "--no-commit", "--no-ff", theirs)
            return self._run_in_worktree(args) or self.git.read("write-tree", cwd=self.worktree.tree)
        args = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        done = self.git.call(*args)
        if done.exit_code not in {0, 1}:
            raise git_error(args, done, self.git.tree)
        tree, *paths = [part for part in done.output.split("\0") if part]
        return tuple(paths) if done.exit_code else tree

    def _rebase(self, entry: IntegrationEntry, old: str, integrated: str) -> str | tuple[str, ...]:
        self.worktree.check_out(entry.tip)
        self.git.call("rebase", "--quit", cwd=self.worktree.tree)  # one that a kill interrupted
        conflict = self._run_in_worktree(("rebase", "--quiet", "--onto", old, integrated or old))
        return conflict or self.git.read("rev-parse", "HEAD", cwd=self.worktree.tree)

    def _run_in_worktree(self, args: tuple[str, ...]) -> tuple[str, ...]:
        """Run a merge or rebase there, and return the paths in conflict, after which it is undone."""
        tree = self.worktree.tree
        done = self.git.call(*args, cwd=tree, identity=True)
        if done.ok:
            return ()
        paths = conflicting_paths(self.git, tree)
        self.git.call(args[0], "--abort", cwd=tree)
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
