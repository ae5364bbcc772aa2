"""A headless run is done when its background commands are: it waits for them, or names those that it cuts off."""

import json

import pytest

from teamwright.processes.process_tree import list_processes
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program

pytestmark = [pytest.mark.finding("3F1"), pytest.mark.usefixtures("unconfined")]

BUILD = "until [ -e go ]; do sleep 0.02; done; echo OK > built.txt"
SKIP = ("-p", "go", "--dangerously-skip-permissions")
BASH = """
[[agent.{name}.turn]]
[[agent.{name}.turn.call]]
tool = "Bash"
input = {{ command = {command}, run_in_background = {background} }}
"""
START_BOB = """
[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Agent"
input = { description = "build", prompt = "Build it.", name = "bob" }
"""
REST = """
[[agent."*".otherwise]]
say = "Started."
"""


def script(command: str, *, background: bool = True, member: bool = False) -> str:
    name = "bob" if member else "lead"
    call = BASH.format(name=name, command=json.dumps(command), background=str(background).lower())
    return '[script]\nname = "build"\n' + (START_BOB if member else "") + call + REST


@pytest.fixture
def program(tmp_path, repo):
    made = Program(repo, tmp_path / "home")

    def written(text: str) -> Program:
        (tmp_path / "script.toml").write_text(text)
        made.env["TEAMWRIGHT_MODEL"] = f"scripted:{tmp_path / 'script.toml'}"
        return made

    return written


def model(program: Program) -> tuple[str, str]:
    return ("--model", program.env["TEAMWRIGHT_MODEL"])


def waits_and_is_done(program: Program) -> None:
    """The run says that it waits; only then may the command end. Its end is read before the run is done."""
    process = program.start(*SKIP, *model(program), "--verbose", "--output-format", "json")
    try:
        for line in process.stderr:
            if "waiting for background commands, 600 s at most: " in line:
                break
        else:
            pytest.fail("it did not wait")
        (program.cwd / "go").touch()
        out, err = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
    assert (process.returncode, (program.cwd / "built.txt").read_text()) == (0, "OK\n"), err
    assert json.loads(out)["team"]["cut_off"] == []


def test_a_run_waits_for_a_background_command_and_the_lead_reads_its_end(program):
    done = program(script(BUILD))
    waits_and_is_done(done)
    [file] = done.home.glob("projects/*/*.jsonl")
    assert file.read_text().count("completed with exit code 0") == 1


@pytest.mark.parametrize("command", [f"nohup sh -c '{BUILD}' > /dev/null 2>&1 &", f"({BUILD}) &"])
@pytest.mark.parametrize("background", [True, False])
@pytest.mark.slow_after(1)
@pytest.mark.finding("3F8")
def test_a_run_waits_for_processes_that_a_command_left_running(program, command, background):
    waits_and_is_done(program(script(command, background=background)))


@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow_after(0)
def test_a_run_waits_for_the_command_of_a_member_in_every_place(program, backend):
    done = program(script(BUILD, member=True))
    done.settings(members={"backend": backend})
    waits_and_is_done(done)


@pytest.mark.parametrize("member", [False, True])
@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow_after(1)
def test_a_command_that_outlasts_the_wait_is_named_and_the_run_is_cut_off(tmp_path, program, backend, member):
    mark = Mark(tmp_path / "pid")
    done = program(script(f"echo $$ > {mark.path}; exec sleep 300", member=member))
    done.settings(agents={"jobs_wait_s": 0.2}, members={"backend": backend})
    ended = done.run(*SKIP, *model(done), "--output-format", "json", "--strict")
    pid = int(mark.wait())
    assert ended.returncode == 5, ended.stderr
    owner = "bob" if member else "lead"
    [named] = json.loads(ended.stdout)["team"]["cut_off"]
    assert named.startswith(f"{owner}'s command b")
    assert "exec sleep 300" in named
    assert f"cut off at work: {named}" in ended.stderr
    [log] = (tmp_path / "home").glob("projects/*/*/events.jsonl")
    ends = [event for line in log.read_text().splitlines() if (event := json.loads(line)).get("type") == "run_ended"]
    assert ends[-1]["stop"] == "cut_off", ends
    assert pid not in {row.pid for row in list_processes()}


def test_a_daemon_that_a_command_started_is_no_work_of_the_run(tmp_path, program):
    pid = tmp_path / "pid"
    daemon = f"setsid sh -c 'echo $$ > {pid}; exec sleep 300' > /dev/null 2>&1 < /dev/null &"
    done = program(script(f"{daemon} until [ -s {pid} ]; do sleep 0.02; done", background=False))
    ended = done.run(*SKIP, *model(done))
    assert (ended.returncode, ended.stdout) == (0, "Started.\n"), ended.stderr
    assert int(pid.read_text()) not in {row.pid for row in list_processes()}
