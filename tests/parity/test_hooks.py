"""Hooks of members: on every path, asked once, each start with one stop, wherever the member lives."""

import json
import os
import signal

import pytest

from tests.parity.house import PROCESS, Hold, call, house, write
from tests.session.hook_log import HookLog, unbalanced

pytestmark = [pytest.mark.promise("G7", "F69"), pytest.mark.slow_after(1)]


def says(event: str, **more) -> str:
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **more}})}'"


@pytest.fixture
def hooks(tmp_path) -> HookLog:
    return HookLog(tmp_path)


async def test_a_member_and_its_sub_agent_have_a_start_and_a_stop_each(tmp_path, backend, hooks):
    hooks.on("SubagentStart").on("SubagentStop")
    given = {"ann": [call("Agent", description="look", prompt="JOB sub look")], "sub": ["seen"]}
    async with house(tmp_path, backend, given, settings_file=hooks.settings) as crew:
        await crew.spawn("ann")
        await crew.asked("ann", 2)
        await crew.quiet()
    kinds = [(one["hook_event_name"], one["agent_id"].partition("@")[0] == "ann") for one in hooks.told]
    assert sorted(kinds) == sorted(
        [("SubagentStart", True), ("SubagentStart", False), ("SubagentStop", False), ("SubagentStop", True)]
    )
    assert not unbalanced(hooks.told)


async def test_a_member_that_is_killed_has_its_one_stop(tmp_path, backend, hooks):
    hooks.on("SubagentStart").on("SubagentStop")
    given = {"ann": [Hold("never")]}
    async with house(tmp_path, backend, given, settings_file=hooks.settings) as crew:
        await crew.spawn("ann")
        await given["ann"][0].come()
        if backend == PROCESS:
            os.kill(crew.team.session.team.find("ann").pid, signal.SIGKILL)
        else:
            await crew.team.stop("ann")
        await crew.until(lambda: not crew.team.session.team.running_members)
    assert [one["hook_event_name"] for one in hooks.told] == ["SubagentStart", "SubagentStop"]


async def test_a_hook_refuses_a_call_or_changes_it_before_it_is_decided_on(tmp_path, backend, hooks):
    other = says("PreToolUse", updatedInput={"file_path": "other", "content": "y"})
    refuse = "echo 'never one' >&2; exit 2"
    hooks.on("PreToolUse", f"case $told in *one*) {refuse};; *two*) {other};; esac", matcher="Write")
    given = {"ann": [write("one"), write("two")]}
    async with house(tmp_path, backend, given, settings_file=hooks.settings, permission_mode="acceptEdits") as crew:
        await crew.spawn("ann")
        await crew.asked("ann", 3)
        await crew.quiet()
        first = crew.results("ann")[0]
    assert "never one" in first
    assert [path.name for path in crew.work.iterdir()] == ["other"]
    assert [one["agent_id"].partition("@")[0] for one in hooks.told] == ["ann", "ann"]


async def test_a_permission_request_goes_to_hooks_once_before_anybody_is_asked(tmp_path, backend, hooks):
    allow = says("PermissionRequest", decision={"behavior": "allow"})
    hooks.on("PermissionRequest", f"case $told in *by-hook*) {allow};; esac")
    given = {"ann": [write("by-hook"), write("asked")]}
    async with house(tmp_path, backend, given, settings_file=hooks.settings) as crew:
        await crew.spawn("ann")
        request = await crew.request()
        assert request.tool == "Write" and "asked" in request.what
        await request.deny("no")
        await crew.asked("ann", 3)
        await crew.quiet()
    assert [one["tool_input"]["file_path"] for one in hooks.told] == ["by-hook", "asked"]
    assert {path.name for path in crew.work.iterdir()} == {"by-hook"} and len(crew.requests) == 1


async def test_hooks_keep_a_member_at_work_and_a_task_open(tmp_path, backend, hooks):
    kept = tmp_path / "kept"
    hooks.on("TeammateIdle", f"test -e {kept} || {{ touch {kept}; echo 'read it again' >&2; exit 2; }}")
    refused = tmp_path / "refused"
    hooks.on("TaskCompleted", f"test -e {refused} || {{ touch {refused}; echo 'not yet' >&2; exit 2; }}")
    done = call("TaskUpdate", taskId="1", status="completed")
    given = {"ann": ["read", "read again", done, done, "finished"]}
    async with house(tmp_path, backend, given, settings_file=hooks.settings) as crew:
        await crew.spawn("ann")
        await crew.asked("ann", 2)
        await crew.quiet()
        assert "read it again" in crew.said_to("ann")
        await crew.team.tasks.add("finish it")
        await crew.asked("ann", 5)
        await crew.quiet()
        first, second = crew.results("ann")[-2:]
        task = await crew.team.tasks.get("1")
    assert "not yet" in first and "not yet" not in second and task.status == "completed"
    assert {one["hook_event_name"] for one in hooks.told} == {"TeammateIdle", "TaskCompleted"}
