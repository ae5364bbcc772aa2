"""A team that is gone on with: the real program is killed, terminated, cut off or left, and another one resumes it."""

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.outside_team import TEAM, Crew
from tests.ui.program import Mark, Program, error_of, told_results
from tests.ui.test_main_job import all_results, texts_of, who
from tests.ui.test_session_resume import alive
from tests.ui.test_terminal_session import at_terminal
from tests.ui.test_terminal_team import a_team, start_team

pytestmark = pytest.mark.usefixtures("unconfined")

FINAL = "FINAL: the job is done."
LINE = "teamwright resume 'Release Team'"


@dataclass
class Finishing(Crew):
    """The crew; ada does her job again when her command was cut off, and the lead ends with FINAL once she is done."""

    holds: bool = False
    """In her second life ada waits at the gate as well."""

    def lead(self, body: dict) -> Answer:
        if "You lead the team" in self.told["team-lead"] and "The job" not in self.told["team-lead"]:
            return Answer("I lead now.")
        if "The job is done, ada says." in self.told["team-lead"]:
            return Answer(FINAL)
        return super().lead(body)

    def member(self, name: str, body: dict) -> Answer:
        results = [(tool, text) for tool, text, _ in all_results(body)]
        if name == "ada" and results and "shutdown_request" not in texts_of(body["messages"][-1]):
            tool, text = results[-1]
            if tool == "TaskUpdate":
                return Answer("The job is done, ada says.")
            if "interrupted" in text and self.holds:
                return Answer(tools=[("Bash", {"command": f"echo again > {self.up}; read word < {self.go}"})])
            return Answer(tools=[("TaskUpdate", {"taskId": "1", "status": "completed"})])
        return super().member(name, body)


@dataclass
class Life:
    """The first life of the team's lead, and the program that may begin the next one."""

    program: Program
    process: subprocess.Popen[str]
    crew: Finishing
    server: LoopbackModel
    up: Mark
    go: int

    def resume(self, *args: str, **more) -> subprocess.CompletedProcess[str]:
        return self.program.run("resume", TEAM, "-p", "--dangerously-skip-permissions", *args, **more)

    def killed(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)

    def roster(self) -> list[str]:
        config = json.loads((self.program.home / "teams/release-team/config.json").read_text())
        return [member["name"] for member in config["members"]]

    def tasks(self) -> list[tuple[str, str | None]]:
        files = sorted((self.program.home / "tasks/release-team").glob("[0-9]*.json"))
        return [(task["status"], task.get("owner")) for task in map(json.loads, map(Path.read_text, files))]


@contextmanager
def begun(tmp_path: Path, repo: Path, *flags: str, **crew) -> Generator[Life]:
    """The team while it begins."""
    up, go = Mark(tmp_path / "up"), tmp_path / "go"
    os.mkfifo(go)
    fd = os.open(go, os.O_RDWR | os.O_NONBLOCK)
    players = Finishing(up.path, go, **crew)
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "go", "--dangerously-skip-permissions", "--verbose", *flags)
        try:
            yield Life(program, process, players, server, up, fd)
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()
            os.close(fd)


@contextmanager
def at_work(tmp_path: Path, repo: Path, **crew) -> Generator[Life]:
    """The team, once ada is in her command and ben is idle."""
    with begun(tmp_path, repo, **crew) as life:
        assert life.up.wait() == "up"
        assert any("ben          idle" in line for line in life.process.stderr)
        yield life


def assert_finished(done: subprocess.CompletedProcess[str], life: Life) -> None:
    assert (done.returncode, done.stdout) == (0, f"{FINAL}\n"), done.stderr
    assert life.tasks() == [("completed", "ada")]


