"""Programs that run another program: with each option the real program runs what the table says, or nothing."""

import shutil
import string
import subprocess
from pathlib import Path

import pytest

from teamwright.permissions.verdict import Verdict
from teamwright.shell_lines.wrappers import unwrap
from tests.support.programs import PACKAGES, require
from tests.support.waits import WAIT_S

PROGRAMS = {
    "env": (),
    "nice": (),
    "nohup": (),
    "setsid": (),
    "stdbuf": (),
    "timeout": ("5",),
    "xargs": (),
    "ionice": (),
    "taskset": ("1",),
    "time": (),
}
"""Wrappers that are allowed with a command that only reads, with the words that stand before the command."""

LETTERS = string.ascii_letters + string.digits
OPTIONS = [*(f"-{letter}" for letter in LETTERS), *(f"-{letter}1" for letter in LETTERS), "-", "--", "-n5", "-oL"]


def understood(words: tuple[str, ...]) -> str:
    """The program that the table says is run; empty where the line asks."""
    found = unwrap(words)
    if found is None or not found.clear or found.guess or len(found.commands) != 1 or not found.commands[0]:
        return ""
    return found.commands[0][0] or ""


def run_by(words: list[str], directory: Path) -> str:
    """The program of the directory that the real program runs."""
    mark = directory / "mark"
    mark.unlink(missing_ok=True)
    env = {"PATH": f"{directory}:/usr/bin:/bin", "MARK": str(mark)}
    options = {"env": env, "cwd": directory, "stdin": subprocess.DEVNULL, "capture_output": True}
    subprocess.run(words, timeout=WAIT_S, check=False, **options)
    return mark.read_text().strip() if mark.exists() else ""


@pytest.mark.slow
@pytest.mark.finding("P3")
@pytest.mark.parametrize("box", [(), ("busybox",)], ids=["own", "busybox"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrapper_runs_what_the_table_says_with_each_option_that_does_not_ask(name, box, tmp_path):
    program = box[0] if box else name
    path = require(program) if program in PACKAGES else shutil.which(program)
    if path is None or (box and subprocess.run([*box, name, "--help"], capture_output=True, check=False).returncode):
        pytest.skip(f"there is no {' '.join((*box, name))} here")
    for program in ("one", "two"):
        script = tmp_path / program
        script.write_text(f'#!/bin/sh\n[ -e "$MARK" ] || echo {program} > "$MARK"\n')
        script.chmod(0o755)
    started = 0
    for option in OPTIONS:
        for words in ((option, *PROGRAMS[name], "one", "two"), (option, "1", *PROGRAMS[name], "one", "two")):
            meant = understood((name, *words))
            if meant:
                ran = run_by([path, *((name,) if box else ()), *words], tmp_path)
                assert ran in ("", meant), (name, words)
                started += ran == meant
    assert started


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh", "dash", "ksh", "mksh", "ash", "csh", "tcsh", "fish", "rbash"])
def test_a_deny_rule_reads_the_text_that_a_shell_is_given(shell):
    found = unwrap((shell, "-c", "git push"))
    assert found is not None and found.script == "git push"
    assert found.clear == (shell in {"bash", "sh", "dash"}), "other shells read a text differently"


WRAPPED = """
npx tsc --noEmit
timeout 5 make test
time make test
nohup make test
nice -n 5 make test
sudo make test
xargs wc -l
timeout 5 git push origin main
bash -c 'make test && make lint'
find . -name x -exec chmod 600 {} +
"""


@pytest.mark.finding("3F3")
@pytest.mark.parametrize("line", WRAPPED.strip().splitlines())
def test_a_rule_for_the_whole_line_answers_for_the_program_inside(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK
    assert scratch.run(line, allow=[f"Bash({line})"]).verdict is Verdict.ALLOW
    assert scratch.run(f"{line} more", allow=[f"Bash({line})"]).verdict is Verdict.ASK
    inside = next(
        word for word in line.split() if word in {"tsc", "make", "wc", "git", "chmod"} or word == "'make"
    ).strip("'")
    assert scratch.run(line, allow=[f"Bash({line})"], deny=[f"Bash({inside}:*)"]).verdict is Verdict.DENY
    assert scratch.run(line, allow=[f"Bash({line})"], ask=[f"Bash({inside}:*)"]).verdict is Verdict.ASK


@pytest.mark.finding("3F3")
def test_a_prefix_rule_that_names_wrapper_and_program_answers_for_both_and_no_more(scratch):
    for rule in ("Bash(npx tsc *)", "Bash(npx tsc:*)"):
        assert scratch.run("npx tsc --noEmit", allow=[rule]).verdict is Verdict.ALLOW
        assert scratch.run("npx tsc --outDir x", allow=[rule]).verdict is Verdict.ASK
        assert scratch.run("npx eslint .", allow=[rule]).verdict is Verdict.ASK
        assert scratch.run("tsc --noEmit", allow=[rule]).verdict is Verdict.ASK
        assert scratch.run("npx tsc --noEmit; rm a.py", allow=[rule]).verdict is Verdict.ASK
    assert scratch.run("npx tsc", allow=["Bash(npx:*)"]).verdict is Verdict.ASK
    assert scratch.run("sudo rm a.py", allow=["Bash(sudo:*)"]).verdict is Verdict.ASK
    assert (
        scratch.run("timeout 5 npm run build:deploy", allow=["Bash(timeout 5 npm run build:*)"]).verdict is Verdict.ASK
    )


RUNNERS = """
npx
pnpx
bunx
bun x
uvx
uv run
npm exec
npm x
pnpm exec
pnpm dlx
yarn dlx
poetry run
pipenv run
pipx run
bundle exec
timeout 5
time
nohup
nice -n 5
sudo
"""


@pytest.mark.finding("3F3")
@pytest.mark.parametrize("runner", RUNNERS.strip().splitlines())
def test_a_prefix_rule_for_a_runner_and_its_program_has_the_limits_of_the_program(scratch, runner):
    rule = [f"Bash({runner} tsc:*)"]
    assert scratch.run(f"{runner} tsc --noEmit", allow=rule).verdict is Verdict.ALLOW
    for line in ("tsc --outDir x", "eslint .", "tsc --noEmit; rm a.py", "tsc --noEmit > a.py"):
        assert scratch.run(f"{runner} {line}", allow=rule).verdict is Verdict.ASK, line
    exact = f"{runner} tsc --outDir x"
    assert scratch.run(exact, allow=[f"Bash({exact})"]).verdict is Verdict.ALLOW
    for word in ("deny", "ask"):
        verdict = scratch.run(exact, allow=[f"Bash({exact})"], **{word: ["Bash(tsc:*)"]}).verdict
        assert str(verdict).lower() == word


@pytest.mark.finding("3F3")
def test_a_deny_rule_holds_for_the_command_in_a_container(scratch):
    line = "docker exec -it web git push"
    assert scratch.run(line, allow=["Bash(docker exec:*)"], deny=["Bash(git push:*)"]).verdict is Verdict.DENY
    assert scratch.run("docker exec web ls", allow=["Bash(docker exec web ls:*)"]).verdict is Verdict.ALLOW
