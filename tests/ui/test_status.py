"""How a team stands, seen from another process while the real program runs, is killed, goes on, and ends."""

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.leftovers import release
from tests.support.model_requests import teammate_of
from tests.support.notices import notices
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, Mark, Program, error_of

pytestmark = pytest.mark.usefixtures("unconfined")

AGENT = {"description": "help", "prompt": "Go.", "subagent_type": "general-purpose"}


def who(body: dict) -> str:
    return teammate_of(body) or "team-lead"


def calls_of(body: dict) -> list[dict]:
    blocks = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"]]
    return [b for b in blocks if b["type"] == "tool_use"]


class Crew:
    """A lead with ada, who runs a command that lasts as long as the test wants, and ben, whose task waits for hers."""

    def __init__(self, tmp_path: Path) -> None:
        self.gate = tmp_path / "gate"
        os.mkfifo(self.gate)
        self.runs = Mark(tmp_path / "runs")
        self.deletes = False

    def __call__(self, body: dict) -> Answer:
        name, calls = who(body), calls_of(body)
        if name == "team-lead":
            return self.lead(body, len(calls))
        if name == "ada" and not calls:
            command = f"echo on > {self.runs.path}; cat {self.gate}"
            return Answer(tools=[("Bash", {"command": command, "description": "wait", "timeout": 60_000})])
        if name == "ada" and len(calls) == 1:
            return Answer(tools=[("TaskUpdate", {"taskId": "1", "status": "completed"})])
        return Answer("noted")

    def lead(self, body: dict, done: int) -> Answer:
        steps: list[list[tuple[str, dict[str, Any]]]] = [
            [("TeamCreate", {"team_name": "Crew"})],
            [("TaskCreate", {"subject": f"job {n}", "description": "d"}) for n in (1, 2)],
            [("Agent", {**AGENT, "name": name}) for name in ("ada", "ben")],
            [
                ("TaskUpdate", {"taskId": "2", "addBlockedBy": ["1"], "owner": "ben"}),
                ("TaskUpdate", {"taskId": "1", "owner": "ada"}),
            ],
        ]
        if done < 7:
            return Answer(tools=steps[(0, 1, 1, 2, 2, 3, 3)[done]])
        told = json.dumps(body["messages"]).replace("\\", "")
        if self.deletes and done == 7 and "It completed task #" in told:
            stop = {"type": "shutdown_request", "reason": "done"}
            return Answer(tools=[("SendMessage", {"to": name, "message": stop}) for name in ("ada", "ben")])
        if self.deletes and done == 9 and len(notices("teammate_terminated", json.dumps(body["messages"]))) >= 2:
            return Answer(tools=[("TaskUpdate", {"taskId": "2", "status": "deleted"})])
        return Answer(tools=[("TeamDelete", {})]) if done == 10 else Answer("I wait.")

    def let_go(self) -> None:
        """The command of ada ends."""
        with open(self.gate, "w") as file:
            file.write("done\n")


