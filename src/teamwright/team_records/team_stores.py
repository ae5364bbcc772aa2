"""The port through which a team gets its stores, wherever they are, and the port of the catalogue of teams.

By the catalogue teams are found, created, taken over and archived as a whole. `team_catalogue` and `file_stores`
implement the ports on files, `stored_teams` the catalogue on stores without files; a session's factory chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from teamwright.mail.mailbox import FollowedMailbox
    from teamwright.models.endpoint import Endpoint
    from teamwright.models.rate_limit import RateLimiter
    from teamwright.protocol.mail import InboxEntry
    from teamwright.tasks.task_store import FollowedTaskStore
    from teamwright.team_records.atomic_record import AtomicRecord
    from teamwright.team_records.roster import OnRestored, RosterDocument
    from teamwright.team_records.team_catalogue import CreatedTeam, NewTeam, TeamOnDisk, UnfinishedWork
    from teamwright.team_records.team_state import LeadLease, TeamFile
    from teamwright.worktrees.integration_store import IntegrationStore


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

    async def replace_team(self, old: str, new: str, session: str) -> bool:
        """Move the lead's unread mail from the team in `old` to that in `new`, and archive `old`.

        Returns False, without a change, when this session leads no team in `old`.
        """
        ...

    async def archive(self, directory: str) -> list[InboxEntry]:
        """Archive the team and its tasks, even with live members. Returns the mail of its lead, read and unread."""
        ...


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

    def state(self, directory: str) -> AtomicRecord[TeamFile]:
        """Return the state of a team; a team of another product has none."""
        ...

    def integration(self, directory: str) -> IntegrationStore:
        """Return the integration queue of a team; it need not exist."""
        ...

    @property
    def teams(self) -> TeamCatalogue:
        """All teams of these stores."""
        ...

    async def mailbox_names(self, directory: str) -> list[str]:
        """Return the names of all members of the team, present and former, that ever received a message."""
        ...

    async def share_rate_limit(self, endpoint: Endpoint, limiter: RateLimiter) -> None:
        """Let other machines with these stores know each refusal of the endpoint's credential, and follow theirs.

        Raises StorageError.
        """
