"""Members whose model runs on a server of the user: a shutdown waits while it computes, and one slot serves a team."""

import asyncio
import json
import re
import time

import pytest

from teamwright import Team
from teamwright.agent.tool_input import NoInput
from teamwright.models.model import SLOT_WAIT, AlivePart
from teamwright.protocol.events import Progress
from teamwright.protocol.ids import LEAD
from teamwright.team_records.team_status import MemberStatus
from teamwright.teams import shutdown_requests
from teamwright.teams.shutdown_requests import ask_to_stop, is_computed_for
from teamwright.testing import ScriptedModel
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.tools.caller import Caller
from teamwright.tools.team.list_agents import ListAgents
from tests.support.slow_server import props
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("R9")

LIMIT_S = 0.3


class Slow(ScriptedModel):
    """Calls of ada, by number, are read by the server until the test lets them go; the others answer at once."""

    def __init__(self, script, slow):
        super().__init__(script)
        self.go = {number: asyncio.Event() for number in slow}
        self.reading = {number: asyncio.Event() for number in slow}
        self.calls = 0

    async def stream(self, request):
        self.calls += 1
        number = self.calls
        if number in self.go:
            yield AlivePart(prompt_read=0.41)
            self.reading[number].set()
            await self.go[number].wait()
        async for part in super().stream(request):
            yield part


async def until(team, fits):
    async with asyncio.timeout(WAIT_S):
        async for _, event in team.events(after=0, answers=False):
            if fits(event):
                return


def reads(event):
    return isinstance(event, Progress) and (event.member, event.doing, event.what) == ("ada", "prompt", "41 %")


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(shutdown_requests, "LOOK_EVERY_S", 0.02)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"shutdown_objection_s": LIMIT_S}))
    return file


def a_team(tmp_path, model, settings):
    return Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", settings_file=settings)


async def test_a_member_whose_prompt_is_read_is_not_ended_and_answers_the_request_with_its_next_call(
    tmp_path, settings
):
    def script(request):
        found = re.search(r"shutdown-[^@\"\\]+@ada", request.items[-1].decode())
        agreed = {"type": "shutdown_response", "request_id": found[0], "approve": True} if found else None
        return ("SendMessage", {"to": "team-lead", "message": agreed}) if agreed else "I thought."

    model = Slow(script, {1})
    async with a_team(tmp_path, model, settings) as team:
        ada = await team.spawn("ada", "Think.")
        await until(team, reads)
        inner = team.session.team
        listed = await ListAgents(Caller(LEAD, inner)).run(NoInput(), None)
        assert "reads the prompt 41 %" in listed.content
        request = await ask_to_stop(inner, "ada", "", team.session.deadlines.timers)
        run = inner.members["ada"].run_task
        done, _ = await asyncio.wait({run}, timeout=3 * LIMIT_S)
        assert not done and inner.requests.get_answer(request) is None
        model.go[1].set()
        async with asyncio.timeout(WAIT_S):
            await run
        assert ada.state == "gone"
        assert inner.requests.get_answer(request)["by"] == "ada"


async def test_a_member_that_works_on_instead_of_answering_is_ended_though_its_server_computes(tmp_path, settings):
    model = Slow([("ListAgents", {}), ("ListAgents", {}), "never"], {1, 3})
    async with a_team(tmp_path, model, settings) as team:
        await team.spawn("ada", "Think.")
        await until(team, reads)
        inner = team.session.team
        request = await ask_to_stop(inner, "ada", "", team.session.deadlines.timers)
        model.go[1].set()
        async with asyncio.timeout(WAIT_S):
            await model.reading[3].wait()
            await asyncio.wait({inner.members["ada"].run_task})
        assert inner.requests.get_answer(request)["reason"] == "no answer in time"


@pytest.mark.parametrize(
    ("status", "alive"),
    [
        ({"doing": "prompt", "own_server": True}, True),
        ({"doing": "model", "own_server": True}, True),
        ({"doing": "model", "own_server": True, "stalled": True}, False),
        ({"doing": "pause", "what": SLOT_WAIT}, True),
        ({"doing": "pause", "what": "the rate limit"}, False),
        ({"doing": "model"}, False),
        ({"doing": "tool", "what": "Bash make"}, False),
        ({"doing": "prompt", "own_server": True, "doing_since": 1.0}, False),
    ],
)
def test_what_counts_as_alive_is_an_answer_that_a_server_of_the_user_computes(status, alive):
    assert is_computed_for(MemberStatus("ada", **{"doing_since": time.time(), **status})) is alive


async def test_one_slot_serves_a_lead_with_a_sub_agent_and_three_members(tmp_path):
    running = most = 0

    def answer(texts):
        if "LOOK" in texts[-1]:
            return "Seen."
        if "LEAD" in texts[-1]:
            return Answer(
                tools=[("Agent", {"description": "look", "prompt": "LOOK at it.", "subagent_type": "Explore"})]
            )
        return "Done."

    async def script(body):
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(0)
            return answer([json.dumps(message) for message in body["messages"]])
        finally:
            running -= 1

    async with asyncio.timeout(WAIT_S), LoopbackModel(script, facts=props(1)) as server:
        house = {"base_url": f"{server.url}/v1", "api": "openai-chat"}
        file = tmp_path / "settings.json"
        file.write_text(json.dumps({"providers": {"house": house}}))
        async with a_team(tmp_path, "house/small", file) as team:
            members = [await team.spawn(name, f"JOB of {name}.") for name in ("ada", "ben", "cyd")]
            result = await team.run("LEAD it.")
            for one in members:
                await until(team, lambda e, one=one: e.KIND == "turn_ended" and e.member == one.name)
    assert result.ok and result.text == "Done."
    assert most == 1
    assert sum("LOOK" in json.dumps(body["messages"][-1]) for body in server.bodies) == 1
