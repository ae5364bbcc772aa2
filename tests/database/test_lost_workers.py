"""Workers that are lost between the claim of an order and the start of its member, which may run already."""

import asyncio
import os
import signal

import pytest
from msgspec.structs import replace

from teamwright import __version__
from teamwright.database.address import parse_address
from teamwright.database.session_connection import fence_out
from teamwright.database.worker_orders import (
    ORDERS,
    WORKER_LOST,
    StartOrders,
    member_lease,
    register_worker,
    worker_lease,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.members import MemberState
from teamwright.session.open_session import open_session
from teamwright.storage.file_lease import process_exists
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.teams.shutdown import kill
from teamwright.teams.spawn import spawn
from tests.database.spaces import holder
from tests.database.workers import OFFER, QUINCE, Machine, order, scripted, until
from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S


@pytest.mark.promise("J6")
async def test_an_order_of_a_worker_that_died_before_the_start_ends_and_a_slow_process_of_it_is_refused(space):
    async with holder(space) as (lead, _):
        orders = StartOrders(lead.database)
        id = await orders.add(order())
        async with holder(space, worker_lease("gpu1")) as (first, _):
            await register_worker(first.database, OFFER)
            assert (await StartOrders(first.database).claim(OFFER)).id == id
            await orders.settle_lost(id)
            assert (await orders.read(id)).state == "claimed", "its worker is alive"
        await orders.settle_lost(id)
        assert ((found := await orders.read(id)).state, found.detail) == ("ended", WORKER_LOST)
        async with holder(space, member_lease("demo", "ada")) as (slow, _):
            assert not await StartOrders(slow.database).is_open(id)


@pytest.mark.promise("J6")
async def test_a_member_that_takes_its_lease_while_its_order_ends_is_fenced_out(space, postgres):
    lease, waiting = member_lease("demo", "ada"), "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    async with holder(space, worker_lease("gpu1")) as (first, _), holder(space, lease) as (member, _):
        await register_worker(first.database, OFFER)
        id = await (orders := StartOrders(first.database)).add(order())
        assert await orders.claim(OFFER) is not None
        connection = await first.database.connect()
        async with connection.transaction():
            await connection.execute("update start_orders set state = 'ended' where id = $1", id)
            deciding = asyncio.ensure_future(StartOrders(member.database).is_open(id))
            await until(lambda: deciding.done() or postgres.sql(waiting) != "0")
            await fence_out(connection, lease)
        await connection.close()
        [outcome] = await asyncio.gather(deciding, return_exceptions=True)
        assert outcome is False or (isinstance(outcome, StorageError) and outcome.slug == "fenced")


@pytest.mark.promise("J6")
async def test_a_worker_that_starts_again_ends_what_its_former_process_left_except_members_that_run(space):
    offer = replace(OFFER, slots=4)
    async with holder(space) as (lead, _):
        orders = StartOrders(lead.database)
        ids = {name: await orders.add(order(member=name)) for name in ("claimed", "started", "running", "gone")}
        async with holder(space, worker_lease("gpu1")) as (first, _):
            await register_worker(first.database, offer)
            claims = [await StartOrders(first.database).claim(offer) for _ in ids]
            assert [one.id for one in claims] == list(ids.values())
            assert await StartOrders(first.database).note_running(ids["running"], "gpu1")
            assert await StartOrders(first.database).note_running(ids["gone"], "gpu1")
        async with (
            holder(space, member_lease("demo", "started")) as (started, _),
            holder(space, member_lease("demo", "running")) as (running, _),
            holder(space, worker_lease("gpu1")) as (second, _),
        ):
            await register_worker(second.database, offer)
            await StartOrders(second.database).settle_former_process("gpu1")
            assert await StartOrders(running.database).is_open(ids["running"])
            assert await StartOrders(started.database).is_open(ids["started"])
            assert await StartOrders(second.database).note_running(ids["started"], "gpu1"), "its worker was only slow"
        found = await orders.read_all(list(ids.values()))
        assert {name: (found[id].state, found[id].detail) for name, id in ids.items()} == {
            "claimed": ("ended", WORKER_LOST),
            "started": ("running", ""),
            "running": ("running", ""),
            "gone": ("ended", "its worker was started again"),
        }


async def claim_one(space: str, is_registered: asyncio.Event) -> None:
    """Be a worker that claims an order and is gone before it starts the member."""
    offer, added = replace(OFFER, version=__version__), asyncio.Event()
    async with holder(space, worker_lease("gpu1")) as (stores, connection):
        await register_worker(stores.database, offer)
        connection.subscribe(ORDERS, lambda _detail: added.set())
        is_registered.set()
        orders, claimed = StartOrders(stores.database), None
        while claimed is None:
            await added.wait()
            added.clear()
            claimed = await orders.claim(offer)


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_lead_repeats_the_order_of_a_worker_that_died_before_it_started_the_member(tmp_path, space, own_home):
    is_registered = asyncio.Event()
    async with asyncio.timeout(WAIT_S), open_session(scripted(tmp_path, space)) as session:
        worker = asyncio.ensure_future(claim_one(space, is_registered))
        await is_registered.wait()
        starting = asyncio.ensure_future(spawn(session.team, QUINCE))
        await worker
        machine = await asyncio.to_thread(Machine, tmp_path, space, "gpu2")
        try:
            ada = await starting
            assert str(ada.shown_location) == "remote gpu2"
            await until(lambda: ada.state is MemberState.IDLE)
        finally:
            await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6")
@pytest.mark.parametrize("replacement", ["gpu1", "gpu2"], ids=["started again", "another worker"])
async def test_a_member_whose_worker_was_killed_just_after_it_started_the_process_goes_on(
    replacement, tmp_path, space, postgres, own_home
):
    schema = parse_address(space).schema
    postgres.sql(
        f"create function {schema}.wait_long() returns trigger language plpgsql as "
        f"$$ begin perform pg_sleep({WAIT_S}); return new; end $$"
    )
    condition = "before update on {0}.start_orders for each row when (new.state = 'running')"
    postgres.sql(f"create trigger waits {condition.format(schema)} execute function {schema}.wait_long()")
    first = Machine(tmp_path, space, "gpu1")
    options = scripted(tmp_path, space)
    machines = [first]
    held = f"set search_path = {schema}; select count(*) from leases where name like 'member/%/ada' and is_held(name)"
    try:
        async with open_session(options) as session:
            starting = asyncio.ensure_future(spawn(session.team, QUINCE))
            await until(lambda: postgres.sql(held) == "1")
            [member] = first.children()
            first.process.kill()
            await asyncio.to_thread(first.process.wait, WAIT_S)
            postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'")
            postgres.sql(f"drop trigger waits on {schema}.start_orders")
            machines.append(await asyncio.to_thread(Machine, tmp_path, space, replacement))
            ada = await starting
            await until(lambda: ada.state is MemberState.IDLE)
            assert str(ada.shown_location) == "remote gpu1" and ada.turns == 1
            assert postgres.sql(f"select state from {schema}.start_orders") == "running"
        assert await asyncio.to_thread(await_end, member, WAIT_S)
    finally:
        for machine in machines:
            await asyncio.to_thread(machine.end)


@pytest.mark.slow
@pytest.mark.promise("J6")
async def test_a_member_that_starts_again_on_its_machine_waits_for_the_end_of_its_former_process(
    tmp_path, space, own_home
):
    machine = Machine(tmp_path, space, "gpu1")
    options = scripted(tmp_path, space)
    try:
        async with open_session(options) as session:
            ada = await spawn(session.team, QUINCE)
            await until(lambda: ada.state is MemberState.IDLE)
            [former] = machine.children()
            machine.process.kill()
            await asyncio.to_thread(machine.process.wait, WAIT_S)
            machine = await asyncio.to_thread(Machine, tmp_path, space, "gpu1")
            os.kill(former, signal.SIGSTOP)  # it has no worker any more, and notices nothing
            await kill(session.team, ada, "a test")
            await until(lambda: ada.state in ENDED_STATES and ada.end_processed)
            starting = asyncio.ensure_future(spawn(session.team, replace(QUINCE, prompt="Which word?")))
            await until(lambda: machine.children() or starting.done())
            assert not starting.done() and process_exists(former)
            os.kill(former, signal.SIGCONT)
            again = await starting
            assert await asyncio.to_thread(await_end, former, WAIT_S)
            await until(lambda: again.state is MemberState.IDLE and again.turns > 0)
    finally:
        await asyncio.to_thread(machine.end)
