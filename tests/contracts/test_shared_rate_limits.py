"""The contract of rate limiters with one credential, on a page of files and in a database.

`open_limiter` returns the limiter of one more process: on files of the same machine, in a database of another machine.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from teamwright.database.address import parse_address
from teamwright.database.connection import Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.session_connection import SessionConnection
from teamwright.database.team_rows import session_lease
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.rate_limit_store import FileRateLimitStore, MemoryRateLimitStore
from teamwright.models.rate_state import RateState, merge_states
from tests.contracts.database_processes import database_processes
from tests.database.spaces import make_space
from tests.support.waits import wait_until

KEY = "sk-a-key-of-the-test"
ENDPOINT = Endpoint("anthropic", "https://api.example", KEY)


@pytest.fixture(params=["files", "database"])
async def open_limiter(request, tmp_path) -> AsyncIterator[Callable[[], Awaitable[RateLimiter]]]:
    """Return the opener of limiters with the credential."""
    if request.param == "files":

        async def open_on_page() -> RateLimiter:
            return made(FileRateLimitStore(tmp_path / "governors" / "a"))

        yield open_on_page
        return
    async with database_processes(request.getfixturevalue("postgres").new_space()) as stores:
        opened = []

        async def open_shared() -> RateLimiter:
            opened.append(stores())
            limiter = made(MemoryRateLimitStore())
            await opened[-1].share_rate_limit(ENDPOINT, limiter)
            return limiter

        yield open_shared
        for one in opened:
            await one.close()


def made(store) -> RateLimiter:
    return RateLimiter(max_running=8, backoff_s=0.001, max_backoff_s=0.005, store=store)


async def until(found: Callable[[], object]) -> None:
    await asyncio.to_thread(wait_until, found)


async def refuse(limiter: RateLimiter, calls: int, seconds: float) -> None:
    """Let the service refuse one of several calls that run at once."""
    async with limiter.permit() as first:
        if calls > 1:
            await refuse_others(limiter, calls - 1, first, seconds)
        else:
            limiter.note_throttled(first, seconds)


async def refuse_others(limiter, calls, first, seconds) -> None:
    async with limiter.permit():
        if calls > 1:
            await refuse_others(limiter, calls - 1, first, seconds)
        else:
            limiter.note_throttled(first, seconds)


@pytest.mark.promise("J6", "H10")
@pytest.mark.slow_after(1)
async def test_a_refusal_in_one_process_pauses_the_others_and_lowers_their_limit(open_limiter):
    first, second = await open_limiter(), await open_limiter()
    await refuse(first, 8, 30.0)
    await until(lambda: second.limit == 4)
    assert second.wait_reason == "the rate limit" and 25 < second.paused_s < 40


async def test_a_process_that_starts_later_knows_the_refusal(open_limiter):
    first = await open_limiter()
    await refuse(first, 4, 30.0)
    second = await open_limiter()
    await until(lambda: second.limit == 2 and second.paused_s > 20)
    third = await open_limiter()
    await until(lambda: third.limit == 2 and third.paused_s > 20)


@pytest.mark.parametrize("column", ["paused_until = 'infinity'", "refused_at = 'infinity'", "running_limit = 'NaN'"])
@pytest.mark.slow_after(1)
async def test_a_state_in_the_database_that_no_refusal_gives_stops_no_process_and_is_replaced(postgres, column):
    space = postgres.new_space()
    schema = space.rpartition("=")[2]
    async with database_processes(space) as stores:
        first, second = stores(), stores()
        begun, later = made(MemoryRateLimitStore()), made(MemoryRateLimitStore())
        await first.share_rate_limit(ENDPOINT, begun)
        await refuse(begun, 8, 0.01)
        rows = f"select count(*) from {schema}.rate_limits"
        await until(lambda: postgres.sql(rows) == "1")
        await first.close()
        postgres.sql(f"update {schema}.rate_limits set {column}")
        await second.share_rate_limit(ENDPOINT, later)
        assert later.paused_s == 0 and later.limit >= 1
        await refuse(later, 4, 30.0)
        usual = "paused_until < now() + '1 minute' and refused_at < now() + '1 minute' and running_limit = 2"
        await until(lambda: postgres.sql(f"{rows} where {usual}") == "1")
        await second.close()


async def test_a_success_in_one_process_raises_the_limit_of_the_others(open_limiter):
    first, second = await open_limiter(), await open_limiter()
    await refuse(first, 4, 0.0)
    await until(lambda: second.limit == 2)
    for _ in range(3):
        async with first.permit() as permit:
            first.note_success(permit)
    await until(lambda: second.limit == 3)


async def test_a_second_refusal_lowers_the_limit_again(open_limiter):
    first, second = await open_limiter(), await open_limiter()
    await refuse(first, 8, 0.0)
    await until(lambda: second.limit == 4)
    await refuse(second, 4, 0.0)
    await until(lambda: first.limit == 2 and second.limit == 2)


async def test_the_database_never_contains_the_key_and_names_it_differently_in_each_team_space(postgres):
    names = []
    for _ in range(2):
        url = postgres.new_space()
        async with database_processes(url, 1) as stores:
            limiter = made(MemoryRateLimitStore())
            one = stores()
            await one.share_rate_limit(ENDPOINT, limiter)
            await refuse(limiter, 2, 30.0)
            select = f"select credential from {one.schema}.rate_limits"
            await until(lambda select=select: postgres.sql(select) != "")
            names.append(postgres.sql(select))
            assert KEY not in postgres.sql(f"select r::text from {one.schema}.rate_limits r")
            await one.close()
    assert names[0] != names[1] and ENDPOINT.fingerprint not in names


def test_of_two_states_the_later_refusal_counts_and_a_reset_counter_changes_nothing():
    now = time.monotonic()
    limited = RateState(3, 1, 2.0, now + 5, now)
    unlimited = RateState(40)
    merged = merge_states(unlimited, limited)
    assert (merged.limit, merged.level, merged.paused_until) == (2.0, 1, now + 5)
    assert merged.epoch == 41, "a call that began before the refusal does not lower the limit twice"
    assert merge_states(merged, limited) == merged
    assert merge_states(limited, merged).epoch == 41


def test_of_one_refusal_the_machine_that_succeeded_since_counts():
    here, there = RateState(3, 1, 2.0, 9.0, 8.0), RateState(3, 0, 2.5, 9.0, 8.01)
    assert merge_states(here, there) == RateState(3, 0, 2.5, 9.0, 8.01)


@pytest.mark.promise("J6", "H10")
@pytest.mark.slow
async def test_after_a_refusal_the_machines_share_the_calls_that_may_run_at_once(postgres):
    """Each machine counts the calls of its processes, and runs its share of them."""
    url = await make_space(postgres.new_space())
    async with machine(url, "left") as left, machine(url, "right") as right:
        await refuse(left, 8, 0.0)
        await until(lambda: (left.limit, right.limit) == (2, 2))


@asynccontextmanager
async def machine(url: str, host: str) -> AsyncIterator[RateLimiter]:
    """Give the limiter of a process on this machine."""
    database = await Database.open(parse_address(url))
    connection, limiter = SessionConnection(database), made(MemoryRateLimitStore())
    await connection.open(session_lease(host), f"process 1 on {host}")
    stores = DatabaseStores(database, connection)
    try:
        await stores.share_rate_limit(ENDPOINT, limiter)
        yield limiter
    finally:
        await stores.close()
        await connection.close()
        await database.close()
