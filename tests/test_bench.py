"""Benchmarks are run by hand; here each of their processes only proves that it still runs. Nothing is timed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S

ROOT = Path(__file__).parent.parent

SPECS = [
    ("w2_process", {"kind": "session", "times": 2}),
    ("w2_process", {"kind": "idle", "members": 1, "seconds": 0}),
    ("w2_floor", {"kind": "queue", "times": 2}),
    ("w4_process", {"kind": "layers", "members": 1, "turns": 1, "url": ""}),
    ("w4_process", {"kind": "rules", "members": 1, "turns": 1, "url": ""}),
    ("w4_process", {"kind": "team", "members": 2, "turns": 1, "url": ""}),
    ("w4_process", {"kind": "mcp", "members": 1, "turns": 1, "url": ""}),
    ("w4_floor", {"kind": "append", "members": 1, "turns": 1, "url": ""}),
    ("w5_process", {"kind": "row", "agents": 2}),
    ("w5_process", {"kind": "together", "agents": 2}),
    ("w5_floor", {"kind": "row", "agents": 2}),
    ("w6_process", {"kind": "append", "messages": 10}),
    ("member_process", {"kind": "member", "backend": "detached"}),
    ("member_process", {"kind": "wake", "backend": "detached", "times": 2}),
]


@pytest.mark.slow_after(2)
@pytest.mark.parametrize(("module", "spec"), SPECS, ids=lambda part: part if isinstance(part, str) else part["kind"])
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


def test_one_that_fails_ends_those_that_wait_for_it(tmp_path):
    spec = {"kind": "bell", "reader": "bell", "root": str(tmp_path), "times": 1, "pause": [0, 0]}
    crew = [spec, {**spec, "kind": "sender", "pause": ["none"]}]
    code = f"from bench.crew import together; together('bench.w2_process', {crew})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1 and "bench.w2_process ended with 1" in done.stderr
