"""`log` and `cost` on a long event log: what they read does not grow with it."""

import json
import os
import re
from pathlib import Path

import pytest

from teamwright.budgets import usage_totals
from teamwright.protocol.events import ModelCallEnded, Notice, ToolCalled
from teamwright.protocol.usage import Usage
from teamwright.storage import event_log, json_lines
from teamwright.storage.event_log import EventLog, read_events
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_status import TeamStatus
from teamwright.ui.cli.main import main
from teamwright.views.follow_team import follow_log

SESSION = "7f3a0000-0000-4000-8000-000000000001"
EVENTS = 6_000


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a session of this directory with one event a second, and a call after every hundredth."""
    monkeypatch.chdir(tmp_path)
    home = resolve_home(None)
    home.prepare()
    transcript = home.transcript(tmp_path, SESSION)
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps({"type": "header", "v": 1, "cwd": str(tmp_path), "session": SESSION}) + "\n")
    log = EventLog(home.session(tmp_path, SESSION) / "events.jsonl", TeamStatus())
    for number in range(1, EVENTS + 1):
        if number % 100:
            log.emit(Notice(member="ada" if number % 2 else "bob", text=f"event {number} " + "x" * 100, at=number))
        else:
            log.emit(call(number))
        if number % 500 == 0:
            log.flush()
    log.emit(used("ada", 40))
    log.close()
    # A snapshot has the time of its writer's clock: here that of the event before it.
    aged = re.sub(rb'("n":(\d+),"v":\d+,"type":"snapshot","at":)[0-9.]+', rb"\g<1>\g<2>.5", log.path.read_bytes())
    log.path.write_bytes(aged)
    return log.path


def used(member: str, tokens: int, at: float = EVENTS + 1) -> ModelCallEnded:
    return ModelCallEnded(member=member, usage=Usage(input_tokens=tokens, requests=1), model="m", tools=0, at=at)


def call(number: int) -> ToolCalled:
    told = {"summary": "ls", "outcome": "done", "seconds": 0.1, "input": {"command": "ls"}, "output": f"out {number}"}
    return ToolCalled(member="ada", call=f"c{number // 100}", tool="Bash", at=number, **told)


@pytest.fixture
def count(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that are read backward, and lines that are read forward."""
    found = {"bytes": 0, "lines": 0}
    pread, read_lines = os.pread, json_lines.read_lines

    def reads(fd, length, offset):
        found["bytes"] += length
        return pread(fd, length, offset)

    def lines(*args):
        for line in read_lines(*args):
            found["lines"] += 1
            yield line

    monkeypatch.setattr(os, "pread", reads)
    monkeypatch.setattr(event_log, "read_lines", lines)
    monkeypatch.setattr(usage_totals, "read_lines", lines)
    return found


def numbers(text: str) -> list[int]:
    return [json.loads(line)["n"] for line in text.splitlines()]


@pytest.mark.finding("T24")
@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["-n", "3"], [5_999, 6_000, 6_001]),
        (["-n", "2", "--member", "bob"], [5_996, 5_998]),
        (["--since", "1970-01-01T01:39:58+00:00"], [5_998, 5_999, 6_000, 6_001]),
        (["--since", "1970-01-01T01:38:00+00:00", "-n", "1"], [6_001]),
    ],
)
@pytest.mark.slow_after(1)
def test_the_last_events_are_read_from_the_end_and_the_rest_is_not(path, count, capsys, args, wanted):
    assert main(["log", *args, "--json"]) == 0
    assert numbers(capsys.readouterr().out) == wanted
    assert count["lines"] == 0
    assert count["bytes"] < 4 * 65_536 < path.stat().st_size


@pytest.mark.finding("T24")
def test_the_newest_call_of_a_number_is_looked_for_from_the_end(path, count, capsys):
    assert main(["log", "--call", "c59", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"] == "out 5900"
    assert count["bytes"] < 4 * 65_536 and count["lines"] == 0


@pytest.mark.finding("T24")
async def test_a_log_is_followed_from_a_number_on_without_reading_what_came_before(path, count):
    follow = follow_log(path, 5_990)
    found = [(await anext(follow))[0] for _ in range(10)]
    await follow.aclose()
    assert found == list(range(5_991, 6_001))
    assert count["bytes"] < 4 * 65_536
    assert [n for n, _ in read_events(path, 5_998)] == [5_999, 6_000, 6_001]
    assert count["lines"] <= 5


@pytest.mark.finding("T24")
def test_a_second_look_at_the_cost_reads_only_what_was_logged_since(path, count, capsys):
    assert cost(capsys)["total"]["tokens_in"] == 40
    assert count["lines"] > EVENTS
    log = EventLog(path)
    log.emit(used("bob", 2))
    log.close()
    count.update(bytes=0, lines=0)
    assert cost(capsys)["total"]["tokens_in"] == 42
    assert count["lines"] == 1 and count["bytes"] < 6 * 65_536
    assert [line["tokens_in"] for line in cost(capsys)["members"]] == [40, 2]
    path.with_name("cost.json").write_text("{")  # damaged, or of another log: the log has the truth
    assert cost(capsys)["total"]["tokens_in"] == 42


@pytest.mark.finding("T24")
def test_the_cost_since_a_time_is_read_from_the_end(path, count, capsys):
    cost(capsys)
    count.update(bytes=0, lines=0)
    assert cost(capsys, "--since", "1970-01-01T01:39:58+00:00")["total"]["tokens_in"] == 40
    assert count["lines"] == 0 and count["bytes"] < 6 * 65_536
    assert cost(capsys, "--since", "1970-01-01T01:50:00+00:00")["total"]["tokens_in"] == 0


def cost(capsys, *args: str) -> dict:
    assert main(["cost", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)
