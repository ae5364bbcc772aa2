"""The teams of a database as a whole: each is added, taken over and archived in one transaction.

Depends on the documents and on leases. An archived team keeps its rows under the name of its archive entry.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.roster_and_state_rows import ROSTER, STATE, insert_document
from teamwright.database.session_files import read_requests
from teamwright.protocol.errors import StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry, parse_entry
from teamwright.protocol.members import TeamConfig
from teamwright.team_records.stored_teams import StoredTeam
from teamwright.team_records.team_state import LeadLease, TeamFile, parse_team_file


def session_lease(session: str) -> str:
    """Return the name of the lease of a session."""
    return f"session/{session}"


def archive_entry(directory: str, uuid: str) -> str:
    """Return the name under which the rows of an archived team are kept."""
    return f"archive/{directory}-{uuid[:8]}"


class DatabaseTeams:
    """The teams of a database; see TeamTable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self) -> list[StoredTeam]:
        """See TeamTable. A team whose rows cannot be read is left out."""
        return await self._database.read(load_teams)

    async def add(self, directory: str, config: TeamConfig, file: TeamFile) -> bool:

        async def work(connection: Connection) -> bool:
            if not await insert_document(connection, directory, ROSTER.kind, config.encode()):
                return False
            await insert_document(connection, directory, STATE.kind, file.encode())
            return True

        return await self._database.write(work)

    async def take_lead(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """See TeamTable. The former lead's process is fenced out, also when it only seems to be gone.

        The members' transcripts are in the directory of the new session from then on, which ships them.
        """

        async def work(connection: Connection) -> TeamFile:
            row = await connection.fetchrow(
                "select version, body from documents where team = $1 and kind = 'state' for update", directory
            )
            if row is None:
                raise StorageError("damaged-file", f"there is no team {directory} in {self._database.place}")
            file = parse_team_file(bytes(row["body"]))
            if file.lead.session != lead.session:
                former = session_lease(file.lead.session)
                if await connection.fetchval("select is_held($1)", former):
                    raise _led_error(directory, file.lead)
                await connection.execute("update leases set token = token + 1 where name = $1", former)
            after = replace(file, lead=lead, log=log or file.log)
            if log and file.lead.session != lead.session:
                after = after.with_transcripts(Path(log).parent)
            await connection.execute(
                "update documents set body = $2, version = version + 1 where team = $1 and kind = 'state'",
                *(directory, after.encode()),
            )
            await self._database.notify(connection, f"state:{directory}")
            return after

        return await self._database.write(work)

    async def adopt_open_tasks(self, list: str, other: str) -> None:

        async def work(connection: Connection) -> None:
            for name in sorted((list, other)):
                await connection.execute("insert into task_lists (list) values ($1) on conflict do nothing", name)
                await connection.execute("select 1 from task_lists where list = $1 for update", name)
            await connection.execute(
                "update tasks t set list = $1, changed_at = clock_timestamp() where list = $2 "
                "and not is_finished and not exists (select 1 from tasks o where o.list = $1 and o.id = t.id)",
                *(list, other),
            )
            await connection.execute(
                "update task_lists set highest = greatest(highest, (select highest from task_lists where list = $2)) "
                "where list = $1",
                *(list, other),
            )

        await self._database.write(work)

    async def requests(self, directory: str) -> list[bytes]:
        """See TeamTable."""
        return await self._database.read(lambda connection: read_requests(connection, directory))

    async def archive(self, directory: str) -> list[InboxEntry]:

        async def work(connection: Connection) -> list[InboxEntry]:
            body = await connection.fetchval(
                "select body from documents where team = $1 and kind = 'state' for update", directory
            )
            if body is None:
                raise TeamwrightError("unknown-team", f"there is no team {directory} in {self._database.place}")
            entry = archive_entry(directory, parse_team_file(bytes(body)).uuid)
            rows = await connection.fetch(
                "select body, is_read from mail where team = $1 and reader = $2 order by number", directory, LEAD
            )
            for table, column in (
                ("documents", "team"),
                ("mailboxes", "team"),
                ("mail", "team"),
                ("tasks", "list"),
                ("task_lists", "list"),
                ("integration_entries", "team"),
            ):
                await connection.execute(f"update {table} set {column} = $2 where {column} = $1", directory, entry)
            await connection.execute("update documents set kind = 'archived ' || kind where team = $1", entry)
            for table in ("session_parts", "session_files"):
                await connection.execute(f"delete from {table} where starts_with(name, $1)", f"requests/{directory}/")
            await connection.execute("insert into archived_teams (entry, team) values ($1, $2)", entry, directory)
            for topic in (f"roster:{directory}", f"state:{directory}", f"tasks:{directory}"):
                await self._database.notify(connection, topic)
            return [parse_entry(json.loads(row["body"])).copy_with(read=row["is_read"]) for row in rows]

        return await self._database.write(work)


def _led_error(directory: str, lead: LeadLease) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        "the team is led by another process",
        looked_at=[("team", directory), ("session", lead.session)],
        do=["continue in the terminal where it runs", "end it there first"],
        note="nothing was changed",
    )


async def load_teams(connection: Connection) -> list[StoredTeam]:
    """Return all teams, by directory. A team whose rows cannot be read is left out."""
    rows = await connection.fetch(
        "select s.team, r.body as roster, s.body as state from documents s join documents r "
        "on r.team = s.team and r.kind = 'roster' where s.kind = 'state' order by s.team collate \"C\""
    )
    found: list[tuple[str, TeamConfig, TeamFile]] = []
    for row in rows:
        with suppress(TeamwrightError):
            found.append((row["team"], ROSTER.parse(row["roster"]), STATE.parse(row["state"])))
    live = await held_sessions(connection, [file.lead.session for _, _, file in found])
    return [StoredTeam(team, config, file, file.lead.session in live) for team, config, file in found]


async def held_sessions(connection: Connection, sessions: Sequence[str]) -> set[str]:
    """Return which of these sessions a process runs now."""
    rows = await connection.fetch(
        "select wanted.session from unnest($1::text[]) as wanted(session) where is_held('session/' || wanted.session)",
        list(sessions),
    )
    return {str(row["session"]) for row in rows}


async def load_archived_teams(connection: Connection, known: Sequence[str]) -> list[tuple[str, StoredTeam]]:
    """Return the archived teams with the names of their entries, the oldest first, without the known entries."""
    rows = await connection.fetch(
        "select a.entry, a.team, r.body as roster, s.body as state from archived_teams a "
        "join documents r on r.team = a.entry and r.kind = 'archived roster' "
        "join documents s on s.team = a.entry and s.kind = 'archived state' "
        "where not a.entry = any($1::text[]) order by a.archived_at",
        list(known),
    )
    found: list[tuple[str, StoredTeam]] = []
    for row in rows:
        with suppress(TeamwrightError):
            roster = ROSTER.parse(bytes(row["roster"]))
            state = STATE.parse(bytes(row["state"]))
            found.append((str(row["entry"]), StoredTeam(str(row["team"]), roster, state, has_lead=False)))
    return found
