"""The branch of a member: a completed task commits its files, and it moves to the team's work before the next task.

Who calls this, and when, is decided in the packages above, which also have the task list and the queue.
"""

from __future__ import annotations

import asyncio
import os
import time

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import WorktreeRefused
from teamwright.protocol.task import IntegrationState, Task, TaskIntegration
from teamwright.worktrees.commit_limits import CommitLimits, read_uncommitted, require_limits, short_list
from teamwright.worktrees.hooked_commit import commit_with_hooks, undo_interrupted_commit
from teamwright.worktrees.integration import conflicting_paths
from teamwright.worktrees.repository_git import RepositoryGit, git_error
from teamwright.worktrees.worktree_creation import SetupCommand
from teamwright.worktrees.worktree_identity import require_directory, require_worktree
from teamwright.worktrees.worktree_record import WorktreeRecord, finished_ref, read_record
from teamwright.worktrees.worktree_state import changed_files, integrated_commits

MESSAGE_VARIABLE = "TEAMWRIGHT_MESSAGE"

COMMIT_WITH_HOOKS = f'git commit --quiet --cleanup=whitespace --message "${MESSAGE_VARIABLE}"'
"""The command that commits the index as a person would: with hooks, and with a signature where git is set up so."""

_RETURNED = (IntegrationState.CONFLICT, IntegrationState.FAILED)


