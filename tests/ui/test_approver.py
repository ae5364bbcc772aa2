"""Who may answer, trust, stop and remove: persons and their programs, never a command that an agent runs."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from teamwright.processes.agent_command_detection import limit_mark
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program
from tests.ui.test_requests import Waiting, asks, waiting
from tests.ui.test_terminal_session import at_terminal, bash, told

TRIES = str(Path(__file__).parent / "approver_tries.py")
TOUCH = bash("touch made")

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(limit_mark() is not None, reason="these tests run as a person, and an agent has started them"),
]


@dataclass
class Scene:
    """A session in which a request waits, and a second session whose agent runs `python tries.py WAY`."""

    victim: Waiting
    request: str
    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def line(self, way: str = "plain") -> str:
        """The command that tries everything."""
        given = self.folder / "given.json"
        given.write_text(json.dumps([str(self.victim.program.home), self.request, str(self.results)]))
        return shlex.join([sys.executable, TRIES, str(given), way])

    def bare(self, way: str = "plain") -> str:
        """The same in an environment that says nothing."""
        return f"env -i PATH={shlex.quote(os.environ['PATH'])} HOME={self.folder} {self.line(way)}"

    def agent(self, play: Callable[[dict], Answer | str], *args: str) -> None:
        """A session of an agent that plays this, in which everything is allowed, to its end."""
        with LoopbackModel.in_thread(play) as server:
            program = Program(self.victim.program.cwd, self.victim.program.home, server.url)
            # A sandbox would hide the other session from the command.
            free = ("--dangerously-skip-permissions", "--sandbox", "off")
            done = program.run("-p", "go", *free, *args, timeout=WAIT_S)
            assert done.returncode == 0, done.stderr

    def runs(self, command: str, *args: str, background: bool = False) -> None:
        """A session whose lead runs the command and waits for the results, which another process may write."""
        fifo = Path(f"{self.results}.fifo")
        os.mkfifo(fifo)
        waits = bash(f"read -t 60 _ < {fifo}")
        first = {"command": command, "description": "a step", "run_in_background": True}
        steps = [Answer(tools=[("Bash", first)]), waits] if background else [bash(f"{command} & read -t 60 _ < {fifo}")]

        def play(body: dict) -> Answer | str:
            return steps.pop(0) if steps else "Done."

        self.agent(play, *args)

    def refused(self) -> dict:
        """What was tried: all of it was refused, and nothing changed."""
        found = json.loads(self.results.read_text())
        for words, code, said in found["rows"]:
            assert code == 2, (words, code, said)
            assert said.startswith("teamwright: only a person "), (words, said)
            assert "[not-for-agents]" in said, (words, said)
        [one] = json.loads(self.victim.requests("--json").stdout)
        assert one["id"] == self.request
        assert not (self.victim.program.home / "trust.json").exists()
        return found


@pytest.fixture
def scene(repo: Path, tmp_path: Path) -> Iterator[Scene]:
    with waiting(repo, tmp_path / "home", asks(TOUCH), model="sonnet") as victim:
        yield Scene(victim, victim.opened()["id"], tmp_path)


WAYS: dict[str, Callable[[Scene], str]] = {
    "directly": lambda scene: scene.line(),
    "without the variable": lambda scene: f"env -u TEAMWRIGHT -u TEAMWRIGHT_PROCESS {scene.line()}",
    "without an environment": lambda scene: scene.bare(),
    "in a session of its own": lambda scene: f"setsid {scene.bare()}",
    "without a hangup": lambda scene: f"nohup {scene.bare()} >/dev/null 2>&1",
    "as a daemon": lambda scene: scene.bare("daemon"),
    "by a shell": lambda scene: f"bash -c {shlex.quote(scene.bare() + '; true')}",
    "at a terminal of its own": lambda scene: f"script -qefc {shlex.quote(scene.bare())} /dev/null >/dev/null",
    "by python": lambda scene: scene.bare("setsid"),
    "by xargs": lambda scene: f"echo plain | xargs {scene.bare('').removesuffix(chr(39) * 2)}",
    "by find": lambda scene: f"find . -maxdepth 0 -exec {scene.bare()} ';'",
    "with the limit raised": lambda scene: f"(ulimit -HSx unlimited; ulimit -HSx 7; exec {scene.bare('daemon')})",
}


@pytest.mark.slow_after(1)
@pytest.mark.finding("P14")
@pytest.mark.parametrize("way", WAYS)
def test_a_command_of_an_agent_has_no_authority_however_it_is_started(scene, way):
    scene.runs(WAYS[way](scene))
    found = scene.refused()
    assert (found["parent"] == 1) == (way in {"as a daemon", "with the limit raised"})


@pytest.mark.slow
@pytest.mark.finding("P14")
def test_a_background_command_of_an_agent_has_no_authority(scene):
    scene.runs(scene.bare(), background=True)
    scene.refused()


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_daemon_of_an_agent_has_no_authority_after_its_session_has_ended(scene):
    start, results = scene.folder / "start", Path(f"{scene.results}.fifo")
    os.mkfifo(start)
    os.mkfifo(results)
    line = f"read _ < {start}; {scene.bare('daemon')}"
    hidden = f"({line}) </dev/null >/dev/null 2>&1 &"  # without its environment, session and parents it is not found
    steps = [bash(f"(setsid env -i bash -c {shlex.quote(hidden)})")]
    scene.agent(lambda body: steps.pop(0) if steps else "Done.")
    start.write_text("go\n")
    assert results.read_text() == "done\n"
    scene.refused()


@pytest.mark.slow
@pytest.mark.finding("P14")
def test_a_command_of_a_sub_agent_has_no_authority(scene):
    call = {"description": "try it", "prompt": "Try it.", "subagent_type": "general-purpose"}
    command = bash(scene.bare())

    def play(body: dict) -> Answer | str:
        if told(body).strip().endswith("Try it."):
            return command
        return Answer(tools=[("Agent", call)]) if told(body).strip() == "go" else "Done."

    scene.agent(play)
    scene.refused()


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_command_of_a_member_with_its_own_process_has_no_authority(scene):
    call = {"description": "try it", "prompt": "Try it.", "name": "ada", "team_name": "crew"}
    create, command = Answer(tools=[("TeamCreate", {"team_name": "crew"})]), bash(scene.bare())

    def play(body: dict) -> Answer | str:
        text, everything = told(body), json.dumps(body["messages"])
        if "Try it." in text and "TeamCreate" not in everything:
            return command
        if text.strip() == "go":
            return create
        return (
            Answer(tools=[("Agent", call)]) if '"Agent"' not in everything and "TeamCreate" in everything else "Done."
        )

    scene.agent(play, "--backend", "detached")
    found = scene.refused()
    assert "ada" in found["rows"][0][2]


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_hook_has_no_authority_for_it_runs_what_agents_may_have_written(scene):
    scene.victim.program.settings(
        model="sonnet",
        hooks={"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": scene.bare()}]}]},
    )
    steps = [bash("true")]
    scene.agent(lambda body: steps.pop(0) if steps else "Done.")
    scene.refused()


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_server_of_mcp_and_its_children_have_no_authority(scene):
    server = {"command": "bash", "args": ["-c", f"{scene.bare()}; true"]}
    scene.agent(lambda body: "Done.", "--mcp-config", json.dumps({"mcpServers": {"tries": server}}))
    scene.refused()


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_what_a_command_of_an_agent_tried_is_an_event_of_its_session(scene):
    scene.runs(scene.line())
    [found] = [
        [json.loads(line) for line in log.read_text().splitlines()]
        for log in scene.victim.program.home.glob("projects/*/*/events.jsonl")
        if "was refused: only a person" in log.read_text()
    ]
    told_of = [event["text"] for event in found if "was refused: only a person" in event.get("text", "")]
    assert any("a command of team-lead (c1), process " in text and "answers requests" in text for text in told_of)
    assert len(told_of) == 12


# ── persons ──────────────────────────────────────────────────────────────────────────────────────────────────────


def allow(scene: Scene) -> list[str]:
    return [
        sys.executable,
        "-m",
        "teamwright",
        "--home",
        str(scene.victim.program.home),
        "requests",
        "allow",
        scene.request,
    ]


def ended_well(scene: Scene) -> None:
    assert "I was told" in scene.victim.ended()
    assert (scene.victim.program.cwd / "made").exists()


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_person_answers_while_a_command_of_an_agent_runs(scene):
    mark, stop = Mark(scene.folder / "mark"), scene.folder / "stop"
    os.mkfifo(stop)
    steps = [bash(f"echo here > {mark.path}; read -t 60 _ < {stop}")]
    with LoopbackModel.in_thread(lambda body: steps.pop(0) if steps else "Done.") as server:
        program = Program(scene.victim.program.cwd, scene.victim.program.home, server.url)
        process = program.start("-p", "go", "--dangerously-skip-permissions", "--sandbox", "off")
        mark.wait()
        done = subprocess.run(allow(scene), capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        stop.write_text("go\n")
        process.communicate(timeout=WAIT_S)
    ended_well(scene)


@pytest.mark.finding("P14")
def test_a_person_answers_at_a_terminal(scene):
    done = subprocess.run(
        ["script", "-qefc", shlex.join(allow(scene)), "/dev/null"], capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stdout
    ended_well(scene)


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_person_answers_by_a_line_of_the_shell_in_another_session(scene):
    home = str(scene.victim.program.home)
    with at_terminal(lambda body: "Done.", scene.victim.program.cwd, size=(40, 300), TEAMWRIGHT_HOME=home) as (
        person,
        _,
    ):
        person.says(f"!{shlex.join(allow(scene))}")
        person.sees("allowed: lead")
    ended_well(scene)


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_person_answers_in_a_pane_of_tmux(scene):
    tmux = ["tmux", "-f", "/dev/null", "-S", str(scene.folder / "tmux")]
    line = f"{shlex.join(allow(scene))}; echo $? > {scene.folder}/code; {shlex.join([*tmux, 'wait-for', '-S', 'over'])}"
    subprocess.run([*tmux, "new-session", "-d", line], check=True, timeout=WAIT_S)
    try:
        subprocess.run([*tmux, "wait-for", "over"], check=True, timeout=WAIT_S)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, timeout=WAIT_S)
    assert (scene.folder / "code").read_text().strip() == "0"
    ended_well(scene)


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_person_s_daemon_answers_without_terminal_parent_and_environment(scene):
    code = f"""
