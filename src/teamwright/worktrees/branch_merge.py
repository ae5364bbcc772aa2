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
            paths = self._run_in_worktree(args)
            return MergeConflict(paths) if paths else self.git.read("write-tree", cwd=self.worktree.tree)
        args = ("merge-tree", "--write-tree", "--name-only", "--messages", "-z", ours, theirs)
        done = self.git.call(*args)
        if done.exit_code not in {0, 1}:
            raise git_error(args, done, self.git.tree)
        return _read_conflict(done.output) if done.exit_code else done.output.partition("\0")[0]

    def _rebase(self, entry: IntegrationEntry, old: str, integrated: str) -> str | MergeConflict:
        self.worktree.check_out(entry.tip)
        self.git.call("rebase", "--quit", cwd=self.worktree.tree)  # one that a kill interrupted
        conflict = self._run_in_worktree(("rebase", "--quiet", "--onto", old, integrated or old))
        return MergeConflict(conflict) if conflict else self.git.read("rev-parse", "HEAD", cwd=self.worktree.tree)

    def _run_in_worktree(self, args: tuple[str, ...]) -> tuple[str, ...]:
        """Run a merge or rebase there, and return the paths in conflict, after which it is undone."""
        tree = self.worktree.tree
        done = self.git.call(*args, cwd=tree, identity=True)
        if done.ok:
            return ()
        paths = tuple(dict.fromkeys(_real_name(tree, path) for path in conflicting_paths(self.git, tree)))
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


def _real_name(tree: Path, path: str) -> str:
    """Return the path of a file that git gave another name because the other side has a directory in its place."""
    name = _SIDE.sub("", path)
    return name if (tree / name).is_dir() else path


def conflicting_paths(git: RepositoryGit, tree: Path) -> tuple[str, ...]:
    """Return the paths of a worktree with a conflict that git has not been told to be resolved."""
    output = git.read("diff", "--name-only", "--diff-filter=U", "-z", cwd=tree)
    return tuple(dict.fromkeys(path for path in output.split("\0") if path))
