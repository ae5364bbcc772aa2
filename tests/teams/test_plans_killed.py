"""A session in which a plan takes two rounds, killed at its writes: each answer is applied once, and told once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.storage.paths import find_home
from tests.support.waits import WAIT_S
from tests.teams.planners import record, rows, wire

ROOT = Path(__file__).parents[2]


def life(place: Path, kill_at: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tests.teams.plan_child", str(place), str(kill_at)]
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=3 * WAIT_S)


def heard(words: str) -> int:
    """How often the member was told so, by its transcript."""
    (path,) = find_home().own.glob("projects/*/*/agents/ada.jsonl")
    lines = [line for line in path.read_text().splitlines() if line.startswith('{"type":"user"')]
    return sum(line.count(words) for line in lines)


@pytest.mark.slow_after(1)
@pytest.mark.promise("G5", "F47", "P4", "P1", "D8")
@pytest.mark.parametrize("kill_at", [3, 17, 22, 28, 41, 49, 58])
def test_whatever_moment_the_kills_take_each_round_has_one_request_one_answer_and_one_change(tmp_path, kill_at):
    killed = 0
    for at in (kill_at, kill_at // 2 + 3, 10_000):
        ended = life(tmp_path, at)
        assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr[-3_000:]
        killed += ended.returncode != 0
    assert killed or kill_at > 60
    found = rows()
    assert [row["plan"] for row, _ in found.values()] == ["# Plan 1", "# Plan 2"]
    assert [reply["approve"] for _, reply in found.values()] == [False, True]
    assert {reply["by"] for _, reply in found.values()} == {"team-lead"}
    told = wire("ada", "plan_approval_response")
    assert [(one["requestId"], one["approved"]) for one in told] == list(zip(found, (False, True), strict=True))
    assert heard("Your plan was approved.") == 1 and heard("Your plan was not approved: once more") == 1
    kept = record()
    assert (kept["on"], kept["waits"], kept["before"]) == (False, "", "bubble")
    assert Path(kept["file"]).read_text() == "# Plan 2"
    assert len(list((find_home().plans).glob("*.md"))) == 1
    entries = json.loads(find_home().inbox("crew", "team-lead").read_bytes())
    asked = [json.loads(e["text"])["requestId"] for e in entries if "plan_approval_request" in e["text"]]
    assert asked == list(found)
