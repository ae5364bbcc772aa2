"""Programs that run another program: with each option the real program runs what the table says, or nothing."""

import shutil
import string
import subprocess
from pathlib import Path

import pytest

from teamwright.permissions.shell.wrappers import unwrap
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
