"""The port through which a team gets its stores, wherever they are.

Depends on the ports of the stores. `file_stores` implements it on files; a session's factory chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from teamwright.protocol.events import FileMark

if TYPE_CHECKING:
    from teamwright.tasks.task_store import FollowedTaskStore


class TeamStores(Protocol):
    """The stores of teams. `directory` is a team's unique name."""

    def tasks(self, name: str) -> FollowedTaskStore:
        """Return the task list of this name; it need not exist."""
        ...

    def task_mark(self, name: str, id: str) -> FileMark | None:
        """Return the mark of a task's file for an event; None for a store without files."""
        ...
