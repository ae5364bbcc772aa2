"""A private copy of the teams in a database, as files: what shows teams reads it like any home.

Imported only when a database is named. Depends on the tables and on the formats of files. The copy shows one moment,
and is removed when the process ends.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.database.address import DatabaseAddress
from teamwright.database.connection import Database
from teamwright.database.session_files import SessionFiles
from teamwright.database.team_archive import archived_teams
from teamwright.database.team_rows import DatabaseTeams
from teamwright.storage.atomic import write_atomic
from teamwright.storage.event_log_reader import log_path
from teamwright.storage.json_array import encode_array
from teamwright.storage.lease import Lease, lease_path
from teamwright.storage.paths import Home
from teamwright.teams.file_stores import FileStores
from teamwright.teams.stored_teams import StoredTeam
from teamwright.teams.team_file import LeadLease


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
