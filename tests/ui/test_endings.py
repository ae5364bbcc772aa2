"""How a headless run ends in every phase of a team: at a cap, by a signal, by a failure, by itself; and goes on."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program, told_results
from tests.ui.test_main_job import all_told, texts_of, who
from tests.ui.test_session_resume import alive, assert_loadable

pytestmark = pytest.mark.usefixtures("unconfined")

REMINDED = "No teammate is working"
START = ("Agent", {"description": "start ada", "prompt": "You help, ada.", "name": "ada"})
OPEN_TASK = ("TaskCreate", {"subject": "the last job", "description": "d", "metadata": {"for": ["nobody"]}})
ASK = ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request", "reason": "enough"}})
FINAL = "FINAL: that is all."
SKIP = ("-p", "go", "--dangerously-skip-permissions")
NEVER = 600
"""Seconds of a goodbye that no test can wait for."""


def calls_of(body: dict) -> list[str]:
    """The names of the calls that the agent made so far."""
    return [b["name"] for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if "name" in b]


@dataclass
class Phases:
    """Plays a lead and ada. In `phase` the lead is where its name says, and ada is in her command or in a thought.

    `up` gets the pid of what must not outlive the run, once the phase is reached; `job` that of the lead's own job.
    """

    phase: str
    up: Path
    job: Path
    told: dict[str, str] = field(default_factory=dict)

    def __call__(self, body: dict) -> Any:
        name = who(body)
        self.told[name] = all_told(body)
        return self.lead(body) if name == "team-lead" else self.ada(body)

    def lead(self, body: dict) -> Any:
        calls, last = calls_of(body), texts_of(body["messages"][-1])
        if "Agent" not in calls:
            return Answer(tools=[START, OPEN_TASK] if self.phase == "reminded" else [START])
        if self.phase == "working":
            return self.here(Stall(answer=Answer("I think about it.")))
        if self.phase == "request" and "SendMessage" not in calls:
            return Answer(tools=[ASK])
        if self.phase == "job" and "Bash" not in calls:
            command = f"echo $$ > {self.job}; exec sleep 300"
            return Answer(tools=[("Bash", {"command": command, "run_in_background": True})])
        if self.phase == "reminded" and REMINDED in last:
            return self.here(Stall(answer=Answer("I look at it.")))
        return Answer("I wait.")

    def ada(self, body: dict) -> Any:
        if self.phase == "request":
            if "shutdown_request" in self.told["ada"]:
                return self.here(Stall(answer=Answer("Let me think.")))
            return Answer("I am here.")
        if self.phase in {"waiting", "job"}:
            return Answer(tools=[("Bash", {"command": f"echo $$ > {self.up}; exec sleep 300"})])
        if self.phase == "reminded":
            return Answer("I am here.")
        return Answer(tools=[("Bash", {"command": "exec sleep 300"})])

    def here(self, answer: Stall) -> Stall:
        self.up.write_text("0\n")
        return answer


PHASES = ("working", "reminded", "waiting", "request", "job")


@dataclass
class Running:
    """A run that has come to its phase. `pids` must be gone when it is over."""

    program: Program
    process: subprocess.Popen[str]
    players: Phases
    pids: list[int] = field(default_factory=list)

    def over(self) -> tuple[dict[str, Any], str]:
        """The result line and stderr, once the process is gone: no wait is longer than that of a cancelled call."""
        out, err = self.process.communicate(timeout=WAIT_S)
        assert "Traceback" not in err
        assert not any(map(alive, self.pids)), "a command lives on"
        assert_loadable(self.program.home)
        return json.loads(out.splitlines()[-1]), err


@contextmanager
def run_in(phase: str, tmp_path: Path, repo: Path, *flags: str) -> Generator[Running]:
    up, job = Mark(tmp_path / "up"), Mark(tmp_path / "job")
    players = Phases(phase, up.path, job.path)
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(shutdown_timeout_s=NEVER)
        process = program.start(*SKIP, "--output-format", "stream-json", *flags)
        try:
            pids = [int(up.wait()), *([int(job.wait())] if phase == "job" else [])]
            if phase in {"waiting", "job", "request"}:
                _read_until(process, _lead_rests)
            yield Running(program, process, players, [pid for pid in pids if pid])
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _lead_rests(line: dict[str, Any]) -> bool:
    event = line.get("event") or {}
    return event.get("type") == "turn_ended" and event.get("member") == "team-lead"


def _read_until(process: subprocess.Popen[str], enough: Callable[[dict[str, Any]], bool]) -> None:
    for line in process.stdout:
        if enough(json.loads(line)):
            return
    raise AssertionError(process.stderr.read())


def cut_off(result: dict[str, Any]) -> list[str]:
    """What was cut off at work: members by name, and of a background command its owner alone."""
    return [re.sub(r" b[0-9a-f]+: .*", "", one) for one in result["team"]["cut_off"]]


def finish(running: Running, *flags: str) -> subprocess.CompletedProcess[str]:
    """Go on with the session, with players that come to an end."""

    def players(body: dict) -> Answer:
        if who(body) == "ada":
            return Answer("Done, ada says.")
        running.players.told["team-lead"] = told = all_told(body)
        return Answer(FINAL if any(one in told for one in ("Done, ada says.", "has ended", REMINDED)) else "I wait.")

    with LoopbackModel.in_thread(players) as server:
        running.program.url = server.url
        done = running.program.run("-c", "-p", "--dangerously-skip-permissions", *flags)
    return done


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow_after(1)
@pytest.mark.promise("D6", "F70", "F21", "D8")
@pytest.mark.parametrize(
    ("phase", "number", "code"),
    [
        *((phase, signal.SIGTERM, 143) for phase in PHASES),
        ("reminded", signal.SIGINT, 130),
        ("job", signal.SIGINT, 130),
    ],
)
def test_a_signal_in_any_phase_ends_all_at_once_and_the_session_goes_on(tmp_path, repo, phase, number, code):
    with run_in(phase, tmp_path, repo) as running:
        running.process.send_signal(number)
        result, err = running.over()
        assert running.process.returncode == code, err
        at_work = {"reminded": [], "job": ["lead's command", "ada"]}.get(phase, ["ada"])
        assert (result["team"]["stop"], cut_off(result)) == ("cancelled", at_work)
        assert f"everything is saved: {result['team']['resume_command']}" in err
        assert (f"cut off at work: {at_work[0]}" in err) if at_work else ("cut off at work" not in err)
        done = finish(running)
    assert (done.returncode, done.stdout) == (0, f"{FINAL}\n"), done.stderr


@pytest.mark.promise("D6")
@pytest.mark.slow
def test_a_second_signal_cuts_the_goodbye_short_that_another_terminal_asked_for(tmp_path, repo):
    with run_in("waiting", tmp_path, repo) as running:
        [team] = [place.name for place in (running.program.home / "teams").iterdir()]
        asking = running.program.start("stop", team)
        try:
            _read_until(running.process, lambda line: "ends the team" in json.dumps(line))
            for _ in range(2):
                running.process.send_signal(signal.SIGTERM)
            result, err = running.over()
            _, told = asking.communicate(timeout=WAIT_S)
        finally:
            asking.kill()
    assert (running.process.returncode, result["team"]["cut_off"]) == (143, ["ada"]), err
    assert asking.returncode == 0, told


# ── caps ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("D6", "F70", "D8")
def test_time_that_is_spent_while_a_member_and_a_job_run_ends_both_without_a_goodbye(tmp_path, repo):
    with run_in("job", tmp_path, repo, "--timeout", "8s") as running:
        result, err = running.over()
        assert running.process.returncode == 4, err
        team = result["team"]
        assert (team["stop"], team["limit"], cut_off(result)) == ("limit", "time", ["lead's command", "ada"])
        assert team["resume_command"] in err and "cut off at work: lead's command" in err
        assert not list((running.program.home / "teams").rglob("requests/*.json")), (
            "who is cut off by a cap was not asked to stop, and is not at the resume"
        )
        done = finish(running)
    assert (done.returncode, done.stdout) == (0, f"{FINAL}\n"), done.stderr


@pytest.mark.slow
@pytest.mark.promise("D6", "F70", "P1")
def test_a_report_that_came_when_no_turn_was_left_is_told_at_the_resume(tmp_path, repo):
    gate = Mark(tmp_path / "gate")

    async def players(body: dict) -> Answer:
        if who(body) == "ada":
            if told_results(body):
                return Answer("Seven files, ada says.")
            return Answer(tools=[("Bash", {"command": f"read word < {gate.path}"})])
        if "Seven files" in all_told(body):
            return Answer(FINAL)
        if "Agent" in calls_of(body):
            await asyncio.to_thread(gate.path.write_text, "go\n")
            return Answer("I wait.")
        return Answer(tools=[START])

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(shutdown_timeout_s=NEVER)
        done = program.run(*SKIP, "--max-turns", "2", "--output-format", "json")
        result = json.loads(done.stdout)
        assert (done.returncode, result["team"]["limit"]) == (4, "turns"), done.stderr
        assert result["team"]["cut_off"] == []
        assert result["result"] == "I wait."
        again = program.run("-c", "-p", "--dangerously-skip-permissions")
    assert (again.returncode, again.stdout) == (0, f"{FINAL}\n"), again.stderr
    lead = [all_told(body) for body in server.bodies if who(body) == "team-lead"][-1]
    assert lead.count("Seven files, ada says.") == 1


@pytest.mark.promise("D6", "F70", "P6")
@pytest.mark.slow
def test_a_member_that_never_comes_to_rest_is_cut_off_by_the_cap(tmp_path, repo):
    def players(body: dict) -> Answer:
        if who(body) == "ada":
            return Answer("Once more.", tools=[("Bash", {"command": f"echo {len(body['messages'])}"})])
        return Answer("I wait.") if "Agent" in calls_of(body) else Answer(tools=[START])

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(shutdown_timeout_s=NEVER)
        done = program.run(*SKIP, "--max-tokens", "60000", "--output-format", "json")
        steps = [who(body) for body in server.bodies].count("ada")
    result = json.loads(done.stdout)
    assert (done.returncode, result["team"]["limit"]) == (4, "tokens"), done.stderr
    assert result["team"]["cut_off"] == ["ada"]
    assert result["result"] == "I wait.", "what the lead said last is there"
    assert steps > 3
    assert_loadable(program.home)


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("D6", "F70", "P5")
def test_a_lead_that_fails_while_a_member_works_ends_the_run_which_goes_on_with_both(tmp_path, repo):
    up = Mark(tmp_path / "up")
    broken = True

    def players(body: dict) -> Answer | Status:
        if who(body) == "ada":
            if told_results(body):
                return Answer("Seven files, ada says.")
            return Answer(tools=[("Bash", {"command": f"echo $$ > {up.path}; exec sleep {300 if broken else 0}"})])
        if "Seven files" in all_told(body):
            return Answer(FINAL)
        if "Agent" not in calls_of(body):
            return Answer(tools=[START])
        if broken:
            pids.append(int(up.wait()))
            return Status(400, "the service does not like this")
        return Answer("I wait.")

    pids: list[int] = []
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(shutdown_timeout_s=NEVER)
        done = program.run(*SKIP, "--output-format", "json")
        result = json.loads(done.stdout)
        assert (done.returncode, result["team"]["stop"]) == (1, "failed"), done.stderr
        assert result["team"]["cut_off"] == ["ada"]
        assert "does not like this" in done.stderr and result["team"]["resume_command"] in done.stderr
        assert pids and not any(map(alive, pids))
        broken = False
        again = program.run("-c", "-p", "--dangerously-skip-permissions")
    assert (again.returncode, again.stdout) == (0, f"{FINAL}\n"), again.stderr


@pytest.mark.promise("D6", "F70", "F24")
def test_a_member_that_fails_for_good_is_told_once_and_keeps_no_run_from_its_end(tmp_path, repo):
    def players(body: dict) -> Answer | Status:
        if who(body) == "ada":
            return Status(400, "no such thing")
        if "HTTP 400" in all_told(body):
            return Answer("ada failed, so I say it myself.")
        return Answer("I wait.") if "Agent" in calls_of(body) else Answer(tools=[START])

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(shutdown_timeout_s=NEVER)
        done = program.run(*SKIP, "--output-format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["result"]) == (5, "ada failed, so I say it myself."), done.stderr
    lead = [body for body in server.bodies if who(body) == "team-lead"][-1]
    notices = [line for line in all_told(lead).splitlines() if "HTTP 400" in line]
    assert len(notices) == 1 and "ada's turn failed: " in notices[0]
    assert len([body for body in server.bodies if who(body) == "ada"]) == 1


# ── the ordinary end ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("D6", "F70")
@pytest.mark.slow
def test_standard_input_and_output_that_are_closed_change_no_ending(tmp_path, repo):
    def players(body: dict) -> Answer:
        if who(body) == "ada":
            return Answer("Done, ada says.")
        if "Agent" not in calls_of(body):
            return Answer(tools=[START])
        return Answer(FINAL if "Done, ada says." in all_told(body) else "I wait.")

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        no_input = program.start(*SKIP, preexec_fn=lambda: os.close(0))
        out, err = no_input.communicate(timeout=WAIT_S)
        assert (no_input.returncode, out) == (0, f"{FINAL}\n"), err
        asked = len(server.bodies)
        no_output = program.start(*SKIP, preexec_fn=lambda: os.close(1))
        _, err = no_output.communicate(timeout=WAIT_S)
        assert (no_output.returncode, len(server.bodies)) == (2, asked), "an answer that nobody can get is not paid for"
        assert "stdout is closed" in err and "[usage]" in err
