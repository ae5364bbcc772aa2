"""What a resume must not take from a team, line by line of what goes on with it."""

import asyncio
from dataclasses import replace

import pytest

from teamwright import Team
from teamwright.testing import ScriptedModel
from tests.teams.crew import Holding, a_team, told, until


def resumed(tmp_path, model, **more) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", **more)


@pytest.mark.promise("D8", "D3")
async def test_who_was_asked_to_stop_because_the_session_was_left_goes_on_when_it_is_resumed(tmp_path):
    held = Holding({"lead": ["ok"] * 9, "ada": ["never said"]}, "ada")
    async with a_team(tmp_path, held) as team:
        team.session.team.settings = replace(team.session.team.settings, goodbye_s=0.01)
        await team.spawn("ada", "Think.")
        await asyncio.wait_for(held.thinking.wait(), 10)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Thought.", "Still here."]})
    async with resumed(tmp_path, model) as team:
        ada = team.session.team.members["ada"]
        await until(team, lambda: ada.turns >= 1 and ada.state in {"idle", "completed"})
        await team.send("ada", "Are you there?")
        await until(team, lambda: ada.turns == 2 and ada.state == "idle")
        assert not ada.asked and not ada.leaving
    assert "being left" not in told(model, "ada")


class HeldAtSecond(Holding):
    """Lets the first call of everybody through."""

    async def stream(self, request):
        if len(request.items) == 1:
            async for part in ScriptedModel.stream(self, request):
                yield part
            return
        async for part in super().stream(request):
            yield part


@pytest.mark.promise("D8", "D3")
async def test_who_had_read_that_request_is_told_that_it_is_withdrawn(tmp_path):
    gate = asyncio.Event()

    async def wait_for_the_goodbye() -> str:
        """Waits."""
        await gate.wait()
        return "waited"

    script = {"lead": ["ok"] * 9, "ada": [("python__wait_for_the_goodbye", {}), "never said"]}
    held = HeldAtSecond(script, "ada")
    async with a_team(tmp_path, held, tools=[wait_for_the_goodbye]) as team:
        team.session.team.settings = replace(team.session.team.settings, goodbye_s=0.5)
        asked = "shutdown_request"
        team.session.log.subscribe(lambda _n, event: gate.set() if getattr(event, "wire", "") == asked else None)
        await team.spawn("ada", "Wait.")
    assert held.thinking.is_set()
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Then I stop.", "Then I go on."]})
    async with resumed(tmp_path, model) as team:
        ada = team.session.team.members["ada"]
        await until(team, lambda: ada.turns >= 1 and ada.state == "idle" and not ada.desk.notices)
        assert not ada.leaving
    assert told(model, "ada").count("is withdrawn") == 1
