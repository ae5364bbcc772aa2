"""A member's turn that a person cuts short: the member stays, and nothing is owed until the next words."""

import asyncio
import json

import pytest

from teamwright import Team
from teamwright.agent.conversation import Conversation
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, told, until, within


def idle_notices(name: str) -> list[dict]:
    texts = [entry["text"] for entry in json.loads(find_home().inbox("crew", LEAD).read_bytes())]
    return [m for m in map(json.loads, texts) if m.get("type") == "idle_notification" and m.get("from") == name]


@pytest.mark.promise("C8", "F28")
async def test_an_interrupted_member_stays_says_so_and_goes_on_with_the_next_words(tmp_path):
    model = Holding({"lead": ["ok"] * 9, "ada": ["I go on with both."]}, "ada")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Think long.")
        await within(WAIT_S, model.thinking.wait())
        task = await team.tasks.add("not for somebody who was interrupted")
        assert ada.interrupt() and not ada.interrupt(), "once is enough"
        await until(team, lambda: ada.state == "idle")
        model.held.clear()
        assert [m.get("idleReason") for m in idle_notices("ada")] == ["interrupted"]
        assert (await team.tasks.get(task)).owner is None
        await ada.send("Go on, shorter.")
        await until(team, lambda: ada.state == "idle" and len(model.requests) >= 1)
        assert not ada.interrupt(), "it is in no turn"
    assert "Think long." in told(model, "ada") and "Go on, shorter." in told(model, "ada")


@pytest.mark.promise("C8", "D4")
async def test_a_member_that_is_ended_while_it_is_interrupted_is_ended(tmp_path):
    model = Holding({"lead": ["ok"] * 9}, "ada")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Think long.")
        await within(WAIT_S, model.thinking.wait())
        assert ada.interrupt()
        await ada.stop()
        assert not team.members and not ada.interrupt()


@pytest.mark.promise("P1", "C8", "D8")
async def test_what_was_interrupted_is_not_owed_at_a_resume_and_goes_along_with_the_next_words(tmp_path):
    model = Holding({"lead": ["ok"] * 9}, "ada")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Think long.")
        await within(WAIT_S, model.thinking.wait())
        ada.interrupt()
        await until(team, lambda: ada.state == "idle")
    again = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Both."]})
    async with Team.resume("crew", model=again, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.is_resting)
        assert not again.requests and teammate.is_paused
        await team.send("ada", "Go on.")
        await until(team, lambda: teammate.turns == 1 and teammate.state == "idle")
    assert told(again, "ada").count("Think long.") == 1


@pytest.mark.promise("C8", "H1")
async def test_an_interrupt_in_the_middle_of_a_command_leaves_a_conversation_that_loads(tmp_path):
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": [("Bash", {"command": "sleep 60"}), "Stopped."]})
    async with a_team(tmp_path, model) as team:
        started = asyncio.Event()
        team.session.log.subscribe(lambda _n, event: started.set() if event.KIND == "tool_started" else None)
        ada = await team.spawn("ada", "Wait a minute.")
        await within(WAIT_S, started.wait())
        assert ada.interrupt()
        await until(team, lambda: ada.state == "idle")
        conversation = team.session.team.members["ada"].agent.conversation
        loaded = Conversation.load(conversation.path, conversation.prefix)
        assert loaded.interrupted and not loaded.owes_answer and not loaded.unanswered_calls()
        await ada.send("Never mind.")
        await until(team, lambda: len(model.requests) == 2 and ada.state == "idle")
    assert "interrupted" in told(model, "ada")


@pytest.mark.promise("C8", "H1")
async def test_calls_that_wait_for_permission_or_behind_one_are_said_never_to_have_run(tmp_path):
    calls = [("Bash", {"command": "touch made"}), ("Bash", {"command": "touch more"})]
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": [calls, "Stopped."]})
    async with a_team(tmp_path, model, permission_mode="default", on_request=lambda _: None) as team:
        ada = await team.spawn("ada", "Make it.")
        await until(team, lambda: ada.state == "blocked")
        assert ada.interrupt()
        await until(team, lambda: ada.state == "idle")
        await ada.send("Never mind.")
        await until(team, lambda: len(model.requests) == 2 and ada.state == "idle")
    assert told(model, "ada").count("interrupted before this call ran: nothing of it was done") == 2
    assert "stays done" not in told(model, "ada")
