"""How a session's purse hears of tasks and earlier lives, and how members hear of larger budgets.

Knows the log, the team and the purse; decides nothing.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_events import usage_events
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.protocol.events import TaskInfo
from teamwright.storage.event_log import EventLog
from teamwright.teams.team import SessionTeam


def totals_until(path: Path, last: int) -> UsageTotals:
    """The books of a log up to that event. Read once, and only where a cap of an earlier life goes on."""
    return UsageTotals.from_events(usage_events(path, last))


def connect_budget(purse: BudgetTracker, team: SessionTeam, log: EventLog) -> None:
    """From now on the purse follows the log, and members whose budget grew go on."""
    log.subscribe(lambda _number, event: purse.add_event(event), live=False)

    def raised(name: str) -> None:
        mate = team.find(name)
        if mate is not None:
            mate.note_raised_budget()

    purse.on_raised = raised


async def take_tasks(purse: BudgetTracker, team: SessionTeam) -> None:
    """Who works on what, as a resume finds it on disk. Raises StorageError."""
    purse.take_tasks(
        TaskInfo(id=task.id, subject=task.subject, status=str(task.status), owner=task.owner, budget=task.budget)
        for task in await team.tasks.all()
    )
