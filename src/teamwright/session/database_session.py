"""A session whose team is in a database: its lease, its stores, and the shipping of its files.

Imported only when a database is named. Depends on the stores of `database` and the context of the session.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.database.address import SECRET_VARIABLES, DatabaseAddress
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.mailbox import MailSettings
from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import SessionFiles
from teamwright.database.session_shipper import SessionShipper
from teamwright.database.team_rows import DatabaseTeams, session_lease
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.events import TeamChanged, TeamEvent
from teamwright.session.context import SessionContext
from teamwright.storage.paths import Home
from teamwright.teams.backends.backend_choice import AUTO, IN_PROCESS, is_remote

if TYPE_CHECKING:
    from teamwright.session.member_process.remote_backend import RemoteBackend


class DatabaseSession(Struct, frozen=True):
    """The context of a session with the stores of its team in a database, and the shipper of its files."""

    context: SessionContext
    shipper: SessionShipper
    files: SessionFiles

    def note_event(self, _number: int, event: TeamEvent) -> None:
        """Ship the files of the session soon: an event was logged."""
        if isinstance(event, TeamChanged):
            self.files.set_team("" if event.change == "deleted" else event.directory)
        self.shipper.note_change()


async def open_database_session(
    context: SessionContext, address: DatabaseAddress, stack: AsyncExitStack, end: Callable[[], None] | None
) -> DatabaseSession:
    """Take the session's lease in the database, and give the context the stores of its team.

    `end` ends the process once another one has taken the session over. Raises CannotStart: `database`, `session-busy`,
    `backend` for members in separate processes.
    """
    context = _with_members_in_process(context)
    database = await Database.open(address)
    stack.push_async_callback(database.close)
    connection = SessionConnection(database, end or _continue_without_rights)
    await connection.open(session_lease(context.id), f"process {os.getpid()} on {socket.gethostname()}")
    stack.push_async_callback(connection.close)
    files = SessionFiles(context.home, context.id, context.cwd)
    await database.write(lambda connection: files.begin(connection, str(context.cwd)))
    if context.resumed:
        await database.read(files.fetch)
        await _fetch_results(database, context)
    database.ship_with_writes(files)
    shipper = SessionShipper(database)
    stack.push_async_callback(shipper.close)
    stores = DatabaseStores(database, connection, MailSettings(context.settings.database_durable_mail))
    return DatabaseSession(replace(context, options=replace(context.options, stores=stores)), shipper, files)


async def _fetch_results(database: Database, context: SessionContext) -> None:
    """Fetch the commits of members on other machines that ended after the session's former process."""
    from teamwright.database.start_orders import StartOrders

    orders = StartOrders(database)
    for id in await orders.ended_with_result(context.id):
        from teamwright.worktrees.commit_bundle import fetch_result

        result = await orders.read_result(id)
        with suppress(CannotStart):  # The repository lacks the first commit: the result stays in the database.
            await asyncio.to_thread(fetch_result, context.cwd, result or b"")
            await orders.remove(id)


def _continue_without_rights() -> None:
    """Do nothing: every later write of the fenced process is refused, which ends its turns."""


def _with_members_in_process(context: SessionContext) -> SessionContext:
    """Return the context with members in the lead's process, and without the database for agents' commands."""
    settings = context.settings
    if settings.places.backend not in {AUTO, IN_PROCESS} and not is_remote(settings.places.backend):
        raise CannotStart(
            "backend",
            f"members of a team in a database run with the lead or on workers, not in {settings.places.backend}",
            do=["leave --backend and the setting members.backend out", "keep the team on files: --database none"],
            note="nothing was started",
        )
    hidden = replace(settings.bash, hidden=(*settings.bash.hidden, *SECRET_VARIABLES))
    places = settings.places if is_remote(settings.places.backend) else replace(settings.places, backend=IN_PROCESS)
    return replace(context, settings=replace(settings, bash=hidden, places=places))


def make_remote_backend(context: SessionContext, label: str, wire: Path) -> RemoteBackend:
    """Return the backend of the workers with this label, for the session's database. `wire` is the lead's socket."""
    from teamwright.session.member_process.remote_backend import RemoteBackend

    stores = context.options.stores
    if not isinstance(stores, DatabaseStores) or stores.session is None:
        raise TypeError("a session without a database has no workers")
    return RemoteBackend(stores.database, stores.session, label, wire)


async def fetch_session(address: DatabaseAddress, home: Home, word: str) -> str:
    """Bring the files of a session onto this machine, where the database has more than this home.

    `word` is the name of a team, or the beginning of a session's id. Return the full id; empty for an unknown word.
    Raises CannotStart (`database`, `session-busy`), TeamwrightError for an ambiguous word.
    """
    database = await Database.open(address)
    try:
        named = [team for team in await DatabaseTeams(database).list() if word in {team.config.name, team.directory}]
        wanted = named[0].file.lead.session if named else word
        rows = await database.read(
            lambda connection: connection.fetch(
                "select session, cwd, is_held('session/' || session) as is_held from sessions "
                "where starts_with(session, $1) order by begun_at desc limit 3",
                wanted,
            )
        )
        if len(rows) > 1:
            raise TeamwrightError("unknown-session", f"{len(rows)} sessions in the database begin with {word[:40]!r}")
        if not rows:
            return ""
        session = str(rows[0]["session"])
        if not rows[0]["is_held"]:
            await database.read(SessionFiles(home, session, Path(str(rows[0]["cwd"]))).fetch)
        return session
    finally:
        await database.close()
