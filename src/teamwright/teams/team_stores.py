"""The port through which a team gets its stores, wherever they are.

Depends on the ports of the stores. `file_stores` implements it on files; a session's factory chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from teamwright.mail.mailbox import FollowedMailbox
    from teamwright.tasks.task_store import FollowedTaskStore
    from teamwright.teams.document import Document
    from teamwright.teams.roster import OnRestored, RosterDocument
    from teamwright.teams.team_catalogue import TeamCatalogue
    from teamwright.teams.team_file import TeamFile


class TeamStores(Protocol):
    """The stores of teams. `directory` is a team's unique name."""

    def tasks(self, name: str) -> FollowedTaskStore:
        """Return the task list of this name; it need not exist."""
        ...

    def mailbox(self, directory: str, name: str) -> FollowedMailbox:
        """Return the mailbox of a member; it need not exist."""
        ...

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> RosterDocument:
        """Return the roster of a team. With `on_restored` this process restores it after damage by another program."""
        ...

    def state(self, directory: str) -> Document[TeamFile]:
        """Return the state of a team; a team of another product has none."""
        ...

    @property
    def teams(self) -> TeamCatalogue:
        """All teams of these stores."""
        ...

    async def mailbox_names(self, directory: str) -> list[str]:
        """Return the names of all members of the team, present and former, that ever received a message."""
        ...
