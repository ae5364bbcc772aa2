"""What kinds of agents remember: where it lies, what a new life is told of it, who may write it."""

from pathlib import Path

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.errors import InvalidName, UsageError
from teamwright.skills.agent_memory import MAX_BYTES, MAX_LINES, memory_directory, memory_prompt


@pytest.fixture
def root(tmp_path):
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.promise("H4")
def test_each_scope_has_its_place(root, home):
    places = {scope: memory_directory(scope, "plug:tester", root, home) for scope in ("user", "project", "local")}
    assert places == {
        "user": home / "agent-memory" / "plug-tester",
        "project": root / ".teamwright" / "agent-memory" / "plug-tester",
        "local": root / ".teamwright" / "agent-memory-local" / "plug-tester",
    }
    assert "is not there yet" in memory_prompt("user", "tester", root, home)
    with pytest.raises(UsageError, match="not a memory scope"):
        memory_prompt("team", "tester", root, home)
    for name in ("..", "-x", ""):
        with pytest.raises(InvalidName):
            memory_directory("user", name, root, home)


@pytest.mark.promise("H4", "P6")
@pytest.mark.parametrize("text", ["a fact\n" * 5_000, "x" * 200 + "\n" + "y" * 100_000, "z\n" * 1_000_000])
def test_what_is_told_is_bounded(root, home, text):
    directory = memory_directory("project", "tester", root, home)
    directory.mkdir(parents=True)
    (directory / "MEMORY.md").write_text(text)
    told = memory_prompt("project", "tester", root, home)
    assert len(told.encode()) < MAX_BYTES + 2_000
    assert told.count("\n") < MAX_LINES + 40
    assert "cut after" in told or "cannot be read" in told


@pytest.mark.promise("H4", "F64")
def test_a_link_in_the_way_means_no_memory(root, home, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (root / ".teamwright").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"):
        memory_prompt("project", "tester", root, home)
    directory = memory_directory("user", "tester", root, home)
    directory.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret words")
    (directory / "MEMORY.md").symlink_to(tmp_path / "secret")
    assert "secret words" not in memory_prompt("user", "tester", root, home)


def policies(root: Path, home: Path, mode: Mode = Mode.DEFAULT, *rules):
    lead = Policy(mode, rules, PermissionScope(directories=(root,), private=(home,), base=root))
    agent = Policy(Mode.BUBBLE).narrow_to(lead)
    return lead, agent


def verdict(policy, tool, path, write=True):
    access = Access(writes=(path,)) if write else Access(reads=(path,))
    return policy.decide(tool, access).verdict


@pytest.mark.promise("H4", "F46")
@pytest.mark.parametrize("scope", ["user", "project", "local"])
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.DONT_ASK])
def test_exactly_that_directory_is_the_agents_own_to_write(root, home, tmp_path, scope, mode):
    lead, agent = policies(root, home, mode)
    mine = memory_directory(scope, "tester", root, home)
    mine.mkdir(parents=True)
    agent.allow_memory(mine)
    assert verdict(agent, "Write", mine / "MEMORY.md") is Verdict.ALLOW
    assert verdict(agent, "Edit", mine / "more" / "facts.md") is Verdict.ALLOW
    assert verdict(agent, "Read", mine / "MEMORY.md", write=False) is Verdict.ALLOW
    others = memory_directory(scope, "tester2", root, home) / "MEMORY.md"
    (mine / "out").symlink_to(tmp_path)
    for path in (others, mine.parent / "x.md", mine / ".." / "x.md", mine / "out" / "x.md", home / "trust.json", mine):
        assert verdict(agent, "Write", path) is not Verdict.ALLOW, path
    assert verdict(lead, "Write", mine / "MEMORY.md") is not Verdict.ALLOW
    sub = Policy(Mode.BUBBLE).narrow_to(agent)
    assert verdict(sub, "Write", mine / "MEMORY.md") is not Verdict.ALLOW, "whoever it starts is another"
    command = Access(command=f"echo x > {mine}/MEMORY.md", cwd=root)
    assert agent.decide("Bash", command).verdict is not Verdict.ALLOW


@pytest.mark.promise("H4", "G5")
def test_plan_mode_and_rules_hold_for_memory_too(root, home):
    mine = memory_directory("project", "tester", root, home)
    lead, agent = policies(root, home)
    agent.allow_memory(mine)
    lead.change_mode(Mode.PLAN)
    assert verdict(agent, "Write", mine / "MEMORY.md") is Verdict.DENY
    deny = parse_rules(["Edit(.teamwright/**)"], Verdict.DENY, "settings", root)
    _, agent = policies(root, home, Mode.DEFAULT, *deny)
    agent.allow_memory(mine)
    assert verdict(agent, "Write", mine / "MEMORY.md") is Verdict.DENY
