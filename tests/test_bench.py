"""People run the benchmarks. These tests run each process once and check the goals; they measure no time."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from bench import w1, w4, w6, w7, w9, w10
from bench.fresh import Cost
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parent.parent

SPECS = [
    ("w2_process", {"kind": "session", "times": 2}),
    ("w2_process", {"kind": "idle", "members": 1, "seconds": 0}),
    ("w2_floor", {"kind": "queue", "times": 2}),
    ("w4_process", {"kind": "layers", "members": 1, "calls": 1, "prompts": 2, "url": ""}),
    ("w4_process", {"kind": "rules", "members": 1, "calls": 1, "prompts": 1, "url": ""}),
    ("w4_process", {"kind": "member", "members": 2, "calls": 1, "prompts": 2, "url": ""}),
    ("w4_process", {"kind": "spawn", "sizes": [1]}),
    ("w4_process", {"kind": "mcp", "members": 1, "calls": 1, "prompts": 1, "url": ""}),
    ("w4_floor", {"kind": "append", "members": 1, "calls": 1, "prompts": 1, "url": ""}),
    ("w4_floor", {"kind": "turn", "members": 1, "calls": 1, "prompts": 2, "url": ""}),
    ("w5_process", {"kind": "row", "agents": 2}),
    ("w5_process", {"kind": "together", "agents": 2}),
    ("w5_floor", {"kind": "row", "agents": 2}),
    ("w6_process", {"messages": 10}),
    ("w6_process", {"messages": 10, "kept": 4}),
    ("member_process", {"kind": "member", "backend": "detached"}),
    ("member_process", {"kind": "wake", "backend": "detached", "times": 2}),
]


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("module", "spec"), SPECS, ids=lambda part: part if isinstance(part, str) else part.get("kind", "plain")
)
def test_a_benchmark_runs(module, spec):
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", json.dumps(spec)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["bell", "watcher"])
def test_a_reader_and_a_sender_in_two_processes_both_end(way):
    code = f"from bench.w2 import across; print(across('bench.w2_process', '{way}', 5, (0.0, 0.01)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    assert "p50_ms" in done.stdout


@pytest.mark.slow
def test_one_that_fails_ends_those_that_wait_for_it(tmp_path):
    spec = {"kind": "bell", "reader": "bell", "root": str(tmp_path), "times": 1, "pause": [0, 0]}
    crew = [spec, {**spec, "kind": "sender", "pause": ["none"]}]
    code = f"from bench.crew import together; together('bench.w2_process', {crew})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1 and "bench.w2_process ended with 1" in done.stderr


@pytest.mark.finding("B2")
@pytest.mark.parametrize("disk_us", [71.0, 10_000.0], ids=["fast disk", "slow disk"])
def test_the_goal_of_a_receive_fails_for_a_slow_receive_on_every_disk(monkeypatch, disk_us):
    figures = {"send_us": 80.0, "send_wall_us": 90.0, "receive_us": 1_000.0, "receive_wall_us": 1_100.0}
    baseline = {"send_us": 70.0, "send_wall_us": disk_us, "receive_us": 15.0}
    answers = {"bench.w1_process": {**figures, "flag_us": 10.0, "lost": 0}, "bench.w1_floor": baseline}
    monkeypatch.setattr(w1, "figures_of", lambda module, spec, **_: dict(answers[module]))
    monkeypatch.setattr(w1, "_rate", lambda *_: (10_000.0, 50.0, 0))
    goals = w1.run(1, quick=True).goals
    receives = [goal for goal in goals if goal.what.startswith("receive")]
    assert receives and all(goal.verdict.startswith("ABOVE") for goal in receives)


@pytest.mark.finding("B2")
def test_sends_are_also_measured_in_memory(monkeypatch):
    figures = defaultdict(lambda: 1.0)
    places = []
    monkeypatch.setattr(w1, "memory_directory", lambda: "/memory")
    monkeypatch.setattr(w1, "figures_of", lambda module, spec, directory="": (places.append(directory), figures)[1])
    monkeypatch.setattr(w1, "best", lambda rounds: rounds[0])
    monkeypatch.setattr(w1, "_rate", lambda *_: (10_000.0, 50.0, 0))
    goals = w1.run(1, quick=True).goals
    assert {"", "/memory"} == set(places)
    assert "send, 10,000 consumed, in memory, CPU time over its baseline" in {goal.what for goal in goals}


@pytest.mark.finding("B2")
def test_help_is_compared_with_the_bare_interpreter_of_its_goal(monkeypatch):
    commands = []

    def cost(command, env, cwd):
        commands.append(list(command))
        return Cost(0.02, 0.02, 10.0, "")

    monkeypatch.setattr(w7, "cost_of", cost)
    monkeypatch.setattr(w7.members, "starts", lambda rounds: [])
    [goal] = [goal for goal in w7.run(1, quick=True).goals if goal.what.startswith("--help")]
    assert commands[0] == [sys.executable, "-I", "-S", "-c", "pass"]
    assert (goal.must, goal.aim) == (22, 18)


@pytest.mark.finding("B2")
def test_a_resume_has_a_goal_for_the_time_until_the_next_turn(monkeypatch):
    monkeypatch.setattr(w6, "figures_of", lambda module, spec: {"append_us": 5.0, "resume_ms": 4.0})
    goals = [goal for goal in w6.run(1, quick=True).goals if goal.what.startswith("ready for the next turn")]
    assert len(goals) == 2 and all(goal.aim == 3.0 and goal.verdict == "above the aim" for goal in goals)


@pytest.mark.finding("B1", "B2")
@pytest.mark.slow
def test_a_whole_member_is_measured_beside_its_layers(monkeypatch):
    def figures(module, spec):
        if spec["kind"] == "spawn":
            return {"10": 2.0, "300": 2.0, "600": 4.0}
        return {"cpu_ms": 1.2 if spec["kind"] == "member" else 0.05, "kb": 60.0, "fresh_kb": 30.0}

    monkeypatch.setattr(w4, "figures_of", figures)
    goals = {goal.what: goal for goal in w4.run(1, quick=False).goals}
    member = goals["turn of a whole member, 10 members, CPU ms"]
    assert (member.must, member.aim) == (1.0, 0.6) and member.verdict.startswith("ABOVE")
    assert {"kB a member after 10 calls, 1000 members", "kB a whole member after 10 turns, 100 members"} <= set(goals)
    assert goals["spawn in a team of 600 over 10, CPU ms"].verdict.startswith("ABOVE")


def test_the_benchmark_of_worktrees_adds_them_in_pairs(monkeypatch):
    monkeypatch.setattr(w9, "PAIRS", 1)
    monkeypatch.setattr(w9, "SIZES", (3,))
    [row] = (report := w9.run(1, quick=True)).rows
    assert row["files"] == 3 and min(row["ours_ms"], row["floor_ms"], row["ratio"]) > 0
    assert [goal.must for goal in report.goals] == [1.2]


@pytest.mark.finding("3L12")
def test_the_benchmark_of_entered_teams_measures_one_and_many_and_a_large_archive(monkeypatch):
    monkeypatch.setattr(w10, "PAIRS", 1)
    monkeypatch.setattr(w10, "AT_ONCE", (1, 2))
    report = w10.run(1, quick=True)
    assert [row["case"] for row in report.rows] == [
        "1 at once",
        "2 at once",
        "a turn, no archive",
        "a turn, 20 archived",
    ]
    assert all(row["cpu_ms"] > 0 for row in report.rows) and [goal.must for goal in report.goals] == [20.0, 20.0, 1.1]
