"""The connection that a process keeps for as long as it lives: its lease, and the notifications of other processes.

The lease is a lock of the server that ends with the connection, and a number that fences earlier holders out. A
notification is a hint: after a loss of the connection, and at each beat, every subscriber looks again. Depends on the
database alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from teamwright.database.connection import Database, Fence, fenced_error
from teamwright.database.driver import Connection, connect_error, is_driver_error
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.time_limit import time_limit

OnChange = Callable[[str | None], None]
"""Receives the detail of a notification; None when anything may have changed."""

BEAT_S = 10.0
"""Seconds between two signs of life of a holder, and between two looks without a notification."""

SILENT_S = 30
"""Seconds without a sign of life after which another process may take a lease over."""

_ANSWER_S = 10.0
"""Seconds that the server may take for a sign of life, before the connection counts as lost."""

_TOPICS_AT_ONCE = 20
"""Topics that a process begins to follow before it gives the next sign of life."""

_CLOSE_S = 2.0
_TAKE_OVER_S = 5.0
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


class SessionConnection:
    """The lease and the subscriptions of one process. `on_fenced` is called once when another process took over."""

    def __init__(self, database: Database, on_fenced: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._on_fenced = on_fenced
        self._connection: Connection | None = None
        self._backend = 0
        self._topics: defaultdict[str, list[OnChange]] = defaultdict(list)
        self._listens: set[str] = set()
        """The topics whose notifications the present connection receives."""
        self._lost = asyncio.Event()
        self._wake = asyncio.Event()
        """Set when the connection is lost, or when the topics are no longer those to which it listens."""
        self._worker: asyncio.Task[None] | None = None
        self._busy = asyncio.Lock()

    async def open(self, lease: str = "", owner: str = "", wait_s: float = 0.0) -> Fence | None:
        """Connect, and take the lease of this name if there is one. `owner` names the holder for a person.

        Waits up to `wait_s` seconds for a holder that is about to end.
        Raises CannotStart: `session-busy` while another process holds the lease, `database`.
        """
        try:
            self._connection = await self._connect()
            if lease:
                self._database.fence = await _take(self._connection, lease, owner, wait_s)
        except BaseException as problem:
            await self.close()
            if is_driver_error(problem):
                raise connect_error(self._database.address, problem) from problem
            raise
        self._worker = asyncio.create_task(self._work(), name="database")
        return self._database.fence

    def subscribe(self, topic: str, on_change: OnChange) -> Callable[[], None]:
        """Call back after each change of other processes to the topic. Return the function that ends this.

        It calls back once more when the notifications begin: a change may have come before them.
        """
        known = self._topics[topic]
        known.append(on_change)
        self._wake.set()

        def end() -> None:
            if on_change in known:
                known.remove(on_change)
            if not known and self._topics.get(topic) is known:
                del self._topics[topic]
                self._wake.set()

        return end

    async def close(self) -> None:
        """Give the lease back and end."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
            self._worker = None
        connection = self._connection
        self._connection = None
        if connection is not None:
            try:
                async with time_limit(_CLOSE_S):
                    await self._release(connection)
                    await connection.close()
            except Exception:
                connection.terminate()

    async def _release(self, connection: Connection) -> None:
        """Free the lease, and tell those who follow its session."""
        if (fence := self._database.fence) is not None:
            await connection.execute("select pg_advisory_unlock(lease_key($1))", fence.name)
            await self._database.notify(connection, fence.name)

    async def _connect(self) -> Connection:
        connection = await self._database.connect()
        self._backend = connection.get_server_pid()
        self._lost.clear()
        self._listens.clear()
        connection.add_termination_listener(lambda _connection: self._note_lost())
        return connection

    def _note_lost(self) -> None:
        self._lost.set()
        self._wake.set()

    async def _listen(self, bound: asyncio.Timeout) -> None:
        """Follow the present topics, some at a time, and look at those that are new.

        Each answer of the server extends the bound: a server that is far away needs longer for many topics.
        """
        connection = self._connection
        if connection is None:
            return
        for topic in [topic for topic in self._listens if topic not in self._topics][:_TOPICS_AT_ONCE]:
            self._listens.discard(topic)
            await connection.remove_listener(self._database.channel(topic), self._on_notification)
            bound.reschedule(asyncio.get_running_loop().time() + _ANSWER_S)
        new = [topic for topic in self._topics if topic not in self._listens]
        for topic in new[:_TOPICS_AT_ONCE]:
            self._listens.add(topic)
            await connection.add_listener(self._database.channel(topic), self._on_notification)
            bound.reschedule(asyncio.get_running_loop().time() + _ANSWER_S)
            for on_change in list(self._topics.get(topic, ())):
                on_change(None)
        if self._listens != self._topics.keys():
            self._wake.set()

    def _on_notification(self, _connection: object, _sender: int, _channel: str, payload: str) -> None:
        head, _, detail = payload.partition("\n")
        origin, _, topic = head.partition(" ")
        if origin != self._database.origin:
            for on_change in list(self._topics.get(topic, ())):
                on_change(detail)

    def _look_everywhere(self) -> None:
        for subscribers in list(self._topics.values()):
            for on_change in list(subscribers):
                on_change(None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + BEAT_S
        while True:
            with suppress(TimeoutError):
                async with time_limit(beat_at - loop.time()):
                    await self._wake.wait()
            self._wake.clear()
            is_beat = self._lost.is_set() or loop.time() >= beat_at
            try:
                await self._keep(is_beat=is_beat)
            except TeamwrightError as problem:
                if problem.slug == "fenced":
                    self._on_fenced()
                    return
            if is_beat:
                beat_at = loop.time() + BEAT_S
                self._look_everywhere()

    async def _keep(self, *, is_beat: bool) -> None:
        """Follow the topics, and give a sign of life at a beat, on a new connection when the old one is lost.

        Raises StorageError (`fenced`).
        """
        pause = _PAUSE_S
        while True:
            try:
                async with time_limit(_ANSWER_S) as bound, self._busy:
                    await self._keep_once(bound, is_beat=is_beat)
                return
            except TeamwrightError as problem:
                if problem.slug == "fenced":
                    raise
            except Exception as problem:
                if not is_driver_error(problem):
                    raise
            if self._connection is not None:
                self._connection.terminate()
            self._lost.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _keep_once(self, bound: asyncio.Timeout, *, is_beat: bool) -> None:
        if self._lost.is_set():
            await self._reconnect()
        elif is_beat:
            await self._sign()
        await self._listen(bound)

    async def _sign(self) -> None:
        fence = self._database.fence
        connection = self._connection
        if connection is None:
            self._lost.set()
        elif fence is None:
            await connection.execute("select 1")
        else:
            await self._renew(connection, fence)

    async def _renew(self, connection: Connection, fence: Fence) -> None:
        found = await connection.fetchval(
            "update leases set beat_at = clock_timestamp(), backend_pid = pg_backend_pid() "
            "where name = $1 and token = $2 returning token",
            *fence,
        )
        if found is None:
            raise fenced_error(self._database.place)

    async def _reconnect(self) -> None:
        former = self._backend
        connection = await self._connect()
        fence = self._database.fence
        try:
            if fence is not None:
                await self._renew(connection, fence)
                # The server may not have noticed yet that the former connection of this process is gone.
                if not await _try_lock(connection, fence.name):
                    await connection.execute("select pg_terminate_backend($1)", former)
                    await _wait_for_lock(connection, fence.name)
        except BaseException:
            connection.terminate()
            self._lost.set()
            raise
        self._connection = connection


async def _try_lock(connection: Connection, name: str) -> bool:
    return await connection.fetchval("select pg_try_advisory_lock(lease_key($1))", name)


async def _wait_for_lock(connection: Connection, name: str, wait_s: float = _TAKE_OVER_S) -> bool:
    """Return True once this connection has the lock, False when it stays held."""
    deadline = asyncio.get_running_loop().time() + wait_s
    while not await _try_lock(connection, name):
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_PAUSE_S)
    return True


