"""A program that the PATH finds in the project is not trusted because of its name."""

import os

import pytest

from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

USUAL = "/usr/local/bin:/usr/bin:/bin"
MODES = [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK]


@pytest.fixture
def binaries(own_scratch):
    """A directory of programs in the project, as that of an active virtual environment."""
    made = own_scratch.project / ".venv" / "bin"
    made.mkdir(parents=True)
    return made


def program(path, text="#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def verdict(scratch, command: str, path: str, mode: Mode = Mode.DEFAULT, sandbox=frozenset(), **rules) -> Verdict:
    access = Access(command=command, cwd=scratch.project, search_path=path, sandbox=sandbox)
    return scratch.policy(mode, **rules).decide("Bash", access).verdict


@pytest.mark.promise("G2")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["ls", "cat a.py | head", "env ls", "timeout 5 ls", "if true; then ls; fi"])
def test_a_known_name_is_not_allowed_when_the_project_has_a_program_of_that_name(own_scratch, binaries, mode, command):
    path = f"{binaries}:{USUAL}"
    assert verdict(own_scratch, command, path, mode) is Verdict.ALLOW
    for name in ("ls", "head"):
        program(binaries / name)
    assert verdict(own_scratch, command, path, mode) is not Verdict.ALLOW
    assert verdict(own_scratch, command, USUAL, mode) is Verdict.ALLOW
    assert verdict(own_scratch, command, f"{USUAL}:{binaries}", mode) is Verdict.ALLOW


def test_a_program_that_starts_others_may_be_the_projects_too(own_scratch, binaries):
    program(binaries / "timeout")
    assert verdict(own_scratch, "timeout 5 ls", f"{binaries}:{USUAL}") is Verdict.ASK
    assert verdict(own_scratch, "timeout 5 ls", f"{binaries}:{USUAL}", allow=["Bash(timeout 5 ls)"]) is Verdict.ALLOW


@pytest.mark.parametrize("command", ["ls", "less a.py", "printf x"])
def test_the_sandbox_does_not_answer_for_a_program_of_the_project(own_scratch, binaries, command):
    reading = frozenset({PolicyName.READ})
    assert verdict(own_scratch, command, f"{binaries}:{USUAL}", sandbox=reading) is Verdict.ALLOW
    program(binaries / command.split()[0])
    assert verdict(own_scratch, command, f"{binaries}:{USUAL}", sandbox=reading) is Verdict.ASK


def test_a_rule_of_the_person_allows_a_program_of_the_project(own_scratch, binaries):
    program(binaries / "ls")
    assert verdict(own_scratch, "ls", f"{binaries}:{USUAL}", allow=["Bash(ls)"]) is Verdict.ALLOW


@pytest.mark.parametrize("command", ["cp a.py .venv/bin/ls; ls", "mkdir -p .venv/bin/x && ls", "mv sub .venv; ls"])
def test_a_line_that_puts_a_program_onto_the_path_is_not_allowed(own_scratch, binaries, command):
    assert verdict(own_scratch, command, f"{binaries}:{USUAL}", Mode.ACCEPT_EDITS) is Verdict.ASK
    assert verdict(own_scratch, "mkdir -p other && ls", f"{binaries}:{USUAL}", Mode.ACCEPT_EDITS) is Verdict.ALLOW


def test_a_link_to_the_program_of_the_same_name_elsewhere_is_that_program(own_scratch, binaries):
    os.symlink("/bin/ls", binaries / "ls")
    os.symlink("/bin/sh", binaries / "cat")
    assert verdict(own_scratch, "ls", f"{binaries}:{USUAL}") is Verdict.ALLOW
    assert verdict(own_scratch, "cat a.py", f"{binaries}:{USUAL}") is Verdict.ASK


@pytest.mark.parametrize("entry", ["", ".", "bin"])
def test_an_entry_below_any_directory_may_have_any_program(own_scratch, entry):
    assert verdict(own_scratch, "ls", f"{entry}:{USUAL}") is Verdict.ASK
    assert verdict(own_scratch, "ls", f"{USUAL}:{entry}") is Verdict.ALLOW


def test_the_question_names_the_program(own_scratch, binaries):
    program(binaries / "ls")
    access = Access(command="ls", cwd=own_scratch.project, search_path=f"{binaries}:{USUAL}")
    reason = own_scratch.policy().decide("Bash", access).reason
    assert reason == f"ls is a program of the project: {binaries}/ls."
