"""Events around turns and prompts: a failed turn, a batch of calls, a typed command, a form of an MCP server."""

import json
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.hooks.hook_outcome import read_outcome
from teamwright.models.model import Failure
from teamwright.protocol.errors import TeamRefused
from teamwright.session.slash_command_call import run_command
from teamwright.testing import Call, ScriptedModel
from tests.session.hook_log import HookLog
from tests.session.test_hooks import a_team, own, refusing, run, saying

pytestmark = [pytest.mark.finding("C2"), pytest.mark.promise("G7")]

LIBRARY = str(Path(__file__).parents[1] / "mcp" / "sdk_library_server.py")


@pytest.fixture
def hooks(tmp_path) -> HookLog:
    (tmp_path / "work").mkdir()
    return HookLog(tmp_path)


async def test_a_turn_that_the_service_ends_has_its_event_with_the_kind_of_failure(hooks):
    hooks.on("StopFailure", matcher="authentication_failed").on("Stop")
    await run(hooks, [Failure("wrong-key", "the key is not accepted")])
    [event] = hooks.told
    assert (event["hook_event_name"], event["error"]) == ("StopFailure", "authentication_failed")
    assert "not accepted" in event["error_details"]


async def test_all_calls_of_one_answer_are_one_event_whose_note_the_model_reads(hooks):
    hooks.on("PostToolBatch", own("PostToolBatch", additionalContext="two were run"))
    calls = [Call("Bash", {"command": "echo one"}), Call("Bash", {"command": "exit 3"})]
    _, model, _ = await run(hooks, [calls, "Done."])
    [event] = hooks.told
    assert [(one["tool_name"], one["tool_response"]["success"]) for one in event["tool_calls"]] == [
        ("Bash", True),
        ("Bash", False),
    ]
    assert event["tool_calls"][0]["tool_response"]["stdout"].startswith("one")
    assert "two were run" in model.request_text(1)


async def test_a_batch_that_a_hook_refuses_ends_the_turn(hooks):
    hooks.on("PostToolBatch", refusing("enough"))
    _, model, notices = await run(hooks, [Call("Bash", {"command": "echo one"}), "Never said."])
    assert len(model.requests) == 1 and any("a hook ended the turn: enough" in text for text in notices)


async def test_a_typed_command_has_its_event_before_it_becomes_a_prompt(hooks):
    file = hooks.directory / "work" / ".teamwright" / "commands" / "ship.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nallowed-tools: Bash(touch:*)\n---\nShip $ARGUMENTS.\n!`touch ran`")
    hooks.on("UserPromptExpansion", refusing("not on Fridays"), matcher="ship")
    model = ScriptedModel(["Done."])
    async with a_team(hooks, model, trust=True) as team:
        with pytest.raises(TeamRefused, match="a hook refused /ship: not on Fridays"):
            await run_command(team.session, "/ship", "it all")
    [event] = hooks.told
    assert (event["command_name"], event["command_args"], event["prompt"]) == ("ship", "it all", "/ship it all")
    assert event["expansion_type"] == "slash_command" and not model.requests
    assert not (hooks.directory / "work" / "ran").exists()


async def lend(hooks: HookLog) -> str:
    """The library's answer about a loan, with nobody at the terminal."""
    model = ScriptedModel([Call("mcp__library__lend", {}), "Done."])
    servers = {"library": {"command": sys.executable, "args": [LIBRARY]}}
    kept = {"permission_mode": "bypassPermissions", "settings_file": hooks.settings, "mcp_servers": servers}
    async with Team("crew", model=model, cwd=hooks.directory / "work", **kept) as team:
        await team.run("Do it.")
    return model.request_text(1)


@pytest.mark.slow
async def test_a_hook_answers_a_form_of_a_server_and_another_changes_the_answer(hooks):
    reply = {"action": "accept", "content": {"reader": "Ada", "days": 3}}
    hooks.on("Elicitation", own("Elicitation", **reply), matcher="library")
    hooks.on("ElicitationResult", own("ElicitationResult", action="accept", content={"reader": "Bob", "days": 4}))
    said = await lend(hooks)
    assert said.startswith("accept") and "'reader': 'Bob', 'days': 4" in said
    asked, answered = hooks.told
    assert (asked["mcp_server_name"], asked["message"], asked["mode"]) == ("library", "Lend Emma?", "form")
    assert "reader" in asked["requested_schema"]["properties"]
    assert (answered["action"], answered["content"]) == ("accept", {"reader": "Ada", "days": 3})


@pytest.mark.parametrize("answer", [refusing("never"), saying({"continue": False})], ids=["refuses", "halts"])
@pytest.mark.slow_after(1)
async def test_a_hook_that_refuses_a_form_declines_it(hooks, answer):
    hooks.on("Elicitation", answer)
    assert (await lend(hooks)).startswith("decline")


def test_an_answer_to_a_form_with_an_unknown_action_is_none():
    said = json.dumps({"hookSpecificOutput": {"action": "perhaps"}})
    assert read_outcome("Elicitation", 0, said, "").elicitation is None