class Lines:
    """The lines of a process, one by one, each wait bounded."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process
        self._rest = b""
        self.seen: list[str] = []

    def next(self) -> str | None:
        """The next line; None at the end."""
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            assert select.select([descriptor], [], [], WAIT_S)[0], f"nothing came after {self.seen[-5:]}"
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        self.seen.append(line.decode())
        return line.decode()

    def until(self, fits: Callable[[str], object]) -> str:
        """The first line that fits."""
        while (line := self.next()) is not None:
            if fits(line):
                return line
        raise AssertionError(f"it ended after {self.seen[-5:]}: {self.process.stderr.read()}")


def member(view: dict, name: str) -> dict:
    return next((one for one in view["members"] if one["name"] == name), {"state": "", "on": ""})


def busy(line: str) -> bool:
    """Whether this view says what ada does and what ben waits for."""
    view = json.loads(line)
    return member(view, "ada")["on"].startswith("Bash ") and member(view, "ben")["state"] == "waiting"


@pytest.fixture
def crew(tmp_path: Path) -> Crew:
    return Crew(tmp_path)


@pytest.fixture
def program(tmp_path: Path, repo: Path, crew: Crew):
    with LoopbackModel.in_thread(crew) as server:
        made = Program(repo, tmp_path / "home", server.url)
        started: list[subprocess.Popen] = []
        start = made.start

        def kept(*args: str, **more: Any) -> subprocess.Popen:
            started.append(start(*args, **more))
            return started[-1]

        made.start = kept
        yield made
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        release(crew.gate)


def starts(program: Program, crew: Crew) -> subprocess.Popen:
    """The program at work; ada runs her command."""
    process = program.start("-p", "Go.", "--dangerously-skip-permissions")
    try:
        assert crew.runs.wait() == "on"
    except AssertionError:
        process.kill()
        raise AssertionError(f"ada never ran her command: {process.communicate()}") from None
    return process


def viewed(program: Program) -> dict:
    done = program.run("status", "Crew", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.promise("D7", "F24", "P3", "F29")
@pytest.mark.slow
def test_a_long_call_and_what_a_member_waits_for_are_seen_and_a_kill_shows_as_dead(program: Program, crew: Crew):
    lead = starts(program, crew)
    watch = program.start("status", "--watch", "--json", text=False)
    lines = Lines(watch)
    view = json.loads(lines.until(busy))
    assert (view["state"], view["lead_pid"], view["resume"]) == ("live", lead.pid, "")
    assert member(view, "ada")["state"] == "working"
    assert (member(view, "ben")["on"], member(view, "ben")["open_tasks"]) == ("#1 (ada)", ["2"])
    assert viewed(program)["members"] == [one | {"active": mine["active"]} for one, mine in _pairs(program, view)]
    lead.kill()
    over = json.loads(lines.until(lambda line: '"over"' in line))
    assert over == {"over": "the lead's process is gone", "resume": "teamwright resume Crew"}
    assert watch.wait(WAIT_S) == 0
    view = viewed(program)
    assert [(one["name"], one["state"]) for one in view["members"]] == [
        ("lead", "dead"),
        ("ada", "dead"),
        ("ben", "dead"),
    ]
    assert (view["state"], view["resume"]) == ("open", "teamwright resume Crew")
    text = program.run("status").stdout
    assert "resume   teamwright resume Crew" in text and re.search(r"^ada +dead", text, re.MULTILINE)


def _pairs(program: Program, view: dict) -> list[tuple[dict, dict]]:
    now = viewed(program)
    return list(zip(view["members"], now["members"], strict=True))


@pytest.mark.promise("F67", "D7")
@pytest.mark.slow
def test_a_watch_ends_by_itself_when_the_team_is_deleted_and_no_surface_shows_it(program: Program, crew: Crew):
    crew.deletes = True
    lead = starts(program, crew)
    lines = Lines(program.start("status", "Crew", "--watch", text=False))
    lines.until(lambda line: re.search(r"ada working: Bash ", line))
    crew.let_go()
    assert lines.until(lambda line: "was deleted" in line).endswith('  the team "Crew" was deleted')
    assert (lines.next(), lines.process.wait(WAIT_S)) == (None, 0)
    assert lead.wait(WAIT_S) == 0
    done = program.run("status", "Crew")
    assert error_of(done)[0] == "unknown-team"
    assert program.run("status").stdout == "No team yet. Sessions without one: teamwright sessions\n"
    assert program.run("teams").stdout.startswith("No team yet.")
    assert "Crew" not in program.run("status", "--json").stdout


@pytest.mark.promise("D7")
@pytest.mark.slow
def test_an_interrupt_ends_a_watch_with_130_and_the_team_goes_on(program: Program, crew: Crew):
    lead = starts(program, crew)
    for command in (("status", "Crew", "--watch"), ("log", "Crew", "--follow", "--since", "1h")):
        lines = Lines(program.start(*command, text=False))
        lines.until(lambda line: "ada" in line)
        lines.process.send_signal(signal.SIGINT)
        assert lines.process.wait(WAIT_S) == 130
    assert lead.poll() is None


@pytest.mark.promise("D7", "D8")
@pytest.mark.slow
def test_a_followed_log_says_when_a_process_is_gone_and_shows_the_one_that_goes_on(program: Program, crew: Crew):
    lead = starts(program, crew)
    lines = Lines(program.start("log", "Crew", "--follow", "--since", "1h", "--json", text=False))
    first = json.loads(lines.until(lambda line: '"session_opened"' in line))
    assert first["pid"] == lead.pid
    lines.until(lambda line: '"progress"' in line and '"ada"' in line)
    lead.kill()
    quiet = json.loads(lines.until(lambda line: '"quiet"' in line))
    assert quiet["why"] == "its process ended without closing it"
    lead.wait(WAIT_S)
    again = program.start("resume", "Crew", "-p", "Go on.", "--dangerously-skip-permissions")
    second = json.loads(lines.until(lambda line: '"session_opened"' in line))
    assert second["pid"] == again.pid and second["n"] > first["n"]
    lines.until(lambda line: '"turn_ended"' in line and '"team-lead"' in line)
    quiet = json.loads(lines.until(lambda line: '"quiet"' in line))
    assert quiet["why"] == "the session was left; the last run ended: done"
    assert again.wait(WAIT_S) == 0
    assert lines.process.poll() is None
    numbers = [json.loads(line).get("n") for line in lines.seen]
    known = [n for n in numbers if n is not None]
    assert known == sorted(set(known))


@pytest.mark.promise("D7")
@pytest.mark.slow
def test_on_a_terminal_the_view_is_drawn_anew(program: Program, crew: Crew):
    lead = starts(program, crew)
    env = program.environment | {"COLUMNS": "100", "LINES": "30", "TERM": "xterm"}
    args = [*COMMAND[1:], "status", "Crew", "--watch"]
    screen = pexpect.spawn(COMMAND[0], args, cwd=str(program.cwd), env=env, dimensions=(30, 100), timeout=WAIT_S)
    screen.expect(r"\x1b\[2Jteam     Crew \(live, process \d+\)")
    screen.expect("ada +working .*Bash")
    screen.expect(r"\x1b\[2Jteam     Crew")
    lead.kill()
    screen.expect("the lead's process is gone")
    screen.expect(pexpect.EOF)
    screen.close()
    assert screen.exitstatus == 0


@pytest.mark.slow
def test_a_team_that_nobody_has_is_named_with_its_nearest_and_watching_nothing_ends(program: Program, crew: Crew):
    assert program.run("status").stdout.startswith("No team yet.")
    assert program.run("status", "--watch").stdout.startswith("No team yet.")
    starts(program, crew)
    done = program.run("status", "Crw", "--watch")
    slug, lines = error_of(done)
    assert (slug, done.returncode != 0) == ("unknown-team", True)
    assert any("did you mean Crew?" in line for line in lines)


@pytest.mark.slow
def test_a_busy_watch_of_an_idle_team_costs_next_to_nothing(program: Program, crew: Crew):
    starts(program, crew)
    lines = Lines(program.start("status", "Crew", "--watch", "--json", text=False))
    lines.until(busy)
    ticks = os.sysconf("SC_CLK_TCK")

    def spent() -> float:
        fields = Path(f"/proc/{lines.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not tell what a process used")
    before, began = spent(), time.monotonic()
    assert select.select([lines.process.stdout], [], [], 3)[0] == [], "nothing changed, and something was told"
    assert spent() - before <= 0.1 * (time.monotonic() - began)
