"""A guard that can never run is named by `check` and at the start of a session."""

import json

import pytest

from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.config.unmatched_guards import TOOL_ALIASES, find_dead_hook, find_dead_rule
from teamwright.hooks.hook_definitions import parse_hooks
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Verdict
from teamwright.tools.subagent.task_stop import TaskStop
from teamwright.tools.team.agent import AgentTool
from tests.ui.program import Program

pytestmark = pytest.mark.finding("3F2")


def dead(event: str, matcher: str, **more: str) -> str:
    hook = {"type": "command", "command": "exit 2", **more}
    [found], warnings = parse_hooks({event: [{"matcher": matcher, "hooks": [hook]}]}, "x")
    assert not warnings
    return find_dead_hook(found)


@pytest.mark.parametrize(
    ("matcher", "says"),
    [
        ("bash", "did you mean Bash?"),
        ("Bash and Write", "never runs"),
        ("Bash(git commit*)", '"matcher": "Bash" and "if": "Bash(…)"'),
        ("bash(rm:*)", '"matcher": "Bash" and "if": "Bash(…)"'),
        ("^bash$", "did you mean Bash?"),
        ("Bash|Wrte", "did you mean Write?"),
        ("Bash, write", "did you mean Write?"),
        ("MultiEdit", "Edit does its work"),
        ("(rm -rf).*", "no tool's name has a blank"),
        ("Bash;Write", "no tool's name has ';'; write \"Bash|Write\""),
        ("Bash/Write|'Edit'", 'write "Bash|Write|Edit"'),
        ("mcp__db__a & mcp__db__b", "no tool's name has a blank"),
    ],
)
def test_a_matcher_that_fits_no_tool_says_what_to_write(matcher, says):
    assert says in dead("PreToolUse", matcher)


@pytest.mark.parametrize(
    "matcher",
    [
        *("", "*", "Bash", "Bash, Write", "Task", "KillShell", "Edit|MultiEdit|Write", "Task(Create|Update)"),
        *(
            "mcp__github__.*",
            "mcp__github__push",
            "mcp__github__.*|and more",
            "python__deploy",
            ".*deploy.*",
            "Notebook.*",
            "(?i)bash",
        ),
    ],
)
def test_a_matcher_that_can_fit_is_not_named(matcher):
    assert dead("PreToolUse", matcher) == ""


def test_names_of_other_events_and_conditions_count_too():
    assert "fits no source of SessionStart" in dead("SessionStart", "start")
    assert "fits no trigger of PreCompact" in dead("PreCompact", "man.al.")
    assert dead("SessionStart", "startup|resume") == dead("SubagentStart", "my-agent") == dead("Stop", "Any") == ""
    assert "did you mean Bash?" in dead("PreToolUse", "", **{"if": "bash(rm *)"})
    assert dead("PreToolUse", "Bash", **{"if": "Bash(rm *)"}) == ""


@pytest.mark.parametrize(("text", "is_dead"), [("bash(rm:*)", True), ("Bash(rm:*)", False), ("mcp__a__b", False)])
def test_a_rule_that_denies_and_names_no_tool_is_dead(tmp_path, text, is_dead):
    for verdict in (Verdict.DENY, Verdict.ASK):
        assert bool(find_dead_rule(parse_rules([text], verdict, "x", tmp_path)[0])) == is_dead


def test_the_aliases_are_those_of_the_tools():
    assert {*AgentTool.aliases, *TaskStop.aliases} == TOOL_ALIASES
    assert not TOOL_ALIASES & KNOWN_TOOLS


def test_check_and_the_start_of_a_run_name_a_dead_guard(tmp_path, repo):
    program = Program(repo, tmp_path / "home")
    hooks = {"PreToolUse": [{"matcher": "bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}
    program.settings(hooks=hooks, permissions={"deny": ["bsh(rm:*)"]})
    checked = program.run("check", "--json")
    broken = json.dumps([one for one in json.loads(checked.stdout)["assets"] if one["state"] == "broken"])
    assert "did you mean Bash?" in broken
    assert "'bsh'" in broken
    (tmp_path / "script.toml").write_text('[script]\nname = "s"\n[[agent."*".otherwise]]\nsay = "END"\n')
    started = program.run("-p", "go", "--model", f"scripted:{tmp_path / 'script.toml'}")
    assert started.stdout == "END\n"
    assert "its matcher 'bash' fits no tool: the hook never runs; did you mean Bash?" in started.stderr
    assert "the rule 'bsh(rm:*)' of permissions.deny never applies" in started.stderr
