"""Plans that were open, answered or half applied when the session was left: the next process goes on with them."""

import json

import pytest

from teamwright import Team
from teamwright.permissions.verdict import PermissionAnswer
from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD
from teamwright.requests.request_store import RequestStore
from teamwright.storage.paths import find_home
from teamwright.teams.plan_approval import answer_plan
from teamwright.teams.plan_requests import answer_body
from teamwright.testing import ScriptedModel
from tests.teams.crew import Holding, a_team, told, until
from tests.teams.planners import hand_in, made, newest, record, rows, touched, wire


def resumed(tmp_path, model, **more) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", **more)


def ada(request):
    if request.agent_name != "ada":
        return "ok"
    last = newest(request)
    if "was approved" in last:
        return ("Bash", {"command": "touch made"})
    return hand_in() if not made(request, "ExitPlanMode") else "ok"


async def leave_with_a_plan_open(tmp_path, **more) -> str:
    async with a_team(tmp_path, ScriptedModel(ada), **more) as team:
        await team.spawn("ada", "Plan.", mode="plan")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting" and teammate.is_resting)
        return teammate.pending_plan.request_id


async def mode_at_rest(tmp_path, model) -> str:
    """The mode of the member once it has gone on with whatever there was."""
    async with resumed(tmp_path, model) as team:
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.is_resting and teammate.state == "idle")
        return str(teammate.agent.policy.mode)


@pytest.mark.promise("G5", "D8", "D2")
async def test_an_open_plan_waits_on_and_no_model_is_asked_for_that(tmp_path):
    id = await leave_with_a_plan_open(tmp_path)
    file = record()["file"]
    model = ScriptedModel(ada)
    async with resumed(tmp_path, model) as team:
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting" and teammate.is_resting)
        assert teammate.pending_plan.request_id == id and str(teammate.agent.policy.mode) == "plan"
        assert not [r for r in model.requests if r.agent_name == "ada"]
        await answer_plan(team.session.team, id, PermissionAnswer(True, LEAD))
        await until(team, lambda: teammate.turns == 1 and teammate.state == "idle")
    assert touched(tmp_path) and record()["file"] == file
    assert told(model, "ada").count("Your plan was approved.") == 1


@pytest.mark.promise("G5", "F47", "P4")
@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("point", ["answered", "applied", "told"])
@pytest.mark.slow_after(1)
async def test_an_answer_that_was_cut_off_is_applied_and_told_once(tmp_path, approve, point):
    id = await leave_with_a_plan_open(tmp_path)
    box = RequestStore(find_home().requests("crew"))
    assert box.answer(id, answer_body(approve, "because", LEAD))
    if point != "answered":
        model = Holding(ada, "ada")
        short = tmp_path / "short.json"
        short.write_text('{"shutdown_timeout_s": 0.1}')
        async with resumed(tmp_path, model, settings_file=short):
            await model.thinking.wait()
        if point == "applied":  # the mode had changed, and the message was not written yet
            inbox = find_home().inbox("crew", "ada")
            kept = [e for e in json.loads(inbox.read_bytes()) if "plan_approval_response" not in e["text"]]
            inbox.write_text(json.dumps(kept))
            transcript = next(find_home().own.glob("projects/*/*/agents/ada.jsonl"))
            lines = transcript.read_text().splitlines(keepends=True)
            transcript.write_text("".join(line for line in lines if "the answer to your plan" not in line))
    model = ScriptedModel(ada)
    for _ in range(2):
        assert await mode_at_rest(tmp_path, model) == ("bubble" if approve else "plan")
    assert touched(tmp_path) is approve
    assert told(model, "ada").count("the answer to your plan") == 1
    assert [one["approved"] for one in wire("ada", "plan_approval_response")] == [approve]
    assert len(rows()) == 1 and record()["on"] is not approve and record()["waits"] == ""


@pytest.mark.promise("G5", "P4", "D8")
async def test_a_person_is_asked_again_by_the_process_that_goes_on(tmp_path):
    asked = []

    def nobody_yet(request: RequestOpened):
        asked.append(request)

    id = await leave_with_a_plan_open(tmp_path, plan_approval="human", on_request=nobody_yet)
    assert rows()[id][1] is None  # leaving is no answer

    async def person(request: RequestOpened):
        asked.append(request)
        return await request.allow()

    async with resumed(tmp_path, ScriptedModel(ada), on_request=person) as team:
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.turns == 1 and teammate.state == "idle")
    assert [one.kind for one in asked] == ["plan", "plan"] and touched(tmp_path)
    assert (rows()[id][1]["approve"], rows()[id][1]["by"]) == (True, "user")


@pytest.mark.promise("G5", "D8")
async def test_a_lead_that_planned_plans_on_and_its_file_is_the_same(tmp_path):
    turns = iter([("EnterPlanMode", {}), ("Bash", {"command": "touch made"}), "ok"])
    async with a_team(tmp_path, ScriptedModel(lambda r: next(turns))) as team:
        await team.run("Begin.")
    kept = record(LEAD)
    assert kept["on"] and kept["before"] == "bypassPermissions"
    turns = iter([("Bash", {"command": "touch made"}), hand_in(), ("Bash", {"command": "touch made"}), "ok"])

    async def person(request: RequestOpened):
        assert not touched(tmp_path)
        return await request.allow()

    async with resumed(tmp_path, ScriptedModel(lambda r: next(turns)), on_request=person) as team:
        assert team.mode == "plan"
        await team.run("Go on.")
        assert team.mode == "bypassPermissions"
    assert touched(tmp_path) and record(LEAD)["file"] == kept["file"]


@pytest.mark.promise("G5", "F23")
@pytest.mark.slow
async def test_a_new_life_of_the_name_begins_without_the_plans_of_the_old_one(tmp_path):
    id = await leave_with_a_plan_open(tmp_path)
    model = ScriptedModel(lambda r: "ok")
    async with resumed(tmp_path, model) as team:
        await team.stop("ada")
        assert (rows()[id][1]["approve"], rows()[id][1]["by"]) == (False, "system")
        again = await team.spawn("ada", "Just work.")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: again.state == "idle" and teammate.is_resting)
        assert str(teammate.agent.policy.mode) == "bubble" and not teammate.pending_plan.is_open
    async with resumed(tmp_path, model) as team:
        teammate = team.session.team.members["ada"]
        assert str(teammate.agent.policy.mode) == "bubble" and teammate.state != "awaiting"
