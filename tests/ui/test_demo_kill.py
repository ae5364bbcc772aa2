"""`teamwright demo --kill` as a user runs it: killed three times, resumed, audited, and the same numbers."""

import json
import os
import signal

import pytest

from tests.support.waits import WAIT_S
from tests.ui.demo_runs import Stage
from tests.ui.histories import invented, snapshot


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path / "stage")


@pytest.fixture
def place(tmp_path):
    return invented("python and go", 33, commits=30).write(tmp_path / "shown")


@pytest.mark.promise("P1", "P2", "P5", "C7a", "D8")
@pytest.mark.slow
def test_three_kills_lose_nothing_and_leave_the_same_numbers(stage, place):
    before = snapshot(place)
    done = stage.run("demo", "--kill", "--pace", "20", cwd=place, timeout=3 * WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    # On a busy machine it may be done before the third.
    assert 1 <= sum("SIGKILL  the whole process" in line for line in lines) <= 3
    assert any("✓ resumed: " in line and "member" in line for line in lines)
    audit = lines[lines.index("audit, from the files alone") :]
    assert "  0 lost  0 doubled" in audit[1] and "6 done  0 twice  0 orphaned" in audit[2]
    assert audit[3].split() == ["transcripts", "4", "of", "4", "load"]
    assert audit[4].split()[-1] == audit[5].split()[-1] == "0" and "the same " in audit[6]
    assert "0 bytes written here" in done.stdout and snapshot(place) == before
    assert not stage.leftovers


@pytest.mark.slow
@pytest.mark.promise("F21", "P3")
def test_a_kill_demo_that_is_interrupted_leaves_nothing_running(stage, place):
    process = stage.start("demo", "--kill", "--pace", "200", cwd=place)
    assert process.stdout is not None
    while "claims" not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, out + err
    assert not stage.leftovers


@pytest.mark.slow
def test_as_json_it_is_alone_on_stdout_with_the_audit(stage, place):
    done = stage.run("demo", "--kill", "--pace", "0", "--output-format", "json", cwd=place, timeout=3 * WAIT_S)
    body = json.loads(done.stdout)
    assert done.returncode == 0 and body["clean"] and body["same_numbers"] and body["kills"] >= 1
    assert {"messages", "tasks", "transcripts", "locks"} <= {row["row"] for row in body["audit"]}


@pytest.mark.parametrize("flag", ["--model", "--report", "--backend"])
def test_what_does_not_go_with_it_is_refused_before_anything_starts(stage, place, tmp_path, flag):
    done = stage.run("demo", "--kill", flag, str(tmp_path / "x"), "--yes", cwd=place)
    assert done.returncode == 2 and f"--kill goes without {flag}" in done.stderr
    assert not (tmp_path / "x").exists()
