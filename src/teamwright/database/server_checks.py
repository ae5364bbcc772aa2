"""Facts about a server and the schema of a team space, and the reasons why this Teamwright cannot use them.

Depends on the driver. Opens separate connections, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from teamwright.database.driver import (
    Connection,
    connect,
    is_lost_statement,
    quote_name,
    short_connection,
)
from teamwright.database.schema import VERSION
from teamwright.protocol.errors import CannotStart

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress

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
        server = (row["server"], row["number"], row["person"])
        return DatabaseFacts(*server, schema, version, row["read_only"], row["most"], pooler)


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
