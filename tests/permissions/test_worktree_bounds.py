"""An agent in a worktree changes nothing outside it, by no route, and commits on its own branch without a question."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.permissions.worktree_bounds import WorktreeBounds
from tests.support.repositories import git, make_repository

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


class Place:
    """A checkout, a worktree of it below a private directory, and policies for an agent in the worktree."""

    def __init__(self, top: Path) -> None:
        self.checkout = make_repository(top / "shop")
        self.home = top / "home"
        self.tree = self.home / "worktrees" / "shop" / "demo-ann"
        self.extra = top / "extra"
        self.extra.mkdir()
        git(self.checkout, "worktree", "add", "-q", "-b", "teamwright/demo/ann", str(self.tree))
        self.place = WorktreeBounds(self.tree, self.checkout, "teamwright/demo/ann")

    def session(self, mode: Mode = Mode.DEFAULT, **rules: list[str]) -> Policy:
        parsed = [
            rule
            for verdict, texts in rules.items()
            for rule in parse_rules(texts, Verdict(verdict), "t", self.checkout)
        ]
        scope = PermissionScope((self.checkout, self.extra), private=(self.home,), base=self.checkout)
        return Policy(mode, parsed, scope)

    def member(self, mode: Mode = Mode.DEFAULT, **rules: list[str]) -> Policy:
        session = self.session(mode, **rules)
        return Policy(mode, session.rules, session.scope, (session,)).in_worktree(self.place)

    def bash(self, policy: Policy, command: str) -> Verdict:
        return policy.decide("Bash", Access(command=command, cwd=self.tree)).verdict

    def write(self, policy: Policy, path: Path) -> Verdict:
        return policy.decide("Write", Access(writes=(path,))).verdict


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(Path(tmp_path).resolve())


def test_file_tools_work_inside_and_are_refused_outside_in_every_mode(place):
    link = place.tree / "link"
    link.symlink_to(place.checkout)
    for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS, Mode.DONT_ASK):
        member = place.member(mode, allow=["Edit", "Write"])
        assert place.write(member, place.tree / "a.txt") is ALLOW
        assert place.write(member, place.extra / "a.txt") is ALLOW
        for path in (place.checkout / "a.txt", link / "a.txt", place.home / "settings.json", place.tree / ".git"):
            assert place.write(member, path) is DENY, (mode, path)
    assert place.member().decide("Read", Access(reads=(place.tree / "a.txt",))).verdict is ALLOW


def test_a_refusal_names_the_copy_of_the_file_in_the_worktree(place):
    reason = place.member().decide("Write", Access(writes=(place.checkout / "src/a.py",))).reason
    assert str(place.tree / "src/a.py") in reason


OUTSIDE = [
    "echo x > {checkout}/a.txt",
    "cp a.txt {checkout}/b.txt",
    "rm {checkout}/a.txt",
    "sed -i s/a/b/ {checkout}/a.txt",
    "git -C {checkout} commit -m x",
    "git -C {checkout} add a.txt",
    "cd {checkout} && git commit -m x",
    "git --git-dir={checkout}/.git commit -m x",
    "git --git-dir {checkout}/.git --work-tree {checkout} add a.txt",
    "GIT_DIR={checkout}/.git git commit -m x",
    "export GIT_WORK_TREE={checkout}; git commit -am x",
    "GIT_INDEX_FILE={checkout}/.git/index git add a.txt",
    "tee link/a.txt",
    "rm -rf .git",
]


@pytest.mark.parametrize("command", OUTSIDE)
@pytest.mark.parametrize("mode", [Mode.ACCEPT_EDITS, Mode.BYPASS])
def test_shell_commands_that_change_something_outside_are_refused(place, mode, command):
    (place.tree / "link").symlink_to(place.checkout)
    member = place.member(mode, allow=["Bash"])
    assert place.bash(member, command.format(checkout=place.checkout)) is DENY


PLAIN = [
    "git add -A",
    "git add .",
    "git commit -m 'work'",
    "git commit -am 'work'",
    "git commit --amend --no-edit",
    "git add -A && git commit -q -m 'work'",
    "git -C {tree} commit -m work",
]


@pytest.mark.parametrize("command", PLAIN)
def test_add_and_commit_on_the_own_branch_do_not_ask(place, command):
    assert place.bash(place.member(), command.format(tree=place.tree)) is ALLOW
    elsewhere = Access(command=command.format(tree=place.checkout), cwd=place.checkout)
    assert place.session().decide("Bash", elsewhere).verdict is ASK


ASKED = [
    "git commit --no-verify -m x",
    "git commit -F /etc/passwd",
    "git commit",
    "git commit -m $X",
    "git -c core.editor=evil commit -m x",
    "git push",
    "git reset --hard HEAD~1",
    "git checkout main",
    "git branch -D main",
    "git add -f x.local",
    "PATH=/tmp git commit -m x",
]


@pytest.mark.parametrize("command", ASKED)
def test_other_git_commands_still_ask(place, command):
    assert place.bash(place.member(), command) is ASK


def test_commits_on_another_branch_ask(place):
    git(place.tree, "checkout", "-q", "-b", "side")
    assert place.bash(place.member(), "git commit -m x") is ASK


def test_a_member_that_plans_or_is_denied_git_does_not_commit(place):
    assert place.bash(place.member(Mode.PLAN), "git commit -m x") is DENY
    assert place.bash(place.member(deny=["Bash(git commit:*)"]), "git commit -m x") is DENY


def test_path_rules_of_the_repository_hold_in_the_worktree(place):
    rules = {"deny": ["Edit(secrets/**)", f"Edit(/{place.checkout}/locked.txt)"], "allow": ["Edit(src/**)"]}
    member = place.member(**rules)
    assert place.write(member, place.tree / "src/a.py") is ALLOW
    assert place.write(member, place.tree / "secrets/a.py") is DENY
    assert place.write(member, place.tree / "locked.txt") is DENY
    assert place.write(member, place.tree / "other.txt") is ASK


def test_the_policy_follows_the_session_and_never_exceeds_it(place):
    session = place.session(Mode.ACCEPT_EDITS)
    member = Policy(Mode.BYPASS, (), session.scope, (session,)).in_worktree(place.place)
    assert place.write(member, place.tree / "a.txt") is ALLOW
    session.change_mode(Mode.DEFAULT)
    assert place.write(member, place.tree / "a.txt") is ASK
    session.add_rules(*parse_rules(["Edit(*.txt)"], DENY, "t", place.checkout))
    assert place.write(member, place.tree / "a.txt") is DENY
    assert place.write(session, place.checkout / "b.py") is ASK


def test_an_agent_below_a_member_stays_in_its_worktree(place):
    member = place.member(Mode.ACCEPT_EDITS)
    below = Policy(Mode.ACCEPT_EDITS, (), replace(place.session().scope), (member,)).in_worktree(place.place)
    assert place.write(below, place.tree / "a.txt") is ALLOW
    assert place.write(below, place.checkout / "a.txt") is DENY
