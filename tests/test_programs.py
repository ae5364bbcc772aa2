"""Tests that lack a program are named at the end of a run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import PACKAGES, needs, reason, summary
from tests.support.waits import WAIT_S

SHELLS = "tests/ui/setup/test_completion.py"


@pytest.mark.finding("V2")
@pytest.mark.slow
def test_a_run_without_some_programs_says_how_many_tests_were_not_tried_and_what_installs_the_programs(tmp_path):
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", SHELLS, "-k", "fish or zsh"]
    environment = os.environ | {"PATH": str(tmp_path)}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("not tried")]
    assert line.endswith("To try them: apt-get install fish zsh")
    assert "fish (1), zsh (" in line


@pytest.mark.finding("V2")
def test_the_summary_counts_by_program_and_is_empty_when_nothing_lacked_a_program():
    reasons = ["Skipped: rg is not installed", "Skipped: rg is not installed", "Skipped: strace is not installed"]
    assert summary([*reasons, "Skipped: root reads everything"]) == (
        "not tried: 3 tests, which need rg (2), strace (1). To try them: apt-get install ripgrep strace"
    )
    assert summary(["Skipped: root reads everything"]) == ""


@pytest.mark.parametrize("program", PACKAGES)
def test_the_reason_of_each_program_is_found_by_the_summary(program):
    assert needs(program).kwargs["reason"] == reason(program)
    assert summary([f"Skipped: {reason(program)}"]).endswith(f"apt-get install {PACKAGES[program]}")


def test_ci_installs_each_of_these_programs():
    run = (Path(__file__).parent.parent / ".ci" / "run").read_text()
    assert not [pair for pair in (f"{program}:{PACKAGES[program]}" for program in PACKAGES) if pair not in run]
