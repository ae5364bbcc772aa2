"""bash itself as the judge: what is allowed as reading, run for real, changes nothing."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from tests.support.examples import examples
from tests.support.waits import WAIT_S

PIECES = [
    *("touch MARK", "touch", "MARK", "echo", "echo x", "cat a", "ls", "true", "cd sub", "cd ..", "find .", "xargs"),
    *(" ", " ", " ", "\n", "\\\n", "\t", ";", "&&", "||", "|", "&", "!", "#", "\\", "\r"),
    *('"', "'", "`", "$(", ")", "(", "{ ", "; }", "$((", "))", "${x:-", "}", "$'", "<(", "[[ ", " ]]", "[ ", " ]"),
    *("<<EOF\n", "\nEOF\n", "<<'E'\n", "\nE\n", "<<<", ">", "2>&1", "> MARK", ">/dev/null", "<a", "*", "~", "=", "a=1"),
    *("if true; then ", "; fi", "for i in 1; do ", "; done", "case x in x) ", ";; esac", "time ", "eval ", "exec "),
    *(
        "bash -c ",
        "env ",
        "timeout 5 ",
        "command ",
        "x() { ",
        "-exec ",
        "\\;",
        "$x",
        "$1",
        "sed -n ",
        "awk ",
        "sort -o ",
    ),
]


class Sandbox:
    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        (self.root / "sub").mkdir()
        (self.root / "a").write_text("a\n")
        self.policy = Policy(scope=PermissionScope((self.root,), base=self.root))
        denied = parse_rules(["Bash(touch:*)"], Verdict.DENY, "denying", self.root)
        self.denying = Policy(Mode.BYPASS, denied, PermissionScope((self.root,), base=self.root))
        self.before = self.listing()

    def listing(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def verdict(self, command: str) -> Verdict:
        return self.policy.decide("Bash", Access(command=command, cwd=self.root)).verdict

    def run(self, command: str) -> None:
        subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    return Sandbox(tmp_path_factory.mktemp("sandbox"))


commands = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
few = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
EXAMPLES = 300


@pytest.mark.promise("G1", "P7")
@settings(max_examples=examples(EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(command=commands)
def test_what_is_allowed_as_reading_changes_nothing_when_bash_runs_it(sandbox, command):
    if sandbox.verdict(command) is Verdict.ALLOW and "\0" not in command:
        sandbox.run(command)
        assert sandbox.listing() == sandbox.before, command


@pytest.mark.promise("G2", "P7")
@settings(max_examples=examples(EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=few, after=few)
def test_what_a_deny_rule_names_does_not_happen_although_everything_else_may(sandbox, before, after):
    command = f"{before}touch MARK{after}"
    if sandbox.denying.decide("Bash", Access(command=command, cwd=sandbox.root)).verdict is Verdict.ALLOW:
        sandbox.run(command)
        made_by_touch = "MARK" in sandbox.listing() and not re.search(r">\s*MARK|sort -o", command)
        for path in sandbox.root.rglob("*"):
            if path.is_file() and path.name != "a":
                path.unlink()
        assert not made_by_touch, command


@pytest.mark.promise("G1")
def test_the_judge_would_notice(sandbox, tmp_path):
    own = Sandbox(tmp_path)
    own.run("true && touch MARK")
    assert own.listing() != own.before
