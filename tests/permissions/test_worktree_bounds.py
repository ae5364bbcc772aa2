"""An agent in a worktree changes nothing outside it, by no route, and commits on its own branch without a question."""

import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.permissions.decision_context import OwnedPaths, PathOwnership, PermissionScope
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


OWN_FILES = [
    *("git checkout -- .", "git checkout .", "git checkout HEAD -- .", "git checkout -- :/", "cd d && git restore .."),
    *(
        "git restore .",
        "git restore --staged --worktree .",
        "git restore -s HEAD .",
        "git checkout -- *",
        "git rm -rf d",
    ),
    *("git clean -fd", "git clean -ffdx", "git clean -fd .", "git -C d clean -fd ..", "cd d && git clean -fd"),
]


@pytest.mark.parametrize("command", OWN_FILES)
@pytest.mark.slow_after(4)
def test_git_restores_and_cleans_all_files_of_the_own_worktree(place, command):
    (place.tree / "d").mkdir()
    assert place.bash(place.member(Mode.BYPASS), command) is ALLOW
    assert place.bash(place.member(allow=["Bash"]), command) is ALLOW
    owned = PathOwnership((OwnedPaths.parse("writer", "docs/**", "team.toml:1", place.checkout),), strict=True)
    fenced = PermissionScope((place.tree,), base=place.tree, ownership=owned, worktree=place.place)
    if "rm" not in command and not command.startswith("cd d && git clean"):
        assert place.bash(Policy(Mode.BYPASS, (), fenced), command) is DENY


NOT_OWN_FILES = [
    *(
        "git clean -fd .git",
        "git checkout -- .git",
        "git restore ..",
        "git checkout -- {checkout}",
        "git clean -fd link",
    ),
    *("cd link && git clean -fd", "git -C link clean -fd", "git -C {checkout} checkout -- ."),
    *(
        "git -C .. clean -fd",
        "git --work-tree=.. clean -fd",
        "GIT_WORK_TREE=.. git clean -fd",
        "export GIT_DIR=x; git restore .",
    ),
    *("git --git-dir={checkout}/.git clean -fd", "rm -rf .", "rm -rf {tree}", "mv . ../x", "find . -delete"),
    *("git rm -rf .", "git rm -rf :/", "git mv . x", "git init .", "git checkout -- . && rm -rf .git"),
]


@pytest.mark.parametrize("command", NOT_OWN_FILES)
@pytest.mark.slow_after(4)
def test_no_path_of_git_reaches_further_than_the_files_of_the_own_worktree(place, command):
    (place.tree / "link").symlink_to(place.checkout)
    line = command.format(checkout=place.checkout, tree=place.tree)
    for mode in (Mode.DEFAULT, Mode.BYPASS):
        assert place.bash(place.member(mode, allow=["Bash"]), line) is DENY


@pytest.mark.parametrize(
    "command", ["git rm -rf d", "git rm -rf 'd/*'", "cd d && git rm -rf e", "git rm -r :/d", "git rm -r ':!x'"]
)
def test_git_rm_does_not_reach_the_checkout_by_a_link_in_the_place_of_a_directory(place, command):
    (place.tree / "d" / "e").mkdir(parents=True)
    assert place.bash(place.member(Mode.BYPASS), command) is ALLOW
    (place.tree / "d" / "e" / "f").symlink_to(place.checkout)
    assert place.bash(place.member(Mode.BYPASS), command) is DENY


@pytest.mark.parametrize("command", ["git checkout -- .", "git restore .", "git clean -ffdxq"])
def test_git_itself_keeps_what_a_link_in_the_worktree_leads_to(place, command):
    (place.checkout / "d").mkdir()
    (place.checkout / "d" / "a").write_text("one")
    git(place.checkout, "add", "d")
    git(place.checkout, "commit", "-qm", "d")
    git(place.tree, "reset", "-q", "--hard", git(place.checkout, "rev-parse", "HEAD").strip())
    shutil.rmtree(place.tree / "d")
    (place.tree / "d").symlink_to(place.checkout / "d")
    (place.checkout / "d" / "a").write_text("two")
    (place.checkout / "d" / "new").write_text("new")
    git(place.tree, *command.split()[1:])
    assert (place.checkout / "d" / "a").read_text() == "two"
    assert (place.checkout / "d" / "new").exists()
    assert (place.tree / ".git").exists()


