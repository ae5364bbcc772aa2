"""Causes of the lead's turns during a headless run, and how often each occurs."""

import asyncio

import pytest

from teamwright import TurnEnded
from teamwright.protocol.ids import LEAD
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, newest, told, until
from tests.teams.watched import Told

REMINDED = "No teammate is working"
STOP = ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request", "reason": "enough"}})


@pytest.mark.promise("D6", "F68", "F70")
@pytest.mark.finding("T13")
@pytest.mark.parametrize("still_open", [True, False], ids=["a task is open", "no task is open"])
async def test_the_lead_is_reminded_once_when_all_members_are_idle_and_a_task_is_open(tmp_path, still_open):
    model = Holding(lambda request: f"{request.agent_name}: I have read it.", "ada")
    async with a_team(tmp_path, model) as team:
        heard, crew = Told(team), team.session.team
        if still_open:
            await crew.tasks.create("the last job", "", by=LEAD, metadata={"for": ["nobody"]})
        await team.spawn("ada", "Count the files.")
        run = team.run("See it through.")
        await heard.one(TurnEnded, member=LEAD)
        assert not crew.is_quiet() and REMINDED not in told(model, LEAD), "ada is at work"
        model.go.set()
        async with asyncio.timeout(WAIT_S):
            assert (await run).ok
        turns = [request for request in model.requests if request.agent_name == LEAD]
        assert "ada: I have read it." in told(model, LEAD)
        assert len(turns) == (3 if still_open else 2), "the prompt, the report of ada, the reminder"
        assert told(model, LEAD).count(REMINDED) == still_open
        if still_open:
            assert "- ada: idle" in newest(turns[-1])
            assert "- task #1 [pending] the last job" in newest(turns[-1])


@pytest.mark.promise("D6", "C4")
@pytest.mark.finding("T13")
async def test_the_shutdown_of_a_member_wakes_the_lead_once(tmp_path):
    def script(request):
        if request.agent_name == "ada":
            return "ok"
        return STOP if "Stop ada." in newest(request) else "Understood."

    async with a_team(tmp_path, Holding(script)) as team:
        heard = Told(team)
        await team.spawn("ada", "Wait.")
        await until(team, team.session.team.is_quiet)
        async with asyncio.timeout(WAIT_S):
            assert (await team.run("Stop ada.")).ok
        last = told(team.session.lead.agent.model, LEAD)
        assert last.count("agreed to stop") == 1 and "ada has ended" in last
        assert len(heard.of(TurnEnded, member=LEAD)) == 2, "the prompt, and the end of ada"
