"""Common lines of developers: those that only read run without a question, apart from a few with reasons."""

from collections.abc import Sequence

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.sandbox.policy import PolicyName
from tests.permissions.common_lines import (
    ASKING,
    ASKING_EDITS,
    EDITING,
    MOST_QUESTIONS,
    READING,
    WORKING,
    count_questions,
    main,
    make_project,
)

READ, WORK = PolicyName.READ, PolicyName.WORK


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small separate repository, as a developer has it."""
    place = tmp_path_factory.mktemp("common")
    make_project(place)
    return place


def verdict(project, line: str, mode: Mode, *sandbox: PolicyName, rules: Sequence[Rule] = ()) -> Verdict:
    """Return the verdict on a line, with the policies of the sandbox that answer questions."""
    policy = Policy(mode, rules, PermissionScope((project,), base=project))
    return policy.decide("Bash", Access(command=line, cwd=project, sandbox=frozenset(sandbox))).verdict


@pytest.mark.finding("P13")
def test_common_lines_that_only_read_are_allowed(project):
    assert [line for line in READING if verdict(project, line, Mode.DEFAULT) is not Verdict.ALLOW] == []
    assert len(ASKING) <= 20


@pytest.mark.finding("P13")
def test_common_edits_inside_are_allowed_where_edits_are_accepted(project):
    assert [line for line in EDITING if verdict(project, line, Mode.ACCEPT_EDITS) is not Verdict.ALLOW] == []
    assert [line for line in EDITING if verdict(project, line, Mode.DEFAULT) is not Verdict.ASK] == []


@pytest.mark.finding("P13")
def test_common_lines_that_run_code_or_may_show_secrets_ask(project):
    asking = (*WORKING, *ASKING)
    assert [line for line in asking if verdict(project, line, Mode.DEFAULT) is not Verdict.ASK] == []
    assert [line for line in ASKING_EDITS if verdict(project, line, Mode.ACCEPT_EDITS) is not Verdict.ASK] == []


@pytest.mark.finding("P13")
def test_at_most_five_common_lines_of_each_group_ask_with_a_sandbox(project):
    reading, working = count_questions(project)
    assert reading.lines >= 125
    assert len(reading.asking) <= MOST_QUESTIONS, reading
    assert working.asking == ["cargo test", "docker ps", "gh pr view", "curl -s http://localhost:8000"]
    assert len(working.asking) <= MOST_QUESTIONS


@pytest.mark.finding("P13")
def test_a_command_prints_the_counts_of_common_lines_that_ask(capsys):
    main()
    printed = capsys.readouterr().out
    assert f"of {len(READING) + len(ASKING)} lines that only read ask with a sandbox" in printed
    assert f"of {len(WORKING)} lines that work ask with sandbox.auto_allow" in printed


@pytest.mark.parametrize(
    "line",
    [
        *("git commit -am x", "make test && git push", "git reset --hard", "sh -c 'git commit -am x'"),
        *("echo $GITHUB_TOKEN", "less /etc/hosts", "cat ../x", "touch ../x", "make > /tmp/x", "x=make; $x; $y"),
        *("PATH=.:$PATH make", "touch .claude/settings.json", "npm publish", "ssh host", "env"),
    ],
)
def test_a_line_that_needs_more_than_the_sandbox_gives_still_asks(project, line):
    assert verdict(project, line, Mode.DEFAULT, READ, WORK) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "jq -n env",
        "jq -n '$ENV'",
        "jq -f x.jq a.py",
        "rg --pre env x",
        "bat --paging=always --pager=env a.py",
        "less +!env a.py",
    ],
)
def test_a_reader_that_may_print_the_environment_asks_in_the_sandbox_too(project, line):
    assert verdict(project, line, Mode.DEFAULT, READ) is Verdict.ASK
    assert verdict(project, "less a.py", Mode.DEFAULT, READ) is Verdict.ALLOW


def test_rules_that_ask_or_deny_hold_in_the_sandbox(project):
    denied = parse_rules(["Bash(make:*)", "Read(*.key)"], Verdict.DENY, "test", project)
    asked = parse_rules(["Bash(make:*)", "Read(*.key)"], Verdict.ASK, "test", project)
    for line in ("make test", "pytest a.key", "echo x | xargs less a.key"):
        assert verdict(project, line, Mode.DEFAULT, READ, WORK, rules=denied) is Verdict.DENY, line
        assert verdict(project, line, Mode.DEFAULT, READ, WORK, rules=asked) is Verdict.ASK, line


def test_changes_inside_run_without_a_question_where_the_sandbox_answers(project):
    for line in (*EDITING, ASKING_EDITS[0], "pytest > out.txt"):
        assert verdict(project, line, Mode.DEFAULT, READ, WORK) is Verdict.ALLOW, line
        assert verdict(project, line, Mode.DEFAULT, READ) is Verdict.ASK, line
        assert verdict(project, line, Mode.PLAN, READ, WORK) is Verdict.DENY, line