@pytest.mark.parametrize("command", OUTSIDE)
@pytest.mark.parametrize("mode", [Mode.ACCEPT_EDITS, Mode.BYPASS])
@pytest.mark.slow_after(4)
def test_shell_commands_that_change_something_outside_are_refused(place, mode, command):
    (place.tree / "link").symlink_to(place.checkout)
    member = place.member(mode, allow=["Bash"])
    assert place.bash(member, command.format(checkout=place.checkout)) is DENY


SHARED = [
    *("git branch -f main HEAD", "git branch -D main", "git branch -m main old", "git update-ref refs/heads/main HEAD"),
    *(
        "git push . HEAD:main",
        "git fetch . HEAD:main",
        "git fetch origin +x:main",
        "git send-pack {checkout} HEAD:main",
    ),
    *("git checkout -B main", "git checkout --ignore-other-worktrees main", "git switch -C main", "git stash drop"),
    *("git tag -d v1", "git gc --prune=now", "git reflog expire --all", "git rebase --update-refs HEAD~2"),
    *("git config core.hooksPath hooks", "git config --worktree core.worktree {checkout}", "git remote set-url o x"),
    *("git worktree prune", "git worktree repair {checkout}", "git symbolic-ref HEAD refs/heads/main"),
]
PROGRAMS = [
    *("make -C {checkout}", "make -C link", "npm --prefix {checkout} install", "uv --directory {checkout} sync"),
    *("black {checkout}", "sqlite3 {checkout}/db 'drop table t'", "go -C {checkout} build", "make -C ../../../../shop"),
    *("python3 -c \"open('{checkout}/a.txt', 'w').write('x')\"", "git apply --unsafe-paths --directory={checkout} p"),
    *("cargo build --manifest-path={checkout}/Cargo.toml", "vim -c ':w {checkout}/x' a.txt"),
    *("echo x > /proc/self/cwd/../../../../shop/a.txt", "docker run -v {checkout}:/x image"),
]


@pytest.mark.parametrize("command", [*SHARED, *PROGRAMS])
@pytest.mark.slow_after(3)
def test_a_change_of_shared_git_state_or_by_a_program_that_names_the_checkout_asks_a_person_in_every_mode(
    place, command
):
    (place.tree / "link").symlink_to(place.checkout)
    line = command.format(checkout=place.checkout)
    for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS):
        decision = place.member(mode, allow=["Bash"]).decide("Bash", Access(command=line, cwd=place.tree))
        assert (decision.verdict, decision.needs_person) == (ASK, True), mode
    assert place.bash(place.member(Mode.DONT_ASK, allow=["Bash"]), line) is DENY


