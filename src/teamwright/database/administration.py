"""The administration of a team space: making its schema, and bringing an older one to the version of this Teamwright.

Depends on the connection and the migrations. Migrations go forward only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.database.driver import Connection, quote_name, short_connection
from teamwright.database.schema import MIGRATIONS, VERSION
from teamwright.database.server_checks import DatabaseFacts, read_facts
from teamwright.protocol.errors import CannotStart

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress

_LOCK = 7_311_052
"""The number of the lock of the server that one administration at a time holds."""


class Upgrade(Struct, frozen=True):
    """A change of the schema's version; `before` is 0 for a new schema."""

    schema: str
    before: int
    after: int


class TeamSpaceCounts(Struct, frozen=True):
    """The content of a team space: counts of rows, the bytes on disk, and the sessions that are alive."""

    teams: int
    archived_teams: int
    tasks: int
    messages: int
    unread_messages: int
    sessions: int
    live_sessions: tuple[str, ...]
    size: int


async def upgrade_schema(address: DatabaseAddress, *, create: bool, target: int = VERSION) -> Upgrade:
    """Make the schema, or run the missing migrations, in one transaction. An up-to-date schema stays as it is.

    Raises CannotStart (`database`) for a newer schema, a missing one without `create`, and a refusal of the server.
    """
    facts = await read_facts(address)
    if facts.version is None and not create:
        raise _refusal(address, f"there is no schema {facts.schema} to upgrade", "teamwright database init")
    if facts.version is not None and facts.version > target:
        what = f"the schema {facts.schema} has version {facts.version}, and this Teamwright knows {target}"
        raise _refusal(address, what, "update Teamwright on this machine")
    async with short_connection(address) as connection:
        transaction = connection.transaction()
        await transaction.start()
        before = await _migrate(connection, facts.schema, target)
        await transaction.commit()
    return Upgrade(facts.schema, before, max(before, target))


async def _migrate(connection: Connection, schema: str, target: int) -> int:
    """Run the missing migrations. Return the version before them."""
    await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
    name = quote_name(schema)
    if not await connection.fetchval("select to_regnamespace($1) is not null", name):
        await connection.execute(f"create schema {name}")
        await connection.execute(f"revoke all on schema {name} from public")
    await connection.execute(f"set local search_path to {name}")
    await connection.execute(
        "create table if not exists space (version integer not null, made_at timestamptz not null default now())"
    )
    before: int = await connection.fetchval("select coalesce(max(version), 0) from space")
    for migration in MIGRATIONS[before:target]:
        await connection.execute(migration)
    if before == 0:
        await connection.execute("insert into space (version) values ($1)", target)
    elif before < target:
        await connection.execute("update space set version = $1", target)
    return before


async def count_rows(address: DatabaseAddress, facts: DatabaseFacts) -> TeamSpaceCounts:
    """Return the content of the team space. Raises CannotStart (`database`)."""
    async with short_connection(address) as connection:
        await connection.execute(f"set search_path to {quote_name(facts.schema)}")
        row = await connection.fetchrow(
            "select (select count(*) from documents where kind = 'state') as teams, "
            "(select count(*) from archived_teams) as archived, (select count(*) from tasks) as tasks, "
            "(select count(*) from mail) as messages, (select count(*) from mail where not is_read) as unread, "
            "(select count(*) from sessions) as sessions, "
            "(select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c "
            "where c.relnamespace = to_regnamespace($1) and c.relkind = 'r') as size",
            quote_name(facts.schema),
        )
        live = await connection.fetch("select name, owner from leases where is_held(name) order by name")
    counts = dict(row or {})
    lines = tuple(f"{one['name']}: {one['owner']}" for one in live)
    return TeamSpaceCounts(
        counts["teams"],
        counts["archived"],
        counts["tasks"],
        counts["messages"],
        counts["unread"],
        counts["sessions"],
        lines,
        counts["size"],
    )


def _refusal(address: DatabaseAddress, what: str, do: str) -> CannotStart:
    return CannotStart("database", what, looked_at=[("database", str(address))], do=[do], note="nothing was changed")
