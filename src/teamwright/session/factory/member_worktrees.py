"""The work of the members of this process in their worktrees: a port of the task list.

A member without a worktree costs one look-up in memory; the modules of worktrees are loaded with the first worktree.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from teamwright.protocol.errors import TaskRefused, TeamwrightError, WorktreeRefused
from teamwright.session.session_preparation import SessionContext

if TYPE_CHECKING:
    from teamwright.protocol.integration import TaskIntegration
    from teamwright.protocol.task import Task
    from teamwright.session.factory.agent_factory import AgentFactory
    from teamwright.worktrees.finished_work import MemberWorktree
    from teamwright.worktrees.worktree_record import WorktreeRecord


class InProcessWorktrees:
    """The worktrees of the members that run in this process; see `tasks.task_integration.MemberWorktrees`."""

    def __init__(self, context: SessionContext, agent_factory: AgentFactory) -> None:
        self._context = context
        self._agent_factory = agent_factory
        self._locks: dict[str, asyncio.Lock] = {}
        """The lock of each member's worktree: it is saved and moved by one call at a time."""

    async def save(self, task: Task, by: str) -> TaskIntegration | None:
        """See MemberWorktrees."""
        name = task.owner or by
        if (record := self._record(name)) is None:
            return None
        try:
            async with self._lock(name):
                return await self._worktree(record).save(task, name)
        except WorktreeRefused as problem:
            from teamwright.worktrees.setup_command import failure_text  # loaded with the worktrees

            what = f"#{task.id} is not completed: {failure_text(problem)}"
            raise TaskRefused("work_not_committed", what, do=problem.do) from None

    def has(self, member: str) -> bool:
        """See MemberWorktrees."""
        return self._record(member) is not None

    async def move(self, task: Task, member: str) -> None:
        """See MemberWorktrees. The member is notified when its worktree could not be moved."""
        if (record := self._record(member)) is None:
            return
        try:
            async with self._lock(member):
                note = await asyncio.to_thread(self._worktree(record).move, task)
        except TeamwrightError as problem:
            note = f"Your worktree was not moved to the integrated work before task #{task.id}: {problem.what}."
        team = self._agent_factory.team
        if note and team is not None and (teammate := team.find_in_process(member)) is not None:
            teammate.notify(note, f"move:{task.id}")

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    def _record(self, name: str) -> WorktreeRecord | None:
        born = self._agent_factory.born.get(name)
        return born.place.record if born is not None and born.place is not None else None

    def _worktree(self, record: WorktreeRecord) -> MemberWorktree:
        from teamwright.session.factory.worktree_factory import make_member_worktree

        return make_member_worktree(self._context, self._agent_factory, record)