FREE = [
    *("git branch topic", "git branch -D teamwright/demo/ann", "git fetch origin", "git push origin HEAD"),
    *("git config --get user.name", "git worktree list", "git reflog", "git merge main", "git pull origin main"),
    *("source {checkout}/.venv/bin/activate", "{checkout}/.venv/bin/python -m pytest", "diff {checkout}/a.txt a.txt"),
    *("cp {checkout}/.env .env", "make test", "python3 -c 'print(1)'", "git fetch origin x:refs/remotes/origin/x"),
    *("git checkout -b topic", "git switch -c topic", "git checkout -b topic HEAD~0", "git checkout a.txt"),
    *("git checkout -- a.txt", "git checkout main -- a.txt", "git checkout main a.txt", "git checkout --detach main"),
    *("git checkout teamwright/demo/ann", "git reset --hard HEAD", "git rebase main", "git cherry-pick main"),
    *("git stash list", "git tag", "git tag -l 'v*'", "git notes show", "git remote -v", "git submodule status"),
    *("git branch -vv", "git branch -a --contains HEAD", "git branch --list 'x*'", "git -c user.name=x commit -m x"),
    *('git commit -m "$(cat a.txt)"', "export FOO=$(date); git commit -m x", 'env FOO="$X" git commit -m x'),
    *(
        "source plain.sh && git commit -m x",
        "git status; source paths.sh && git commit -m x",
        '"$PYTHON" -m pytest',
        "git fetch",
        "git pull --rebase",
        "git log $X",
    ),
    *('for f in *.txt; do git add "$f"; done', "git init sub", "git lfs track '*.bin'", "git rm -q a.txt", "git push"),
    *("git add -A && git commit -qm 'x' && git log --oneline | head -3", "git clean -n", "git revert --no-edit HEAD"),
]


LOCATED = [
    *("export GIT_DIR=$(git rev-parse --git-common-dir); git commit -m x", "declare -x GIT_DIR=$X; git commit -m x"),
    *('env GIT_DIR="$(git rev-parse --git-common-dir)" git commit -m x', "typeset -x GIT_DIR=$X; git commit -m x"),
    *('G=$(git rev-parse --git-common-dir); git --git-dir="$G" commit -m x', 'git -C "$X" commit -m x'),
    *("P=$(cat .git); git --git-dir=${P%/worktrees*} commit -m x", "git --git-dir $X commit -m x", 'git "$X" -m x'),
    *("export ${N}=x; git commit -m x", "export $(cat f); git commit -m x", "env $X git commit -m x"),
    *("exec env GIT_DIR=$G git commit -m x", "nohup env GIT_INDEX_FILE=$G git add a.txt", "GIT_DIR=$X git commit -m x"),
    *("set -a; GIT_DIR=$X; git commit -m x", "read GIT_DIR < a.txt; export GIT_DIR; git commit -m x"),
    *("for GIT_DIR in a b; do git commit -m x; done", "printf -v GIT_DIR %s x; set -a; git commit -m x"),
    *("f() { git commit -m x; }; GIT_DIR=$X f", "declare -n r=GIT_DIR; export r=x; git commit -m x"),
    *("source sets.sh; git commit -m x", ". ./sets.sh && git commit -m x", 'source "$X"; git commit -m x'),
    *('eval "$X"; git commit -m x', "$X commit -m x", '"$X"', "git --bare commit -m x"),
    *(
        "git -c remote.o.url=. push o HEAD:main",
        "git -c alias.x='!touch y' x",
        "git --config-env=remote.o.url=X push o",
    ),
    *("xargs -I{} git --git-dir={} commit -m x < a.txt", "find . -exec git -C {} commit -m x \\;"),
    "mkdir -p n && echo 'gitdir: {checkout}/.git' > n/.git; cd n && git commit -qam x",
    "mkdir -p n/refs n/objects; echo {checkout}/.git > n/commondir; cd n; git commit -m x",
    *("cp sets.sh other/.git; cd other; git commit -m x", "ln -s {checkout}/.git n.git; mv n.git n/.git"),
    *("cd other && git commit -m x", "git -C other commit -m x"),
    *("source missing.sh; git commit -m x", "source hidden.sh; git commit -m x", ". ./nameref.sh; git commit -m x"),
    *("cp sets.sh plain.sh; . ./plain.sh; git commit -m x", "echo x > plain.sh; . ./plain.sh; git commit -m x"),
    *("make plain.sh && source plain.sh && git commit -m x", "declare -n r=$X; export r=x; git commit -m x"),
]


