"""Partitions: a machine whose network is cut continues, is replaced, and finds that out when the network is back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.database.address import parse_address
from teamwright.protocol.events import TaskChanged, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import text_block
from teamwright.protocol.task import TaskStatus
from teamwright.session.database_session import fetch_session
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import Home
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.spawn import spawn
from tests.database.workers import until
from tests.support import preloaded
from tests.support.cutting_proxy import CuttingProxy
from tests.support.waits import WAIT_S, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.promise("J6")]

MODE = "bypassPermissions"

WORDS = r"""
[script]
name = "words"

[[agent."*".otherwise]]
say = "I remember."
"""

PARTS = 6

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
input = { command = "sleep 0.5; echo part", description = "work" }
[[agent."*".turn.call]]
tool = "TaskUpdate"
input = { taskId = "{{id}}", status = "completed" }

[[agent."*".otherwise]]
say = "Nothing more from me."
"""
)


@pytest.fixture
def machines(tmp_path):
    """A function that starts `teamwright` on a machine; all of them end with the test."""
    with ExitStack() as stack:

        def start(name: str, url: str, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
            command = ["-m", "teamwright", "--home", str(tmp_path / name), "--database", url, *words]
            log = stack.enter_context((tmp_path / f"{name}.log").open("ab"))
            process = preloaded.popen(
                [sys.executable, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd or tmp_path
            )
            stack.callback(end, process)
            return process

        yield start


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    process.wait(WAIT_S)


@pytest.fixture
def cut_off(postgres):
    """A proxy between one machine and the database, and the function that puts it into an address."""
    proxy = CuttingProxy(postgres.port)
    yield proxy, lambda url: url.replace(f":{postgres.port}/", f":{proxy.port}/")
    proxy.close()


def start_worker(machines, postgres, space: str, url: str, name: str) -> subprocess.Popen[bytes]:
    """Start a worker and wait until the database knows it."""
    worker = machines(name, url, "worker", "--name", name, "--slots", "2")
    there = f"select count(*) from {parse_address(space).schema}.workers where name = '{name}'"
    wait_until(lambda: postgres.sql(there) == "1" or worker.poll() is not None)
    return worker


def children(process: subprocess.Popen[bytes]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def injected(home: Home) -> Counter[str]:
    """Return how often each message is in a transcript."""
    lines = [json.loads(line) for path in home.own.glob("projects/*/*/agents/*.jsonl") for line in path.open()]
    return Counter(id for line in lines for id in line.get("injected", ()) if id.startswith("mail:"))


async def test_a_member_whose_network_was_cut_is_replaced_once_and_ends_when_its_network_is_back(
    tmp_path, space, postgres, machines, cut_off, own_home
):
    (tmp_path / "words.toml").write_text(WORDS)
    proxy, through = cut_off
    first = await asyncio.to_thread(start_worker, machines, postgres, space, through(space), "gpu1")
    options = Options(cwd=tmp_path, model=f"scripted:{tmp_path / 'words.toml'}", permission_mode=MODE, database=space)
    spec = SpawnSpec(prompt="Remember the word quince.", name="ada", isolation="remote")
    async with open_session(options) as session:
        events: list[TeamEvent] = []
        session.log.subscribe(lambda _number, event: events.append(event), live=False)
        ada = await spawn(session.team, spec)
        await until(lambda: ada.state is MemberState.IDLE)
        await session.team.tasks.create("part 1", "Write it.", by=LEAD)
        await until(lambda: task_changes(events) == {"1": ["created", "claimed"]} and ada.state is MemberState.IDLE)
        former = children(first)
        proxy.cut()
        await session.run([text_block("Wait.")])
        await until(lambda: ada.state in ENDED_STATES and ada.end_processed)
        assert not any(map(has_ended, former)), "the machine whose network was cut continues"
        await asyncio.to_thread(start_worker, machines, postgres, space, space, "gpu2")
        again = await spawn(session.team, replace(spec, prompt="Which word?"))
        assert str(again.shown_location) == "remote gpu2"
        given_back = ["created", "claimed", "released", "claimed"]
        await until(lambda: task_changes(events) == {"1": given_back} and again.state is MemberState.IDLE)
        proxy.heal()
        await until(lambda: all(map(has_ended, former)))
        assert again.state is MemberState.IDLE
        assert [event.member for event in events if getattr(event, "state", "") == MemberState.CRASHED] == ["ada"]
        assert task_changes(events) == {"1": given_back}
        id = session.id
    copy = Home.at(tmp_path / "copy")
    assert await fetch_session(parse_address(space), copy, id)
    transcript = next(copy.own.glob("projects/*/*/agents/ada.jsonl")).read_text()
    assert transcript.count("quince") == 1 and transcript.count("Which word?") == 1
    assert set(injected(copy).values()) <= {1}


async def test_a_lead_that_is_killed_while_a_worker_starts_its_member_is_resumed_with_one_process_of_it(
    tmp_path, space, postgres, machines
):
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "work").mkdir()
    schema = parse_address(space).schema
    worker = await asyncio.to_thread(start_worker, machines, postgres, space, space, "gpu1")
    flags = ("--model", f"scripted:{tmp_path / 'job.toml'}", "--permission-mode", MODE, "--timeout", "5m")
    work = tmp_path / "work"
    lead = machines("left", space, *flags, "-p", "Have the parts written.", cwd=work)
    orders = f"select count(*) from {schema}.start_orders where state "
    await until(lambda: postgres.sql(f"{orders} <> 'ended'") != "0" or lead.poll() is not None)
    lead.send_signal(signal.SIGSTOP)  # it never learns of the processes that the worker starts now
    await until(lambda: postgres.sql(f"{orders} = 'running'") != "0")
    former = children(worker)
    lead.kill()
    other = machines("right", space, "resume", "crew", *flags, "-p", "Continue.", cwd=work)
    assert await asyncio.to_thread(other.wait, WAIT_S * 2) == 0, (tmp_path / "right.log").read_text()
    await until(lambda: all(map(has_ended, former)) and not children(worker))
    done = f"select count(*) from {schema}.tasks where status = 'completed' and not is_internal"
    assert int(postgres.sql(done)) == PARTS


async def test_a_member_that_is_killed_alone_crashes_once_and_its_task_is_given_back_once(
    tmp_path, space, postgres, machines, own_home
):
    (tmp_path / "job.toml").write_text(JOB.replace("sleep 0.5", "sleep 4"))
    worker = await asyncio.to_thread(start_worker, machines, postgres, space, space, "gpu1")
    options = Options(cwd=tmp_path, model=f"scripted:{tmp_path / 'job.toml'}", permission_mode=MODE, database=space)
    async with open_session(options) as session:
        team, events = session.team, []
        session.log.subscribe(lambda _number, event: events.append(event), live=False)
        ada = await spawn(team, SpawnSpec(prompt="Work.", name="ada", isolation="remote"))
        await team.tasks.create("part 1", "Write it.", by=LEAD)
        await until(lambda: task_changes(events) == {"1": ["created", "claimed"]})
        [member] = children(worker)
        os.kill(member, signal.SIGKILL)
        await until(lambda: ada.state in ENDED_STATES and ada.end_processed)
        assert worker.poll() is None
        [task] = await team.tasks.all()
        assert (task.status, task.owner) == (TaskStatus.PENDING, None)
        again = await spawn(team, SpawnSpec(prompt="Go on.", name="ada", isolation="remote"))
        await until(lambda: "completed" in task_changes(events)["1"])
        notices = [entry for entry in await team.mailbox(LEAD).unread() if "crashed" in entry.text]
        assert len(notices) == 1 and str(again.shown_location) == "remote gpu1"
        assert len(children(worker)) == 1
        assert Counter(task_changes(events)["1"]) - Counter(["claimed"]) == Counter(
            ["created", "released", "completed"]
        )
        assert sum(getattr(event, "state", "") == MemberState.CRASHED for event in events) == 1


def task_changes(events) -> dict[str, list[str]]:
    """Return the changes of each task, without those that change no owner and no status."""
    found: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, TaskChanged) and event.change != "updated":
            found.setdefault(event.task.id, []).append(event.change)
    return found


async def test_a_lead_whose_network_was_cut_is_resumed_elsewhere_and_ends_when_its_network_is_back(
    tmp_path, space, postgres, machines, cut_off
):
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "work").mkdir()
    proxy, through = cut_off
    schema = parse_address(space).schema
    for name in ("gpu1", "gpu2"):
        await asyncio.to_thread(start_worker, machines, postgres, space, space, name)
    flags = ("--model", f"scripted:{tmp_path / 'job.toml'}", "--permission-mode", MODE, "--timeout", "5m")
    work = tmp_path / "work"
    lead = machines("left", through(space), *flags, "-p", "Have the parts written.", cwd=work)
    done = f"select count(*) from {schema}.tasks where status = 'completed' and not is_internal"
    await until(lambda: int(postgres.sql(done)) >= 1 or lead.poll() is not None)
    proxy.cut()
    assert lead.poll() is None
    other = machines("right", space, "resume", "crew", *flags, "-p", "Continue.", cwd=work)
    assert await asyncio.to_thread(other.wait, WAIT_S * 2) == 0, (tmp_path / "right.log").read_text()
    proxy.heal()
    assert await asyncio.to_thread(lead.wait, WAIT_S * 2) != 0
    assert int(postgres.sql(done)) == PARTS
    copy = Home.at(tmp_path / "copy")
    assert await fetch_session(parse_address(space), copy, "crew")
    log = next(copy.own.glob("projects/*/*/events.jsonl")).read_text()
    completed = Counter(
        event["task"]["id"]
        for event in map(json.loads, log.splitlines())
        if event.get("type") == "task_changed" and event["change"] == "completed"
    )
    assert set(completed.values()) == {1} and len(completed) == PARTS, completed
    changes = [json.loads(line) for line in log.splitlines()]
    for change in ("claimed", "released"):
        times = Counter(one["task"]["id"] for one in changes if one.get("change") == change and "task" in one)
        assert max(times.values(), default=0) <= (2 if change == "claimed" else 1), times
    assert set(injected(copy).values()) <= {1}
