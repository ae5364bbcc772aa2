"""The PostgreSQL driver: the few calls of asyncpg that the stores use, with types, and its errors in our form.

Depends on asyncpg, which the extra `postgres` installs. No other module imports it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from teamwright.database.address import DatabaseAddress
from teamwright.protocol.errors import CannotStart, LockTimeout, StorageError, TeamwrightError

Row: TypeAlias = Mapping[str, Any]

OnNotification: TypeAlias = Callable[[object, int, str, str], None]
"""Receives the connection, the process number of the sender's connection, the channel and the payload."""

CONNECT_S = 10.0
"""Seconds for one attempt to connect."""

COMMAND_S = 30.0
"""Seconds that one statement may take, before the database counts as gone."""

NO_RIGHT = "42501"
"""The server's code for a statement that the user may not run."""

IDLE_S = 60.0
"""Seconds after which a pool closes a connection that is not used."""

LOCK_S = 5
"""Seconds to wait for a row that another process locked: as long as for a lock of files."""

_SETTINGS = (
    "set search_path to {schema}; set lock_timeout to '{lock}s'; set statement_timeout to '{command}s'; "
    "set idle_in_transaction_session_timeout to '{command}s'; set tcp_keepalives_idle to 10; "
    "set tcp_keepalives_interval to 5; set tcp_keepalives_count to 3; set client_min_messages to warning; "
    "set application_name to 'teamwright'"
)
"""The state of each connection. The server frees what a lost machine held after 25 s, by its keepalives."""


class Transaction(Protocol):
    """A transaction of a connection."""

    async def start(self) -> None:
        """Begin it."""

    async def commit(self) -> None: ...

    async def rollback(self) -> None:
        """Undo it."""


