"""A program that changes a directory with everything below it changes what rules forbid to change there."""

import os

import pytest

from teamwright.permissions.verdict import Mode, Verdict

DENIED = r"""
rm -r .
rm -r $PWD
rm -rf "$PWD/"
rm -r ../project
rm -rf ..
rm -r sub/..
cd sub && rm -r ..
rm -r s*
find . -delete
find -delete
find sub src -delete
find . ! -name x -delete
find . -delete -name x
find . -name '*.py' -delete
chmod -R 000 .
chmod --recursive 000 .
chown -hR root .
mv -f src ../outside
git checkout .
git restore .
git -C sub checkout ..
git clean -fdx .
rsync -a --delete sub .
rsync -a other/ .
cp -r other/. .
cp -a other/ .
mv -t ../outside src
"""
ALLOWED = r"""
rm -r sub
rm -rf sub/.
rm -r build
find sub -delete
find . -name '*.pyc' -delete
chmod 755 .
chmod -R 755 sub
mv sub/x.txt .
cp a.py .
cp -r other copy
cp -r other/. copy
rsync -a other/ sub
git checkout sub
touch .
"""


def lines(text):
    return text.strip().splitlines()


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(DENIED))
def test_a_rule_about_editing_holds_for_what_is_below_a_changed_directory(ground, line):
    decision = ground.run(line, Mode.BYPASS, deny=["Edit(src/**)"])
    assert decision.verdict is Verdict.DENY
    assert "Edit(src/**)" in decision.rule
    assert ground.run(line, allow=["Bash"], deny=["Edit(src/**)"]).verdict is Verdict.DENY


@pytest.mark.finding("P12")
@pytest.mark.parametrize("line", lines(ALLOWED))
def test_a_rule_about_editing_says_nothing_of_other_directories(ground, line):
    assert ground.run(line, Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P12")
def test_a_rule_about_a_name_counts_where_a_file_of_that_name_is(own_ground):
    assert own_ground.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"]).verdict is Verdict.ALLOW
    (own_ground.project / "sub" / "deep").mkdir()
    (own_ground.project / "sub" / "deep" / ".env").write_text("KEY=x\n")
    denied = own_ground.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"])
    assert denied.verdict is Verdict.DENY
    assert "deep/.env" in denied.reason


@pytest.mark.finding("P12")
def test_a_directory_with_too_many_files_to_look_through_is_denied(own_ground, monkeypatch):
    monkeypatch.setattr("teamwright.permissions.paths._MAX_ENTRIES", 10)
    for number in range(12):
        (own_ground.project / "sub" / str(number)).touch()
    assert own_ground.run("rm -r sub", Mode.BYPASS, deny=["Edit(.env)"]).verdict is Verdict.DENY
    assert own_ground.run("rm -r sub", Mode.BYPASS, deny=["Edit(src/**)"]).verdict is Verdict.ALLOW


def test_private_files_are_not_removed_with_a_directory_above_them(own_ground):
    above = os.path.dirname(own_ground.home)
    decision = own_ground.run(f"rm -r {above}", Mode.BYPASS)
    assert decision.verdict is Verdict.DENY
    assert decision.rule == "private files"
