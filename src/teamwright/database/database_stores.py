"""The stores of teams in a database: the module that knows which store of a team is in which table.

Depends on the database and the stores. A process that only reads has no session connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.database.connection import Database
from teamwright.database.mailbox import DatabaseMailbox, MailSettings
from teamwright.database.rate_limits import SharedRateLimits
from teamwright.database.roster_and_state_rows import STATE, DatabaseDocument, DatabaseRoster
from teamwright.database.session_connection import SessionConnection
from teamwright.database.task_store import DatabaseTaskStore
from teamwright.database.team_rows import DatabaseTeams
from teamwright.team_records.stored_teams import StoredTeams

if TYPE_CHECKING:
    from teamwright.database.integration_queue import DatabaseIntegrationStore
    from teamwright.models.endpoint import Endpoint
    from teamwright.models.rate_limit import RateLimiter
    from teamwright.team_records.roster import OnRestored
    from teamwright.team_records.team_state import TeamFile


class DatabaseStores:
    """The stores of the teams in one database, for one process; see TeamStores."""

    def __init__(
        self,
        database: Database,
        session: SessionConnection | None = None,
        mail: MailSettings | None = None,
    ) -> None:
        self.database = database
        self._session = session
        self._mail = mail or MailSettings()
        self._rate_limits = SharedRateLimits(database, session) if session is not None else None
        self._states: dict[str, DatabaseDocument[TeamFile]] = {}

    @property
    def schema(self) -> str:
        """The schema that contains the stores."""
        return self.database.schema

    @property
    def session(self) -> SessionConnection | None:
        """The connection with the lease of this process; None for a process that only reads."""
        return self._session

    @property
    def teams(self) -> StoredTeams:
        return StoredTeams(DatabaseTeams(self.database), self)

    def tasks(self, name: str) -> DatabaseTaskStore:
        return DatabaseTaskStore(self.database, self._session, name)

    def mailbox(self, directory: str, name: str) -> DatabaseMailbox:
        return DatabaseMailbox(self.database, self._session, (directory, name), self._mail)

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> DatabaseRoster:
        """See TeamStores. No other program writes into a database, so nothing is restored."""
        return DatabaseRoster(self.database, self._session, directory)

    def state(self, directory: str) -> DatabaseDocument[TeamFile]:
        if directory not in self._states:
            self._states[directory] = DatabaseDocument(self.database, self._session, directory, STATE)
        return self._states[directory]

    def integration(self, directory: str) -> DatabaseIntegrationStore:
        from teamwright.database.integration_queue import DatabaseIntegrationStore

        return DatabaseIntegrationStore(self.database, directory)

    async def mailbox_names(self, directory: str) -> list[str]:
        rows = await self.database.read(
            lambda connection: connection.fetch(
                'select shown_name from mailboxes where team = $1 order by shown_name collate "C"', directory
            )
        )
        return [str(row["shown_name"]) for row in rows]

    async def share_rate_limit(self, endpoint: Endpoint, limiter: RateLimiter) -> None:
        """See TeamStores. A process that only reads calls no model."""
        if self._rate_limits is not None:
            await self._rate_limits.share(endpoint, limiter)

    async def close(self) -> None:
        """End what follows the database."""
        if self._rate_limits is not None:
            await self._rate_limits.close()
