"""Many processes on one list, and processes that are killed."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from teamwright.protocol.task import TaskStatus, parse_task
from teamwright.tasks.task_rules import find_path
from tests.support.waits import WAIT_S

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture
def start(home):
    running = []

    def run(name, *arguments):
        command = [sys.executable, str(CHILD), name, str(home.shared), *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def said(process):
    out, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    return out.split("\n")[:-1]


@pytest.mark.promise("F13", "B1", "P2")
async def test_processes_that_create_at_once_get_distinct_numbers_and_replace_no_file(start, tasks):
    await tasks.create("the first", "", by="ann")
    numbers = [n for process in [start("create", f"p{k}", 12) for k in range(4)] for n in said(process)]
    assert sorted(map(int, numbers)) == list(range(2, 50))
    subjects = Counter(t.subject.split()[0] for t in await tasks.all())
    assert subjects == {"the": 1, "p0": 12, "p1": 12, "p2": 12, "p3": 12}


@pytest.mark.promise("F14", "B5", "B6", "P2")
@pytest.mark.slow
async def test_processes_that_drain_a_list_do_each_task_once_and_in_order(start, tasks, view):
    for n in range(40):
        before = [] if n < 10 else [str(n - 9), str((n // 10 - 1) * 10 + (n + 3) % 10 + 1)]
        await tasks.create(f"t{n}", "", by="ann", blocked_by=before)
    await tasks.create("the end", "", by="ann", blocked_by=[str(n) for n in range(31, 41)])
    workers = [start("drain", f"p{k}", "41") for k in range(4)]
    won = Counter(n for worker in workers for n in said(worker))
    assert won == Counter(str(n) for n in range(1, 42))
    assert all(t.status is TaskStatus.COMPLETED and t.owner for t in await view().all())


@pytest.mark.promise("F14", "B5", "P2")
@pytest.mark.slow
async def test_of_many_processes_that_want_one_task_one_wins_and_the_others_are_told_by_whom(start, tasks, view):
    await tasks.create("a", "", by="ann")
    workers = [start("grab", f"p{k}", "1") for k in range(5)]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [said(worker)[0] for worker in workers]
    owner = (await view().get("1")).owner
    assert answers.count("won") == 1 and answers[int(owner[1:])] == "won"
    assert answers.count(f"already_claimed #1 belongs to {owner}") == 4


@pytest.mark.promise("P5", "F13", "F17", "B1")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow_after(1)
async def test_a_list_whose_writers_are_killed_at_any_moment_loads_and_goes_on(start, view, seed, home):
    created = set()
    for life in range(3):
        churning = start("churn", seed * 10 + life)
        for _ in range(8 if life == 0 else 2):
            created.add(int(churning.stdout.readline()))
        churning.send_signal(signal.SIGKILL)
        created.update(int(n) for n in churning.communicate(timeout=WAIT_S)[0].split())
    tasks = view()
    for file in tasks.store.directory.glob("*.json"):
        assert parse_task(file.read_bytes(), file.stem) is not None
    everything = await tasks.all()
    edges = [(b, t.id) for t in everything for b in t.blocked_by] + [(t.id, b) for t in everything for b in t.blocks]
    for blocker, blocked in edges:
        assert find_path(blocked, blocker, lambda id: [b for a, b in edges if a == id]) is None
    assert int((await tasks.create("next", "", by="ann")).id) > max(created)
    for task in everything:
        if task.status is not TaskStatus.COMPLETED and not (await tasks.get_with_blockers(task.id))[1]:
            await tasks.update(task.id, by="team-lead", lead=True, status="completed")
            assert json.loads((tasks.store.directory / f"{task.id}.json").read_bytes())["status"] == "completed"
