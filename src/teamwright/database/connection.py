"""The database of one process: a pool of connections, transactions with a fence, and checks of the server.

Depends on the driver. A write that lost its connection is tried again, unless the server has committed it. The stores
know the tables.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2s
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from teamwright.database.administration import read_facts, require_usable
from teamwright.database.driver import (
    COMMAND_S,
    Connection,
    Pool,
    apply_settings,
    connect,
    is_conflict,
    is_connection_loss,
    is_driver_error,
    open_pool,
    store_error,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress
    from teamwright.database.session_files import SessionFiles, ShippedChange

T = TypeVar("T")

MOST_CONNECTIONS = 4
"""Connections of a lead and of a worker, besides the one of the lease and the notifications."""

MOST_OF_MEMBER = 2
"""The same for a member on another machine, which works for one agent: a server has few connections."""

PATIENCE_S = 30.0
"""Seconds for which the calls of a process wait for a server that restarts, from its first lost connection."""

_CLOCK_PROBES = 3
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


_RECORD_ATTEMPT = (
    "with recorded as (insert into attempts (process, slot, number) values ($1, $2, $3) "
    "on conflict (process, slot) do update set number = excluded.number, made_at = clock_timestamp())"
)
_RECORDED_ATTEMPT = "select number from attempts where process = $1 and slot = $2"
_FORGET_ATTEMPTS = "delete from attempts where process = $1 or made_at < clock_timestamp() - interval '30 days'"
_IS_RUNNING = (
    "select exists (select 1 from pg_locks where locktype = 'transactionid' and granted "
    "and transactionid = $1::text::xid8::xid)"
)


class Fence(NamedTuple):
    """The right of a process to write: a lease with the number of this holder. A later holder has a higher number."""

    name: str
    token: int


class Database:
    """The database of one process."""

    def __init__(self, address: DatabaseAddress, schema: str, pool: Pool) -> None:
        self.address = address
        self.schema = schema
        self.origin = secrets.token_hex(6)
        """The name of this process in rows and notifications, so that it knows its own changes."""
        self.member = ""
        """The member that this process runs, as `team_member` names it; empty for other processes."""
        self.fence: Fence | None = None
        """None for a process that only reads, or that writes as a person from another terminal."""
        self.files: SessionFiles | None = None
        """The files of the session of this process, which every write ships first; None for other processes."""
        self._shipping = asyncio.Lock()
        self._shipments = 0
        self._announced_shipments = 0
        """The number of shipments of which the followers of the files were notified."""
        self._pool = pool
        self._ahead = timedelta()
        self._free_slots = list[int]()
        self._attempts = itertools.count(1)
        self._outage = Outage()

    @classmethod
    async def open(cls, address: DatabaseAddress, most: int = MOST_CONNECTIONS) -> Database:
        """Open a database whose schema is that of this Teamwright, with at most so many connections in its pool.

        Raises CannotStart (`database`).
        """
        facts = await read_facts(address)
        require_usable(address, facts)
        made = cls(address, facts.schema, await open_pool(address, facts.schema, most))
        await made._compare_clocks()
        return made

    async def _compare_clocks(self) -> None:
        """Find how far the server's clock is ahead of this machine's, as exactly as the fastest answer allows."""
        best = timedelta.max
        for _ in range(_CLOCK_PROBES):
            before = datetime.now(UTC)
            there: datetime = await self.read(lambda connection: connection.fetchval("select clock_timestamp()"))
            took = datetime.now(UTC) - before
            if took < best:
                best = took
                self._ahead = there - (before + took / 2)

    def now(self) -> datetime:
        """Return the time of the server's clock, which orders the changes of all machines."""
        return datetime.now(UTC) + self._ahead

    @property
    def place(self) -> str:
        """The database for a person."""
        return f"{self.address.url} schema {self.schema}"

    def channel(self, topic: str) -> str:
        """Return the channel of a topic: a process receives no notifications of topics that it does not follow."""
        return f"teamwright_{blake2s(f'{self.schema}/{topic}'.encode(), digest_size=12).hexdigest()}"

    async def connect(self) -> Connection:
        """Open a connection outside the pool, for a lease and notifications. Raises CannotStart (`database`)."""
        connection = await connect(self.address)
        await apply_settings(connection, self.schema)
        return connection

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of a query, which is repeated when the connection is lost. Raises StorageError."""
        retry = _Retry(self._outage)
        while True:
            try:
                async with self._pool.acquire(timeout=COMMAND_S) as connection:
                    return retry.note_success(await _query(connection, work))
            except Exception as problem:
                await retry.wait_or_raise(self.place, problem)

    async def write(self, work: Callable[[Connection], Awaitable[T]], *, durable: bool = True) -> T:
        """Run `work` in one transaction behind the fence, and return its result.

        The new lines of the session's transcripts are part of the transaction: another machine that sees its effects
        sees the calls that caused them too.

        Without `durable` the server answers before its disk does: a crash of the server's machine may lose the last
        half second. Raises StorageError: `fenced` for a process that was replaced, LockTimeout, `database-failed`.
        """
        retry = _Retry(self._outage)
        while True:
            try:
                return retry.note_success(await self._write_once(work, durable=durable))
            except Exception as problem:
                await retry.wait_or_raise(self.place, problem)

    async def _write_once(self, work: Callable[[Connection], Awaitable[T]], *, durable: bool) -> T:
        """Run the work once. When the answer of the commit was lost, the server says whether it is committed."""
        number = next(self._attempts)
        attempt = _Attempt[T](number, self._free_slots.pop() if self._free_slots else number)
        async with self._find_changes() as changes:
            try:
                async with self._pool.acquire(timeout=COMMAND_S) as connection:
                    await self._run(connection, self._with_files(changes, work), attempt, durable=durable)
            except Exception as problem:
                lost = attempt.results and is_connection_loss(problem)
                if not (lost and await self._was_committed(attempt)):
                    raise
            if self.files is not None:
                self.files.note_sent(changes)
            self._free_slots.append(attempt.slot)
            return attempt.results[0]

    @asynccontextmanager
    async def _find_changes(self) -> AsyncGenerator[Sequence[ShippedChange]]:
        """Give the files' changes to the block. Two transactions never ship the same lines."""
        if self.files is None:
            yield ()
            return
        async with self._shipping:
            if changes := self.files.find_changes():
                yield changes
                return
        yield ()

    def _with_files(
        self, changes: Sequence[ShippedChange], work: Callable[[Connection], Awaitable[T]]
    ) -> Callable[[Connection], Awaitable[T]]:
        """Return the work with the shipping of changes before it."""
        files = self.files
        if files is None or not changes:
            return work

        async def both(connection: Connection) -> T:
            await files.send(connection, changes)
            self._shipments += 1
            return await work(connection)

        return both

    def ship_with_writes(self, files: SessionFiles) -> None:
        """Ship the new bytes of these files with every write from now on."""
        self.files = files

    async def ship(self) -> None:
        """Ship the files of the session, and notify those who follow them. Raises StorageError.

        Other writes ship without a notification: each one wakes every connection that listens to any topic.
        """
        self._announced_shipments = await self.write(self._announce, durable=False)

    async def _announce(self, connection: Connection) -> int:
        """Notify the followers of shipments that were not announced. Return the number of all shipments."""
        count = self._shipments
        if self.files is not None and count != self._announced_shipments:
            await self.notify(connection, self.files.topic)
        return count

    async def _run(
        self,
        connection: Connection,
        work: Callable[[Connection], Awaitable[T]],
        attempt: _Attempt[T],
        *,
        durable: bool,
    ) -> None:
        """Run the work in a transaction. The attempt has its result from the moment when the commit begins."""
        transaction = connection.transaction()
        try:
            await transaction.start()
            attempt.transaction = await self._begin(connection, attempt, durable=durable)
            result = await work(connection)
        except BaseException:
            try:
                await transaction.rollback()
            except Exception:
                connection.terminate()  # the pool would give it to the next call
            raise
        attempt.results.append(result)
        try:
            await transaction.commit()
        except BaseException:
            connection.terminate()
            raise

    async def _begin(self, connection: Connection, attempt: _Attempt[T], *, durable: bool) -> str:
        """Record the attempt and return the server's number of its transaction.

        Raises StorageError (`fenced`) when a later holder of the lease exists.
        """
        found = (
            f"{_RECORD_ATTEMPT} select set_config('synchronous_commit', $4, true), pg_current_xact_id()::text as number"
        )
        values = (self.origin, attempt.slot, attempt.number, "on" if durable else "off")
        if self.fence is None:
            row = await connection.fetchrow(found, *values)
        else:
            lease = "from leases where name = $5 and token = $6 for share"
            row = await connection.fetchrow(f"{found} {lease}", *values, self.fence.name, self.fence.token)
        if row is None:
            raise fenced_error(self.place)
        return str(row["number"])

    async def _was_committed(self, attempt: _Attempt[T]) -> bool:
        """Return True when the server committed the attempt whose answer was lost. Raises StorageError.

        The server's own status of the transaction would not prove it: a server that crashed gives the numbers of lost
        transactions to new ones.
        """

        async def ask(connection: Connection) -> int | None:
            while await connection.fetchval(_IS_RUNNING, attempt.transaction):
                await connection.execute("select pg_sleep(0.05)")
            return await connection.fetchval(_RECORDED_ATTEMPT, self.origin, attempt.slot)

        return await self.read(ask) == attempt.number

    async def notify(self, connection: Connection, topic: str, detail: str = "") -> None:
        """Tell all processes that follow `topic`, once the transaction of the connection is committed."""
        await connection.execute("select pg_notify($1, $2)", self.channel(topic), f"{self.origin} {topic}\n{detail}")

    async def close(self) -> None:
        """Close all connections. A server that does not answer is left without a farewell."""
        try:
            async with time_limit(2.0):
                await self._forget_attempts()
                await self._pool.close()
        except Exception as problem:
            self._pool.terminate()
            if not is_driver_error(problem):
                raise

    async def _forget_attempts(self) -> None:
        """Remove the records of this process. A process that only read has none."""
        if self._free_slots:
            async with self._pool.acquire() as connection:
                await connection.execute(_FORGET_ATTEMPTS, self.origin)


