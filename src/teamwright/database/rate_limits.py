"""Rate limits of credentials in a database: a refusal on one machine slows all machines that use the credential.

The rate limiter of a machine is kept, with its page of the home. Here its state and that of the database are merged
after each change. Each machine runs its share of the calls that may run at once after a refusal. Depends on
the database and the rate limiter.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from teamwright.database.connection import Database
from teamwright.database.driver import Connection, Row
from teamwright.database.session_connection import SessionConnection
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.rate_state import SAME_REFUSAL_S, RateState, merge_states
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.time_limit import time_limit

_PAUSE_S = 0.1
"""Seconds between two exchanges of a credential: successes of many calls are one change."""

_AGAIN_S = 1.0
"""Seconds before the next attempt when the database refused an exchange."""

_LAST_S = 2.0
"""Seconds for the last exchange of a process that ends."""

_COLUMNS = "epoch, level, running_limit, paused_until, refused_at"


class SharedRateLimits:
    """The rate limiters of one process that follow the database. `close` ends this."""

    def __init__(self, database: Database, session: SessionConnection) -> None:
        self._database = database
        self._session = session
        self._tasks: dict[str, tuple[RateLimiter, asyncio.Task[None]]] = {}

    async def share(self, endpoint: Endpoint, limiter: RateLimiter) -> None:
        """See TeamStores.share_rate_limit. The endpoint's key never reaches the database. Raises StorageError."""
        credential = endpoint.keyed_fingerprint(await self._database.read(_read_key))
        await self._exchange(credential, limiter)
        if credential not in self._tasks:
            follow = self._follow(credential, limiter)
            self._tasks[credential] = limiter, asyncio.create_task(follow, name="rate limit in the database")

    async def close(self) -> None:
        """End all exchanges; the last change of this process is written, when the server answers."""
        tasks = self._tasks
        self._tasks = {}
        for _, task in tasks.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in tasks.values()), return_exceptions=True)
        with suppress(TimeoutError, TeamwrightError):
            async with time_limit(_LAST_S):
                for credential, (limiter, _) in tasks.items():
                    await self._exchange(credential, limiter)

    async def _follow(self, credential: str, limiter: RateLimiter) -> None:
        """Exchange the state after each change, here or on another machine, until this process is fenced out."""
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        changed.set()

        def note_change() -> None:
            loop.call_soon_threadsafe(changed.set)

        unfollow = limiter.follow(note_change)
        unsubscribe = self._session.subscribe(_topic(credential), lambda _detail: changed.set())
        try:
            while await self._try_exchange(credential, limiter, changed):
                pass
        finally:
            unsubscribe()
            unfollow()

    async def _try_exchange(self, credential: str, limiter: RateLimiter, changed: asyncio.Event) -> bool:
        """Exchange the state once it has changed. Return False when this process was fenced out."""
        await changed.wait()
        changed.clear()
        try:
            await self._exchange(credential, limiter)
        except TeamwrightError as problem:
            if problem.slug == "fenced":
                return False
            changed.set()
            await asyncio.sleep(_AGAIN_S)
        await asyncio.sleep(_PAUSE_S)
        return True

    async def _exchange(self, credential: str, limiter: RateLimiter) -> None:
        """Merge the state of this machine with the row of the credential, which is written only when it changes."""

        async def read(connection: Connection) -> RateState:
            return self._state(await connection.fetchrow(f"{_SELECT} where credential = $1", credential))

        async def write(connection: Connection) -> None:
            await connection.execute(
                f"insert into rate_limits (credential, {_COLUMNS}) values ($1, 0, 0, $2, $3, $3) "
                "on conflict do nothing",
                *(credential, RateState().limit, datetime.fromtimestamp(0, UTC)),
            )
            row = await connection.fetchrow(f"{_SELECT} where credential = $1 for update", credential)
            merged = merge_states(limiter.merge(RateState()), self._state(row))
            await connection.execute(
                "update rate_limits set epoch = $2, level = $3, running_limit = $4, paused_until = $5, "
                "refused_at = $6 where credential = $1",
                *(credential, merged.epoch, merged.level, merged.limit),
                *(self._to_server_time(merged.paused_until), self._to_server_time(merged.refused_at)),
            )
            await self._database.notify(connection, _topic(credential))

        stored = await self._database.read(read)
        if stored.is_limited:
            limiter.share_among(await self._database.read(_count_machines))
        if _differ(limiter.merge(stored), stored):
            await self._database.write(write, durable=False)

    def _state(self, row: Row | None) -> RateState:
        """Return the state in a row with the times of this machine; none that Teamwright cannot have written."""
        if row is None:
            return RateState()
        times = (self._to_local_time(row[name]) for name in ("paused_until", "refused_at"))
        stored = RateState(int(row["epoch"]), int(row["level"]), float(row["running_limit"]), *times)
        return stored if stored.is_possible(time.monotonic()) else RateState()

    def _to_local_time(self, at: datetime) -> float:
        """Return a time of the server's clock as one of this machine's monotonic clock; 0 for one before its boot."""
        at = at.replace(tzinfo=at.tzinfo or UTC)  # the driver's value of `infinity` has no time zone
        return max(0.0, time.monotonic() + (at - self._database.now()).total_seconds())

    def _to_server_time(self, at: float) -> datetime:
        return self._database.now() + timedelta(seconds=at - time.monotonic())


_SELECT = f"select {_COLUMNS} from rate_limits"


def _topic(credential: str) -> str:
    return f"rate:{credential}"


def _differ(one: RateState, other: RateState) -> bool:
    """Return True for two states of which the times differ by more than the clocks do, or anything else."""
    times = (one.paused_until - other.paused_until, one.refused_at - other.refused_at)
    counts = (one.epoch, one.level, one.limit) != (other.epoch, other.level, other.limit)
    return counts or any(abs(seconds) > SAME_REFUSAL_S for seconds in times)


async def _count_machines(connection: Connection) -> int:
    """Return on how many machines sessions, members and workers of the team space run now."""
    return await connection.fetchval(
        "select count(distinct split_part(owner, ' on ', 2)) from leases where is_held(name)"
    )


async def _read_key(connection: Connection) -> bytes:
    """Return the key of the hashes, which is random for each team space."""
    return bytes(await connection.fetchval("select rate_limit_key from space"))