import os, subprocess, sys
sys.path.insert(0, {str(Path(TRIES).parent)!r})
from approver_tries import detach
detach()
done = subprocess.run({allow(scene)!r}, capture_output=True, text=True)
open({str(scene.folder / "said")!r}, "w").write(str(done.returncode) + done.stderr)
open({str(scene.folder / "over")!r}, "w").write("over")
"""
    mark = Mark(scene.folder / "over")
    environment = {"PATH": os.environ["PATH"], "HOME": str(scene.folder)}
    subprocess.run([sys.executable, "-c", code], env=environment, stdin=subprocess.DEVNULL, timeout=WAIT_S)
    mark.wait(WAIT_S)
    assert (scene.folder / "said").read_text() == "0"
    ended_well(scene)


@pytest.mark.finding("P14")
@pytest.mark.slow
def test_a_person_whose_process_has_the_number_of_a_recorded_command_is_no_agent(scene):
    [records] = _sessions(scene)
    (records / "processes").mkdir(exist_ok=True)
    code = """
import json, os, subprocess, sys
from pathlib import Path
from teamwright.processes.process_tree import boot_id, process_start
lead = int(sys.argv[1])
mark = "1.2." + "a" * 16
record = {"v": 1, "mark": mark, "boot": boot_id(), "by": {"pid": lead, "start": process_start(lead)}, "at": 1,
          "member": "ada", "call": "c1", "job": "", "output": "", "pid": os.getpid(),
          "start": sys.argv[2] or process_start(os.getpid())}
Path(sys.argv[3], "processes", "a" * 16 + ".json").write_text(json.dumps(record))
sys.exit(subprocess.run(sys.argv[4:]).returncode)
"""
    lead = str(scene.victim.process.pid)

    def tried(start: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", code, lead, start, str(records), *allow(scene)]
        return subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, start_new_session=True)

    refused = tried("")
    assert refused.returncode == 2 and "ada, call c1" in refused.stderr
    reused = tried("1")
    assert reused.returncode == 0, reused.stderr
    ended_well(scene)


def _sessions(scene: Scene) -> list[Path]:
    return [path.parent for path in scene.victim.program.home.glob("projects/*/*/events.jsonl")]
