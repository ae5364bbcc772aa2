"""The whole program is killed while commands run: a resume ends what is left, and whoever waits for a job is told."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from teamwright.agent.background_jobs import JobJournal
from teamwright.processes.process_records import find_orphans
from teamwright.processes.process_tree import list_processes
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import Mark, Program, told_results, words_of

pytestmark = pytest.mark.usefixtures("unconfined")

NOTE = re.compile(
    r"<task-notification[^>]*>\n<task-id>(\w+)</task-id>.*?<status>(\w+)</status>.*?</task-notification>",
    re.S,
)


def session_of(program: Program) -> Path:
    [path] = program.home.glob("projects/*/*.jsonl")
    return path.with_suffix("")


def kill(process) -> None:
    process.kill()
    process.communicate(timeout=WAIT_S)


def wait_for_output(program: Program) -> None:
    """Until the program has taken what the job wrote."""
    wait_until(lambda: any(path.stat().st_size for path in program.home.glob("projects/*/*/output/b*.output")))


def alive(numbers: set[int]) -> set[int]:
    return {row.pid for row in list_processes() if numbers & {row.pid, row.group}}


@pytest.mark.slow
@pytest.mark.promise("P3", "F21", "F62", "D8")
def test_after_a_kill_a_resume_ends_every_command_and_tells_once_of_the_job_that_is_gone(tmp_path, repo):
    marks = {name: Mark(tmp_path / name) for name in ("job", "call", "grown", "asked")}
    job = f"echo before; sleep 300 & echo $! > {marks['grown'].path}; echo $$ > {marks['job'].path}; wait"
    calls = [
        ("Bash", {"command": job, "run_in_background": True, "description": "Serve the pages"}),
        ("Bash", {"command": f"echo $$ > {marks['call'].path}; trap '' TERM; sleep 300; sleep 300"}),
    ]
    with LoopbackModel.in_thread([Answer("I begin.", tools=calls)]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--dangerously-skip-permissions")
        started = {int(marks[name].wait()) for name in ("job", "call", "grown")}
        wait_for_output(program)
        kill(process)
    session = session_of(program)
    [lost] = JobJournal(session).unreported()
    assert alive(started) >= started and all(left.is_alive for left in find_orphans(session)), (
        "nobody was there to end them"
    )
    assert (lost.state, lost.description, lost.file.read_text()) == ("killed", "Serve the pages", "before\n")

    def stalls(_body: dict) -> Stall:
        marks["asked"].path.write_text("asked\n")
        return Stall(answer=Answer("never whole"))

    with LoopbackModel.in_thread(stalls) as server:  # the second life is killed when it was told, and has said nothing
        again = Program(repo, program.home, server.url).start("resume", session.name[:8], "-p")
        marks["asked"].wait()
        kill(again)
        [body] = server.bodies
    assert NOTE.findall(words_of(body)) == [(lost.id, "killed")] and "it ended with the process" in words_of(body)
    assert str(lost.file) in words_of(body) and lost.file.read_text() == "before\n"
    look = Answer(tools=[("Bash", {"command": "echo anybody"})])
    with LoopbackModel.in_thread([look, "Done."]) as server:
        third = Program(repo, program.home, server.url).run(
            "resume", session.name[:8], "-p", "go on", "--dangerously-skip-permissions"
        )
    assert (third.returncode, third.stdout) == (0, "Done.\n"), third.stderr
    assert NOTE.findall(words_of(server.bodies[-1])) == [(lost.id, "killed")], "once, whatever was killed meanwhile"
    assert told_results(server.bodies[-1])[-1]["text"] == "anybody"
    assert not alive(started) and find_orphans(session) == [] and JobJournal(session).unreported() == []
    assert list((session / "processes").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are found by their mark on Linux only")
@pytest.mark.promise("F21", "F62")
def test_no_command_of_the_new_life_meets_what_the_old_one_left(tmp_path, repo):
    mark = Mark(tmp_path / "job")
    escape = f"import os, time; os.setsid(); open('{mark.path}', 'w').write(str(os.getpid())); time.sleep(300)"
    first = Answer(tools=[("Bash", {"command": f'{sys.executable} -c "{escape}" & sleep 300'})])
    with LoopbackModel.in_thread([first]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--dangerously-skip-permissions")
        escaped = int(mark.wait())
        kill(process)
    assert alive({escaped})
    state = f"$(cut -d' ' -f3 /proc/{escaped}/stat 2>/dev/null)"
    look = Answer(tools=[("Bash", {"command": f'case "{state}" in ""|[ZX]) echo gone;; esac'})])
    with LoopbackModel.in_thread([look, "Good."]) as server:
        again = Program(repo, program.home, server.url).run("-c", "-p", "look", "--dangerously-skip-permissions")
    assert again.returncode == 0, again.stderr
    assert told_results(server.bodies[-1])[-1]["text"] == "gone"


@pytest.mark.slow
@pytest.mark.promise("D8")
def test_a_job_that_ended_with_its_session_is_told_of_in_the_next_turn_and_only_then(tmp_path, repo):
    job = ("Bash", {"command": "exec sleep 300", "run_in_background": True})
    with LoopbackModel.in_thread([Answer(tools=[job]), "It runs.", "So it is gone.", "As I said."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.home.mkdir()
        (program.home / "settings.json").write_text('{"agents": {"jobs_wait_s": 0.1}}')
        done = [
            program.run("-p", "begin", "--dangerously-skip-permissions"),
            program.run("-c", "-p", "go on"),
            program.run("-c", "-p", "and on"),
        ]
    assert [one.returncode for one in done] == [5, 0, 0], [one.stderr for one in done]
    told = [NOTE.findall(words_of(body)) for body in server.bodies]
    assert [len(notes) for notes in told] == [0, 0, 1, 1] and told[-1][0][1] == "stopped"
    facts = [json.loads(line) for line in (session_of(program) / "jobs.jsonl").read_text().splitlines()]
    assert [fact["type"] for fact in facts] == ["begun", "ended", "settled"]
    assert not [row for row in list_processes() if row.pid == facts[0]["pid"]]
    with pytest.raises(ProcessLookupError):
        os.killpg(facts[0]["pid"], signal.SIGCONT)
