"""Who may read and stop what: whoever started it, the lead all of it; commands and members too."""

import json

import pytest

from teamwright.protocol.ids import LEAD
from teamwright.testing import Call, ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import within
from tests.teams.subagents.crowd import crew, until


@pytest.mark.promise("row F12", "D4")
async def test_the_lead_stops_a_member_by_name_and_a_member_stops_nobody_elses(tmp_path):
    model = ScriptedModel(
        {
            LEAD: [Call("Bash", {"command": "sleep 60", "run_in_background": True}), "I wait.", "ok", "ok", "ok"],
            "ada": [Call("TaskStop", {"task_id": "bob"}), "Tried.", "ok"],
            "bob": ["Here.", "ok"],
        }
    )
    async with crew(tmp_path, model) as team:
        await within(WAIT_S, team.run("Go."))
        [job] = team.session.jobs.list()
        await team.spawn("bob", "Be there.")
        await team.spawn("ada", "Stop bob.")
        await until(team, lambda: any(r.agent_name == "ada" and len(r.items) == 3 for r in model.requests))
        asked = next(r for r in model.requests if r.agent_name == "ada" and len(r.items) == 3)
        assert b"only the lead ends a member" in asked.items[-1]
        tools = {tool.name: tool.load() for tool in team.session.lead.agent.toolbox.tools}
        ctx = team.session.lead.agent.toolbox
        from teamwright.agent.tool import ToolContext

        async def call(name, **given):
            tool = tools[name]
            return await tool.run(tool.input_type.model_validate(given), ToolContext(LEAD, ctx.workplace))

        stopped = json.loads((await call("TaskStop", task_id="bob")).content)
        assert stopped["task_type"] == "teammate" and team.session.team.find("bob") is None
        assert json.loads((await call("TaskStop", shell_id=job.id)).content)["task_type"] == "local_bash"
        assert job.state == "stopped"
        assert "is not running (status: stopped)" in (await call("TaskStop", task_id=job.id)).content
        shown = (await call("TaskOutput", task_id=job.id)).content
        assert "<task_type>local_bash</task_type>" in shown and "<status>stopped</status>" in shown
