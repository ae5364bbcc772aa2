"""The integration queue of a team as rows of the database. Depends on the database and the format of entries."""

from __future__ import annotations

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.worktrees.integration_store import ChangeEntry, IntegrationEntry, encode_entry, parse_entry


class DatabaseIntegrationStore:
    """The queue of a team; see IntegrationStore."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def add(self, entry: IntegrationEntry) -> bool:

        async def work(connection: Connection) -> bool:
            done = await connection.execute(
                "insert into integration_entries (team, id, body) values ($1, $2, $3) on conflict do nothing",
                *(self._team, entry.id, encode_entry(entry)),
            )
            return done.endswith(" 1")

        return await self._database.write(work)

    async def get(self, id: str) -> IntegrationEntry | None:
        return await self._database.read(lambda connection: self._load(connection, id))

    async def entries(self) -> list[IntegrationEntry]:
        rows = await self._database.read(
            lambda connection: connection.fetch("select id, body from integration_entries where team = $1", self._team)
        )
        found = [parse_entry(bytes(row["body"]), self._place(row["id"])) for row in rows]
        return sorted(found, key=lambda entry: (entry.order, entry.id))

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:

        async def work(connection: Connection) -> IntegrationEntry:
            before = await self._load(connection, id, " for update")
            if before is None:
                raise KeyError(id)
            after = change(before)
            await connection.execute(
                "update integration_entries set body = $3 where team = $1 and id = $2",
                *(self._team, id, encode_entry(after)),
            )
            return after

        return await self._database.write(work)

    async def _load(self, connection: Connection, id: str, lock: str = "") -> IntegrationEntry | None:
        body = await connection.fetchval(
            f"select body from integration_entries where team = $1 and id = $2{lock}", self._team, id
        )
        return parse_entry(bytes(body), self._place(id)) if body is not None else None

    def _place(self, id: str) -> str:
        return f"row {id} of team {self._team} in {self._database.place}"
