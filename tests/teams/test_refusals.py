"""What a model reads when it may not: what happened, what to do next, nothing that it wrote itself."""

import json

import pytest

from teamwright import Team
from teamwright.protocol.messages import message_text
from teamwright.testing import ScriptedModel

LONG = "x" * 5_000


def results(model: ScriptedModel, name: str) -> list[str]:
    """The results of the agent's calls, oldest first."""
    request = [one for one in model.requests if one.agent_name == name][-1]
    found: list[str] = []
    for item in request.items:
        for block in json.loads(item)["content"]:
            if block["type"] == "tool_result":
                content = block["content"]
                found.append(content if isinstance(content, str) else message_text(content))
    return found


async def refused(tmp_path, name: str, call: tuple[str, dict]) -> str:
    """What `lead`, or the member `ada`, is told of its one call."""
    model = ScriptedModel({name: [call, "done"], "lead" if name == "ada" else "ada": ["ok"] * 9})
    async with Team("crew", model=model, cwd=tmp_path) as team:
        if name == "ada":
            await team.spawn("ada", "Do it.")
        await team.run("Go.")
    return results(model, "team-lead" if name == "lead" else name)[0]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("lead", ("SendMessage", {"to": "ghost", "message": "hi"})),
        ("lead", ("SendMessage", {"to": "lead", "message": "hi"})),
        ("lead", ("SendMessage", {"to": "*", "message": "hi"})),
        ("lead", ("SendMessage", {"to": "", "message": "hi"})),
        ("lead", ("SendMessage", {"to": "*", "message": {"type": "shutdown_request"}})),
        ("lead", ("SendMessage", {"to": "lead", "message": {"type": "shutdown_request"}})),
        ("lead", ("SendMessage", {"to": "ada", "message": {"type": "shutdown_response", "approve": True}})),
        ("ada", ("SendMessage", {"to": "lead", "message": "  "})),
        ("ada", ("SendMessage", {"to": "lead", "message": {"type": "shutdown_request"}})),
        ("ada", ("SendMessage", {"to": "lead", "message": {"type": "shutdown_response"}})),
        ("ada", ("SendMessage", {"to": "lead", "message": {"type": "plan_approval_response", "approve": True}})),
        ("ada", ("Agent", {"description": "one more", "prompt": "Go.", "name": "ben"})),
        ("lead", ("Agent", {"description": "d", "prompt": "p", "subagent_type": "Explorer"})),
        ("lead", ("TaskUpdate", {"taskId": "99", "status": "completed"})),
        ("lead", ("TaskGet", {"taskId": "99"})),
        ("lead", ("Bash", {"command": f"python3 -c '{LONG}'"})),
        ("lead", ("Bash", {"command": f"rm {LONG}"})),
        ("lead", (LONG, {})),
        ("lead", ("Read", {"file_path": "nowhere.py"})),
        ("lead", ("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"})),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0][:12]} {json.dumps(value[1])[:50]}",
)
@pytest.mark.slow_after(3)
async def test_a_refusal_says_what_happened_and_what_to_do_next(tmp_path, name, call):
    told = await refused(tmp_path, name, call)
    lines = told.split("\n")
    assert len(lines) == 2, told
    assert len(told) < 1_000
    assert all(line.strip() for line in lines)


async def test_the_sender_of_a_long_message_is_not_sent_it_back(tmp_path):
    told = await refused(tmp_path, "ada", ("SendMessage", {"to": "lead", "message": LONG}))
    assert '"success": true' in told
    assert len(told) < 1_000


@pytest.mark.finding("T6")
async def test_a_second_team_create_answers_with_the_team_that_the_session_leads_also_under_another_name(tmp_path):
    calls = [("TeamCreate", {"team_name": name}) for name in (" crew ", "other")]
    own = [("TeamDelete", {}), ("Agent", {"name": "ada", "description": "d", "prompt": "p"}), calls[1]]
    model = ScriptedModel({"lead": [*calls, *own, "done", "done", "done"], "ada": ["ok"] * 3})
    async with Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        await team.run("Go.")
        implicit = team.session.team.session_list_name
    same, other, _, _, of_session = results(model, "team-lead")
    assert json.loads(same) == json.loads(other)
    assert json.loads(same)["team_name"] == "crew" and json.loads(same)["lead_agent_id"] == "lead@crew"
    assert json.loads(same)["note"] == 'You lead the team "crew" already: use it. Nothing was created.'
    assert json.loads(of_session)["team_name"] == implicit and "use it" in json.loads(of_session)["note"]


@pytest.mark.finding("T6")
@pytest.mark.parametrize(
    "call",
    [
        ("SendMessage", {"to": "lead", "message": {"type": "shutdown_request"}}),
        ("Agent", {"description": "one more", "prompt": "Go.", "name": "ben"}),
        ("TaskStop", {"task_id": "ada"}),
    ],
    ids=lambda call: call[0],
)
async def test_a_refusal_calls_the_lead_by_the_name_that_models_know(tmp_path, call):
    told = await refused(tmp_path, "ada", call)
    assert " lead" in told and "team-lead" not in told


@pytest.mark.parametrize("name", ["lead", "team-lead"])
async def test_a_message_reaches_the_lead_under_both_its_names(tmp_path, name):
    told = await refused(tmp_path, "ada", ("SendMessage", {"to": name, "message": "hi", "summary": "hi"}))
    assert json.loads(told)["success"] is True
