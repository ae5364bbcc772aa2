"""The tables of verdicts: the one beside this file, and those that people read, say what really becomes of a call."""

import re
from pathlib import Path

import pytest

from teamwright.agent.plan_mode import describe_modes
from teamwright.permissions.verdict import Decision, Mode, Verdict
from teamwright.views.permission_check import parse_call
from tests.permissions import verdict_page
from tests.permissions.scratch import ScratchRepository
from tests.permissions.verdict_page import MODES, policy, render_verdicts

HERE = Path(__file__).parent
PAGE = verdict_page.PAGE.read_text()
LINES = [line for line in (HERE / "verdicts.txt").read_text().splitlines() if line and not line.startswith("#")]
LINE = re.compile(r"(?P<modes>[\w *]+) \| (?P<rules>.+?) \| (?P<call>.+) → (?P<verdict>\w+) \| (?P<rule>.+)")


def decided(scratch: ScratchRepository, rules: str, mode: Mode, call: str) -> Decision:
    return policy(scratch, rules, mode).decide(*parse_call(call.replace("⏎", "\n"), scratch.project))


@pytest.mark.promise("G1", "G2")
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_table_says_what_becomes_of_the_call_and_what_said_so(scratch, line):
    said = LINE.fullmatch(line)
    assert said is not None, line
    for mode in MODES if said["modes"] == "*" else map(Mode, said["modes"].split()):
        decision = decided(scratch, said["rules"], mode, said["call"])
        assert decision.verdict == said["verdict"], (mode, decision)
        assert decision.rule.replace(f"mode {mode}", "the mode") == said["rule"], mode
        assert decision.reason.endswith(".")


@pytest.mark.promise("G1")
def test_the_table_is_large_and_has_every_mode_and_verdict():
    modes = [(said := LINE.fullmatch(line)) and said["modes"] for line in LINES]
    assert sum(len(MODES) if mode == "*" else len((mode or "").split()) for mode in modes) > 1_000
    assert {mode for line in modes for mode in (line or "").split()} == {"*", *map(str, MODES)}
    assert {line.split(" → ")[1].split(" | ")[0] for line in LINES} == {str(verdict) for verdict in Verdict}


@pytest.mark.slow
@pytest.mark.promise("G1", "G2")
def test_the_parts_of_a_line_are_judged_as_the_line_is(scratch):
    order = list(Verdict)
    for line in LINES:
        said = LINE.fullmatch(line)
        assert said is not None
        tool, access = parse_call(said["call"].replace("⏎", "\n"), scratch.project)
        for mode in MODES if access.command else ():
            judge = policy(scratch, said["rules"], mode)
            whole, parts = judge.decide(tool, access), [decision for _, decision in judge.explain_command(access)]
            assert parts, line
            assert max(order.index(part.verdict) for part in parts) == order.index(whole.verdict), (mode, line, parts)


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────


def table(after: str, at: int = 0) -> list[list[str]]:
    """The rows of a table behind a heading, its head first."""
    below = PAGE[re.search(rf"^##+ {after}\n", PAGE, re.MULTILINE).end() :]
    lines = re.findall(r"((?:^\|.*\|\n)+)", below, re.MULTILINE)[at]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines.splitlines()]
    return [rows[0], *rows[2:]]


def quoted(cell: str) -> list[str]:
    return [unquoted(text) for text in re.findall(r"`(?:[^`\\]|\\.)+`", cell)]


def unquoted(cell: str) -> str:
    return cell.replace("\\|", "|").strip("`")


@pytest.mark.promise("G1")
def test_the_page_has_a_line_of_meaning_for_every_mode():
    said = {unquoted(row[0]): row[1] for row in table("Modes")[1:]}
    assert list(said) == [str(mode) for mode in Mode]
    assert all(said[mode] for mode in said)
    assert {name for name, _ in describe_modes()} == set(said) - {"bubble"}


