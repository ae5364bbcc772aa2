"""The mark of agents' commands: carried by all that comes out of them, unnoticed, and by no other process."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.processes.agent_command_detection import find_agent_command, limit_mark, with_mark
from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command
from teamwright.processes.process_tree import boot_id, process_start
from tests.support.programs import require
from tests.support.waits import WAIT_S

SAYS = "from teamwright.processes.agent_command_detection import limit_mark; print(limit_mark())"
FINDS = (
    "from teamwright.processes.agent_command_detection import find_agent_command as f; "
    "print(f([]).fact if f([]) else '')"
)
MARK = [sys.executable, "-c", SAYS]

pytestmark = [
    pytest.mark.finding("P14"),
    pytest.mark.skipif(limit_mark() is not None, reason="an agent has started these tests"),
]


async def said(argv: list[str], *, by_agent: bool = True, env: dict[str, str] | None = None) -> str:
    output = ProcessOutput(10_000)
    command = ProcessCommand(argv, Path("/"), dict(os.environ) if env is None else env, is_for_agent=by_agent)
    outcome = await run_command(command, output, timeout_s=60)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output.strip()


@pytest.mark.parametrize("shell", ["", "bash", "bash --norc", "sh", "zsh", "zsh -f", "env -i bash", "setsid -w sh"])
@pytest.mark.slow_after(2)
async def test_a_command_of_an_agent_is_marked_in_every_shell(shell):
    if shell.startswith(("bash", "zsh")):
        require(shell.split()[0])
    argv = [*shell.split(), "-c", shlex.join(MARK)] if shell else MARK
    assert await said(argv) == str(os.getpid())


async def test_the_command_of_a_person_and_this_process_are_not_marked():
    assert await said(MARK, by_agent=False) == "None"
    assert limit_mark() is None
    assert find_agent_command([]) is None


@pytest.mark.parametrize("limit", ["unlimited", "5", "0"])
async def test_a_marked_process_stays_marked_whatever_it_does_with_the_limit(limit):
    changed = f"ulimit -HSx {limit} 2>/dev/null; {shlex.join(MARK)}"
    assert await said(["bash", "-c", changed]) == ("0" if limit != "unlimited" else str(os.getpid()))


async def test_a_program_gets_its_arguments_and_its_environment_as_they_are():
    env = {"PATH": os.environ["PATH"], "A-B": "odd", "BASH_FUNC_f%%": "() {  echo f\n}", "EMPTY": "", "LINES": "a\nb"}
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    given = ["", "a b", "$HOME", "'\"", "-c", "\n", "--"]
    arguments, seen = json.loads(await said([sys.executable, "-c", code, *given], env=env))
    assert arguments == given
    assert {name: seen[name] for name in env} == env
    assert seen["TEAMWRIGHT"] == "1"


LINES = ["echo $0", "echo a; echo b", "# nothing\necho c", "cat <<X\nd\nX", "f() { echo e; }\nf", "&&", "no\nsuch"]


@pytest.mark.parametrize("line", LINES)
async def test_a_line_of_bash_ends_as_it_did_without_the_mark(line):
    ended = []
    for by_agent in (True, False):
        output, errors = ProcessOutput(10_000), ProcessOutput(10_000)
        command = ProcessCommand(["bash", "-c", line], Path("/"), dict(os.environ), is_for_agent=by_agent)
        outcome = await run_command(command, output, errors, timeout_s=60)
        said = [one for one in outcome.errors.splitlines() if not one.endswith("&&'")]  # the line as it was given
        ended.append((outcome.exit_code, outcome.output, said))
    assert ended[0] == ended[1]


def test_a_program_that_there_is_not_is_an_error_before_anything_starts(tmp_path):
    with pytest.raises(FileNotFoundError) as problem:
        with_mark(["no-such-program-here", "-c", "true"], tmp_path, {"PATH": os.environ["PATH"]})
    assert problem.value.filename == "no-such-program-here"
    (tmp_path / "there").write_text("#!/bin/sh\n")
    (tmp_path / "there").chmod(0o755)
    assert with_mark(["./there"], tmp_path, {})[-1] == "./there"


@pytest.mark.parametrize(
    "argv", [["bash", "script.sh", "-c", "x"], ["bash", "-c"], ["bash", "--", "-c", "x"], ["bash"]]
)
def test_only_the_line_that_a_bash_is_given_is_changed(argv, tmp_path):
    assert with_mark(argv, tmp_path, {"PATH": os.environ["PATH"]})[-len(argv) :] == argv


@pytest.mark.skipif(sys.platform != "linux", reason="the environment of another process can be read there")
@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("{program}", "variable"),
        ("env -u TEAMWRIGHT {program}; true", "process"),
        ("setsid -w env -i PATH={path} {program}; true", "process"),
        ("env -i PATH={path} bash -c '{program}; true'; true", "process"),
    ],
)
@pytest.mark.slow_after(1)
def test_where_the_limit_cannot_be_set_the_variable_and_the_ancestors_decide(line, fact):
    program = shlex.join([sys.executable, "-c", FINDS]).replace("'", "'\\''") if "bash -c" in line else ""
    whole = line.format(program=program or shlex.join([sys.executable, "-c", FINDS]), path=os.environ["PATH"])
    environment = {**os.environ, "TEAMWRIGHT": "1"}
    done = subprocess.run(["bash", "-c", whole], env=environment, capture_output=True, text=True, timeout=WAIT_S)
    assert done.stdout.strip() == fact, done.stderr


@pytest.mark.parametrize("pid", ["", ',"pid":0,"start":""', ',"pid":-1,"start":""', ',"pid":{own},"start":"1"'])
def test_a_record_without_the_number_of_its_process_makes_no_person_an_agent(tmp_path, pid):
    boot, start = json.dumps(boot_id()), json.dumps(process_start(os.getpid()))
    mark = "a" * 16
    records = tmp_path / "processes"
    records.mkdir()
    by = f'{{"pid":{os.getpid()},"start":{start}}}'
    number = pid.replace("{own}", str(os.getpid()))
    text = f'{{"v":1,"mark":"1.2.{mark}","boot":{boot},"by":{by},"at":1{number}}}'
    (records / f"{mark}.json").write_text(text)
    assert find_agent_command([tmp_path]) is None
