"""Make the schema of a team space, bring an older one to this version, and say why a database cannot be used.

Migrations go forward only. The facts are read by connections of their own, and reading changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from teamwright.database.driver import Connection, connect, is_lost_statement, quote_name, short_connection
from teamwright.database.schema import MIGRATIONS, VERSION
from teamwright.protocol.errors import CannotStart

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress


_LOCK = 7_311_052
"""The number of the lock of the server that one administration at a time holds."""

OLDEST_SERVER = 150_000
"""The oldest version of PostgreSQL, in the server's own numbers."""


class DatabaseFacts(NamedTuple):
    """Facts about the server and the schema of a team space. `version` is None without a schema."""

    server: str
    server_number: int
    user: str
    schema: str
    version: int | None
    is_read_only: bool
    most_connections: int
    """The connections that the server accepts from all its clients, without those that it reserves."""
    pooler: str = ""
    """`session` or `transaction` for a connection pooler between this process and the server."""


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


def _refusal(address: DatabaseAddress, what: str, do: str) -> CannotStart:
    return CannotStart("database", what, looked_at=[("database", str(address))], do=[do], note="nothing was changed")


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


async def read_facts(address: DatabaseAddress) -> DatabaseFacts:
    """Return facts about the server and the schema. Raises CannotStart (`database`)."""
    async with short_connection(address) as connection:
        row = await connection.fetchrow(
            "select current_setting('server_version') as server, current_setting('server_version_num')::int as number, "
            "current_user as person, pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' "
            "as read_only, current_setting('max_connections')::int "
            "- current_setting('superuser_reserved_connections')::int as most"
        )
        if row is None:
            raise RuntimeError("the server has no version")
        schema = address.schema or f"teamwright_{row['person']}"
        version = await _schema_version(connection, schema)
        pooler = await _find_pooler(address, connection)
        return DatabaseFacts(
            row["server"], row["number"], row["person"], schema, version, row["read_only"], row["most"], pooler
        )


async def _schema_version(connection: Connection, schema: str) -> int | None:
    name = f"{quote_name(schema)}.space"
    if await connection.fetchval("select to_regclass($1)::text", name) is None:
        return None
    return await connection.fetchval(f"select version from {name}")


async def _find_pooler(address: DatabaseAddress, connection: Connection) -> str:
    """Return how a connection pooler shares connections: `session`, `transaction`, or empty without one.

    A pooler names another process number than the server's. In transaction mode this connection loses its server
    connection to a second one that begins a transaction, or changes it afterwards.
    """
    ask = "select pg_backend_pid()"
    own = await connection.fetchval(ask)
    if own == connection.get_server_pid():
        return ""
    second = await connect(address)
    try:
        transaction = second.transaction()
        await transaction.start()
        other = await second.fetchval(ask)
        later = {await connection.fetchval(ask) for _ in range(3)}
        return "session" if other != own and later == {own} else "transaction"
    except Exception as problem:
        if is_lost_statement(problem):  # another server connection does not know what this one has prepared
            return "transaction"
        raise
    finally:
        await second.close(timeout=2.0)


def require_usable(address: DatabaseAddress, facts: DatabaseFacts) -> None:
    """Raise CannotStart (`database`) unless this Teamwright can work with the server and the schema."""
    if problems := find_problems(address, facts):
        what, do = problems[0]
        raise CannotStart(
            "database",
            what,
            looked_at=[("database", str(address)), ("schema", facts.schema)],
            do=[do],
            note="nothing was started",
        )


def find_problems(address: DatabaseAddress, facts: DatabaseFacts) -> list[tuple[str, str]]:
    """Return each reason why this Teamwright cannot use the database, with what to type."""
    found: list[tuple[str, str]] = []
    if facts.server_number < OLDEST_SERVER:
        found.append((f"the server is PostgreSQL {facts.server}, and 15 is the oldest one", "use a newer server"))
    if facts.pooler == "transaction":
        what = "a connection pooler in transaction mode is in the way: leases and notifications need sessions"
        found.append((what, "name the server itself, or a pooler with pool_mode=session"))
    if facts.is_read_only:
        found.append(("the database is read-only", "name the primary server"))
    if facts.version is None:
        found.append(
            (
                f"the database has no schema {facts.schema} of Teamwright",
                f"teamwright --database {address} database init",
            )
        )
    elif facts.version < VERSION:
        what = f"the schema {facts.schema} has version {facts.version}, and this Teamwright needs {VERSION}"
        found.append((what, f"end all teams on it, then: teamwright --database {address} database upgrade"))
    elif facts.version > VERSION:
        what = f"the schema {facts.schema} has version {facts.version}, and this Teamwright knows {VERSION}"
        found.append((what, "update Teamwright on this machine"))
    return found
