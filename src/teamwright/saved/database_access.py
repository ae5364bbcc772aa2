"""Access of a person's command to the teams of a database: it reads a private copy, and changes the rows.

Imported only when a database is named.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from teamwright.database.address import DatabaseAddress
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.integration_queue import DatabaseIntegrationStore
from teamwright.database.lead_elsewhere import LeadElsewhere
from teamwright.database.session_connection import SessionConnection
from teamwright.database.task_store import DatabaseTaskStore
from teamwright.database.team_rows import DatabaseTeams, archive_entry, session_lease
from teamwright.database.teams_copy import TeamsCopy, follow_copy, open_teams_copy
from teamwright.database.worker_orders import OrderState, StartOrders
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.pending_request import PendingRequest
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import RequestStore
from teamwright.saved.orphaned_members import EndedOrphans
from teamwright.saved.removal import ArchivedTeam, at_work_error
from teamwright.saved.teams import SavedTeam
from teamwright.storage.paths import Home
from teamwright.team_records.team_state import TeamFile
from teamwright.teams.backend import Location

CONFIRM_S = 15.0
"""Seconds for the process of a lead to close a request that was answered."""


class DatabaseAccess:
    """The access to the teams of a database; see SavedTeamAccess."""

    def __init__(self, copy: TeamsCopy) -> None:
        self.copy = copy
        self.stores = DatabaseStores(copy.database)

    @property
    def home(self) -> Home:
        return self.copy.home

    @property
    def is_local(self) -> bool:
        """See SavedTeamAccess. A pid of another machine names nothing here."""
        return False

    async def send_mail(self, directory: str, name: str, entry: InboxEntry) -> str:
        return await self.stores.mailbox(directory, name).put(entry)

    def tasks(self, name: str) -> DatabaseTaskStore:
        return self.stores.tasks(name)

    def integration(self, directory: str) -> DatabaseIntegrationStore:
        return self.stores.integration(directory)

    async def deliver_answer(self, request: PendingRequest) -> bool:
        """See SavedTeamAccess. The process of the lead closes the request, with the answer that counts."""
        store = RequestStore(request.box)
        answer = store.get_answer(request.id)
        try:
            async with time_limit(CONFIRM_S):
                return await self._wait_until_closed(store, request.id) == answer
        except TimeoutError:
            raise TeamwrightError(
                "failed",
                f"the process that asked has not confirmed the answer within {CONFIRM_S:g} s",
                do=["teamwright requests"],
                note="the answer is stored, and counts once that process reads it, unless another one was first",
            ) from None

    async def _wait_until_closed(self, store: RequestStore, id: str) -> Mapping[str, Any]:
        """Send the answer, and return the one that counts once the followed copy has the request closed."""
        while True:
            await self.copy.send_requests()
            if (closed := store.get_retired(id)) is not None:
                return closed[1]
            await self.copy.wait_for_refresh()

    def watch_lead(self, file: TeamFile) -> LeadElsewhere | None:
        return self.copy.lead(file.lead.session)

    async def stop_orphans(self, file: TeamFile, names: Collection[str]) -> EndedOrphans:
        """See SavedTeamAccess: ask the workers of these members, or fence them out where the worker is gone."""
        lower = {name.lower() for name in names}
        orders = StartOrders(self.copy.database)
        ended: list[str] = []
        for name, incarnation in file.incarnation_records.items():
            location = Location.from_json(incarnation.place) if incarnation.place is not None else None
            if location is None or (lower and name not in lower) or "order" not in location.facts:
                continue
            id = int(location.facts["order"])
            status = await orders.read(id)
            if status is not None and status.state is not OrderState.ENDED:
                await orders.request_end(id)
                ended.append(name)
        return EndedOrphans(tuple(ended))


class DatabaseArchive:
    """The archive of a database; see TeamArchive."""

    def __init__(self, copy: TeamsCopy) -> None:
        self._copy = copy
        self._database = copy.database

    @asynccontextmanager
    async def hold(self, team: SavedTeam) -> AsyncGenerator[None]:
        """See TeamArchive. The lease of the session is held, and its former process is fenced out."""
        connection = SessionConnection(self._database)
        try:
            await connection.open(session_lease(team.session), "a process that archives the team")
        except CannotStart as problem:
            raise problem if problem.slug != "session-busy" else at_work_error(team, 0) from None
        try:
            self._copy.own_sessions.add(team.session)
            await self._copy.refresh()
            yield
        finally:
            self._database.fence = None
            await connection.close()

    async def changed_at(self, team: SavedTeam) -> float:
        return await self._database.read(
            lambda connection: connection.fetchval(
                "select extract(epoch from greatest("
                "(select max(changed_at) from tasks where list = $1), "
                "(select max(stored_at) from mail where team = $1), "
                "(select max(beat_at) from leases where name = $2), 'epoch'))::float8",
                *(team.directory, session_lease(team.session)),
            )
        )

    async def add(self, team: SavedTeam) -> ArchivedTeam:
        if team.file is not None:
            await DatabaseAccess(self._copy).stop_orphans(team.file, ())
        await DatabaseTeams(self._database).archive(team.directory)
        return ArchivedTeam(Path(archive_entry(team.directory, team.file.uuid if team.file is not None else "")))


@asynccontextmanager
async def open_database_access(address: DatabaseAddress, word: str) -> AsyncGenerator[DatabaseAccess]:
    """Give the access to the teams of a database, and follow them while the block runs.

    `word` as for a copy. Raises CannotStart (`database`), StorageError.
    """
    async with open_teams_copy(address, word) as copy, follow_copy(copy):
        yield DatabaseAccess(copy)


@asynccontextmanager
async def open_database_archive(address: DatabaseAddress, word: str) -> AsyncGenerator[tuple[Home, DatabaseArchive]]:
    """Give a copy of the teams of a database, as it is now, and its archive while the block runs."""
    async with open_teams_copy(address, word) as copy:
        yield copy.home, DatabaseArchive(copy)
