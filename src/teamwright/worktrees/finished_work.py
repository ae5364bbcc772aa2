"""The finished work of a member: its files are committed for a completed task, and its worktree moves before the next.

Depends on the member's branch. Leaves the task list and the queue to the packages above.
"""

from __future__ import annotations

import asyncio
import os

from msgspec import Struct

from teamwright.protocol.errors import WorktreeRefused
from teamwright.protocol.integration import IntegrationState, TaskIntegration
from teamwright.protocol.task import Task
from teamwright.worktrees.commit_limits import CommitLimits
from teamwright.worktrees.hooked_commit import commit_with_hooks
from teamwright.worktrees.member_branch import (
    abort_merge,
    commit_staged,
    describe_conflicts,
    has_uncommitted,
    merge_commit,
    short_list,
    stage_work,
    unintegrated_tip,
)
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.setup_command import SetupCommand
from teamwright.worktrees.worktree_check import require_directory, require_worktree
from teamwright.worktrees.worktree_record import WorktreeRecord, finished_ref

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
    limits: CommitLimits = CommitLimits()
    """What the runtime commits at most."""

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
        first, and conflicts are left to the member. Raises WorktreeRefused; then the task is not completed.
        """
        last = task.integration if task.integration is not None and task.integration.state in _RETURNED else None
        await asyncio.to_thread(require_worktree, self.git, self.record)
        await self._commit_files(task, member)
        if last is not None and last.branch != self.record.branch:
            await asyncio.to_thread(self._merge_former, last)
        tip = await asyncio.to_thread(unintegrated_tip, self.git, self.record)
        if last is not None and (last.state is IntegrationState.CONFLICT or last.tip == tip):
            await asyncio.to_thread(self._merge_team, last, tip)
            tip = await asyncio.to_thread(unintegrated_tip, self.git, self.record)
        if not tip:
            return None
        await asyncio.to_thread(self.git.read, "update-ref", finished_ref(self.record.branch), tip)
        return TaskIntegration(IntegrationState.QUEUED, self.record.branch, tip, self.record.base)

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
        subject, trailer = f"#{task.id} {task.subject} ({member})", f"\n{self.trailer}\n" if self.trailer else ""
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
