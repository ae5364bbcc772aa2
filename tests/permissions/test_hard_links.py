"""A command that writes to a file with another name may change a file outside, so a mode does not allow it."""

import os

import pytest

from teamwright.permissions.path_verdicts import HARD_LINKS
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName
from teamwright.tools.files import file_change
from tests.permissions.scratch import ScratchRepository

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
SANDBOX = frozenset({PolicyName.READ, PolicyName.WORK})


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """A project in which `hard` is a file outside, `sub/hard` is git's configuration, and `soft` leads to `hard`."""
    scratch = ScratchRepository(tmp_path_factory.mktemp("linked"))
    os.link(scratch.outside / "secret", scratch.project / "hard")
    os.link(scratch.project / ".git" / "config", scratch.project / "sub" / "hard")
    os.symlink("hard", scratch.project / "soft")
    return scratch


@pytest.mark.finding("3P6")
@pytest.mark.parametrize("line", ["cp a.py hard", "cp a.py sub/hard", "touch hard", "cp a.py soft", "touch hard; ls"])
def test_a_change_of_a_file_with_another_name_asks_where_the_mode_accepts_edits(linked, line):
    decision = linked.run(line, Mode.ACCEPT_EDITS)
    assert (decision.verdict, decision.rule) == (ASK, HARD_LINKS)
    assert "hard link" in decision.reason
    assert linked.run(line.replace("hard", "b.py").replace("soft", "b.py"), Mode.ACCEPT_EDITS).rule != HARD_LINKS
    assert linked.run(line, Mode.DONT_ASK).verdict is DENY
    assert linked.run(line, Mode.BYPASS).verdict is ALLOW


WRITERS = """
sed -i s/a/b/ {}
echo x > {}
echo x >> {}
echo x | tee {}
truncate -s 0 {}
dd if=a.py of={}
install a.py {}
rsync a.py {}
chmod 600 {}
chmod -R u+w sub
patch {} a.diff
perl -pi -e s/a/b/ {}
"""


@pytest.mark.finding("3P6")
@pytest.mark.parametrize("line", WRITERS.strip().splitlines())
def test_the_sandbox_does_not_answer_for_a_file_with_another_name(linked, line):
    def decide(name: str):
        access = Access(command=line.format(name), cwd=linked.project, sandbox=SANDBOX)
        return linked.policy(Mode.ACCEPT_EDITS).decide("Bash", access)

    assert decide("sub/hard").verdict is ASK
    assert decide("b.py").verdict is ALLOW or "{}" not in line or line.startswith(("dd", "patch", "rsync"))


@pytest.mark.finding("3P6")
def test_a_rule_for_the_path_or_for_the_whole_command_answers(linked):
    for rules in (["Edit(hard)"], ["Bash(touch hard)"], ["Bash(touch:*)", "Edit(hard)"], ["Bash"]):
        assert linked.run("touch hard", Mode.ACCEPT_EDITS, allow=rules).verdict is ALLOW, rules
    assert linked.run("touch hard", Mode.ACCEPT_EDITS, allow=["Bash(touch:*)"]).verdict is ASK
    assert linked.run("touch b.py", allow=["Bash(touch:*)"]).verdict is ALLOW
    assert linked.run("tee hard", allow=["Bash(tee:*)"]).verdict is ASK
    assert linked.run("tee hard", allow=["Bash(tee hard:*)"]).verdict is ALLOW


@pytest.mark.finding("3P6")
def test_directories_reads_and_programs_that_replace_a_name_are_not_asked_about(linked):
    assert linked.run("mkdir -p sub/new", Mode.ACCEPT_EDITS).verdict is ALLOW
    assert linked.run("cat hard").verdict is ALLOW
    assert linked.run("mv b.py hard", Mode.ACCEPT_EDITS).verdict is ALLOW
    assert linked.write("hard", mode=Mode.ACCEPT_EDITS).verdict is ALLOW


@pytest.mark.finding("3P6")
async def test_file_tools_replace_a_file_and_leave_its_other_names_as_they_are(tmp_path, monkeypatch):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("before")
    os.link(one, other)
    async with file_change.lock_file(one) as fd:
        file_change.write_file(one, b"after", fd)
    assert (one.read_text(), other.read_text()) == ("after", "before")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "no new name")

    os.link(other, tmp_path / "third")
    monkeypatch.setattr(os, "replace", refuse)
    async with file_change.lock_file(other) as fd:
        with pytest.raises(OSError, match="hard link"):
            file_change.write_file(other, b"after", fd)
    assert (tmp_path / "third").read_text() == "before"
