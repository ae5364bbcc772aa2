"""What a resume must not take from a team, line by line of what goes on with it."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.app.opening import open_session
from teamwright.app.options import Options
from teamwright.protocol.blocks import text_block
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import Entry
from teamwright.storage.paths import home_of
from teamwright.teams.catalogue import NewTeam
from teamwright.teams.team_file import LeadLease
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


async def until_true(session, condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            session.team.changed.clear()
            if not condition():
                await session.team.changed.wait()


def options(tmp_path, model, **more) -> Options:
    return Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", **more)


@pytest.mark.promise("P1", "D8")
async def test_mail_of_the_sessions_own_team_follows_into_the_new_one_though_a_kill_came_between(tmp_path, own_home):
    home = home_of()
    async with open_session(options(tmp_path, ScriptedModel("ok"))) as session:
        team, late = session.team, Entry("bob", "late words", msg_id=message_id())
        await team.ensure()
        await team.inbox(LEAD).send(late)
        lead = LeadLease(session.id, os.getpid(), team.lease)
        await team.teams.create(NewTeam("crew", lead, str(tmp_path), "m", now_ms()))  # killed before the mail moved
    model = ScriptedModel(["ok"] * 9)
    async with open_session(options(tmp_path, model, resume=session.id)) as session:
        assert session.team.name == "crew"
        await session.run([text_block("Go on.")])
        assert not home.config(f"session-{session.id[:8]}").exists()
    async with open_session(options(tmp_path, model, resume=session.id)) as session:
        await session.run([text_block("And on.")])
    assert told(model, LEAD).count("late words") == 1


@pytest.mark.promise("P1")
async def test_a_team_that_is_being_made_is_made_whole_though_the_call_is_cancelled(tmp_path, own_home):
    model = ScriptedModel(["ok"] * 9)
    async with open_session(options(tmp_path, model)) as session:
        team = session.team
        await team.ensure()
        await team.inbox(LEAD).send(Entry("bob", "late words", msg_id=message_id()))
        barred = Path(f"{team.home.config(team.directory)}.lock")
        barred.mkdir()  # another program changes the roster of the team that makes way
        made = asyncio.create_task(team.create("crew", None, None))
        await until_true(session, lambda: team.name == "crew")
        made.cancel()
        barred.rmdir()
        await asyncio.wait({made})
        assert made.cancelled() and not team.home.config(team.session_list).exists()
        await session.run([text_block("Go on.")])
    assert told(model, LEAD).count("late words") == 1
