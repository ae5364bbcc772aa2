"""A line that is proven to read opens no file outside and leaves nothing behind."""

import pytest

from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

ALLOW, ASK = Verdict.ALLOW, Verdict.ASK


@pytest.mark.finding("3P11")
@pytest.mark.parametrize(
    "line",
    [
        *("date -d 'TZ=\"/etc/passwd\" 9:00'", "date --date='TZ=\":/etc/passwd\" now'", "date -d ' TZ=\"../x\" now'"),
        *("find . -newermt 'TZ=\"/etc/passwd\" now'", "TZ=/etc/passwd date", "TZ=:/etc/passwd ls -l"),
        *("env TZ=/etc/passwd date", "export TZ=/etc/passwd; date", "touch -d 'TZ=\"/etc/passwd\" now' a.py"),
    ],
)
def test_a_time_zone_may_name_any_file(scratch, line):
    assert scratch.run(line, Mode.ACCEPT_EDITS).verdict is ASK
    assert scratch.run("date -d '2026-01-01 9:00'").verdict is ALLOW


@pytest.mark.finding("3P11")
@pytest.mark.parametrize(
    "line",
    ["npm -v", "npm --version", "cargo -V", "rustc --version", "go version", "pip --version", "yarn -v", "pnpm -v"],
)
def test_the_version_of_a_program_that_writes_state_is_read_only_where_the_sandbox_holds_it_to_that(scratch, line):
    assert scratch.run(line).verdict is ASK
    held = Access(command=line, cwd=scratch.project, sandbox=frozenset({PolicyName.READ}))
    decision = scratch.policy().decide("Bash", held)
    assert (decision.verdict, decision.confinement) == (ALLOW, PolicyName.READ)
    more = Access(command=f"{line} x", cwd=scratch.project, sandbox=frozenset({PolicyName.READ}))
    assert scratch.policy().decide("Bash", more).verdict is ASK
    assert scratch.run("node --version").verdict is ALLOW