async def _query(connection: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
    try:
        return await work(connection)
    except Exception as problem:
        if is_connection_loss(problem):
            connection.terminate()  # the pool would give it to the next call
        raise


class _Attempt(Generic[T]):
    """One attempt to run a transaction: its record, and its result once the commit began.

    `slot` names the row that records it. No other attempt of the process uses the row before this one is decided.
    """

    def __init__(self, number: int, slot: int) -> None:
        self.number = number
        self.slot = slot
        self.transaction = ""
        self.results: list[T] = []


class Outage:
    """The times of the first and the last failed attempt since the server answered last; None while it answers."""

    began_at: float | None = None
    failed_at: float = 0.0

    def note_failure(self) -> float:
        """Record a failed attempt, and return when the outage began.

        After a pause without attempts a new outage begins: the server may have answered in between.
        """
        now = time.monotonic()
        if self.began_at is None or now - self.failed_at > PATIENCE_S:
            self.began_at = now
        self.failed_at = now
        return self.began_at


class _Retry:
    """The pauses between attempts to reach a server. All calls of a process have the patience of one outage together:
    a process whose server does not come back ends after it, however many calls it still has to make.
    """

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._began_at = time.monotonic()
        self._pause = _FIRST_PAUSE_S

    def note_success(self, result: T) -> T:
        """Record that the server answers, and return the result of the call."""
        self._outage.began_at = None
        return result

    async def wait_or_raise(self, place: str, problem: Exception) -> None:
        """Wait before the next attempt, or raise the problem in our form when an attempt would not help."""
        if not is_driver_error(problem):
            raise problem
        began_at = self._began_at
        if is_connection_loss(problem):
            began_at = self._outage.note_failure()
        elif not is_conflict(problem):
            raise store_error(place, problem) from problem
        if time.monotonic() + self._pause > began_at + PATIENCE_S:
            raise store_error(place, problem) from problem
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)


def fenced_error(place: str) -> StorageError:
    """Return the error of a process that was replaced while it believed to be alive."""
    return StorageError(
        "fenced",
        "another process has taken this session over, and this one may no longer write",
        looked_at=[("database", place)],
        do=["end this process; the other one continues with the same conversation"],
        note="nothing was written",
    )
