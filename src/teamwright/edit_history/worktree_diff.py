"""The changes of a member in its worktree, against the integration branch of its team.

A change that is integrated already is not shown; files that are in no commit are. Depends on git.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.config.trust import TrustStore
from teamwright.edit_history.session_diff import COMPARED_MOST, EditShare, FileChange
from teamwright.git.git_calls import GitCallOptions, run_git
from teamwright.storage.paths import Home
from teamwright.worktrees.repository_git import TIMEOUT_S, RepositoryGit, git_error
from teamwright.worktrees.worktree_record import WorktreeRecord, list_records
from teamwright.worktrees.worktree_state import changed_files, integrated_commits

_STATES = {"A": "created", "D": "removed"}


def find_worktree(home: Home, session: str, member: str) -> WorktreeRecord | None:
    """Return the newest worktree of a session's member that is there; None without one."""
    records = list_records(home.worktrees)[0]
    own = [one for one in records if one.session == session and one.member.lower() == member.lower()]
    return next((one for one in reversed(own) if one.tree.is_dir()), None)


class WorktreeDiff(Struct, frozen=True):
    """The differences of one worktree to `base`, the newest integrated commit that it contains.

    `branch` is the integration branch, or the base of the worktree before anything was integrated.
    """

    git: RepositoryGit
    record: WorktreeRecord
    base: str
    branch: str

    @classmethod
    def open(cls, home: Home, record: WorktreeRecord) -> WorktreeDiff:
        """Find the base. Raises WorktreeRefused, CannotStart."""
        start = Path(record.repository)
        git = RepositoryGit.open(start, TrustStore.load(home).verdict(start).trusted_git)
        head = git.commit_of("HEAD", record.tree)
        base = record.base
        integrated = integrated_commits(git, record)
        for commit in integrated:
            common = git.call("merge-base", head, commit).output.strip()
            if common and git.contains(base, common):
                base = common
        return cls(git, record, base, record.integration_branch if integrated else record.base_name or "its base")

    @property
    def against(self) -> str:
        """The branch and the commit of the comparison, as shown to people."""
        return f"{self.branch} at {self.base[:12]}"

    def files(self, count_edits: Callable[[str], int]) -> Iterator[FileChange]:
        """Yield each changed file; `count_edits` returns the recorded edits of a path. Raises WorktreeRefused."""
        with tempfile.TemporaryDirectory(prefix="teamwright-") as temporary:
            index = Path(temporary, "index")
            self._copy_index(index)
            parts = self._split(index, "--name-status")
            states = dict(zip(parts[1::2], parts[::2], strict=True))
            for row in self._split(index, "--numstat"):
                added, removed, path = row.split("\t", 2)
                file = str(self.record.tree / path)
                share = EditShare(self.record.member, max(1, count_edits(file)))
                yield self._change(index, path, _STATES.get(states.get(path, ""), "changed"), (added, removed), share)

    def _change(self, index: Path, path: str, state: str, counts: tuple[str, str], share: EditShare) -> FileChange:
        is_binary = counts[0] == "-"
        text = "" if is_binary else self._git(index, "diff", "--no-renames", self.base, "--", f":(top,literal){path}")
        at = text.find("\n@@ ")
        old = "/dev/null" if state == "created" else f"a/{path}"
        new = "/dev/null" if state == "removed" else f"b/{path}"
        note = "" if at >= 0 else "no line differs"
        if is_binary:
            note = f"binary, or larger than {COMPARED_MOST // 1024**2} MB"
        return FileChange(
            path,
            str(self.record.tree / path),
            state,
            (share,),
            share.edits,
            None if is_binary else int(counts[0]),
            None if is_binary else int(counts[1]),
            f"--- {old}\n+++ {new}{text[at:]}" if at >= 0 else "",
            note,
        )

    def _copy_index(self, index: Path) -> None:
        """Copy the index, so that files in no commit can be compared without a change of the worktree's own."""
        tree = self.record.tree
        own = os.path.join(tree, self.git.read("rev-parse", "--git-path", "index", cwd=tree))
        if os.path.exists(own):
            shutil.copyfile(own, index)
        untracked = changed_files(self.git, self.record)[1]
        if untracked:
            listed = "".join(f"{path}\0" for path in untracked)
            self._git(index, "add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul", text=listed)

    def _split(self, index: Path, form: str) -> list[str]:
        return [part for part in self._git(index, "diff", "--no-renames", form, "-z", self.base).split("\0") if part]

    def _git(self, index: Path, *args: str, text: str = "") -> str:
        variables = {"GIT_INDEX_FILE": str(index)} | ({"GIT_LITERAL_PATHSPECS": "1"} if text else {})
        switches = ("-c", f"core.bigFileThreshold={COMPARED_MOST}")
        terms = GitCallOptions(self.git.trusted, switches, variables, text, exact=True)
        done = run_git(self.record.tree, *args, timeout_s=TIMEOUT_S, terms=terms)
        if not done.ok:
            raise git_error(args, done, self.record.tree)
        return done.output