# ── after every kind of end ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("D8", "F55", "F56", "P3")
@pytest.mark.slow
def test_after_sigkill_everybody_is_back_and_the_work_is_finished(tmp_path, repo):
    with at_work(tmp_path, repo) as life:
        life.killed()
        assert life.roster() == ["team-lead", "ada", "ben"]
        stored = life.program.run("send", f"lead@{TEAM}", "Mind the gap.")
        assert stored.returncode == 0, stored.stderr
        before = len(life.server.bodies)
        done = life.resume()
        assert_finished(done, life)
        said = re.search(r"teamwright: resumed: (.*)", done.stderr)[1]
        assert re.fullmatch(r"2 members, 1 open task, \d unread messages?, 1 call repaired", said)
        after = life.server.bodies[before:]
    ada = [body for body in after if who(body) == "ada"]
    assert "interrupted" in told_results(ada[0])[-1]["text"]
    assert life.crew.told["ada"].count("You help, ada.") == 1, "her first prompt was not said again"
    lead = life.crew.told["team-lead"]
    assert lead.count('teammate_id="user"') == 1 and "\nMind the gap.\n" in lead, (
        "what came meanwhile reached the new life of the lead"
    )
    assert "Your session was interrupted" in lead
    reports = re.findall(r'teammate_id="(\w+)"', lead)
    assert "ada" in reports, "ada is who she was"
    [first] = {json.dumps(body["system"]) for body in life.server.bodies if who(body) == "ada"}
    assert first, "her prefix is what it was, to the byte"


@pytest.mark.promise("D8", "K8", "P5")
def test_sigterm_says_how_to_go_on_with_the_team_and_nothing_is_lost(tmp_path, repo):
    with at_work(tmp_path, repo) as life:
        life.process.terminate()
        _, err = life.process.communicate(timeout=WAIT_S)
        assert life.process.returncode == 143, err
        assert LINE in err
        assert life.roster() == ["team-lead", "ada", "ben"]
        assert_finished(life.resume(), life)


