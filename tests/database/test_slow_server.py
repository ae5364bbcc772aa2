"""A server that answers slowly, or not at all for a while: no lease changes hands, and no work is done twice."""

import asyncio
import os
import signal
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from teamwright.database.address import parse_address
from teamwright.database.session_connection import SILENT_S
from teamwright.protocol.events import TaskChanged
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from tests.database.spaces import make_space
from tests.database.test_commands_from_outside import Terminal
from tests.database.workers import Machine
from tests.support.cutting_proxy import CuttingProxy
from tests.support.postgres import PostgresServer, run_server
from tests.support.waits import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.promise("J6")]

DELAY_S = 0.05
"""Seconds that every piece of data needs in each direction."""

STALL_S = 15
"""Seconds without an answer of the server: more than a holder waits for one, less than makes it silent."""

PARTS = 4

JOB = (
    r"""
[script]
name = "job"

[[agent.lead.turn]]
when.text = "Have the parts written"
[[agent.lead.turn.call]]
tool = "TeamCreate"
input = { team_name = "crew", description = "a test" }
"""
    + "".join(
        f"""
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = {{ subject = "part {n}", description = "Write it.", ready = true }}
"""
        for n in range(1, PARTS + 1)
    )
    + "".join(
        f"""
[[agent.lead.turn.call]]
tool = "Agent"
input = {{ name = "{name}", description = "work", prompt = "Work through the list.", isolation = "remote" }}
"""
        for name in ("ada", "ben")
    )
    + r"""
[[agent."*".turn]]
repeat = true
when.task = '#(?P<id>\d+)'
capture_text = ['#(?P<id>\d+)']
[[agent."*".turn.call]]
tool = "Bash"
input = { command = "sleep PAUSE; echo part >> DONE.{{id}}", description = "work" }
[[agent."*".turn.call]]
tool = "TaskUpdate"
input = { taskId = "{{id}}", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing more from me."
"""
)


@contextmanager
def slow_network(server: PostgresServer, delay_s: float = 0.0):
    """Give a proxy before the server, and the function that puts it into an address."""
    proxy = CuttingProxy(server.port, delay_s)
    try:
        yield proxy, lambda url: url.replace(f":{server.port}/", f":{proxy.port}/")
    finally:
        proxy.close()


def write_job(directory: Path, pause_s: float) -> str:
    """Write the script of the job, whose members note each part that they write. Return the name of the model."""
    path = directory / "job.toml"
    path.write_text(JOB.replace("DONE", str(directory / "part")).replace("PAUSE", str(pause_s)))
    return f"scripted:{path}"


def check_parts(directory: Path, events: list) -> None:
    """Each part was written once, claimed once, completed once and never given back; no member was lost."""
    assert [(directory / f"part.{n}").read_text() for n in range(1, PARTS + 1)] == ["part\n"] * PARTS
    changes = Counter((event.task.id, event.change) for event in events if isinstance(event, TaskChanged))
    for change, times in (("claimed", 1), ("completed", 1), ("released", 0)):
        assert [changes[str(n), change] for n in range(1, PARTS + 1)] == [times] * PARTS, (change, changes)
    assert not [event for event in events if getattr(event, "state", "") == MemberState.CRASHED]


def check_leases(server: PostgresServer, url: str) -> None:
    """Every lease has its first holder."""
    assert server.sql(f"select name, token from {parse_address(url).schema}.leases where token <> 1") == ""


async def watch_beats(server: PostgresServer, url: str, ages: list[float]) -> None:
    """Record the age of the oldest sign of life of a holder that lives, again and again."""
    schema = parse_address(url).schema
    oldest = (
        f"set search_path to {schema}; select coalesce(max(extract(epoch from clock_timestamp() - beat_at)), 0) "
        "from leases where is_held(name)"
    )
    while True:
        ages.append(float(await asyncio.to_thread(server.sql, oldest)))
        await asyncio.sleep(0.5)


async def test_a_team_behind_a_slow_network_does_each_task_once_and_keeps_its_leases(
    tmp_path, space, postgres, own_home
):
    model = write_job(tmp_path, 0.5)
    with slow_network(postgres, DELAY_S) as (_, through):
        machine = await asyncio.to_thread(Machine, tmp_path, through(space), "gpu1")
        options = Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", database=through(space))
        events, ages = [], []
        beats = asyncio.create_task(watch_beats(postgres, space, ages))
        try:
            async with open_session(options) as session:
                session.log.subscribe(lambda _number, event: events.append(event), live=False)
                await session.run([text_block("Have the parts written.")])
                terminal = Terminal(tmp_path / "elsewhere", through(space), tmp_path)
                assert "crew" in await terminal.say("status", "crew")
            check_parts(tmp_path, events)
            check_leases(postgres, space)
            assert max(ages) < SILENT_S
        finally:
            beats.cancel()
            await asyncio.to_thread(machine.end)


async def test_a_worker_whose_network_stalls_for_a_while_keeps_its_members_and_their_leases(
    tmp_path, space, postgres, own_home
):
    model = write_job(tmp_path, 4)
    with slow_network(postgres) as (proxy, through):
        machine = await asyncio.to_thread(Machine, tmp_path, through(space), "gpu1")
        options = Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", database=space)
        events = []
        try:
            async with open_session(options) as session:
                session.log.subscribe(lambda _number, event: events.append(event), live=False)
                running = asyncio.create_task(session.run([text_block("Have the parts written.")]))
                await asyncio.to_thread(wait_until, lambda: claimed(events) >= 2)
                proxy.stall()
                stalled_at = float(postgres.sql("select extract(epoch from clock_timestamp())"))
                past = f"select clock_timestamp() > to_timestamp({stalled_at + STALL_S})"
                await asyncio.to_thread(wait_until, lambda: postgres.sql(past) == "t")
                proxy.release()
                await running
            check_parts(tmp_path, events)
            check_leases(postgres, space)
        finally:
            await asyncio.to_thread(machine.end)


def claimed(events: list) -> int:
    return sum(isinstance(event, TaskChanged) and event.change == "claimed" for event in events)


@pytest.fixture
def own_server():
    """A server that this test may stop."""
    yield from run_server()


async def test_a_server_that_stops_for_a_while_is_waited_for_and_commands_say_that_it_does_not_answer(
    tmp_path, own_server, own_home
):
    space = await make_space(own_server.new_space())
    model = write_job(tmp_path, 4)
    machine = await asyncio.to_thread(Machine, tmp_path, space, "gpu1")
    options = Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", database=space)
    events = []
    try:
        async with open_session(options) as session:
            session.log.subscribe(lambda _number, event: events.append(event), live=False)
            running = asyncio.create_task(session.run([text_block("Have the parts written.")]))
            await asyncio.to_thread(wait_until, lambda: claimed(events) >= 2)
            signal_all(own_server, signal.SIGSTOP)
            terminal = Terminal(tmp_path / "elsewhere", space, tmp_path)
            done = await terminal.run("status", "crew")
            assert done.returncode == 3 and "did not answer in time" in done.stderr, (done.stdout, done.stderr)
            signal_all(own_server, signal.SIGCONT)
            await running
            assert "crew" in await terminal.say("status", "crew")
        check_parts(tmp_path, events)
        check_leases(own_server, space)
    finally:
        signal_all(own_server, signal.SIGCONT)
        await asyncio.to_thread(machine.end)


def signal_all(server: PostgresServer, number: int) -> None:
    """Send a signal to the server and all its processes: the first one first, so that it starts no other."""
    os.kill(server.pid, number)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for pid in map(int, children):
        with suppress(ProcessLookupError):  # it has ended since
            os.kill(pid, number)
