"""The worker of a team's integration queue, in the lead's process: the commits of completed tasks, one at a time.

It runs while work is queued, and calls no model. The tasks are the record of what is queued: a resume reads them again.
Depends on the team, its tasks and mail, and on the integration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from teamwright.git.repository import discover
from teamwright.protocol.errors import TeamwrightError, WorktreeRefused
from teamwright.protocol.events import IntegrationChanged, Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import IntegrationState, TaskIntegration
from teamwright.storage.file_lease import Lease, wait_for_lease
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.team import SessionTeam
from teamwright.worktrees.commit_limits import short_list
from teamwright.worktrees.integration import FAILS_BEFORE, Integration
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.worktree_list import CHECKOUT

RETRY_PAUSE_S = 10.0
"""Seconds after a fault outside the entries, such as a full disk, until the queue is worked again."""

OUTPUT_CHARS = 4_000
"""Characters of the reason of a returned entry in its message."""

OpenIntegration = Callable[[Callable[[IntegrationEntry], None]], Integration]
"""Opens the integration of the team, which reports each entry with a new state. Raises TeamwrightError."""


class IntegrationWorker:
    """Works the queue of one team. An entry whose task was completed again is another entry."""

    def __init__(self, team: SessionTeam, open_integration: OpenIntegration) -> None:
        self._team = team
        self._open_integration = open_integration
        self._integration: Integration | None = None
        self._lease: Lease | None = None
        self._new: set[str] = set()
        self._left: dict[str, IntegrationEntry] = {}
        """The entries that are not settled, by id."""
        self._settled: list[IntegrationEntry] = []
        """The entries of which the lead was not notified."""
        self._run: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._unfollow: list[Callable[[], None]] = []
        """Stop the watch of checkouts that have the integration branch."""
        self._warned = ""
        """The last warning: a fault that stays is reported once."""

    @property
    def is_working(self) -> bool:
        """True while an entry is not settled, except in the pause after a fault outside the entries."""
        return self._run is not None and not self._run.done()

    def note_task(self, id: str) -> None:
        """Work the commit of this task, which was completed."""
        self._new.add(id)
        self._start()

    def resume(self, ids: Sequence[str]) -> None:
        """Work the commits of these tasks, and the entries that an earlier process left."""
        self._new.update(ids)
        self._start()

    def _start(self) -> None:
        if not self.is_working:
            self._cancel_retry()
            self._run = asyncio.get_running_loop().create_task(self._work(), name="integration queue")

    async def close(self) -> None:
        """Stop. An entry that is being checked stays in the queue; the worktree of the checks is removed."""
        self._cancel_retry()
        if self._run is not None and not self._run.done():
            self._run.cancel()
            await asyncio.wait({self._run})
        if self._integration is not None and self._lease is not None:
            try:
                await asyncio.to_thread(self._integration.worktree.remove)
            except TeamwrightError as problem:
                self._warn(f"the worktree of the integration checks stays: {problem.what}")
            self._lease.release()

    async def _work(self) -> None:
        try:
            integration = await self._open()
            while True:
                await self._admit(integration)
                if not self._left:
                    break
                entry = min(self._left.values(), key=lambda one: (one.order, one.id))
                self._settled.append(await self._settle(integration, entry))
                del self._left[entry.id]
            self._warned = ""
            self._notify_lead(integration)
        except (TeamwrightError, OSError) as problem:
            what, do = (problem.what, problem.do) if isinstance(problem, TeamwrightError) else (str(problem), ())
            then = f" Then: {do[0]}" if do else ""
            self._warn(f"finished work waits, because it cannot be integrated: {what}.{then}")
            if isinstance(problem, WorktreeRefused) and problem.slug == "branch-in-use":
                self._wait_for_branch(problem)  # at once; the timer covers what no HEAD shows
            self._retry = asyncio.get_running_loop().call_later(RETRY_PAUSE_S, self._start)
        finally:
            self._team.changed.set()

    def _wait_for_branch(self, problem: WorktreeRefused) -> None:
        """Try again when a checkout that has the branch gets another HEAD."""
        follow = self._team.ports.watch_file
        places = [Path(path) for key, path in problem.looked_at if key == CHECKOUT]
        repositories = [found for path in places if (found := discover(path).repository) is not None]
        if follow is not None:
            self._unfollow += [follow(one.git_dir / "HEAD", self._start) for one in repositories]

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        while self._unfollow:
            self._unfollow.pop()()

    async def _open(self) -> Integration:
        """Return the integration, with the lease of its queue and with the entries that an earlier process left."""
        if self._integration is None:
            self._integration = await asyncio.to_thread(self._open_integration, self._report)
        if self._lease is None:
            # a person's `teamwright integrate` may have it
            self._lease = await wait_for_lease(self._integration.lease_file, f"session {self._team.session[:8]}")
            entries = await self._integration.store.entries()
            self._left = {entry.id: entry for entry in entries if not entry.is_settled}
        return self._integration

    async def _admit(self, integration: Integration) -> None:
        """Add the commits of the tasks that were completed since."""
        while self._new:
            id = self._new.pop()
            try:
                task = await self._team.tasks.get(id)
                if task is None or task.integration is None or not task.awaits_integration:
                    continue
                entry = await integration.add_task(id, task.integration, task.owner or "")
            except (TeamwrightError, OSError):
                self._new.add(id)
                raise
            self._left[entry.id] = entry

    async def _settle(self, integration: Integration, entry: IntegrationEntry) -> IntegrationEntry:
        """Integrate the entry, or return it. Each step is repeated after a kill, and has an effect once."""
        if entry.is_open:
            entry = self._left[entry.id] = await integration.work(entry)
        if not entry.task:
            return entry
        is_merged = entry.state is IntegrationState.MERGED
        owner = self._team.find(entry.member)
        outcome = TaskIntegration(entry.state, entry.branch, entry.tip, entry.base, entry.commit if is_merged else "")
        task = await self._team.tasks.settle(entry.task, outcome, keeps_owner=owner is not None)
        if is_merged:
            return entry
        task = task or await self._team.tasks.get(entry.task)  # settled before a kill
        if task is None or task.integration != outcome:
            return await integration.note_returned(entry)  # deleted, or completed again with a newer commit
        to = owner.name if owner is not None else LEAD
        summary = f"#{entry.task} was not integrated: {entry.state}"
        await send_note(
            self._team, "task-list", to, _return_text(integration, entry, to), summary, f"integration:{entry.id}"
        )
        return await integration.note_returned(entry)

    def _notify_lead(self, integration: Integration) -> None:
        """Notify the lead of the settled entries; it is woken only when no member works that will report later."""
        settled, self._settled = self._settled, []
        if not settled or self._team.lead is None:
            return
        merged = [_name(entry) for entry in settled if entry.state is IntegrationState.MERGED]
        returned = [f"{_name(entry)}: {entry.state}" for entry in settled if entry.state is not IntegrationState.MERGED]
        lines = [f"Integrated into {integration.branch}: {', '.join(merged)}."] if merged else []
        lines += [f"Not integrated, returned and open again: {'; '.join(returned)}."] if returned else []
        lines.append(
            "Say in your summary what is on that branch and what is not. The user's branches are unchanged; "
            f"`teamwright integrate {self._team.name} --into BRANCH` moves one to it."
        )
        key = f"integration:{settled[-1].id}:{settled[-1].state}"
        self._team.lead.notify("\n".join(lines), key, wakes=not self._team.busy_members())

    def _report(self, entry: IntegrationEntry) -> None:
        onto = self._integration.branch if self._integration is not None else ""
        self._team.emit(
            IntegrationChanged(
                member=entry.member or LEAD,
                entry=entry.id,
                state=entry.state,
                onto=onto,
                tip=entry.tip,
                task=entry.task,
                commit=entry.commit,
                paths=entry.paths,
                detail=entry.detail[:OUTPUT_CHARS],
            )
        )
        self._team.changed.set()

    def _warn(self, text: str) -> None:
        if text == self._warned:
            return
        self._warned = text
        self._team.emit(Notice(member=LEAD, text=text, level="warning"))


def _name(entry: IntegrationEntry) -> str:
    return f"#{entry.task} ({entry.member})" if entry.task else entry.member


def _return_text(integration: Integration, entry: IntegrationEntry, to: str) -> str:
    """Return the message about an entry that cannot be merged, to its member or, when that has ended, to the lead."""
    before = entry.detail.startswith(FAILS_BEFORE)
    detail = entry.detail[:OUTPUT_CHARS] if before else entry.detail[-OUTPUT_CHARS:]
    if entry.state is IntegrationState.CONFLICT:
        why = f"Commit {entry.tip[:12]} of task #{entry.task} conflicts in {short_list(entry.paths)}: {detail}."
        how = (
            f"Complete the task again with TaskUpdate: {integration.branch} is then merged into your worktree. Files "
            "that both sides changed get conflict markers; `git status` lists the others. Keep both sides, and "
            "complete it once more."
        )
    elif before:
        why = f"Commit {entry.tip[:12]} of task #{entry.task} was not integrated. {detail}"
        how = (
            "The cause is not in this commit. Write that to the lead, and wait until the base or the check is repaired."
        )
    else:
        why = (
            f"Commit {entry.tip[:12]} of task #{entry.task}, merged onto {integration.branch}, does not pass: {detail}"
        )
        how = (
            "Fix the cause in your worktree, then complete the task again. If it passes there, complete the task: "
            f"{integration.branch} is then merged into your worktree."
        )
    if to == LEAD:
        how = f"{entry.member} has ended; its commits are on {entry.branch}. The next owner of the task receives them."
    return f"{why}\nThe task is open again. {how}"