@pytest.mark.finding("3W5")
@pytest.mark.parametrize("command", LOCATED)
@pytest.mark.slow_after(6)
def test_a_git_directory_that_only_the_shell_knows_is_never_used_without_a_person(place, command):
    (place.tree / "sets.sh").write_text(f"export GIT_DIR={place.checkout}/.git\n")
    (place.tree / "plain.sh").write_text("export PYTHONPATH=src\n")
    (place.tree / "hidden.sh").write_text("export A=1 ${N}_DIR=x\n")
    (place.tree / "nameref.sh").write_text("declare -n r=$N; export r=x\n")
    (place.tree / "other").mkdir()
    (place.tree / "other" / ".git").write_text(f"gitdir: {place.checkout}/.git\n")
    for mode in (Mode.ACCEPT_EDITS, Mode.BYPASS):
        decision = place.member(mode, allow=["Bash"]).decide("Bash", Access(command=command, cwd=place.tree))
        assert decision.verdict is DENY or (decision.verdict, decision.needs_person) == (ASK, True), mode


MOVED = [
    *("git checkout theirs", "git switch theirs", "git checkout theirs && git commit --amend -m x", "git checkout -"),
    *("git checkout theirs; git cherry-pick main", "git checkout @{-1}", "git switch -", "git checkout $X"),
    *(
        "git checkout packed",
        "git checkout the*",
        "git checkout theirs --",
        "git checkout theirs $X",
        "git switch -q theirs",
    ),
    *("git checkout only-remote", "git checkout -t origin/only-remote", "git switch --guess only-remote"),
    *("git checkout -b new origin/only-remote", "git branch new origin/only-remote", "git switch -c new theirs"),
    *(
        "git rebase main theirs",
        "git rebase --onto main HEAD~1 theirs",
        "git rebase --root theirs",
        "git rebase --update-r",
    ),
    *("git tag v2", "git tag -a v2 -m x", "git notes add -m x", "git branch --del theirs", "git branch --force theirs"),
    *("git branch -c theirs copy", "git branch --cop theirs copy", "git stash", "git stash push", "git stash -u"),
    *("git checkout --force-c theirs", "git bisect start", "git pack-refs --all"),
    *("git branch --track --no-track -D theirs", "git branch --track new theirs", "git tag --sort=refname v2"),
    *(
        "git switch --conflict merge theirs && git commit --amend",
        "git checkout --conflict=merge theirs",
        "git stash -q",
    ),
]
SETTINGS = [
    *("git fetch --depth 1", "git fetch --depth=1 origin", "git pull --unshallow", "git fetch --deep 3", "git pull -p"),
    *("git fetch --shallow-since=2020-01-01", "git fetch --filter=blob:none origin", "git fetch --set-upstream origin"),
    *("git branch --set-upstream-to=origin/main", "git branch -u origin/main", "git branch --unset-upstream"),
    *("git branch --set-up origin/main", "git branch --edit-description", "git push -u origin HEAD"),
    *(
        "git push --set-up origin HEAD",
        "git remote add x y",
        "git remote set-url origin y",
        "git remote set-head o main",
    ),
    *(
        "git config user.name x",
        "git config --global user.name x",
        "git config --unset user.name",
        "git config set a.b c",
    ),
    *("git submodule init", "git submodule sync", "git submodule update --init", "git submodule deinit -f x"),
    *("git gc", "git repack -ad", "git prune", "git maintenance run", "git reflog expire --all", "git prune-packed"),
    *(
        "git replace HEAD HEAD~1",
        "git update-ref -d refs/heads/theirs",
        "git worktree list --porcelain; git worktree lock .",
    ),
    *(
        "git lfs install",
        "git lfs prune",
        "git rerere clear",
        "git sparse-checkout set src",
        "git sparse-checkout disable",
    ),
    *(
        "git fetch --tags",
        "git fetch -f origin x:refs/remotes/origin/x",
        "git init",
        "git undo",
        "git update-server-info",
    ),
]


