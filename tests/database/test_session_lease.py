"""The lease of a session in a database: one holder at a time, and no write of a former one."""

import asyncio
import multiprocessing
import os
import signal
from contextlib import suppress

import pytest

from teamwright.database.address import parse_address
from teamwright.database.session_connection import SILENT_S
from teamwright.database.team_rows import session_lease
from teamwright.protocol.errors import CannotStart, StorageError
from teamwright.protocol.mail import InboxEntry
from tests.database.spaces import LEASE, holder, make_space
from tests.support.waits import WAIT_S


@pytest.fixture
async def space(postgres) -> str:
    return await make_space(postgres.new_space())


@pytest.mark.slow
async def test_a_second_process_is_refused_while_the_first_one_lives(space):
    async with holder(space):
        with pytest.raises(CannotStart, match="a test drives this session already") as caught:
            async with holder(space):
                pass
        assert caught.value.slug == "session-busy"
    async with holder(space) as (stores, _):
        await stores.mailbox("demo", "ann").put(InboxEntry("ben", "hello"))


async def test_a_former_holder_changes_nothing_once_another_one_holds_the_lease(space):
    async with holder(space) as (former, connection):
        await former.mailbox("demo", "ann").put(InboxEntry("ben", "first"))
        await connection.close()  # the connection of its lease is lost, while its other ones remain
        async with holder(space) as (later, _):
            await refused(former.mailbox("demo", "ann").put(InboxEntry("ben", "late")))
            await refused(former.mailbox("demo", "ann").mark_delivered(["any"]))
            await refused(former.tasks("demo").remove("1", lambda _task: None))
            await refused(former.state("demo").change(lambda file: file))
            assert [entry.text for entry in await later.mailbox("demo", "ann").unread()] == ["first"]


async def refused(write) -> None:
    with pytest.raises(StorageError) as caught:
        await write
    assert caught.value.slug == "fenced"


async def test_a_former_holder_is_called_back_to_end_itself(space, postgres):
    ended = asyncio.Event()
    async with holder(space, on_fenced=ended.set) as (former, _):
        schema = former.schema
        postgres.sql(f"update {schema}.leases set token = token + 1")
        postgres.sql(f"select pg_terminate_backend(backend_pid) from {schema}.leases")
        async with asyncio.timeout(WAIT_S):
            await ended.wait()


async def test_a_holder_that_loses_its_connection_keeps_the_lease_and_hears_of_changes_again(space, postgres):
    rung = asyncio.Event()
    async with holder(space) as (stores, connection), holder(space, session_lease("two")) as (others, _):
        connection.subscribe("mail:demo/ann", lambda _detail: rung.set())
        postgres.sql(f"select pg_terminate_backend(backend_pid) from {stores.schema}.leases where name = '{LEASE}'")
        async with asyncio.timeout(WAIT_S):
            await rung.wait()  # after the loss everything may have changed
        rung.clear()
        await others.mailbox("demo", "ann").put(InboxEntry("ben", "hello"))
        async with asyncio.timeout(WAIT_S):
            await rung.wait()
        await stores.mailbox("demo", "ann").put(InboxEntry("ann", "still mine"))
        assert len(await stores.mailbox("demo", "ann").unread()) == 2


async def test_a_holder_without_a_sign_of_life_is_replaced(space, postgres):
    async with holder(space) as (former, _):
        silent = f"update {former.schema}.leases set beat_at = beat_at - interval '{SILENT_S + 1} s'"
        postgres.sql(silent)
        async with holder(space):
            await refused(former.mailbox("demo", "ann").put(InboxEntry("ben", "late")))


FENCED = 7


def _hold(url, ready) -> None:
    """Hold the lease in a separate process, which ends with FENCED once another one took it over."""

    async def work() -> None:
        async with holder(url, on_fenced=lambda: os._exit(FENCED)):
            ready.set()
            await asyncio.Event().wait()

    asyncio.run(work())


async def start_holder(url):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(url, ready))
    process.start()
    assert await asyncio.to_thread(ready.wait, WAIT_S)
    return process


@pytest.mark.promise("J6")
async def test_a_stopped_process_that_continues_after_its_replacement_ends_itself(space, postgres):
    process = await start_holder(space)
    os.kill(process.pid, signal.SIGSTOP)
    schema = parse_address(space).schema
    postgres.sql(f"update {schema}.leases set beat_at = beat_at - interval '{SILENT_S + 1} s'")
    async with holder(space) as (later, _):
        os.kill(process.pid, signal.SIGCONT)
        await asyncio.to_thread(process.join, WAIT_S)
        assert process.exitcode == FENCED
        await later.mailbox("demo", "ann").put(InboxEntry("ben", "mine"))


@pytest.mark.promise("J6")
async def test_the_lease_of_a_killed_process_is_free_at_once(space):
    process = await start_holder(space)
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.join, WAIT_S)
    async with asyncio.timeout(WAIT_S):
        assert await wait_for_lease(space)


async def wait_for_lease(url) -> bool:
    """Take the lease as soon as the server has read the end of its holder's connection."""
    for _ in range(int(WAIT_S * 100)):
        with suppress(CannotStart):
            async with holder(url):
                return True
        await asyncio.sleep(0.01)
    return False
