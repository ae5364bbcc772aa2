"""Team spaces of the tests: a new schema each, and processes that hold a lease in it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.mailbox import MailSettings
from teamwright.database.session_connection import SessionConnection
from teamwright.database.team_rows import session_lease

LEASE = session_lease("one")


async def make_space(url: str) -> str:
    """Make the schema that the address names. Return the address."""
    await upgrade_schema(parse_address(url), create=True)
    return url


@asynccontextmanager
async def holder(
    url: str,
    lease: str = LEASE,
    on_fenced: Callable[[], None] = lambda: None,
    mail: MailSettings | None = None,
) -> AsyncIterator[tuple[DatabaseStores, SessionConnection]]:
    """Give the stores and the connection of a process that holds the lease."""
    database = await Database.open(parse_address(url))
    connection = SessionConnection(database, on_fenced)
    try:
        await connection.open(lease, "a test")
        yield DatabaseStores(database, connection, mail=mail), connection
    finally:
        await connection.close()
        await database.close()