@pytest.mark.finding("3W11")
@pytest.mark.finding("3W5")
@pytest.mark.parametrize("command", [*MOVED, *SETTINGS])
@pytest.mark.slow_after(6)
def test_a_branch_that_the_agent_did_not_make_and_settings_of_the_repository_ask_a_person(place, command):
    git(place.checkout, "branch", "theirs")
    git(place.checkout, "branch", "packed")
    git(place.checkout, "pack-refs", "--all")
    git(place.checkout, "branch", "-f", "theirs", "HEAD")
    git(place.checkout, "update-ref", "refs/remotes/origin/only-remote", "HEAD")
    for mode in (Mode.ACCEPT_EDITS, Mode.BYPASS):
        decision = place.member(mode, allow=["Bash"]).decide("Bash", Access(command=command, cwd=place.tree))
        assert decision.verdict is DENY or (decision.verdict, decision.needs_person) == (ASK, True), mode


@pytest.mark.finding("3W5")
@pytest.mark.parametrize("command", ["git commit -m x", "git reset --hard HEAD~1", "git merge main", "git rebase main"])
def test_a_command_that_moves_a_branch_of_the_person_asks_however_it_was_checked_out(place, command):
    git(place.checkout, "branch", "theirs")
    log = place.checkout / ".git/logs/refs/heads/theirs"
    log.write_text(re.sub(r"> [0-9]+ ", "> 1000000000 ", log.read_text()))
    git(place.tree, "checkout", "-q", "theirs")
    assert place.bash(place.member(Mode.BYPASS), command) is ASK


def test_an_agent_returns_to_a_branch_that_it_made(place):
    git(place.tree, "checkout", "-q", "-b", "topic")
    member = place.member(Mode.BYPASS)
    assert place.bash(member, "git commit -m x") is ALLOW
    git(place.tree, "checkout", "-q", "teamwright/demo/ann")
    assert place.bash(member, "git checkout topic") is ALLOW


@pytest.mark.parametrize("command", FREE)
@pytest.mark.slow_after(4)
def test_other_commands_of_an_agent_in_a_worktree_are_not_asked_about_in_bypass(place, command):
    (place.tree / "plain.sh").write_text("export PYTHONPATH=src\n")
    (place.tree / "paths.sh").write_text('PATH=/usr/local/bin:$PATH\nexport A="$B" C=$(pwd)\nexport PATH\n')
    assert place.bash(place.member(Mode.BYPASS), command.format(checkout=place.checkout)) is ALLOW


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
@pytest.mark.slow_after(5)
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


def test_rules_that_name_the_checkout_hold_in_the_worktree_however_they_are_written(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place.checkout.parent))
    (place.checkout.parent / "link").symlink_to(place.checkout)
    above = place.checkout.parent
    rules = ["Edit(~/shop/home.txt)", f"Edit(/{above}/link/linked.txt)", f"Edit(/{above}/*/wild.txt)"]
    member = place.member(Mode.BYPASS, deny=[*rules, f"Read(/{above}/*/wild.txt)"])
    for name in ("home.txt", "linked.txt", "wild.txt"):
        assert place.write(member, place.tree / name) is DENY, name
        assert place.bash(member, f"echo x > {name}") is DENY, name
    assert place.write(member, place.tree / "other.txt") is ALLOW
    assert member.excluded_paths("Read", place.tree).patterns == (("wild.txt",),)


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS])
@pytest.mark.parametrize("rule", ["Read(.env)", "Read(./.env)", "Read(*.env)"])
def test_a_rule_that_denies_a_file_of_the_checkout_also_denies_it_by_its_path_to_an_agent_in_a_worktree(
    place, mode, rule
):
    """A file that git does not track is in the checkout alone."""
    file = place.checkout / ".env"
    file.write_text("KEY=1\n")
    member = place.member(mode, deny=[rule], allow=["Bash", "Read"])
    assert member.decide("Read", Access(reads=(file,))).verdict is DENY
    for command in (f"cat {file}", f"cd {place.checkout} && cat .env", f"base64 {file} > b.txt", "cat .env"):
        assert place.bash(member, command) is DENY, command
    assert member.excluded_paths("Read", place.checkout).patterns
    asks = place.member(mode, ask=[rule], allow=["Bash", "Read"])
    assert place.bash(asks, f"cat {file}") is (ALLOW if mode is Mode.BYPASS else ASK)
    other = place.checkout / "notes.txt"
    allowed = place.member(mode, allow=[f"Read(/{place.tree}/**)"]).decide("Read", Access(reads=(other,))).verdict
    assert allowed is (ALLOW if mode is Mode.BYPASS else ASK), "a rule that allows moves to the worktree"


