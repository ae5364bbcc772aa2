"""Several processes on one team space, for the contracts of stores: each has a database and a session connection."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from teamwright.database.address import parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.session_connection import SessionConnection

PROCESSES = 4


@asynccontextmanager
async def database_processes(url: str, count: int = PROCESSES) -> AsyncIterator[Callable[[], DatabaseStores]]:
    """Give a function that returns the stores of one process after the other, again from the first one."""
    address = parse_address(url)
    await upgrade_schema(address, create=True)
    databases = [await Database.open(address) for _ in range(count)]
    sessions = [SessionConnection(database) for database in databases]
    try:
        for session in sessions:
            await session.open()
        turns = itertools.cycle(
            [DatabaseStores(database, session) for database, session in zip(databases, sessions, strict=True)]
        )
        yield lambda: next(turns)
    finally:
        for session in sessions:
            await session.close()
        for database in databases:
            await database.close()