@pytest.mark.promise("G1")
def test_the_pages_table_of_verdicts_is_what_is_decided(scratch):
    assert f"\n{render_verdicts(scratch)}\n" in PAGE, "run `make generated`"


@pytest.mark.promise("G2")
def test_the_patterns_of_the_page_match_what_it_says(scratch):
    rows = table("Rules")[1:]
    assert len(rows) > 12
    for pattern, matches, others in rows:
        for calls, verdict in ((matches, True), (others, False)):
            for call in filter(None, re.findall(r"`(.+?)`(?:,|$)", calls)):
                rule = unquoted(pattern)
                tool, access = parse_call(call, scratch.project)
                denied = policy(scratch, f"-{rule}", Mode.BYPASS).decide(tool, access)
                assert (denied.verdict is Verdict.DENY) is verdict, (rule, call)


@pytest.mark.promise("G1", "G4")
@pytest.mark.parametrize(
    ("call", "asks"),
    [
        ("Read(src/main.py)", False),
        ("Bash(mkdir ../outside/new)", True),
        ("Write(../outside/new.py)", True),
        ("Read(../outside/secret)", True),
        ("Write(src/new.py)", False),
        ("Bash(mkdir src/new)", False),
    ],
)
def test_while_edits_are_accepted_only_what_lies_outside_is_asked_about(scratch, call, asks):
    for mode in (Mode.ACCEPT_EDITS, Mode.DELEGATE):
        assert decided(scratch, "", mode, call).verdict is (Verdict.ASK if asks else Verdict.ALLOW)


@pytest.mark.promise("G1")
@pytest.mark.finding("P11")
def test_a_prefix_rule_covers_what_the_page_says(scratch):
    rows = table("Commands that a prefix rule covers")[1:]
    assert len(rows) > 10
    for _, rule, line, named in rows:
        call = unquoted(line)
        if "delet?" in call:
            continue  # it needs a file of that name
        assert scratch.run(call, allow=[unquoted(rule)]).verdict is Verdict.ASK, call
        assert scratch.run(call, allow=["Bash"]).verdict is Verdict.ALLOW, call
        for other in (text for text in quoted(named) if text.startswith("Bash")):
            assert scratch.run(call, allow=[other]).verdict is Verdict.ALLOW, (call, other)


@pytest.mark.promise("G2")
@pytest.mark.finding("P12")
def test_deny_rules_for_files_hold_for_the_words_that_the_page_names(own_scratch):
    (own_scratch.project / ".env").write_text("")
    rows = table("Files that a shell line names")[1:]
    assert len(rows) > 6
    for _, calls, verdict in rows:
        for call in quoted(calls):
            denied = own_scratch.run(call, Mode.BYPASS, deny=["Read(.env)"]).verdict is Verdict.DENY
            assert denied is verdict.startswith("Denied"), call
            if "else it asks" in verdict or "otherwise asked" in verdict:
                assert own_scratch.run(call, deny=["Read(.env)"]).verdict is Verdict.ASK, call


@pytest.mark.finding("P12")
def test_deny_rules_for_files_do_not_hold_for_the_classes_that_the_page_lists(scratch):
    rows = table("Files that a shell line names", 1)[1:]
    assert 4 < len(rows) < 10
    for call in (call for _, calls in rows for call in quoted(calls)):
        assert scratch.run(call, Mode.BYPASS, deny=["Read(.env)", "Edit(src/**)"]).verdict is Verdict.ALLOW, call


@pytest.mark.promise("G1")
@pytest.mark.finding("P13")
def test_commands_that_read_and_still_ask_are_those_of_the_page(scratch):
    rows = table("Programs that only read", 1)[1:]
    assert len(rows) > 8
    for command, reason in rows:
        for call in quoted(command):
            if " " in call or call not in {"find", "xargs"}:
                assert scratch.run(call.replace("-r", "-r src sub")).verdict is Verdict.ASK, call
        for call in quoted(reason):
            if " " in call and "FILE" not in call:
                assert scratch.run(call).verdict is Verdict.ALLOW, call
