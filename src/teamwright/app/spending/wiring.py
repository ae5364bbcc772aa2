"""How a session's purse hears of tasks and earlier lives, and how members hear of larger budgets.

Knows the log, the team and the purse; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from teamwright.app.spending.ledger import Ledger
from teamwright.app.spending.purse import Purse
from teamwright.protocol.events import TaskInfo, TeamEvent
from teamwright.storage.jsonl import read_lines
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import event_of, number_of
from teamwright.teams.team import Team

_TELLING = (b'"round_ended"', b'"team_changed"', b'"member_changed"')
"""Kinds of events that books are made of."""

_HEAD = 80
"""Bytes of a line in which its kind stands."""


def books_until(path: Path, last: int) -> Ledger:
    """The books of a log up to that event. Read once, and only where a cap of an earlier life goes on."""
    return Ledger.of(_events(path, last))


def _events(path: Path, last: int) -> Iterator[TeamEvent]:
    for line in read_lines(path):
        if number_of(line) > last:
            return
        if any(kind in line[:_HEAD] for kind in _TELLING) and (event := event_of(line)) is not None:
            yield event


def wire(purse: Purse, team: Team, log: EventLog) -> None:
    """From now on the purse follows the log, and members whose budget grew go on."""
    log.subscribe(lambda _number, event: purse.note(event), live=False)

    def raised(name: str) -> None:
        mate = team.find(name)
        if mate is not None and mate.capped.raise_():
            mate.desk.ring()

    purse.on_raised = raised


async def take_tasks(purse: Purse, team: Team) -> None:
    """Who works on what, as a resume finds it on disk. Raises StorageError."""
    purse.take_tasks(
        TaskInfo(id=task.id, subject=task.subject, status=str(task.status), owner=task.owner, budget=task.budget)
        for task in await team.tasks.all()
    )
