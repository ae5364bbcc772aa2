"""A program that find runs is allowed when it only reads the files that find gives to it."""

import os

import pytest

from teamwright.permissions.shell_verdict import is_proven_read_only
from teamwright.permissions.verdict import Mode, Verdict

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY

READS = r"""
find src -name '*.py' -exec wc -l {} +
find . -type f -exec grep -n text {} \;
find src -type f -exec sed -n 1p {} + -exec head -1 {} \;
find src sub -type f -exec sort {} +
find src -type f -exec wc {} + | sort
x=src; find $x -type f -exec cat {} +
timeout 5 find src -type f -exec cat {} +
find src -exec echo {} \;
find src -type f -exec wc *.py {} +
"""
ASKS = r"""
find .. -type f -exec cat {} +
find ../project/.. -type f -exec cat {} +
find . -exec cat {} +
find link -exec cat {} \;
find link/ -type f -exec cat {} +
find -L . -type f -exec cat {} +
find . -type f -o -name link -exec cat {} +
find . -xtype f -exec cat {} +
find src -type f -exec cat ../outside/secret {} +
find src -type f -exec cat link/secret {} +
find "$X" -type f -exec cat {} +
find s* -type f -exec cat {} +
find src -type f -exec $X {} +
find src -type f -exec rm {} +
find src -type f -exec ./wc {} +
find src -type f -exec sort -o {} a.py \;
find src -type f -exec sed -i s/a/b/ {} +
find src -type f -exec sed {} a.py \;
find src -type f -exec xxd {} +
find src -type f -exec sh -c 'cat {}' \;
find src -type f -exec cat {} + -exec touch x \;
find src -type f -exec cat {} + -delete
find src -type f -execdir cat {} +
cd .. && find . -type f -exec cat {} +
"""


def lines(text):
    return text.strip().splitlines()


@pytest.mark.finding("P13")
@pytest.mark.parametrize("line", lines(READS))
def test_a_program_that_only_reads_what_find_finds_runs_unasked(scratch, line):
    for mode in (Mode.DEFAULT, Mode.PLAN, Mode.DONT_ASK):
        decision = scratch.run(line, mode)
        assert decision.verdict is ALLOW, decision.reason
    assert is_proven_read_only(line, scratch.project) is (line != lines(READS)[5])


@pytest.mark.finding("P13")
@pytest.mark.parametrize("line", lines(ASKS))
def test_a_program_that_does_more_with_what_find_finds_asks(scratch, line):
    assert scratch.run(line).verdict is ASK


@pytest.mark.finding("P13")
def test_each_link_that_find_may_give_to_a_program_is_judged(own_scratch):
    line = "find sub -exec cat {} \\;"
    os.symlink("../a.py", own_scratch.project / "sub" / "inside")
    assert own_scratch.run(line).verdict is ALLOW
    os.symlink(own_scratch.outside / "secret", own_scratch.project / "sub" / "beyond")
    assert own_scratch.run(line).verdict is ASK
    assert own_scratch.run("find sub -type f -exec cat {} \\;").verdict is ALLOW


@pytest.mark.finding("P13")
def test_rules_hold_for_what_find_runs(scratch):
    line = "find src -type f -exec cat {} +"
    assert scratch.run(line, deny=["Read(.env)"]).verdict is ASK
    assert scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is DENY
    assert scratch.run(line, deny=["Bash(cat:*)"]).verdict is DENY
    assert scratch.run(line, ask=["Bash(cat:*)"]).verdict is ASK
    assert scratch.run("find src -type f -exec wc .env {} +", deny=["Read(.env)"]).verdict is DENY
    assert scratch.run(line, allow=["Bash(find:*)"], ask=["Read(src/**)"]).verdict is ASK


@pytest.mark.parametrize("line", ["ls; sudo --odd rm a.py", "ls; xargs --odd rm a.py"])
def test_a_line_with_a_wrapper_of_unknown_options_may_not_run_beside_others(scratch, line):
    assert not is_proven_read_only(line, scratch.project)