class Connection(Protocol):
    """One connection to the server."""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        """Run a statement. Return its status."""
        ...

    async def executemany(self, command: str, args: Sequence[Sequence[object]]) -> None:
        """Run a statement for each row of arguments."""

    async def fetch(self, query: str, *args: object) -> Sequence[Row]:
        """Return all rows."""
        ...

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        """Return the first row; None without one."""
        ...

    async def fetchval(self, query: str, *args: object, timeout: float | None = None) -> Any:
        """Return the first column of the first row; None without one."""
        ...

    async def add_listener(self, channel: str, callback: OnNotification) -> None:
        """Call back for each notification of a channel."""

    async def remove_listener(self, channel: str, callback: OnNotification) -> None:
        """Call back no longer."""

    def add_termination_listener(self, callback: Callable[[object], None]) -> None:
        """Call back once the connection has ended."""

    def transaction(self) -> Transaction:
        """Return a new transaction, which has not begun."""
        ...

    def get_server_pid(self) -> int:
        """Return the process number that the server named when the connection began."""
        ...

    def terminate(self) -> None:
        """Close the socket at once."""

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the connection in order."""


class Pool(Protocol):
    """Connections that are used in turn."""

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Connection]:
        """Give a connection for the block."""
        ...

    async def close(self) -> None:
        """Close all connections."""

    def terminate(self) -> None:
        """Close all sockets at once."""

    async def expire_connections(self) -> None:
        """Replace every connection at its next use."""


def load_driver() -> Any:
    """Return the module asyncpg. Raises CannotStart when it is not installed."""
    try:
        return import_module("asyncpg")
    except ImportError as problem:
        raise CannotStart(
            "database",
            "the PostgreSQL driver is not installed",
            do=['install it: pip install "teamwright[postgres]"'],
            note="nothing was started",
        ) from problem


async def connect(address: DatabaseAddress) -> Connection:
    """Open one connection without settings. Raises CannotStart (`database`)."""
    driver = load_driver()
    try:
        return await driver.connect(address.url, timeout=CONNECT_S, command_timeout=COMMAND_S, statement_cache_size=0)
    except (driver.PostgresError, driver.InterfaceError, OSError, TimeoutError, ValueError) as problem:
        raise connect_error(address, problem) from problem


@asynccontextmanager
async def short_connection(address: DatabaseAddress) -> AsyncGenerator[Connection]:
    """Open one connection for a few statements and close it. Raises CannotStart (`database`), also for a statement."""
    connection = await connect(address)
    try:
        yield connection
    except Exception as problem:
        if is_driver_error(problem):
            raise connect_error(address, problem) from problem
        raise
    finally:
        await connection.close(timeout=2.0)


async def apply_settings(connection: Connection, schema: str) -> None:
    """Give the connection the state that all stores expect."""
    await connection.execute(_SETTINGS.format(schema=quote_name(schema), lock=LOCK_S, command=int(COMMAND_S)))


async def open_pool(address: DatabaseAddress, schema: str, most: int) -> Pool:
    """Open a pool of at most so many connections, which open when they are needed. Raises CannotStart (`database`)."""
    driver = load_driver()

    async def prepare(connection: Connection) -> None:
        await apply_settings(connection, schema)

    async def keep(_connection: Connection) -> None:
        """Keep the settings between two uses: no statement of Teamwright changes the state of the connection."""

    try:
        return await driver.create_pool(
            address.url,
            min_size=0,
            max_size=most,
            timeout=CONNECT_S,
            command_timeout=COMMAND_S,
            max_inactive_connection_lifetime=IDLE_S,
            init=cast("Callable[[Connection], Awaitable[None]]", prepare),
            reset=keep,
        )
    except (driver.PostgresError, driver.InterfaceError, OSError, TimeoutError, ValueError) as problem:
        raise connect_error(address, problem) from problem


def quote_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def is_connection_loss(problem: BaseException) -> bool:
    """Return True when the connection ended, or the server starts or stops: the same work may succeed later."""
    driver = load_driver()
    if isinstance(problem, driver.PostgresError):
        state = _state(problem)
        return state.startswith(("08", "57P")) or state == "53300"
    known = (driver.InterfaceError, driver.InternalClientError, OSError, TimeoutError)
    return isinstance(problem, known) and not isinstance(problem, TeamwrightError)


def is_conflict(problem: BaseException) -> bool:
    """Return True when the server undid a transaction because of another one: it is run again."""
    return _state(problem) in {"40001", "40P01"}


def is_lost_statement(problem: BaseException) -> bool:
    """Return True when the server does not know a statement that this connection has prepared, or knows it already."""
    return _state(problem) in {"26000", "42P05"}


def is_driver_error(problem: BaseException) -> bool:
    """Return True for an error of the driver, the server or the network."""
    driver = load_driver()
    known = (driver.PostgresError, driver.InterfaceError, driver.InternalClientError, OSError, TimeoutError)
    return isinstance(problem, known) and not isinstance(problem, TeamwrightError)


def connect_error(address: DatabaseAddress, problem: BaseException) -> CannotStart:
    """Return the error for a server that does not accept a connection. It never contains a password."""
    if _state(problem) == NO_RIGHT:
        what, do = _no_right(problem)
        return CannotStart("database", what, looked_at=[("database", str(address))], do=do, note="nothing was started")
    return CannotStart(
        "database",
        f"the database cannot be reached: {_reason(problem)}",
        looked_at=[("database", str(address))],
        do=["look at it with: teamwright database check", "a password belongs into ~/.pgpass or PGPASSWORD"],
        note="nothing was started",
    )


def store_error(place: str, problem: BaseException) -> StorageError:
    """Return the error for a statement that the server did not run; `place` names the database for a person."""
    state = _state(problem)
    looked_at = [("database", place)]
    if state == NO_RIGHT:
        what, do = _no_right(problem)
        return StorageError("database-failed", what, looked_at=looked_at, do=do, note="nothing was written")
    if state == "55P03":
        what = "another process of the team kept a row of the database locked"
        return LockTimeout("lock-timeout", what, looked_at=looked_at, note="nothing was written")
    if state in {"53100", "53200"}:
        what = f"the database has no room, make some on its server: {_reason(problem)}"
        do = ["make room on the server, then resume"]
        return StorageError("disk-full", what, looked_at=looked_at, do=do, note="nothing was written")
    if state == "25006":
        do = ["name the primary server in --database, or end its read-only state"]
        what = "the database is read-only"
        return StorageError("database-failed", what, looked_at=looked_at, do=do, note="nothing was written")
    if is_connection_loss(problem):
        what = f"the database cannot be reached: {_reason(problem)}"
        do = ["see that its server runs, then resume"]
        return StorageError("database-failed", what, looked_at=looked_at, do=do, note="nothing was written")
    what = f"the database did not do its work: {_reason(problem)}"
    return StorageError("database-failed", what, looked_at=looked_at, note="nothing was written")


def _no_right(problem: BaseException) -> tuple[str, list[str]]:
    """Return the sentence for a user without the rights on the schema, and the advice."""
    what = f"the user of the database has too few rights: {_reason(problem)}"
    return what, ["name the user that made the schema, or grant this one all rights on the tables of the schema"]


def _state(problem: BaseException) -> str:
    return str(getattr(problem, "sqlstate", "") or "")


def _reason(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    return str(problem).strip().split("\n")[0] or type(problem).__name__