async def _take(connection: Connection, name: str, owner: str, wait_s: float) -> Fence:
    """Take the lease, also from a holder that gave no sign of life for SILENT_S. Raises CannotStart."""
    if not await _wait_for_lock(connection, name, wait_s):
        await _require_silent(connection, name)
    token = await connection.fetchval(
        "insert into leases (name, token, owner, backend_pid) values ($1, 1, $2, pg_backend_pid()) "
        "on conflict (name) do update set token = leases.token + 1, owner = excluded.owner, "
        "backend_pid = excluded.backend_pid, taken_at = clock_timestamp(), beat_at = clock_timestamp() "
        "returning token",
        name,
        owner,
    )
    return Fence(name, int(token))


async def _require_silent(connection: Connection, name: str) -> None:
    """Fence a silent holder out, end its connection and wait for its lock. Raises CannotStart while it lives.

    The number changes first: a holder that only was slow can neither write nor renew its lease after that.
    """
    silent = await connection.fetchval(
        "update leases set token = token + 1 where name = $1 "
        "and beat_at < clock_timestamp() - make_interval(secs => $2) returning backend_pid",
        *(name, float(SILENT_S)),
    )
    if silent is not None:
        await connection.execute("select pg_terminate_backend($1)", silent)
        if await _wait_for_lock(connection, name):
            return
    row = await connection.fetchrow(
        "select owner, extract(epoch from clock_timestamp() - beat_at)::int as age from leases where name = $1", name
    )
    raise held_error(name, str(row["owner"]) if row is not None else "?", int(row["age"]) if row is not None else 0)


def held_error(name: str, owner: str, age: int) -> CannotStart:
    """Return the error for a lease that its holder keeps. `age`: seconds since its last sign of life."""
    return CannotStart(
        "session-busy",
        f"{owner} drives this session already",
        looked_at=[("lease", name), ("last sign of life", f"{age} s ago")],
        do=[
            "continue in the terminal where it runs, or end it there",
            f"if its machine is lost: try again once its last sign of life is {SILENT_S} s old",
        ],
        note="nothing was started",
    )


async def fence_out(connection: Connection, lease: str) -> None:
    """Refuse all later writes of the process that holds a lease, and end its connection, so that it ends itself."""
    former = await connection.fetchval(
        "update leases set token = token + 1 where name = $1 returning backend_pid", lease
    )
    await connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid = $1", former)
