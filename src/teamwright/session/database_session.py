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

from teamwright.database.address import SECRET_VARIABLES, DatabaseAddress
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.mailbox import MailSettings
from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import SessionFiles
from teamwright.database.session_shipper import SessionShipper
from teamwright.database.team_rows import DatabaseTeams, archived_teams, session_lease
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.events import TeamChanged, TeamEvent
from teamwright.session.session_preparation import SessionContext
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.event_log_reader import log_path
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.json_array import encode_array
from teamwright.storage.paths import Home
from teamwright.teams.backends.backend_choice import AUTO, IN_PROCESS, is_remote
from teamwright.teams.file_stores import FileStores
from teamwright.teams.stored_teams import StoredTeam
from teamwright.teams.team_state_file import LeadLease

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
    stack.push_async_callback(stores.close)
    return DatabaseSession(replace(context, options=replace(context.options, stores=stores)), shipper, files)


async def _fetch_results(database: Database, context: SessionContext) -> None:
    """Fetch the commits of members on other machines that ended after the session's former process."""
    from teamwright.database.start_orders import StartOrders

    orders = StartOrders(database)
    for id in await orders.ended_with_result(context.id):
        from teamwright.worktrees.commit_bundle import fetch_result

        if (result := await orders.read_result(id)) is None:
            continue
        with suppress(CannotStart):  # The repository lacks the first commit: the result stays in the database.
            await asyncio.to_thread(fetch_result, context.cwd, result.team, result.member, result.bundle)
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


def copy_teams(address: DatabaseAddress, word: str = "") -> Home:
    """Return a home with the teams of the database. Not for a running event loop. Raises CannotStart, StorageError.

    `word`, the name of a team, a member's address or the beginning of a session's id, restricts it to one team.
    """
    directory = Path(tempfile.mkdtemp(prefix="teamwright-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    home = Home.at(directory)
    asyncio.run(_copy(address, home, word))
    return home


async def _copy(address: DatabaseAddress, home: Home, word: str) -> None:
    database = await Database.open(address)
    try:
        copy = _TeamsCopy(database, home)
        teams = await DatabaseTeams(database).list()
        for team in _named(teams, word):
            await copy.add_team(team)
        for entry, team in await archived_teams(database):
            await copy.add_archived(entry, team)
        await copy.add_sessions(word)
    finally:
        await database.close()


def _named(teams: Sequence[StoredTeam], word: str) -> Sequence[StoredTeam]:
    name = word.rpartition("@")[2].lower()
    found = [team for team in teams if name in {team.config.name.lower(), team.directory.lower()}]
    return found or teams


class _TeamsCopy(Struct, frozen=True):
    """The copy, and the database that it shows."""

    database: Database
    home: Home

    async def add_team(self, team: StoredTeam) -> None:
        """Write the files of a team and of the session that leads it."""
        paths = FileStores(self.home)
        session = team.file.lead.session
        place = self.home.session(Path(team.config.members[0].cwd), session)
        lead = LeadLease(session, 0, str(lease_path(place)))
        file = replace(team.file, lead=lead, log=str(log_path(place)))
        write_atomic(paths.roster(team.directory).path, team.config.encode())
        write_atomic(paths.state(team.directory).path, file.encode())
        await self._write_tasks(team.directory, paths.task_directory(team.directory))
        await self._write_mail(team.directory, paths.roster(team.directory).path.parent / "inboxes")
        if team.has_lead:
            _LEASES.append(Lease.take(lease_path(place), "the lead on another machine", pid=team.file.lead.pid))

    async def add_archived(self, entry: str, team: StoredTeam) -> None:
        """Write the files of an archived team."""
        place = self.home.archive / entry.partition("/")[2]
        write_atomic(place / "config.json", team.config.encode())
        write_atomic(place / "team.json", team.file.encode())
        await self._write_tasks(entry, place / "tasks")
        await self._write_mail(entry, place / "inboxes")

    async def add_sessions(self, word: str) -> None:
        """Write the logs and transcripts of all sessions, or of those that the word names."""
        rows = await self.database.read(
            lambda connection: connection.fetch("select session, cwd from sessions order by begun_at")
        )
        named = [row for row in rows if word and str(row["session"]).startswith(word)]
        for row in named or rows:
            await self.database.read(SessionFiles(self.home, str(row["session"]), Path(str(row["cwd"]))).fetch)

    async def _write_tasks(self, list: str, directory: Path) -> None:
        rows = await self.database.read(
            lambda connection: connection.fetch("select id, body from tasks where list = $1", list)
        )
        for row in rows:
            write_atomic(directory / f"{row['id']}.json", bytes(row["body"]))

    async def _write_mail(self, team: str, directory: Path) -> None:
        rows = await self.database.read(
            lambda connection: connection.fetch(
                "select b.shown_name, m.body, m.is_read from mail m join mailboxes b "
                "on b.team = m.team and b.reader = m.reader where m.team = $1 order by m.number",
                team,
            )
        )
        entries: dict[str, list[bytes]] = {}
        for row in rows:
            body = bytes(row["body"])
            read = body.replace(b'"read":false}', b'"read":true }') if row["is_read"] else body
            entries.setdefault(str(row["shown_name"]), []).append(read)
        for name, items in entries.items():
            write_atomic(directory / f"{name}.json", encode_array(items))


_LEASES: list[Lease] = []
"""Leases of the copy, which this process holds for leads that are alive."""