class MemberWorktree(Struct, frozen=True):
    """The worktree of one member. `commit` is COMMIT_WITH_HOOKS, or empty: hooks and signing are skipped.

    `commits`: uncommitted files are committed when a task is completed; else the completion is refused.
    """

    git: RepositoryGit
    record: WorktreeRecord
    commit: SetupCommand
    commits: bool = True
    trailer: str = ""
    """The last line of the message of each commit; empty for none."""
    told_of_loss: set[str] = field(default_factory=set[str])
    """The paths of worktrees of whose loss this process has told the member."""
    limits: CommitLimits = CommitLimits()
    """The limits of what the runtime commits."""

    def missing_hooks(self) -> str:
        """Return a sentence about a directory of hooks that the worktree does not have; empty when all is well."""
        if not self.commit.command:
            return ""
        done = self.git.call("config", "--show-scope", "--get-all", "core.hooksPath", cwd=self.record.tree)
        values = [line.partition("\t") for line in done.output.splitlines()]
        named = [value for scope, _, value in values if scope != "command" and value]
        if not named or os.path.isdir(os.path.join(self.record.tree, os.path.expanduser(named[-1]))):
            return ""
        return (
            f"worktrees.commit_hooks is on, but no hook runs in worktrees: core.hooksPath is {named[-1]}, which the "
            f"worktree of {self.record.member} does not have. Let worktrees.setup make it"
        )

    async def save(self, task: Task, member: str) -> TaskIntegration | None:
        """Commit the files of a completed task, and return the commit to integrate; None without new commits.

        A task whose commit was returned needs a new one. The integrated work of the team is merged into the worktree
        first, and conflicts are left to the member. After a loss of its files a completion without commits is refused
        once. Raises WorktreeRefused; then the task is not completed.
        """
        last = task.integration if task.integration is not None and task.integration.state in _RETURNED else None
        await asyncio.to_thread(require_worktree, self.git, self.record)
        await asyncio.to_thread(undo_interrupted_commit, self.git, self.record, self.limits)
        await self._commit_files(task, member)
        if last is not None and last.branch != self.record.branch:
            await asyncio.to_thread(self._merge_former, last)
        tip = await asyncio.to_thread(unintegrated_tip, self.git, self.record)
        if last is not None and (last.state is IntegrationState.CONFLICT or last.tip == tip):
            await asyncio.to_thread(self._merge_team, last, tip)
            tip = await asyncio.to_thread(unintegrated_tip, self.git, self.record)
        if self.record.lost_files:
            await asyncio.to_thread(self._tell_of_loss, tip)
        if not tip:
            return None
        await asyncio.to_thread(self.git.read, "update-ref", finished_ref(self.record.branch), tip)
        return TaskIntegration(IntegrationState.QUEUED, self.record.branch, tip, self.record.base)

    def _tell_of_loss(self, tip: str) -> None:
        """Raise WorktreeRefused for a completion without commits, once in each process until one has succeeded.

        A kill after the refusal may come before the member reads it.
        """
        is_told = self.record.path in self.told_of_loss
        self.told_of_loss.add(self.record.path)
        if not tip and not is_told:
            raise WorktreeRefused(
                "worktree-refused",
                "your worktree was gone and was made again: what you had not committed is lost, and it has nothing new",
                do=["Do the work again, then complete the task. If nothing is left to do, complete it again."],
            )
        if (stored := read_record(self.record.file)).lost_files:
            replace(stored, lost_files=False).save()

    async def _commit_files(self, task: Task, member: str) -> None:
        if not self.commits and (files := await asyncio.to_thread(has_uncommitted, self.git, self.record)):
            raise WorktreeRefused(
                "worktree-refused",
                f"{files} of the worktree are not committed, and the setting worktrees.uncommitted is refuse",
                do=["git add and git commit them, then complete the task again"],
            )
        if not await asyncio.to_thread(stage_work, self.git, self.record, self.limits):
            return
        require_directory(self.record)
        subject = f"#{task.id} {task.subject} ({member})"
        trailer = f"\n{self.trailer}\n" if self.trailer else ""
        message = f"{subject}\n\nThe files of {member} when task #{task.id} was completed.\n{trailer}"
        variables = {MESSAGE_VARIABLE: message}
        if not self.commit.command:
            await asyncio.to_thread(commit_staged, self.git, self.record, message)
            return
        variables |= await asyncio.to_thread(self.git.identity_variables, self.record.tree)
        await commit_with_hooks(self.git, self.record, self.commit, variables, self.limits)

    def _merge_former(self, last: TaskIntegration) -> None:
        """Merge the returned commit of a former owner, if `move` could not. Raises WorktreeRefused for conflicts."""
        if paths := merge_commit(self.git, self.record, last.tip, last.branch):
            raise WorktreeRefused(
                "worktree-refused",
                f"the task was begun on {last.branch}, which is merged into your worktree now. "
                f"{describe_conflicts(self.record, paths)}",
                do=["Keep the changes of both sides, then complete the task again."],
            )

    def _merge_team(self, last: TaskIntegration, tip: str) -> None:
        """Merge the integrated work into the branch of a returned commit. Raises WorktreeRefused for what is left."""
        name = self.record.integration_branch
        paths = merge_commit(self.git, self.record, name, name)
        if paths:
            raise WorktreeRefused(
                "worktree-refused",
                f"{name} is merged into your worktree now. {describe_conflicts(self.record, paths)}",
                do=["Keep the changes of both sides, then complete the task again."],
            )
        if last.tip == tip:
            raise WorktreeRefused(
                "worktree-refused",
                f"its commit {tip[:12]} was returned, and nothing was changed since. {name} is merged into your "
                "worktree now",
                do=["Fix the cause there, then complete the task again."],
            )

    def move(self, task: Task) -> str:
        """Move the branch to the integrated work before a task begins. Returns a note for the member, or an empty text.

        Commits that are not integrated are merged with it only for a task that waited for others. The returned work of
        a former owner is merged too, with conflict markers. Raises WorktreeRefused, CannotStart.
        """
        require_worktree(self.git, self.record)
        undo_interrupted_commit(self.git, self.record, self.limits)
        notes: list[str] = []
        name = self.record.integration_branch
        target = self.git.commit_of(f"refs/heads/{name}")
        if target and (task.blocked_by or not unintegrated_tip(self.git, self.record)):
            paths = merge_commit(self.git, self.record, target, name)
            if paths:
                abort_merge(self.git, self.record)
                notes.append(
                    f"Your worktree was not moved to {name} before task #{task.id}: your commits conflict with it in "
                    f"{short_list(paths)}. Commits of the tasks that #{task.id} waited for are on that branch."
                )
        last = task.integration
        if last is not None and last.state in _RETURNED and last.branch != self.record.branch:
            paths = merge_commit(self.git, self.record, last.tip, last.branch)
            marked = f" {describe_conflicts(self.record, paths)}." if paths else ""
            notes.append(
                f"Task #{task.id} was begun by another member: {last.branch} is merged into your worktree.{marked}"
            )
        return " ".join(notes)


STALE_LOCK_S = 10.0
"""Seconds after which the lock of a worktree's index is one that a killed git left."""


