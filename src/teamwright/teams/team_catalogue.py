"""The catalogue of teams as a port: teams are found, created, taken over and archived as a whole.

Depends on the values of rosters and team files. `catalogue` implements it on files, `stored_teams` on stores without
files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from teamwright.protocol.mail import InboxEntry
    from teamwright.teams.catalogue import CreatedTeam, NewTeam, TeamOnDisk, UnfinishedWork
    from teamwright.teams.team_file import LeadLease, TeamFile


class TeamCatalogue(Protocol):
    """All teams of one home or database. Every call raises StorageError, LockTimeout."""

    async def find_led_by(self, session: str) -> TeamOnDisk | None:
        """Return the team that a session leads, or led when it ended; the newest of several. None without one."""
        ...

    async def find_without_lead(self, name: str) -> list[str]:
        """Return the directories of the teams of that name that no process leads."""
        ...

    async def unfinished_work(self, directory: str) -> UnfinishedWork:
        """Return the unfinished work of a team."""
        ...

    async def create(self, new: NewTeam) -> CreatedTeam:
        """Create a team by name; the open tasks of the session's own list become its tasks with their numbers.

        A finished team of the name is archived. Raises TeamRefused (the name is live, its dead team has unfinished
        work, or the session leads already), InvalidName.
        """
        ...

    async def create_implicit(self, new: NewTeam) -> CreatedTeam:
        """Create the session's own team, or lead it again. Raises TeamRefused for another session's."""
        ...

    async def take_over(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """Let this process lead a team that has no lead. Raises TeamRefused while another process leads it."""
        ...

    async def adopt_open_tasks(self, directory: str, session_list: str) -> None:
        """Move the open tasks of a session's own list into the team's list, under their numbers."""
        ...

    async def replace_team(self, old: str, new: str, session: str) -> bool:
        """Move the lead's unread mail from the team in `old` to that in `new`, and archive `old`.

        Returns False, without a change, when this session leads no team in `old`.
        """
        ...

    async def archive(self, directory: str) -> list[InboxEntry]:
        """Archive the team and its tasks, even with live members. Returns the mail of its lead, read and unread."""
        ...
