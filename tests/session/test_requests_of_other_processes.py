"""What another process of the user asks, heard by a team in this one: starts that cross, programs, bells."""

import asyncio
import json
import os

import pytest

from teamwright import Team
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import MessageDelivered
from teamwright.protocol.members import MemberState
from teamwright.requests.request_store import LeadProcess, StopRequest, open_stops
from teamwright.saved.member_control import send, stop_member, stop_team
from teamwright.saved.team_access import FileAccess, find_address
from teamwright.storage.doorbell import ring
from teamwright.storage.file_watcher import Watcher
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, told, until, within


async def target_of(team):
    return find_address(FileAccess(team.session.team.home), "crew")[0]


@pytest.mark.promise("D4")
async def test_a_member_whose_start_is_under_way_is_ended_once_it_lives(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        agent_factory, begun, go = team.session.team.builder, asyncio.Event(), asyncio.Event()

        class Slow:
            prepare = staticmethod(agent_factory.prepare)

            async def build_teammate(self, *given):
                begun.set()
                await go.wait()
                return await agent_factory.build_teammate(*given)

        team.session.team.builder = Slow()
        starting = asyncio.create_task(team.spawn("ada", "Wait."))
        await within(WAIT_S, begun.wait())
        stopping = asyncio.create_task(stop_member(await target_of(team), "ada", now=True))
        box = team.session.team.requests
        await within(WAIT_S, until_there(box.directory, lambda: open_stops(box)))
        go.set()
        stopped = await asyncio.wait_for(stopping, WAIT_S)
        assert stopped.ended == ("ada",)
        await asyncio.wait([starting], timeout=WAIT_S)
        assert starting.done()
        assert not team.members
        assert "ada" not in [member.name for member in (await target_of(team)).config.members]


async def until_there(directory, condition) -> None:
    async with Watcher() as watcher:
        changed = asyncio.Event()
        watcher.follow(directory, changed.set)
        while not condition():
            changed.clear()
            if not condition():
                await changed.wait()


@pytest.mark.promise("P7")
async def test_the_program_that_leads_a_team_is_not_ended_from_another_terminal(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.")
        with pytest.raises(TeamRefused, match="a program leads this team"):
            await stop_team(await target_of(team), now=True)
        assert [member.name for member in team.members] == ["ada"]


@pytest.mark.promise("C2", "P1")
async def test_a_ring_wakes_an_idle_member_and_its_bell_goes_with_it(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        ada = await team.spawn("ada", "Wait.")
        teammate = team.session.team.find("ada")
        await until(team, lambda: teammate.state is MemberState.IDLE and teammate.is_resting)
        seen = []
        team.session.log.subscribe(lambda _n, event: seen.append(event), live=False)
        team.session.log.flush()  # the state that another process knows is the log's
        delivery = await send(await target_of(team), "ada", "Hello.")
        assert delivery.outcome == "woke"
        await until(
            team, lambda: any(isinstance(e, MessageDelivered) and delivery.message_id in e.message_ids for e in seen)
        )
        bell = team.session.team.home.doorbell("crew", "ada")
        assert ring(bell)
        await ada.stop()
        assert not ring(bell)
        leads = team.session.team.home.doorbell("crew", "team-lead")
        assert ring(leads)
    assert not ring(leads)


@pytest.mark.promise("P4")
async def test_an_end_at_once_does_not_wait_for_who_thinks(tmp_path, own_home):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        both = [stop_member(await target_of(team), "ada", now=now) for now in (False, True)]
        answers = await asyncio.wait_for(asyncio.gather(*both), WAIT_S)
        assert {one.outcome for one in answers} <= {"ended", "not_running"}
        assert not team.members
        assert not open_stops(team.session.team.requests)


async def test_a_name_with_an_at_sign_is_a_team_before_it_is_a_member(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        access = FileAccess(team.session.team.home)
        target, name = find_address(access, "ada@crew")
        assert (target.name, name) == ("crew", "ada")
        target, name = find_address(access, "crew")
        assert (target.name, name) == ("crew", "")


@pytest.mark.promise("P3", "P4")
@pytest.mark.slow
async def test_a_request_is_bound_to_one_life_of_the_lead(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.")
        box, own = team.session.team.requests, LeadProcess(str(team.session.id), os.getpid(), "an earlier day")
        StopRequest.new("ada", now=True, lead=own).open_in(box, 5)
        [request] = open_stops(box)
        ring(team.session.team.home.doorbell("crew", "team-lead"))
        await within(WAIT_S, until_there(box.directory, lambda: box.get_answer(request.id)))
        answer = box.get_answer(request.id)
        assert answer["approve"] is False
        assert "resumed" in answer["reason"]
        assert [member.name for member in team.members] == ["ada"]


ASKS = ("Bash", {"command": "touch made"})


def settings(own_home, **values) -> None:
    (own_home / ".teamwright").mkdir(exist_ok=True)
    (own_home / ".teamwright" / "settings.json").write_text(json.dumps(values))


@pytest.mark.promise("D4", "P4")
async def test_a_member_whose_question_waits_ends_at_once_and_its_question_is_withdrawn(tmp_path, own_home):
    settings(own_home, shutdown_objection_s=10 * WAIT_S)
    model = ScriptedModel({"lead": "ok", "ada": [ASKS]})
    async with a_team(tmp_path, model, permission_mode="default", on_request=lambda _: None) as team:
        await team.spawn("ada", "Make it.")
        await until(team, lambda: team.session.team.find("ada").waits_for_answer)
        stopped = await asyncio.wait_for(stop_member(await target_of(team), "ada", now=False), WAIT_S)
        assert (stopped.outcome, stopped.ended) == ("ended", ("ada",))
        assert "while it waited for an answer" in stopped.reason
        assert (team.requests, Team.open_requests()) == ([], [])


@pytest.mark.promise("D4", "P4")
async def test_a_member_that_asks_again_after_it_read_the_request_ends_at_once(tmp_path, own_home):
    settings(own_home, shutdown_objection_s=10 * WAIT_S)
    model = Holding({"lead": "ok", "ada": [[("Glob", {"pattern": "*"})], ASKS]}, "ada")
    async with a_team(tmp_path, model, permission_mode="default", on_request=lambda _: None) as team:
        await team.spawn("ada", "Make it.")
        await within(WAIT_S, model.thinking.wait())
        stopping = asyncio.create_task(stop_member(await target_of(team), "ada", now=False))
        await until(team, lambda: team.session.team.find("ada").stop_request_id)
        model.go.set()
        stopped = await asyncio.wait_for(stopping, WAIT_S)
        assert (stopped.ended, Team.open_requests()) == (("ada",), [])
        assert "shutdown_request" in told(model, "ada"), "it had the request before it asked"