def stage_work(git: RepositoryGit, record: WorktreeRecord, limits: CommitLimits) -> bool:
    """Add all uncommitted files to the index, except those of setup. Returns False when there is nothing to commit.

    Raises WorktreeRefused while another branch is checked out, a file has conflict markers or is still as one side of a
    conflict, for a repository inside the worktree, and for files that the runtime does not commit.
    """
    _require_branch(git, record)
    conflicting = conflicting_paths(git, record.tree)
    if marked := [path for path in conflicting if _has_markers(record, path)]:
        raise WorktreeRefused(
            "worktree-refused",
            f"conflict markers are left in {short_list(marked)}",
            do=["edit these files, so that both sides are kept and no marker is left"],
        )
    if unresolved := _as_one_side(git, record, conflicting):
        raise WorktreeRefused(
            "worktree-refused",
            f"the conflict in {short_list(unresolved)} is not resolved: there is the file of one side only",
            do=["edit these files, or git add them (or git rm them) as they should be"],
        )
    modified, untracked, _ = changed_files(git, record)
    if nested := _nested_repositories(git, record, untracked):
        raise WorktreeRefused(
            "worktree-refused",
            f"{short_list(nested)} of the worktree has a git repository, whose files would not be committed",
            do=["delete that directory, or add its name to .gitignore"],
        )
    paths = (*modified, *untracked)
    if paths:
        by_setup = record.setup.keys() - set(untracked)
        require_limits(git, record.tree, read_uncommitted(git, record.tree, by_setup), limits)
    if unstaged := _unstaged(git, record, paths):
        _remove_stale_lock(git, record)
        text = "".join(f"{path}\0" for path in unstaged)
        args = ("--literal-pathspecs", "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        # A git before 2.35 has no --sparse, and adds files outside of a sparse checkout without it.
        if git.call(*args, "--sparse", cwd=record.tree, text=text).exit_code != 0:
            git.read(*args, cwd=record.tree, text=text)
    return bool(paths) or _is_merging(git, record)


def merge_commit(git: RepositoryGit, record: WorktreeRecord, commit: str, name: str) -> tuple[str, ...]:
    """Merge a commit of the team into the member's branch. Returns the paths in conflict, whose files have markers.

    A branch whose commits are all integrated moves to the newest integrated commit. Raises WorktreeRefused, and changes
    nothing, for a worktree with uncommitted files or another branch, and while a merge or rebase is in progress.
    """
    _require_branch(git, record)
    head = git.commit_of("HEAD", record.tree)
    commit = git.commit_of(commit)
    if not commit or git.contains(commit, head):
        return ()
    modified, _, _ = changed_files(git, record)
    if modified or _is_merging(git, record):
        what = f"uncommitted changes: {short_list(modified)}" if modified else "a merge in progress"
        raise WorktreeRefused(
            "worktree-refused",
            f"the worktree of {record.member} has {what}",
            do=["git add and git commit, then continue"],
            note="nothing was changed",
        )
    _remove_stale_lock(git, record)
    is_newest = commit == git.commit_of(f"refs/heads/{record.integration_branch}")
    if is_newest and any(git.contains(head, one) for one in integrated_commits(git, record)):
        # All its commits are integrated, perhaps squashed or rebased: the originals have a ref.
        reset = ("reset", "--keep", "--quiet", commit)
        done = git.change_files(*reset, cwd=record.tree)
        if not done.ok:
            raise git_error(reset, done, record.tree)
        return ()
    args = ("merge", "--quiet", "--no-edit", "-m", f"Merge {name} into {record.branch}", commit)
    done = git.change_files(*args, cwd=record.tree, identity=True)
    if done.ok:
        return ()
    paths = conflicting_paths(git, record.tree)
    if not paths:
        raise git_error(args, done, record.tree)
    return paths


def abort_merge(git: RepositoryGit, record: WorktreeRecord) -> None:
    """Undo a merge with conflicts. Raises WorktreeRefused."""
    git.read("merge", "--abort", cwd=record.tree)


def commit_staged(git: RepositoryGit, record: WorktreeRecord, message: str) -> None:
    """Commit the index, without hooks and without a signature. Raises WorktreeRefused."""
    git.read(
        "commit",
        "--quiet",
        "--no-verify",
        "--cleanup=whitespace",
        "-F",
        "-",
        cwd=record.tree,
        text=message,
        identity=True,
    )


def has_uncommitted(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Return the names of the first uncommitted files, as a text; empty when there are none."""
    modified, untracked, _ = changed_files(git, record)
    return short_list((*modified, *untracked))


def unintegrated_tip(git: RepositoryGit, record: WorktreeRecord) -> str:
    """Return the newest commit of the branch; empty when it has none that is not integrated."""
    tip = git.commit_of(f"refs/heads/{record.branch}")
    if not tip or tip == record.base or any(git.contains(tip, one) for one in integrated_commits(git, record)):
        return ""
    return tip


def describe_conflicts(record: WorktreeRecord, paths: tuple[str, ...]) -> str:
    """Return the files in conflict: those with markers, and those that git could only leave as they are."""
    marked = [path for path in paths if _has_markers(record, path)]
    others = [path for path in paths if path not in marked]
    parts = [f"These files have conflict markers: {short_list(marked)}"] if marked else []
    if others:
        parts.append(
            f"Without markers, because they are deleted, moved, binary or of another kind on one side: "
            f"{short_list(others)}; `git status` says how, and git add or git rm resolves each"
        )
    return ". ".join(parts)


def _require_branch(git: RepositoryGit, record: WorktreeRecord) -> None:
    """Raise WorktreeRefused while another branch is checked out."""
    branch = git.call("branch", "--show-current", cwd=record.tree).output.strip()
    if branch != record.branch:
        raise WorktreeRefused(
            "worktree-refused",
            f"{branch or 'no branch'} is checked out in the worktree of {record.member}, not {record.branch}",
            do=[f"git checkout {record.branch}", "end a rebase first: git rebase --continue, or --abort"],
        )


def _is_merging(git: RepositoryGit, record: WorktreeRecord) -> bool:
    return bool(git.commit_of("MERGE_HEAD", record.tree))


_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


def _has_markers(record: WorktreeRecord, path: str) -> bool:
    try:
        lines = (record.tree / path).read_bytes().splitlines()
    except OSError:
        return False  # deleted: that resolves the conflict
    return all(any(line.startswith(marker) for line in lines) for marker in _MARKERS)


def _unstaged(git: RepositoryGit, record: WorktreeRecord, paths: tuple[str, ...]) -> list[str]:
    """Return the paths without those of staged deletions, which are neither in the index nor in the worktree."""
    missing = {path for path in paths if not os.path.lexists(record.tree / path)}
    if missing:
        missing.difference_update(git.read("ls-files", "-z", "--deleted", cwd=record.tree).split("\0"))
    return [path for path in paths if path not in missing]


def _as_one_side(git: RepositoryGit, record: WorktreeRecord, paths: tuple[str, ...]) -> list[str]:
    """Return the paths in conflict whose file is still that of one side: git leaves it for a binary or deleted file.

    A link or a directory cannot be compared, and counts as unresolved until `git add`.
    """
    if not paths:
        return []
    sides: dict[str, set[str]] = {}
    for line in git.read("ls-files", "--unmerged", "-z", cwd=record.tree).split("\0"):
        about, _, path = line.partition("\t")
        if about:
            sides.setdefault(path, set()).add(about.split()[1])

    def is_one_side(path: str) -> bool:
        file = record.tree / path
        if file.is_symlink() or file.is_dir():
            return True
        return file.is_file() and git.read("hash-object", "--", path, cwd=record.tree) in sides.get(path, ())

    return [path for path in paths if is_one_side(path)]


def _nested_repositories(git: RepositoryGit, record: WorktreeRecord, untracked: tuple[str, ...]) -> list[str]:
    """Return the repositories in untracked directories: `git add` records only their commit."""
    directories = tuple(path for path in untracked if path.endswith("/"))
    if not directories:
        return []
    listed = git.read("ls-files", "--others", "--exclude-standard", "-z", cwd=record.tree).split("\0")
    return [path for path in listed if path.endswith("/") and path.startswith(directories)]


def _remove_stale_lock(git: RepositoryGit, record: WorktreeRecord) -> None:
    lock = record.tree / git.read("rev-parse", "--git-path", "index.lock", cwd=record.tree)
    try:
        if time.time() - os.stat(lock).st_mtime > STALE_LOCK_S:
            os.unlink(lock)
    except OSError:
        pass
