"""The connection of a session's budget tracker to the log, the tasks, and members whose caps were raised.

Depends on the log, the team and the budget tracker.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_totals import UsageTotals, usage_events
from teamwright.protocol.events import TaskInfo, TeamEvent
from teamwright.storage.event_log import EventLog
from teamwright.teams.team import SessionTeam


def totals_until(path: Path, last: int) -> UsageTotals:
    """Return the totals of a log up to that event. Called once, and only for caps of an earlier incarnation."""
    return UsageTotals.from_events(usage_events(path, last))


def connect_budget(budget_tracker: BudgetTracker, team: SessionTeam, log: EventLog) -> None:
    """Connect the budget tracker to the log, and wake members whose caps were raised."""
    log.subscribe(lambda _number, event: track_event(budget_tracker, team, event), live=False)


def track_event(budget_tracker: BudgetTracker, team: SessionTeam, event: TeamEvent) -> None:
    """Update the budget tracker from an event, and wake the member whose caps it raised."""
    if owner := budget_tracker.add_event(event):
        note_raised_budget(team, owner)


def note_raised_budget(team: SessionTeam, name: str) -> None:
    """Let a member that paused at a cap continue."""
    teammate = team.find(name)
    if teammate is not None:
        teammate.note_raised_budget()


async def take_tasks(budget_tracker: BudgetTracker, team: SessionTeam) -> None:
    """Load the owners and caps of tasks from disk at a resume. Raises StorageError."""
    budget_tracker.take_tasks(
        TaskInfo(id=task.id, subject=task.subject, status=str(task.status), owner=task.owner, budget=task.budget)
        for task in await team.tasks.all()
    )
