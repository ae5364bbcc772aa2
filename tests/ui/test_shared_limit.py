"""Two runs of the program with one key: what the first one was refused, the second one knows."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.ui.program import KEY, Program

pytestmark = pytest.mark.promise("F60", "H10")


def page_in(home):
    """What processes share of the one credential."""
    [page] = [file for file in (home / "governors").iterdir() if len(file.name) == 32]
    return json.loads(page.read_text().strip().rpartition(" ")[0])


def test_a_second_run_with_the_same_key_waits_out_what_the_first_was_refused(tmp_path):
    with LoopbackModel.in_thread([Status(429, retry_after=4), Answer("Here I am.")]) as server:
        (tmp_path / "work").mkdir()
        program = Program(tmp_path / "work", tmp_path / "home", server.url)
        program.settings(retries=0)
        first = program.run("-p", "Hello.", "--model", "haiku")
        assert first.returncode in {1, 3} and "429" in first.stderr
        shared = page_in(program.home)
        assert shared["epoch"] == 1 and shared["paused_until"] > shared["refused_at"] + 3.9
        second = program.run("-p", "Hello.", "--model", "haiku")
        assert second.returncode == 0 and "Here I am." in second.stdout
        logs = "".join(log.read_text() for log in program.home.glob("projects/*/*/events.jsonl"))
        assert '"doing":"pause","what":"the rate limit"' in logs.replace(": ", ":").replace(", ", ",")
        assert len(server.bodies) == 2
    for file in (program.home / "governors").iterdir():
        assert KEY.encode() not in file.read_bytes() and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("J6")
def test_a_second_machine_with_the_same_key_and_database_waits_out_what_the_first_was_refused(tmp_path, postgres):
    database = postgres.new_space()
    with LoopbackModel.in_thread([Status(429, retry_after=4), Answer("Here I am.")]) as server:
        (tmp_path / "work").mkdir()
        env = {"TEAMWRIGHT_DATABASE": database}
        machines = [Program(tmp_path / "work", tmp_path / name, server.url, env) for name in ("left", "right")]
        assert machines[0].run("database", "init").returncode == 0
        for machine in machines:
            machine.settings(retries=0)
        first = machines[0].run("-p", "Hello.", "--model", "haiku")
        assert first.returncode in {1, 3} and "429" in first.stderr
        second = machines[1].run("-p", "Hello.", "--model", "haiku")
        assert second.returncode == 0 and "Here I am." in second.stdout
        logs = "".join(log.read_text() for log in machines[1].home.glob("projects/*/*/events.jsonl"))
        assert '"doing":"pause","what":"the rate limit"' in logs.replace(": ", ":").replace(", ", ",")
        assert len(server.bodies) == 2
    assert KEY not in postgres.sql(f"select r::text from {database.rpartition('=')[2]}.rate_limits r")