def test_a_session_in_a_worktree_of_the_person_protects_that_checkout_too(place):
    checkout = place.checkout.parent / "feature"
    git(place.checkout, "worktree", "add", "-q", "-b", "feature", str(checkout))
    bounds = WorktreeBounds(place.tree, checkout, "teamwright/demo/ann")
    rules = parse_rules([f"Edit(/{checkout}/locked.txt)"], DENY, "t", checkout)
    session = Policy(Mode.BYPASS, rules, PermissionScope((checkout,), private=(place.home,), base=checkout))
    member = Policy(Mode.BYPASS, session.rules, session.scope, (session,)).in_worktree(bounds)
    assert place.write(member, checkout / "a.txt") is DENY
    assert place.bash(member, f"echo x > {checkout}/a.txt") is DENY
    assert place.write(member, place.tree / "locked.txt") is DENY
    assert place.write(member, place.tree / "a.txt") is ALLOW
    assert member.directories == (place.tree,)


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


def test_an_agent_with_a_worktree_below_a_member_changes_nothing_in_that_of_the_member(place):
    tree = place.tree.with_name("demo-sub")
    git(place.checkout, "worktree", "add", "-q", "-b", "teamwright/demo/sub", str(tree))
    member = place.member(Mode.BYPASS, deny=["Edit(locked.txt)"])
    below = member.in_worktree(WorktreeBounds(tree, place.checkout, "teamwright/demo/sub"))
    assert place.write(below, tree / "a.txt") is ALLOW
    assert place.write(below, tree / "locked.txt") is DENY
    assert place.write(below, place.tree / "a.txt") is DENY
    assert below.directories == (tree, place.extra)


def test_an_agent_in_its_worktree_under_a_session_in_another_one_changes_only_its_own(place):
    tree = place.home / "worktrees" / "shop" / "session-lead"
    git(place.checkout, "worktree", "add", "-q", "-b", "teamwright/session/lead", str(tree))
    session = place.session(Mode.BYPASS, deny=[f"Write(/{place.checkout}/key.txt)", "Write(src/**)"])
    session.enter_worktree(WorktreeBounds(tree, place.checkout, "teamwright/session/lead"))
    member = Policy(Mode.BYPASS, session.rules, session.scope, (session,)).in_worktree(place.place)
    for policy, own, other in ((session, tree, place.tree), (member, place.tree, tree)):
        assert place.write(policy, own / "a.txt") is ALLOW
        assert place.write(policy, place.extra / "a.txt") is ALLOW
        for path in (other / "a.txt", place.checkout / "a.txt", own / "key.txt", own / "src" / "b.txt"):
            assert place.write(policy, path) is DENY, (policy, path)


def test_rules_that_are_read_again_hold_in_the_worktree(place):
    session = place.session(Mode.BYPASS, deny=["Write(old.txt)"])
    former = session.rules
    session.enter_worktree(place.place)
    session.replace_rules(former, parse_rules([f"Write(/{place.checkout}/new.txt)"], DENY, "t", place.checkout))
    assert place.write(session, place.tree / "old.txt") is ALLOW
    assert place.write(session, place.tree / "new.txt") is DENY
    assert place.write(session, place.checkout / "old.txt") is DENY, "it is outside the worktree"
    assert not any("old.txt" in str(rule) for rule in session.rules)
