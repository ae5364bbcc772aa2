"""The tables of verdicts: the one beside this file, and those that people read, say what really becomes of a call."""

import re
from pathlib import Path

import pytest
from permissions_ground import Ground

from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Decision, Mode, Verdict
from teamwright.protocol.rule_text import split_rules
from teamwright.session.modes import describe_modes
from teamwright.views.permission_check import parse_call

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "permissions.md").read_text()
MODES = [mode for mode in Mode if mode is not Mode.BUBBLE]
SIGNS = {"+": "allow", "~": "allow", "?": "ask", "-": "deny"}
LINES = [line for line in (HERE / "verdicts.txt").read_text().splitlines() if line and not line.startswith("#")]
LINE = re.compile(r"(?P<modes>[\w *]+) \| (?P<rules>.+?) \| (?P<call>.+) → (?P<verdict>\w+) \| (?P<rule>.+)")


def policy(ground: Ground, rules: str, mode: Mode) -> Policy:
    found: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for rule in split_rules(rules) if rules not in {"-", ""} else ():
        found[SIGNS[rule[0]]].append(rule[1:])
    return ground.policy(mode, by_user="~" not in rules, **found)


def decided(ground: Ground, rules: str, mode: Mode, call: str) -> Decision:
    return policy(ground, rules, mode).decide(*parse_call(call.replace("⏎", "\n"), ground.project))


@pytest.mark.promise("G1", "G2")
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_table_says_what_becomes_of_the_call_and_what_said_so(ground, line):
    said = LINE.fullmatch(line)
    assert said is not None, line
    for mode in MODES if said["modes"] == "*" else map(Mode, said["modes"].split()):
        decision = decided(ground, said["rules"], mode, said["call"])
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
def test_the_parts_of_a_line_are_judged_as_the_line_is(ground):
    order = list(Verdict)
    for line in LINES:
        said = LINE.fullmatch(line)
        assert said is not None
        tool, access = parse_call(said["call"].replace("⏎", "\n"), ground.project)
        for mode in MODES if access.command else ():
            judge = policy(ground, said["rules"], mode)
            whole, parts = judge.decide(tool, access), [decision for _, decision in judge.explain_command(access)]
            assert parts, line
            assert max(order.index(part.verdict) for part in parts) == order.index(whole.verdict), (mode, line, parts)


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────


def table(after: str) -> list[list[str]]:
    """The rows of the first table behind a heading, its head first."""
    below = PAGE[PAGE.index(f"\n## {after}\n") :]
    lines = re.search(r"((?:^\|.*\|\n)+)", below, re.MULTILINE)
    assert lines is not None
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[1].splitlines()]
    return [rows[0], *rows[2:]]


def unquoted(cell: str) -> str:
    return cell.replace("\\|", "|").strip("`")


@pytest.mark.promise("G1")
def test_the_page_has_a_line_of_meaning_for_every_mode():
    said = {unquoted(row[0]): row[1] for row in table("Modes")[1:]}
    assert list(said) == [str(mode) for mode in Mode]
    assert all(said[mode] for mode in said)
    assert {name for name, _ in describe_modes()} == set(said) - {"bubble"}


@pytest.mark.promise("G1")
def test_the_pages_table_of_verdicts_is_what_is_decided(ground):
    head, *rows = table("Verdicts")
    modes = [Mode(unquoted(cell)) for cell in head[2:]]
    assert modes == MODES
    assert len(rows) > 25
    for call, rules, *verdicts in rows:
        for mode, verdict in zip(modes, verdicts, strict=True):
            decision = decided(ground, unquoted(rules), mode, unquoted(call))
            assert decision.verdict == verdict, (call, mode, decision)


@pytest.mark.promise("G2")
def test_the_patterns_of_the_page_match_what_it_says(ground):
    rows = table("Rules")[1:]
    assert len(rows) > 12
    for pattern, matches, others in rows:
        for calls, verdict in ((matches, True), (others, False)):
            for call in filter(None, re.findall(r"`(.+?)`(?:,|$)", calls)):
                rule = unquoted(pattern)
                tool, access = parse_call(call, ground.project)
                denied = policy(ground, f"-{rule}", Mode.BYPASS).decide(tool, access)
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
def test_while_edits_are_accepted_only_what_lies_outside_is_asked_about(ground, call, asks):
    for mode in (Mode.ACCEPT_EDITS, Mode.DELEGATE):
        assert decided(ground, "", mode, call).verdict is (Verdict.ASK if asks else Verdict.ALLOW)
