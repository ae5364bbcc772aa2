"""The lines that a rule `Unconfined(…)` runs outside of the sandbox: what else a line does stays confined."""

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

BOTH = frozenset({PolicyName.READ, PolicyName.WORK})


def decide(project, line: str, mode: Mode):
    rules = parse_rules(["Unconfined(make deploy)", "Unconfined(deployer *)"], Verdict.ALLOW, "user", project)
    policy = Policy(mode, rules, PermissionScope((project,), base=project))
    return policy.decide("Bash", Access(command=line, cwd=project, sandbox=BOTH))


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
@pytest.mark.parametrize("line", ["make deploy", "cd src && make deploy", "deployer a b 2>/dev/null"])
def test_a_line_that_such_a_rule_names_runs_outside(tmp_path, mode, line):
    (tmp_path / "src").mkdir()
    decision = decide(tmp_path, line, mode)
    assert decision.verdict is Verdict.ALLOW and decision.confinement is PolicyName.UNCONFINED


@pytest.mark.parametrize(
    "line",
    [
        "LD_PRELOAD=./x.so deployer a",
        "env LD_PRELOAD=./x.so deployer a",
        "export LD_PRELOAD=./x.so; deployer a",
        "PATH=.:$PATH deployer a",
        "make deploy > ~/.bashrc",
        "deployer a < ~/.ssh/id_rsa",
        "cat ~/.ssh/id_rsa; make deploy",
        "deployer $(cat ~/.ssh/id_rsa)",
        "make; make deploy",
    ],
)
def test_in_a_mode_that_allows_everything_a_line_with_more_than_the_named_command_is_confined(tmp_path, line):
    decision = decide(tmp_path, line, Mode.BYPASS)
    assert decision.verdict is Verdict.ALLOW and decision.confinement is PolicyName.WORK


@pytest.mark.parametrize("line", ["make deploy > x", "xargs deployer < f"])
def test_a_line_that_the_sandbox_allows_is_confined(tmp_path, line):
    decision = decide(tmp_path, line, Mode.DEFAULT)
    assert decision.rule == "sandbox" and decision.confinement is PolicyName.WORK
