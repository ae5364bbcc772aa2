"""How a session's purse hears of tasks and earlier lives, and how members hear of larger budgets.

Knows the log, the team and the purse; decides nothing.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.app.spending.ledger import Ledger
from teamwright.app.spending.purse import Purse
from teamwright.app.spending.reading import spending
from teamwright.protocol.events import TaskInfo
from teamwright.storage.log import EventLog
from teamwright.teams.team import Team


def books_until(path: Path, last: int) -> Ledger:
    """The books of a log up to that event. Read once, and only where a cap of an earlier life goes on."""
    return Ledger.of(spending(path, last))


def wire(purse: Purse, team: Team, log: EventLog) -> None:
    """From now on the purse follows the log, and members whose budget grew go on."""
    log.subscribe(lambda _number, event: purse.note(event), live=False)

    def raised(name: str) -> None:
        mate = team.find(name)
        if mate is not None:
            mate.budget_raised()

    purse.on_raised = raised


async def take_tasks(purse: Purse, team: Team) -> None:
    """Who works on what, as a resume finds it on disk. Raises StorageError."""
    purse.take_tasks(
        TaskInfo(id=task.id, subject=task.subject, status=str(task.status), owner=task.owner, budget=task.budget)
        for task in await team.tasks.all()
    )