@pytest.mark.slow
@pytest.mark.promise("D8", "K8")
def test_a_run_whose_time_is_spent_goes_on_with_its_team(tmp_path, repo):
    with begun(tmp_path, repo, "--timeout", "8s") as life:
        _, err = life.process.communicate(timeout=WAIT_S)
        assert life.process.returncode == 4, err
        assert re.search(r"teamwright resume ('Release Team'|[0-9a-f]{8})", err), "by its id before members are there"
        os.write(life.go, b"on\n")  # and then she has yet to go to the gate
        done = life.resume("--output-format", "json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["result"] == FINAL
    assert life.tasks()[0][0] == "completed"


@pytest.mark.promise("D8", "F28", "F55")
@pytest.mark.slow
def test_a_person_leaves_a_team_at_work_and_comes_back_to_all_of_it(repo, own_home):
    for name in ("gate", "gate2"):
        os.mkfifo(repo / name)
    with at_terminal(a_team, repo) as (person, _):
        start_team(person)
        person.says("/quit")
        person.sees("leave? [w/s/l]")
        person.says("l")
        assert person.leaves() == 5
    [team] = [place.name for place in (own_home / ".teamwright/teams").iterdir()]
    with at_terminal(after_the_gate, repo, "-r", team) as (person, _):
        person.sees("resumed: 1 member, 1 open task")
        person.says("/members")
        person.sees("  lead ", "  tester ")
        person.sees("tester → lead:", "It was cut off.")


def after_the_gate(body: dict) -> Answer | str:
    return "I hear." if who(body) == "lead" else "It was cut off."


# ── one lead ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F25", "D8", "P3")
@pytest.mark.slow
def test_of_two_that_resume_at_once_exactly_one_goes_on(tmp_path, repo):
    with at_work(tmp_path, repo, holds=True) as life:
        life.killed()
        args = ("resume", TEAM, "-p", "--dangerously-skip-permissions")
        two = [life.program.start(*args), life.program.start(*args)]
        try:
            assert life.up.wait() == "again"
            loser = first_to_end(two)
            winner = two[1 - two.index(loser)]
            _, err = loser.communicate(timeout=WAIT_S)
            assert loser.returncode == 3, err
            assert "[session-busy]" in err and str(winner.pid) in err
            os.write(life.go, b"on\n")
            out, err = winner.communicate(timeout=WAIT_S)
            assert (winner.returncode, out) == (0, f"{FINAL}\n"), err
        finally:
            for process in two:
                process.kill()
                process.communicate()


def first_to_end(processes: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Return the process that ends first."""
    bound = time.monotonic() + WAIT_S
    while time.monotonic() < bound:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                return process
    raise AssertionError("both go on")


@pytest.mark.promise("F25", "A2")
@pytest.mark.slow
def test_a_team_that_is_led_is_neither_resumed_nor_adopted_nor_removed(tmp_path, repo):
    with at_work(tmp_path, repo) as life:
        pid = life.process.pid
        for way in (("resume", TEAM, "-p", "me"), ("-r", TEAM, "-p", "me"), ("teams", "adopt", TEAM, "-p", "me")):
            done = life.program.run(*way)
            assert (done.returncode, error_of(done)[0]) == (3, "session-busy")
            assert f"process {pid} leads" in done.stderr
            assert "teamwright status 'Release Team'" in done.stderr
            assert f"teamwright stop '{TEAM}'" in done.stderr
        for force in ((), ("--force",)):
            done = life.program.run("teams", "rm", TEAM, *force)
            assert (done.returncode, error_of(done)[0]) == (1, "team-refused")
            assert str(pid) in done.stderr and f"teamwright stop '{TEAM}'" in done.stderr
        os.write(life.go, b"on\n")
        out, err = life.process.communicate(timeout=WAIT_S)
    assert (life.process.returncode, out) == (0, f"{FINAL}\n"), err


@pytest.mark.promise("F25", "D8", "A1")
@pytest.mark.slow
def test_a_team_whose_leads_conversation_is_gone_is_adopted_by_a_new_session(tmp_path, repo):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with at_work(tmp_path, repo) as life:
        life.killed()
        [transcript] = life.program.home.glob("projects/*/*.jsonl")
        transcript.unlink()
        gone = life.resume()
        assert (gone.returncode, error_of(gone)[0]) == (2, "unknown-session")
        assert f"teamwright teams adopt '{TEAM}'" in gone.stderr
        other = Program(elsewhere, life.program.home, life.server.url)
        flags = ("-p", "--dangerously-skip-permissions")
        life.crew.told.clear()
        done = other.run("teams", "adopt", TEAM, "See it through.", *flags)
        assert done.returncode == 0, done.stderr
        assert "resumed: 2 members, 1 open task" in done.stderr
        assert "You lead the team" in life.crew.told["team-lead"]
        assert life.tasks() == [("completed", "ada")]
    assert other.run("sessions").stdout.count("See it through.") == 1


@pytest.mark.promise("A2", "F20", "F16")
@pytest.mark.slow
def test_a_dead_team_is_removed_with_what_its_commands_left_running(tmp_path, repo):
    with at_work(tmp_path, repo) as life:
        life.killed()
        refused = life.program.run("teams", "rm", TEAM)
        assert (refused.returncode, error_of(refused)[0]) == (1, "team-refused")
        assert "#1 the job" in refused.stderr
        assert "--force" in refused.stderr and LINE in refused.stderr
        assert life.roster() == ["team-lead", "ada", "ben"]
        done = life.program.run("teams", "rm", TEAM, "--force", "--json")
        assert done.returncode == 0, done.stderr
        removed = json.loads(done.stdout)
        assert (removed["members"], removed["open_tasks"]) == (["ada", "ben"], ["1"])
        [ended] = removed["ended"]
        assert not alive(ended)
        assert not (life.program.home / "teams/release-team").exists()
        entry = Path(removed["archived"])
        assert (entry / "config.json").exists() and (entry / "tasks/1.json").exists()
        for name in (TEAM, entry.name):
            shown = life.program.run("teams", "show", name)
            assert "archived" in shown.stdout and "the job" in shown.stdout
        session = next(life.program.home.glob("projects/*/*.jsonl")).stem
        went_on = life.program.run("resume", session[:8], "-p", "and now?")
        assert went_on.returncode == 0, went_on.stderr


@pytest.mark.slow
def test_with_nothing_open_a_resume_without_a_prompt_says_so(tmp_path, repo):
    with at_work(tmp_path, repo) as life:
        os.write(life.go, b"on\n")
        out, err = life.process.communicate(timeout=WAIT_S)
        assert (life.process.returncode, out) == (0, f"{FINAL}\n"), err
        asked = len(life.server.bodies)
        again = life.resume()
        assert (again.returncode, error_of(again)[0], again.stdout) == (2, "usage", "")
        assert "has answered every prompt" in again.stderr
        assert len(life.server.bodies) == asked
        done = life.resume("thanks")
        assert (done.returncode, done.stdout) == (0, f"{FINAL}\n"), done.stderr
