"""Paths: by name and by real path, the directories, what is private, what is guarded."""

import os

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Access, Mode, Verdict

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("mode", "inside", "outside"),
    [
        (Mode.DEFAULT, ASK, ASK),
        (Mode.ACCEPT_EDITS, ALLOW, ASK),
        (Mode.DONT_ASK, DENY, DENY),
        (Mode.BYPASS, ALLOW, ALLOW),
    ],
)
@pytest.mark.parametrize("tool", ["Write", "Edit", "NotebookEdit"])
def test_changing_files_follows_the_mode_inside_and_asks_outside(scratch, mode, inside, outside, tool):
    assert scratch.write("src/new.py", tool, mode).verdict is inside
    assert scratch.write("../outside/new", tool, mode).verdict is outside
    assert scratch.write("link/new", tool, mode).verdict is outside


@pytest.mark.promise("G1")
@pytest.mark.parametrize(
    ("mode", "outside"),
    [(Mode.DEFAULT, ASK), (Mode.ACCEPT_EDITS, ASK), (Mode.DONT_ASK, DENY), (Mode.BYPASS, ALLOW)],
)
@pytest.mark.parametrize("tool", ["Read", "Glob", "Grep"])
def test_reading_is_allowed_inside_by_real_path_only(scratch, mode, outside, tool):
    assert scratch.read("a.py", tool, mode).verdict is ALLOW
    assert scratch.read("link/secret", tool, mode).verdict is outside
    assert scratch.read(scratch.outside / "secret", tool, mode).verdict is outside
    assert scratch.read("sub/../../outside/secret", tool, mode).verdict is outside


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/**", "src/main.py", True),
        ("src/**", "src", True),
        ("src/**", "src/deep/x/y.py", True),
        ("src/**", "srcs/x", False),
        ("src/**", "sub/src/x", False),
        ("/src/**", "src/main.py", True),
        ("src/*", "src/main.py", True),
        ("src/*.py", "src/main.py", True),
        ("src/*.py", "src/main.pyc", False),
        ("src/?ain.py", "src/main.py", True),
        ("**/main.py", "src/main.py", True),
        ("**/main.py", "main.py", True),
        ("main.py", "src/main.py", True),
        ("*.py", "src/main.py", True),
        ("/main.py", "src/main.py", False),
        ("./src/main.py", "src/main.py", True),
        ("src/[id]/x", "src/[id]/x", True),
        ("src/[id]/x", "src/i/x", False),
        ("src", "src/main.py", True),
        ("~/x/**", "src/main.py", False),
    ],
)
def test_a_path_pattern_matches_as_in_an_ignore_file(scratch, pattern, path, matches):
    assert (scratch.write(path, allow=[f"Edit({pattern})"]).verdict is ALLOW) is matches
    assert (scratch.write(path, deny=[f"Edit({pattern})"]).verdict is DENY) is matches


@pytest.mark.promise("G2")
def test_absolute_and_home_patterns_start_where_they_say(scratch, own_home):
    home = os.path.realpath(own_home)
    assert scratch.read(f"{home}/x/y", allow=["Read(~/x/**)"]).verdict is ALLOW
    assert scratch.read(f"{home}/z", allow=["Read(~/x/**)"]).verdict is ASK
    assert scratch.read(scratch.outside / "secret", allow=[f"Read(/{scratch.outside}/**)"]).verdict is ALLOW
    assert scratch.read("/etc/hosts", allow=["Read(//etc/**)"]).verdict is ALLOW


@pytest.mark.promise("G2")
def test_a_rule_covers_the_tools_of_its_kind(scratch):
    for tool in ("Write", "Edit", "NotebookEdit"):
        assert scratch.write("src/x", tool, deny=["Edit(src/**)"]).verdict is DENY
        assert scratch.write("src/x", tool, deny=["Edit"]).verdict is DENY
    for tool in ("Read", "Glob", "Grep"):
        assert scratch.read("src/x", tool, deny=["Read(src/**)"]).verdict is DENY
    assert scratch.write("src/x", "Edit", deny=["Write"]).verdict is ASK
    assert scratch.write("src/x", "Write", deny=["Write"]).verdict is DENY


