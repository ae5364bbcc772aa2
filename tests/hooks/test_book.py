"""Which hooks an event runs: matchers, and what settings may say."""

import pytest

from teamwright.hooks.hook_definitions import (
    END_TIMEOUT_S,
    EVENTS,
    MAX_TIMEOUT_S,
    TIMEOUT_S,
    compile_matcher,
    parse_hooks,
)
from teamwright.hooks.hook_index import HookIndex


def group(*commands: str, matcher: str | None = None, **more) -> dict:
    made: dict = {"hooks": [{"type": "command", "command": command, **more} for command in commands]}
    return made if matcher is None else {"matcher": matcher, **made}


def book(value: dict) -> HookIndex:
    hooks, warnings = parse_hooks(value, "settings.json")
    assert not warnings
    return HookIndex(hooks)


def commands(made: HookIndex, event: str, *subjects: str) -> list[str]:
    return [hook.command for hook in made.matching_hooks(event, subjects or ("",))]


@pytest.mark.promise("G7")
@pytest.mark.finding("3F2")
@pytest.mark.parametrize(
    ("matcher", "fits", "not_fits"),
    [
        ("", ["Bash", "Edit"], []),
        ("*", ["Bash", "mcp__a__b"], []),
        ("Bash", ["Bash"], ["BashOutput", "bash"]),
        ("Edit|Write", ["Edit", "Write"], ["MultiEdit", "NotebookEdit"]),
        ("Edit | Write", ["Edit", "Write"], ["NotebookEdit"]),
        ("Edit, Write", ["Edit", "Write"], ["NotebookEdit"]),
        ("Bash,Edit | Write,", ["Bash", "Edit", "Write"], ["", "NotebookEdit"]),
        (" ", ["Bash"], []),
        ("general-purpose", ["general-purpose"], ["my-general-purpose"]),
        ("Notebook.*", ["NotebookEdit"], ["Edit"]),
        ("mcp__memory__.*", ["mcp__memory__read"], ["mcp__other__read"]),
        ("^Edit$|^Wr", ["Edit", "Write"], ["NotebookEdit"]),
    ],
)
def test_a_matcher_is_everything_or_names_or_an_expression(matcher, fits, not_fits):
    matches = compile_matcher(matcher)
    assert [name for name in fits + not_fits if matches(name)] == fits


@pytest.mark.promise("G7")
def test_a_tool_is_matched_by_its_name_and_by_its_aliases():
    made = book({"PreToolUse": [group("a", matcher="Task"), group("b", matcher="Agent"), group("c", matcher="Bash")]})
    assert commands(made, "PreToolUse", "Agent", "Task") == ["a", "b"]
    assert commands(made, "PreToolUse", "Read") == []
    assert commands(made, "PostToolUse", "Agent") == []


@pytest.mark.promise("G7")
def test_an_identical_command_runs_once_and_the_order_is_kept():
    made = book({"Stop": [group("a", "b"), group("c", "a")]})
    assert commands(made, "Stop") == ["a", "b", "c"]


@pytest.mark.promise("G7")
def test_events_without_a_subject_ignore_their_matcher():
    for event in [event for event, subject in EVENTS.items() if not subject]:
        assert commands(book({event: [group("a", matcher="Nothing")]}), event) == ["a"]


@pytest.mark.promise("G7")
def test_a_timeout_is_in_seconds_and_has_a_default_and_an_end():
    hooks, _ = parse_hooks({"Stop": [group("a"), group("b", timeout=5), group("c", timeout=10**9)]}, "x")
    assert [hook.timeout_s for hook in hooks] == [TIMEOUT_S, 5.0, MAX_TIMEOUT_S]
    [end], _ = parse_hooks({"SessionEnd": [group("a")]}, "x")
    assert end.timeout_s == END_TIMEOUT_S


@pytest.mark.promise("G7", "P7")
@pytest.mark.parametrize(
    "value",
    [
        [],
        "no",
        {"Stop": {}},
        {"Stop": ["no"]},
        {"Stop": [{}]},
        {"Stop": [{"hooks": {}}]},
        {"Stop": [{"matcher": 3, "hooks": []}]},
        {"Stop": [{"matcher": "(", "hooks": []}]},
        {"Stop": [group("a", timeout=True)]},
        {"Stop": [group("a", timeout=0)]},
        {"Stop": [group("a\0b")]},
        {"Stop": [group("  ")]},
        {"Stop": [group("a", unheard_of=True)]},
        {"Stop": [{"hooks": [{"type": ["command"], "command": "a"}]}]},
        {"NoSuchEvent": [group("a")]},
    ],
)
def test_what_cannot_be_used_is_a_warning_with_its_file_and_nothing_runs(value):
    hooks, warnings = parse_hooks(value, "/etc/settings.json")
    assert not hooks and warnings
    assert all(line.startswith("/etc/settings.json: ") for line in warnings)


@pytest.mark.promise("G7")
def test_an_event_without_hooks_costs_a_look_into_a_dict():
    made = book({"Stop": [group("a")]})
    assert not made.has_hooks("PreToolUse", "PostToolUse")
    assert made.matching_hooks("PreToolUse", ("Bash",)) == ()
    assert made.matching_hooks("Stop") is made.matching_hooks("Stop"), "what matches is found once"
