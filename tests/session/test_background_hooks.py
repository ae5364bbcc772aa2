"""Background hooks of agents: a hook that found something wakes the lead; a note waits for its next turn."""

import asyncio
import json

import pytest

from teamwright import Team
from teamwright.models.model import Request
from teamwright.protocol.ids import LEAD
from teamwright.testing import Call, ScriptedModel
from teamwright.testing.scripted_model import ScriptedAnswer
from tests.session.hook_log import HookLog
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("C2")


def a_team(hooks: HookLog, model: ScriptedModel) -> Team:
    work = hooks.directory / "work"
    work.mkdir()
    return Team("crew", model=model, cwd=work, permission_mode="bypassPermissions", settings_file=hooks.settings)


async def test_a_background_hook_that_refuses_wakes_the_idle_lead(tmp_path):
    hooks = HookLog(tmp_path).on(
        "PostToolUse",
        "echo 'a secret was committed' >&2; exit 2",
        matcher="Bash",
        **{"asyncRewake": True, "rewakeMessage": "The review says:", "if": "Bash(git commit:*)"},
    )
    calls = [Call("Bash", {"command": "echo hi"}), Call("Bash", {"command": "git commit -h; true"}), "Done.", "Seen."]
    model = ScriptedModel(calls)
    async with a_team(hooks, model) as team:
        await team.run("Do it.")
        async with asyncio.timeout(WAIT_S):
            while "a secret was committed" not in model.request_text(-1):
                await team.session.lead.wait()
                await team.session.lead.run_turn()
    assert "The review says:" in model.request_text(-1)
    assert len(hooks.told) == 1, "the condition left the other call out"


async def test_a_note_of_an_async_hook_waits_for_the_next_turn_and_its_decision_has_no_effect(tmp_path):
    said = {
        "decision": "block",
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "3 tests passed"},
    }
    hooks = HookLog(tmp_path).on("PostToolUse", f"echo '{json.dumps(said)}'", matcher="Bash", **{"async": True})
    model = ScriptedModel([Call("Bash", {"command": "echo hi"}), "Done.", "Good."])
    async with a_team(hooks, model) as team:
        await team.run("Do it.")
        runner = team.session.agent_factory.toolset.hooking
        assert runner is not None
        await runner.hooks.close()
        assert len(model.requests) == 2, "nothing woke the lead"
        await team.run("More.")
    assert "3 tests passed" in model.request_text(2)


@pytest.mark.parametrize("name", ["", "ada"])
async def test_a_background_hook_reaches_the_sub_agent_or_teammate_of_its_call(tmp_path, name):
    hooks = HookLog(tmp_path).on("PostToolUse", "echo 'it leaks' >&2; exit 2", matcher="Bash", **{"asyncRewake": True})
    teams: list[Team] = []

    async def settle() -> str:
        """Wait for the hooks that run in the background."""
        runner = teams[0].session.agent_factory.toolset.hooking
        assert runner is not None
        await runner.hooks.close()
        return "settled"

    spawn = {"subagent_type": "general-purpose", "prompt": "x", "description": "d", **({"name": name} if name else {})}
    worker = iter([Call("Bash", {"command": "echo hi"}), Call("python__settle", {}), "Seen."])
    lead = iter([Call("Agent", spawn)])

    def answer(request: Request) -> ScriptedAnswer:
        return next(lead, "Done.") if request.agent_name == LEAD else next(worker, "Seen.")

    model = ScriptedModel(answer)
    work = tmp_path / "work"
    work.mkdir()
    team = Team(
        "crew",
        model=model,
        cwd=work,
        permission_mode="bypassPermissions",
        settings_file=hooks.settings,
        tools=[settle],
    )
    teams.append(team)
    async with team:
        await team.run("Go.")
    told = {request.agent_name for request in model.requests for item in request.items if b"it leaks" in item}
    assert told and LEAD not in told
