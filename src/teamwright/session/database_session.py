"""A session whose team is in a database: its lease, its stores, and the shipping of its files.

Imported only when a database is named. Depends on the stores of `database` and the context of the session.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.backends.choice import AUTO, is_remote
from teamwright.database.address import SECRET_VARIABLES, DatabaseAddress
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.lead_elsewhere import RequestExchange
from teamwright.database.mailbox import MailSettings
from teamwright.database.session_connection import SILENT_S, SessionConnection, held_error
from teamwright.database.session_files import SessionFiles
from teamwright.database.session_shipper import SessionShipper
from teamwright.database.team_rows import DatabaseTeams, session_lease
from teamwright.database.teams_copy import TeamsCopy, copy_home
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.events import TeamChanged, TeamEvent
from teamwright.protocol.members import IN_PROCESS
from teamwright.session.preparation import SessionContext
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.session.wiring.remote_backend import RemoteBackend
    from teamwright.team_records.stored_teams import StoredTeam


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
    if context.options.adopt is not None:
        await _fetch_members(database, context, context.options.adopt)
    database.ship_with_writes(files)
    shipper = SessionShipper(database)
    stack.push_async_callback(shipper.close)
    exchange = RequestExchange(database, connection, files, shipper)
    stack.push_async_callback(exchange.close)
    stores = DatabaseStores(database, connection, MailSettings(context.settings.database_durable_mail))
    stack.push_async_callback(stores.close)
    return DatabaseSession(replace(context, options=replace(context.options, stores=stores)), shipper, files)


async def _fetch_results(database: Database, context: SessionContext) -> None:
    """Fetch the commits of members on other machines that ended after the session's former process."""
    from teamwright.database.worker_orders import StartOrders

    orders = StartOrders(database)
    for id in await orders.ended_with_result(context.id):
        from teamwright.worktrees.commit_bundle import fetch_result

        if (result := await orders.read_result(id)) is None:
            continue
        with suppress(CannotStart):  # The repository lacks the first commit: the result stays in the database.
            await asyncio.to_thread(fetch_result, context.cwd, result.team, result.member, result.bundle)
            await orders.remove(id)


async def _fetch_members(database: Database, context: SessionContext, word: str) -> None:
    """Fetch the transcripts of a team's members into the directory of the session that adopts it."""
    team = find_named(await DatabaseTeams(database).list(), word)
    if team is None:
        return  # the adoption says so
    rows = await database.read(lambda connection: connection.fetch("select session, cwd from sessions"))
    places = {str(row["session"]): Path(str(row["cwd"])) for row in rows}
    for incarnation in team.file.incarnation_records.values():
        transcript = Path(incarnation.transcript)
        session = transcript.parent.parent.name
        if session not in places or session == context.id:
            continue
        await database.read(SessionFiles(context.home, session, places[session]).fetch)
        former = context.home.session(places[session], session)
        for path in (former / "agents" / transcript.name, *former.glob("prefixes/*.json")):
            if path.exists():
                write_atomic(context.directory / path.relative_to(former), path.read_bytes())


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
    from teamwright.session.wiring.remote_backend import RemoteBackend

    stores = context.options.stores
    if not isinstance(stores, DatabaseStores) or stores.session is None:
        raise TypeError("a session without a database has no workers")
    return RemoteBackend(stores.database, stores.session, label, wire)


async def fetch_session(address: DatabaseAddress, home: Home, word: str) -> str:
    """Bring the files of a session onto this machine, where the database has more than this home.

    Files that are here stay as they are while a process drives the session. `word` is the name of a team, or the
    beginning of a session's id. Return the full id; empty for an unknown word.
    Raises CannotStart (`database`, `session-busy`), TeamwrightError for an ambiguous word.
    """
    database = await Database.open(address)
    try:
        named = find_named(await DatabaseTeams(database).list(), word)
        beginning = named.file.lead.session if named is not None else word
        rows = await database.read(
            lambda connection: connection.fetch(
                "select session, cwd, owner, extract(epoch from clock_timestamp() - beat_at)::int as age, "
                "is_held('session/' || session) as is_held "
                "from sessions left join leases on name = 'session/' || session "
                "where starts_with(session, $1) order by begun_at desc limit 3",
                beginning,
            )
        )
        if len(rows) > 1:
            raise TeamwrightError("unknown-session", f"{len(rows)} sessions in the database begin with {word[:40]!r}")
        if not rows:
            return ""
        [row] = rows
        session = str(row["session"])
        files = SessionFiles(home, session, Path(str(row["cwd"])))
        if not row["is_held"] or int(row["age"]) > SILENT_S:
            await database.read(files.fetch)
        elif not files.are_here:
            raise held_error(session_lease(session), str(row["owner"]), int(row["age"]))
        return session
    finally:
        await database.close()


def find_named(teams: Sequence[StoredTeam], word: str) -> StoredTeam | None:
    """Return the team of that name, else of that directory; None without one."""
    exact = [team for team in teams if team.config.name == word]
    return next(
        iter(exact or [team for team in teams if word.lower() in {team.config.name.lower(), team.directory}]), None
    )


def copy_teams(address: DatabaseAddress, word: str = "") -> Home:
    """Return a home with the teams of the database. Not for a running event loop. Raises CannotStart, StorageError.

    `word`, the name of a team, a member's address or the beginning of a session's id, restricts it to one team.
    """
    directory = Path(tempfile.mkdtemp(prefix="teamwright-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return asyncio.run(_copy(address, directory, word))


async def _copy(address: DatabaseAddress, directory: Path, word: str) -> Home:
    database = await Database.open(address)
    try:
        copy = TeamsCopy(database, copy_home(directory, database), word)
        await copy.refresh()
        _COPIES.append(copy)
        return copy.home
    finally:
        await database.close()


_COPIES: list[TeamsCopy] = []
"""Copies whose leases this process holds for leads that are alive."""
