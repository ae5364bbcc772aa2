"""Completions by other programs, held against the task's check: accepted when it passes, taken back when it fails.

Each is checked beside the scribe's other work. Knows the team and its list; refuses to know how a check is run.
"""

from __future__ import annotations

import asyncio

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.check import Checked
from teamwright.teams.mailing.notes import leave_note
from teamwright.teams.outside import OUTSIDE
from teamwright.teams.team import Team


class Verifier:
    """The checks of completions that others made, one at a time."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._running: dict[str, asyncio.Task[None]] = {}
        self._one = asyncio.Lock()

    def noticed(self, before: Task | None, after: Task | None) -> None:
        """Another program changed a task: one that it completed is checked."""
        if self._team.check is None or after is None or after.status is not TaskStatus.COMPLETED:
            return
        if (before is not None and before.status is TaskStatus.COMPLETED) or after.id in self._running:
            return
        check = before.check if before is not None else ""
        made = asyncio.get_running_loop().create_task(self._verify(after, check), name=f"check of #{after.id}")
        self._running[after.id] = made
        made.add_done_callback(lambda _: self._running.pop(after.id, None))

    async def close(self) -> None:
        """Nothing is checked any more; what runs is ended."""
        running = list(self._running.values())
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _verify(self, task: Task, check: str) -> None:
        mate = self._team.find(task.owner or "")
        try:
            async with self._one:  # whoever completes a hundred tasks at once has them checked one by one
                found = await self._team.tasks.verify(task, check, keeps_owner=mate is not None)
            if found is not None and found.ran and not found.passed:
                await self._tell(task, found, mate.name if mate is not None else "")
        except TeamwrightError as problem:
            text = f"the check of #{task.id}, which another program completed, could not be finished: {problem.what}"
            self._team.emit(Notice(member=OUTSIDE, text=text, level="warning"))

    async def _tell(self, task: Task, found: Checked, owner: str) -> None:
        what = f'#{task.id} "{task.subject}"'
        why = f"Another program set task {what} completed, but {found.why}."
        end = f" The end of its output:\n{found.output}" if found.output else ""
        if owner:
            text = (
                f"{why} It is in progress again, and you own it. Fix the problems that it found, then complete it.{end}"
            )
            await leave_note(self._team, "task-list", owner, text, f"#{task.id} is not done: its check fails")
        became = f"It is in progress again, with {owner}." if owner else "It is pending again, without an owner."
        await leave_note(self._team, "task-list", LEAD, f"{why} {became}{end}", f"#{task.id} was reopened")
        self._team.ring_idle()
