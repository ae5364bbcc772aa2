"""Compaction through the real program: a long job, a kill in the middle of a summary, a person at a terminal."""

import json
import threading

import pytest

from teamwright.agent.compaction_texts import DIRECTIVE
from teamwright.testing import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall
from tests.support.model_requests import newest_text
from tests.support.waits import WAIT_S
from tests.ui.program import Program
from tests.ui.terminal_driver import CTRL_D
from tests.ui.test_session_resume import program_session
from tests.ui.test_terminal_session import at_terminal

WINDOW = 30_000


def last_text(body: dict) -> str:
    return newest_text(body)


def is_summary(body: dict) -> bool:
    return DIRECTIVE in last_text(body)


def tokens(body: dict) -> int:
    return len(json.dumps(body)) // 4


class Job:
    """Reads a long file again and again: three windows long, with a task that it made at the beginning."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def __call__(self, body: dict) -> Answer:
        if is_summary(body):
            return Answer(f"I read the file; {self.left} readings are left.")
        self.left -= 1
        if not self.left:
            return Answer("All of it is read.")
        first = '"TaskCreate"' not in json.dumps(body["messages"]) and "readings are left" not in json.dumps(body)
        task = [("TaskCreate", {"subject": "read it all", "description": "to the end"})] if first else []
        return Answer(tools=[*task, ("Bash", {"command": f"echo {self.left}; cat long.txt"})])


@pytest.mark.promise("H6", "F54", "F58", "row F7a")
@pytest.mark.slow
def test_a_conversation_three_times_its_window_long_keeps_working_and_knows_its_tasks(tmp_path, repo):
    (repo / "long.txt").write_text("word " * 4_000)
    job = Job(20)
    with LoopbackModel.in_thread(job) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(models={"anthropic/claude-sonnet-5-5": {"context_tokens": WINDOW}})
        done = program.run("-p", "Read it.", "--dangerously-skip-permissions", "--output-format", "json", "--verbose")
        bodies = server.bodies
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "All of it is read."
    transcript = program.transcript()
    said = sum(len(json.dumps(line.get("message", ""))) for line in transcript) // 4
    assert said > 3 * WINDOW
    assert max(map(tokens, bodies)) < WINDOW
    assert sum(line["type"] == "compact" for line in transcript) >= 2
    assert sum(map(is_summary, bodies)) == sum(line["type"] == "compact" for line in transcript)
    assert "- #1 [pending] read it all" in json.dumps(bodies[-1]["messages"][0])
    assert "compacts its conversation" in done.stderr and "continues from a summary" in done.stderr
    log = program.run("log")
    assert "continues from a summary" in log.stdout
    cost = json.loads(program.run("cost", "--json").stdout)
    assert cost["total"]["model_calls"] == len(bodies), "what summaries cost is in the books"


@pytest.mark.promise("H6", "P1", "F57")
@pytest.mark.slow
def test_a_kill_while_the_summary_is_written_leaves_the_conversation_as_it_was(tmp_path, repo):
    (repo / "long.txt").write_text("word " * 4_000)
    asked = threading.Event()
    job = Job(9)

    def stalls(body: dict) -> Answer | Stall:
        if is_summary(body):
            asked.set()
            return Stall()
        return job(body)

    with LoopbackModel.in_thread(stalls) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(models={"anthropic/claude-sonnet-5-5": {"context_tokens": WINDOW}})
        process = program.start("-p", "Read it.", "--dangerously-skip-permissions")
        assert asked.wait(WAIT_S)
        process.kill()
        process.communicate(timeout=WAIT_S)
    before = program.transcript()
    assert not [line for line in before if line["type"] == "compact"] and before[-1]["type"] == "user"
    with LoopbackModel.in_thread(job) as server:
        again = Program(repo, tmp_path / "home", server.url)
        done = again.run("resume", program_session(program)[:8], "--dangerously-skip-permissions")
        bodies = server.bodies
    assert (done.returncode, done.stdout) == (0, "All of it is read.\n"), done.stderr
    assert is_summary(bodies[0]), "it is asked for again"
    after = program.transcript()
    assert after[: len(before)] == before and [line["type"] for line in after].count("compact") >= 1


def talks(body: dict) -> Answer | str:
    if "takes its place" in last_text(body):
        return "We said hello."
    return "Hello once more." if "again" in last_text(body) else "Hello."


@pytest.mark.promise("H6", "K8")
def test_a_person_compacts_at_a_terminal_and_says_what_to_keep(repo):
    with at_terminal(talks, repo) as (person, server):
        person.says("/compact")
        person.sees("was not compacted, nothing changed: there is nothing yet")
        person.says("hi")
        person.sees("Hello.")
        person.says("/compact keep all names")
        person.sees("compacts its conversation", "continues from a summary")
        person.says("/compact @nobody")
        person.sees("'nobody' is not in")
        person.says("hi again")
        person.sees("Hello once more.")
        [asked] = [body for body in server.bodies if is_summary(body)]
        assert last_text(asked).endswith("Keep in particular: keep all names")
        assert "We said hello." in json.dumps(server.bodies[-1]["messages"][0])
        person.types(CTRL_D)