@pytest.mark.promise("G2", "P7")
def test_a_deny_holds_by_either_name_of_a_file_and_an_allow_needs_both(scratch):
    outside = f"/{scratch.outside}/**"
    assert scratch.read("link/secret", deny=[f"Read({outside})"]).verdict is DENY
    assert scratch.read(scratch.outside / "secret", deny=["Read(link/**)"]).verdict is DENY
    assert scratch.read("link/secret", deny=["Read(link/**)"]).verdict is DENY
    assert scratch.read("link/secret", allow=["Read(link/**)"]).verdict is ASK
    assert scratch.read("link/secret", allow=[f"Read({outside})"]).verdict is ASK
    assert scratch.write("link/x", mode=Mode.BYPASS, deny=[f"Edit({outside})"]).verdict is DENY


@pytest.mark.promise("G2")
def test_a_deny_ignores_case_because_some_file_systems_do(scratch):
    assert scratch.read("SECRETS/x", deny=["Read(secrets/**)"]).verdict is DENY
    assert scratch.read(scratch.outside / "x", allow=[f"Read(/{str(scratch.outside).upper()}/**)"]).verdict is ASK


@pytest.mark.promise("F66")
@pytest.mark.parametrize("mode", list(Mode))
def test_the_state_root_is_denied_to_file_tools_in_every_mode(scratch, mode):
    for rules in ({}, {"allow": ["Read", "Edit"]}, {"allow": ["Read(//**)", "Edit(//**)"]}):
        assert scratch.read(scratch.home / "trust.json", mode=mode, **rules).verdict is DENY
        assert scratch.write(scratch.home / "trust.json", mode=mode, **rules).verdict is DENY
        assert scratch.run(f"cat {scratch.home}/trust.json", mode, **rules).verdict is not ALLOW or mode is Mode.BYPASS


@pytest.mark.promise("F66")
def test_an_agent_may_read_its_own_output_in_the_state_root_and_not_change_it(own_scratch):
    mine = own_scratch.home / "projects" / "x" / "output"
    mine.mkdir(parents=True)
    policy = Policy(
        scope=PermissionScope((own_scratch.project,), (own_scratch.home,), own=(mine,), base=own_scratch.project)
    )
    assert policy.decide("Read", Access(reads=(mine / "c1.output",))).verdict is ALLOW
    assert policy.decide("Read", Access(reads=(mine.parent / "other.jsonl",))).verdict is DENY
    assert policy.decide("Write", Access(writes=(mine / "c1.output",))).verdict is DENY


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    "rule",
    [
        "Read(a.py)",
        "Read(**/*.key)",
        "Read(src/**)",
        "Read(src/keys/*)",
        "Read(SRC/x)",
        "Read(s*c/x)",
        "Read(//**/x)",
        "Read(in/x)",
    ],
)
def test_a_search_asks_where_a_rule_may_name_something_below(own_scratch, rule):
    (own_scratch.project / "in").symlink_to(own_scratch.project / "src")
    for rules in ({"deny": [rule]}, {"ask": [rule]}):
        assert own_scratch.run("grep -r x src", **rules).verdict is not ALLOW, rule
        assert own_scratch.run("grep -r x .", **rules).verdict is ASK, rule
    assert own_scratch.read("src", tool="Grep", ask=[rule]).verdict is ASK, rule
    assert own_scratch.read(".", tool="Grep", ask=[rule]).verdict is ASK, rule


@pytest.mark.promise("G2")
@pytest.mark.parametrize(
    "rule", ["Read(./.env)", "Read(./.env.*)", "Read(secrets/**)", "Read(sub/*)", "Read(//etc/**)", "Read(~/.ssh/**)"]
)
def test_a_search_does_not_ask_for_a_rule_that_speaks_of_another_place(scratch, rule):
    for rules in ({"deny": [rule]}, {"ask": [rule]}):
        assert scratch.read("src", tool="Grep", **rules).verdict is ALLOW
        assert scratch.run("grep -r x src", **rules).verdict is ALLOW
    assert scratch.run("git log -p", deny=["Read(~/.ssh/**)"]).verdict is ALLOW


@pytest.mark.promise("G2")
def test_a_log_without_contents_goes_round_no_rule_about_a_file(scratch):
    for line in ("git log --oneline -3", "git log -n 5 --stat --since=yesterday src", "git shortlog -s HEAD"):
        assert scratch.run(line, deny=["Read(./.env)"]).verdict is ALLOW, line
    for line in (
        "git log -p",
        "git log -u -3",
        "git log -S key",
        "git log -L1,3:a.py",
        "git log --word-diff",
        "git log -c",
    ):
        assert scratch.run(line, deny=["Read(./.env)"]).verdict is ASK, line


