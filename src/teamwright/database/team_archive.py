"""The archived teams of a database. Depends on the rows of teams."""

from __future__ import annotations

from contextlib import suppress

from teamwright.database.connection import Database
from teamwright.database.documents import ROSTER, STATE
from teamwright.protocol.errors import TeamwrightError
from teamwright.teams.stored_teams import StoredTeam


async def archived_teams(database: Database) -> list[tuple[str, StoredTeam]]:
    """Return the archived teams with the names of their entries, the oldest first."""
    rows = await database.read(
        lambda connection: connection.fetch(
            "select a.entry, a.team, r.body as roster, s.body as state from archived_teams a "
            "join documents r on r.team = a.entry and r.kind = 'archived roster' "
            "join documents s on s.team = a.entry and s.kind = 'archived state' order by a.archived_at"
        )
    )
    found: list[tuple[str, StoredTeam]] = []
    for row in rows:
        with suppress(TeamwrightError):
            roster, state = ROSTER.parse(bytes(row["roster"])), STATE.parse(bytes(row["state"]))
            found.append((str(row["entry"]), StoredTeam(str(row["team"]), roster, state, has_lead=False)))
    return found
