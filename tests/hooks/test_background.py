"""Hooks with a condition, another shell or no shell, and hooks that continue in the background."""

import asyncio
import os
from pathlib import Path

import pytest

from teamwright.agent.hook_conditions import access_of_input, matches_condition
from teamwright.hooks.hook_definitions import parse_hooks
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_runner import HookEnvironment, HookFiring, HookRunner
from teamwright.permissions.verdict import Access
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("C2")


def runner(tmp_path: Path, *hooks: dict, event: str = "PostToolUse", **env: str) -> HookRunner:
    parsed, warnings = parse_hooks({event: [{"hooks": [{"type": "command", **hook} for hook in hooks]}]}, "x")
    assert not warnings
    around = {"PATH": os.environ["PATH"], "CLAUDE_PROJECT_DIR": str(tmp_path), **env}
    return HookRunner(HookIndex(parsed), HookEnvironment(tmp_path, around, "/bin/sh"))


class Delivered(list[tuple[str, bool]]):
    """What an agent receives later, and whether it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    def __call__(self, text: str, wakes: bool) -> None:
        self.append((text, wakes))
        self.came.set()


LINES = [
    ("Bash(git *)", "FOO=bar git push", True),
    ("Bash(git *)", "npm test && git push", True),
    ("Bash(git push:*)", "npm test && git commit", False),
    ("Bash(rm *)", "echo $(rm -rf x)", True),
    ("Bash(rm *)", "echo $(date)", False),
    ("Bash(git commit:*)", "git -C sub commit -m x", True),
    ("Bash(git commit:*)", "if then", True),
    ("Bash", "anything", True),
    ("Edit(*.ts)", "git push", False),
]


@pytest.mark.parametrize(("condition", "command", "expected"), LINES)
def test_a_condition_chooses_by_the_commands_of_a_line(condition, command, expected, tmp_path):
    touched = Access(command=command, cwd=tmp_path)
    assert matches_condition(condition, ("Bash",), touched, tmp_path) is expected


def test_a_condition_chooses_by_path_address_and_subject(tmp_path):
    def fits(condition: str, tool: str, **given: str) -> bool:
        return matches_condition(condition, (tool,), access_of_input(given, tmp_path), tmp_path)

    assert fits("Edit(*.ts)", "Edit", file_path="src/a.ts") and not fits("Edit(*.ts)", "Edit", file_path="src/a.py")
    assert fits("Edit(src/**)", "Write", file_path=f"{tmp_path}/src/a.py")
    assert fits("WebFetch(domain:example.org)", "WebFetch", url="https://example.org/x")
    assert fits("Agent(Explore)", "Agent", subagent_type="Explore") and not fits("Agent(Plan)", "Agent")


async def test_a_hook_whose_condition_does_not_match_does_not_run(tmp_path):
    hooks = runner(tmp_path, {"command": "touch ran", "if": "Bash(git push:*)"}, event="PreToolUse")
    await hooks.fire("PreToolUse", {}, ("Bash",), tmp_path, HookFiring(matches=lambda _: False))
    assert not (tmp_path / "ran").exists()
    await hooks.fire("PreToolUse", {}, ("Bash",), tmp_path, HookFiring(matches=lambda rule: rule == "Bash(git push:*)"))
    assert (tmp_path / "ran").exists()


def test_equal_commands_with_different_conditions_are_different_hooks():
    hooks = [{"type": "command", "command": "a", "if": rule} for rule in ("Bash(git commit:*)", "Bash(git push:*)")]
    parsed, _ = parse_hooks({"PostToolUse": [{"matcher": "Bash", "hooks": hooks}]}, "x")
    assert len(HookIndex(parsed).matching_hooks("PostToolUse", ("Bash",))) == 2
    assert len({hook.name for hook in parsed}) == 2, "trust has one entry for each"


async def test_a_hook_with_arguments_runs_without_a_shell_and_knows_the_project(tmp_path):
    hook = {"command": "/bin/sh", "args": ["-c", 'printf "%s" "$0" > out', "${CLAUDE_PROJECT_DIR}/a b;$HOME"]}
    await runner(tmp_path, hook).fire("PostToolUse", {}, ("Bash",), tmp_path)
    assert (tmp_path / "out").read_text() == f"{tmp_path}/a b;$HOME"


async def test_the_shell_of_a_hook_is_used_or_named_as_missing(tmp_path):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "pwsh"
    fake.write_text('#!/bin/sh\nprintf "%s" "$*" > seen\n')
    fake.chmod(0o700)
    hook = {"command": "Write-Output 1", "shell": "powershell"}
    await runner(tmp_path, hook, PATH=f"{tmp_path}/bin:/usr/bin:/bin").fire("PostToolUse", {}, ("Bash",), tmp_path)
    assert (tmp_path / "seen").read_text().endswith("-Command Write-Output 1")
    missing = await runner(tmp_path, hook, PATH="/nowhere").fire("PostToolUse", {}, ("Bash",), tmp_path)
    assert "PowerShell" in missing.problem
    said = await runner(tmp_path, {"command": "exit 2", "shell": "bash"}).fire("PostToolUse", {}, ("Bash",), tmp_path)
    assert said.blocked


async def test_a_hook_that_answers_async_is_not_waited_for_and_its_note_comes_later(tmp_path):
    os.mkfifo(tmp_path / "gate")
    command = """echo '{"async": true, "asyncTimeout": 60000}'; read x < gate; echo '{"systemMessage": "all green"}'"""
    hooks, later = runner(tmp_path, {"command": command}), Delivered()
    async with asyncio.timeout(WAIT_S):
        outcome = await hooks.fire("PostToolUse", {}, ("Bash",), tmp_path, HookFiring(deliver_later=later))
        assert not outcome.blocked and not later, "the event does not wait for it"
        await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
        await later.came.wait()
    assert later == [("all green", False)]


async def test_a_hook_that_answers_async_ends_at_its_own_time(tmp_path):
    hooks = runner(tmp_path, {"command": """echo '{"async": true, "asyncTimeout": 50}'; sleep 600"""})
    told: list[str] = []
    hooks.notify = lambda text, level: told.append(text)
    async with asyncio.timeout(WAIT_S):
        await hooks.fire("PostToolUse", {}, ("Bash",), tmp_path)
        await hooks.close()
    assert "ended after 0.05 s" in told[0]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo the bug >&2; exit 2", [("Look:\nthe bug", True)]),
        ("echo only stdout; exit 2", [("Look:\nonly stdout", True)]),
        ("exit 0", []),
        ("exit 1", []),
    ],
)
async def test_a_background_hook_that_refuses_wakes_its_agent(tmp_path, command, expected):
    later = Delivered()
    hooks = runner(tmp_path, {"command": command, "asyncRewake": True, "rewakeMessage": "Look:"})
    async with asyncio.timeout(WAIT_S):
        await hooks.fire("PostToolUse", {}, ("Bash",), tmp_path, HookFiring(deliver_later=later))
        await hooks.close()
    assert later == expected


@pytest.mark.parametrize(
    "hook",
    [
        {"command": "a", "shell": "fish"},
        {"command": "a", "args": "one text"},
        {"command": "a", "args": [1]},
        {"command": "a", "if": "Bash(x) && Edit"},
        {"command": "a", "if": 3},
    ],
)
def test_a_wrong_value_leaves_the_hook_out(hook):
    found, warnings = parse_hooks({"PreToolUse": [{"hooks": [{"type": "command", **hook}]}]}, "x")
    assert not found and warnings
