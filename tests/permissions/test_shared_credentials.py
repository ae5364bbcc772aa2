"""A line runs in one sandbox: a program does not get the credentials that another program of the line names."""

import pytest

from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

RULES = ("Bash(pytest *)", "Bash(git push *)", "Bash(npm *)", "Bash(git add *)", "Bash(docker *)", "Bash(pip *)")
READ = frozenset({PolicyName.READ})


def decide(scratch, line: str, mode: Mode = Mode.DEFAULT, sandbox=READ):
    return scratch.policy(mode, allow=RULES).decide("Bash", Access(command=line, cwd=scratch.project, sandbox=sandbox))


@pytest.mark.parametrize(
    ("line", "who", "what"),
    [
        ("pytest -q; git push origin main", "pytest", "the ssh agent"),
        ("git push origin main && pytest -q", "pytest", "the ssh agent"),
        ("git push origin main | pytest -q", "pytest", "the ssh agent"),
        ("npm publish && git push origin main", "npm", "the ssh agent"),
        ("pytest -q; timeout 60 git push origin main", "pytest", "the ssh agent"),
        ("bash -c 'pytest -q; git push origin main'", "pytest", "the ssh agent"),
        ("pytest -q; docker ps -a", "pytest", "docker.sock"),
        ("pytest -q & git push origin main", "pytest", "the ssh agent"),
    ],
)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS])
def test_a_line_in_which_another_program_would_get_credentials_asks(own_scratch, line, who, what, mode):
    decision = decide(own_scratch, line, mode)
    assert decision.verdict is Verdict.ASK
    assert decision.reason.startswith(f"{who} would get") and what in decision.reason


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "git push origin main",
        "git add a.py && git push origin main",
        "cd src && git push origin main | tail -3",
        "cat a.py; git push origin main",
        "npm install && npm publish",
        "pip install x && pytest -q",
    ],
)
def test_programs_with_the_same_needs_and_commands_that_only_read_run_by_their_rules(own_scratch, line):
    assert decide(own_scratch, line).verdict is Verdict.ALLOW


def test_without_a_sandbox_and_in_the_mode_that_allows_everything_rules_decide(own_scratch):
    line = "pytest -q; git push origin main"
    assert decide(own_scratch, line, sandbox=frozenset()).verdict is Verdict.ALLOW
    assert decide(own_scratch, line, Mode.BYPASS).verdict is Verdict.ALLOW
