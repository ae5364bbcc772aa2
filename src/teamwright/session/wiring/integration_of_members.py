"""The review and the integration of members' work in a session: a worker starts with the first commit that is queued.

A session without worktrees loads no module of it. Depends on the agent factory and on the events of the log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import TaskChanged, TeamChanged, TeamEvent
from teamwright.protocol.integration import IntegrationState
from teamwright.protocol.task import TaskStatus
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.session.session_preparation import SessionContext
from teamwright.session.wiring.reviews import SessionReviews
from teamwright.storage.event_log import EventLog

if TYPE_CHECKING:
    from teamwright.teams.integration_worker import IntegrationWorker
    from teamwright.teams.team import SessionTeam
    from teamwright.worktrees.integration import Integration


class SessionIntegration:
    """The integration queue of the session's team."""

    def __init__(self, context: SessionContext, agent_factory: AgentFactory, log: EventLog) -> None:
        self._context = context
        self._agent_factory = agent_factory
        self._worker: IntegrationWorker | None = None
        self._worked_team = ""
        """The name of the team whose queue the worker works."""
        self._reviews = SessionReviews(context, agent_factory, log)
        self._ends: set[asyncio.Task[None]] = set()
        """The ends of the workers of deleted teams."""
        log.subscribe(self._note_event, live=False)

    @property
    def is_working(self) -> bool:
        """True while finished work is being reviewed or integrated."""
        return self._reviews.is_working or (self._worker is not None and self._worker.is_working)

    def _note_event(self, _number: int, event: TeamEvent) -> None:
        """Start with a task whose commit is queued, completed in any process of the team."""
        if isinstance(event, TeamChanged):
            self._agent_factory.note_team(event.team)
        if not isinstance(event, TaskChanged) or event.task.integration is not IntegrationState.QUEUED:
            return
        if event.task.status == "completed" and (team := self._agent_factory.team) is not None:
            self._work(team).note_task(event.task.id)

    def open(self) -> Integration:
        """Return the integration of the team, to look at. Raises CannotStart outside a repository."""
        from teamwright.session.wiring.worktree_factory import make_integration

        team = self._agent_factory.team
        assert team is not None, "the session is open"
        return make_integration(self._context, self._agent_factory, team, lambda _entry: None)

    async def resume(self, team: SessionTeam) -> None:
        """Continue with what an earlier process of the session left."""
        tasks = (await team.tasks.snapshot()).tasks
        for task in tasks:
            if task.status is TaskStatus.IN_PROGRESS and task.owner and team.work is not None:
                await team.work.move(task, task.owner)  # a kill may have come between the claim and the move
        self._reviews.resume(team, list(tasks))
        queued = [task.id for task in tasks if task.awaits_integration]
        if queued or await _has_unsettled(team):
            self._work(team).resume(queued)

    async def close(self) -> None:
        """Stop working; what is queued stays queued."""
        self._drop_worker()
        await asyncio.gather(self._reviews.close(), *self._ends)

    def _drop_worker(self) -> None:
        """Stop the worker; `close` waits for its end."""
        if self._worker is not None:
            end = asyncio.get_running_loop().create_task(self._worker.close(), name="end of the integration queue")
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)
            self._worker = None

    def _work(self, team: SessionTeam) -> IntegrationWorker:
        name = team.name or team.session_list_name
        if name != self._worked_team:
            self._drop_worker()  # the session's former team was deleted
        if self._worker is None:
            from teamwright.session.wiring.worktree_factory import make_integration
            from teamwright.teams.integration_worker import IntegrationWorker

            self._worked_team = name
            context, agent_factory = self._context, self._agent_factory
            self._worker = IntegrationWorker(
                team, lambda report: make_integration(context, agent_factory, team, report)
            )
        return self._worker


async def _has_unsettled(team: SessionTeam) -> bool:
    """Return True when the queue has work, or cannot be read: the worker reports that."""
    try:
        return any(not entry.is_settled for entry in await team.stores.integration(team.directory).entries())
    except StorageError:
        return True
