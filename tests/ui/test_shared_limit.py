"""Two runs of the program with one key: what the first one was refused, the second one knows."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import KEY, Program

pytestmark = pytest.mark.promise("F60", "H10")


PAUSE_S = 120
"""What the server asks for: even a busy machine starts a second run within it."""
PAUSED = '"doing":"pause","what":"theratelimit"'


def page_in(home):
    """What processes share of the one credential."""
    [page] = [file for file in (home / "governors").iterdir() if len(file.name) == 32]
    return json.loads(page.read_text().strip().rpartition(" ")[0])


def events_in(home):
    """The logs of the sessions, without blanks."""
    return "".join(log.read_text().replace(" ", "") for log in home.glob("projects/*/*/events.jsonl"))


def assert_waits_without_a_request(program, server):
    """A second run says that it waits for the rate limit, and asks the server nothing."""
    second = program.start("-p", "Hello.", "--model", "haiku")
    try:
        wait_until(lambda: PAUSED in events_in(program.home))
        assert len(server.bodies) == 1
    finally:
        second.terminate()
        second.communicate(timeout=WAIT_S)


@pytest.mark.slow
def test_a_second_run_with_the_same_key_waits_for_what_the_first_was_refused(tmp_path):
    with LoopbackModel.in_thread([Status(429, retry_after=PAUSE_S), Answer("Here I am.")]) as server:
        (tmp_path / "work").mkdir()
        program = Program(tmp_path / "work", tmp_path / "home", server.url)
        program.settings(retries=0)
        first = program.run("-p", "Hello.", "--model", "haiku")
        assert first.returncode in {1, 3} and "429" in first.stderr
        shared = page_in(program.home)
        assert shared["epoch"] == 1 and shared["paused_until"] > shared["refused_at"] + PAUSE_S - 0.1
        assert_waits_without_a_request(program, server)
    for file in (program.home / "governors").iterdir():
        assert KEY.encode() not in file.read_bytes() and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("J6")
@pytest.mark.slow
def test_a_second_machine_with_the_same_key_and_database_waits_for_what_the_first_was_refused(tmp_path, postgres):
    database = postgres.new_space()
    with LoopbackModel.in_thread([Status(429, retry_after=PAUSE_S), Answer("Here I am.")]) as server:
        (tmp_path / "work").mkdir()
        env = {"TEAMWRIGHT_DATABASE": database}
        machines = [Program(tmp_path / "work", tmp_path / name, server.url, env) for name in ("left", "right")]
        assert machines[0].run("database", "init").returncode == 0
        for machine in machines:
            machine.settings(retries=0)
        first = machines[0].run("-p", "Hello.", "--model", "haiku")
        assert first.returncode in {1, 3} and "429" in first.stderr
        assert_waits_without_a_request(machines[1], server)
    assert KEY not in postgres.sql(f"select r::text from {database.rpartition('=')[2]}.rate_limits r")