@pytest.mark.promise("F66")
def test_a_search_from_above_the_state_root_asks(own_scratch):
    above = own_scratch.home.parent
    policy = Policy(scope=PermissionScope((above,), (own_scratch.home,), base=above))
    assert policy.decide("Grep", Access(reads=(above,))).verdict is ASK
    assert policy.decide("Bash", Access(command="grep -r x .", cwd=above)).verdict is ASK
    assert policy.decide("Bash", Access(command="rg x", cwd=above)).verdict is ASK
    assert policy.decide("Grep", Access(reads=(own_scratch.project,))).verdict is ALLOW


GUARDED_TEXT = """
.git/hooks/pre-commit .git/config sub/.git/config .GIT/config .teamwright/settings.json .claude/settings.json .mcp.json
.envrc sub/.envrc .vscode/tasks.json .github/workflows/ci.yml .bashrc .zshrc .husky/pre-commit .gitattributes
    .cursor/mcp.json .codex/config.toml .gemini/settings.json .zed/tasks.json .cargo/config.toml Jenkinsfile .travis.yml
    .buildkite/pipeline.yml .vimrc sub/.gdbinit mise.toml opencode.json
"""
GUARDED = GUARDED_TEXT.split()


@pytest.mark.promise("K1", "P7")
@pytest.mark.parametrize("path", GUARDED)
def test_a_file_that_can_run_something_asks_although_edits_are_accepted(scratch, path):
    decision = scratch.write(path, mode=Mode.ACCEPT_EDITS)
    assert (decision.verdict, decision.rule, decision.find_always()) == (ASK, "guarded files", "")
    assert scratch.write(path, allow=["Edit"]).verdict is ASK
    assert scratch.write(path, allow=["Edit(**)"]).verdict is ASK
    assert scratch.write(path, allow=[f"Edit(/{path.lower()})"], by_user=False).verdict is ASK
    assert scratch.write(path, mode=Mode.DONT_ASK, allow=["Edit"]).verdict is DENY
    assert scratch.read(path).verdict is ALLOW


@pytest.mark.promise("G2")
def test_a_rule_of_the_user_that_names_a_guarded_file_answers(scratch):
    assert scratch.write(".claude/agents/x.md", allow=["Edit(.claude/**)"]).verdict is ALLOW
    assert scratch.write(".github/workflows/ci.yml", allow=["Edit(/.github/workflows/**)"]).verdict is ALLOW


def test_a_file_beside_the_workflows_is_not_guarded(scratch):
    assert scratch.write(".github/CODEOWNERS", mode=Mode.ACCEPT_EDITS).verdict is ALLOW
    assert scratch.write("src/.git.py", mode=Mode.ACCEPT_EDITS).verdict is ALLOW


def test_a_project_that_lies_below_a_guarded_name_is_not_guarded_as_a_whole(tmp_path):
    project = tmp_path / ".config" / "editor"
    project.mkdir(parents=True)
    policy = Policy(Mode.ACCEPT_EDITS, scope=PermissionScope((project,), base=project))
    assert policy.decide("Write", Access(writes=(project / "init.lua",))).verdict is ALLOW


@pytest.mark.promise("P7")
def test_a_guarded_file_behind_a_link_is_guarded(own_scratch):
    (own_scratch.project / "plain").symlink_to(own_scratch.project / ".git" / "hooks")
    assert own_scratch.write("plain/pre-commit", mode=Mode.ACCEPT_EDITS).verdict is ASK


@pytest.mark.promise("F66")
def test_the_state_root_is_private_however_its_name_is_written(scratch):
    assert scratch.read(str(scratch.home).upper() + "/trust.json").verdict is DENY


@pytest.mark.finding("3P9")
@pytest.mark.parametrize(
    "line",
    [
        *(
            "ln -bs /.env",
            "ln -sb /else/.env .",
            "cp -S~ /else/.env .",
            "cp --backup=t --target-directory=. /else/.env",
        ),
        *("mv -b /else/.env .", "install -b /else/.env .", "rsync -b /else/.env ."),
    ],
)
def test_a_copy_that_keeps_a_backup_of_a_denied_file_is_denied(scratch, line):
    """The backup has the contents under a name that no rule denies."""
    (scratch.project / ".env").write_text("KEY=1\n")
    assert scratch.run(line, Mode.BYPASS, deny=["Read(.env)"]).verdict is DENY
    assert scratch.run(line.replace(".env", "b.py"), Mode.BYPASS, deny=["Read(.env)"]).verdict is ALLOW
