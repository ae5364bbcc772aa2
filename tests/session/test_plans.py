"""Who approves plans: a person, a setting, nobody; and the lead's own plan."""

import asyncio
import json

import pytest

from teamwright import Team, TeamwrightError
from teamwright.approvals.answer_from_outside import answer_request
from teamwright.approvals.request_files import open_requests
from teamwright.protocol.events import ModeChanged, Notice, RequestAnswer, RequestOpened
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, newest, told, until
from tests.teams.planners import hand_in, made, record, rows, touched

MAKE = ("Bash", {"command": "touch made"})
SH = {"command": "sh x.sh"}


def planning(request):
    """Plans, hands in, and works once that was approved; a no makes a new plan."""
    last = newest(request)
    if "was approved" in last or "Plan mode has ended" in last:
        return MAKE
    if not made(request, "ExitPlanMode") or "was not approved" in last:
        return hand_in(f"# Plan {len(made(request, 'ExitPlanMode')) + 1}", "npm test", "please be quick about it")
    return "ok"


def of(name, play=planning, otherwise="ok"):
    return ScriptedModel(lambda request: play(request) if request.agent_name == name else otherwise)


async def heard(team: Team, last) -> list:
    """Everything that happened, up to the first event that is the last one."""
    seen = []
    async with asyncio.timeout(WAIT_S):
        async for _, event in team.events(after=0):
            seen.append(event)
            if last(event):
                return seen
    raise AssertionError("it never came")


@pytest.mark.promise("G5", "F47", "P4")
async def test_a_person_is_asked_for_a_member_and_a_no_comes_with_a_reason(tmp_path):
    asked = []

    async def person(request: RequestOpened):
        asked.append((request.kind, request.tool, request.owner, request.what.split("\n")[0], request.suggestions))
        assert not touched(tmp_path)
        return await (request.deny("not like this") if len(asked) == 1 else request.allow())

    model = of("ada")
    team = a_team(tmp_path, model, plan_approval="human", on_request=person, permission_mode="bypassPermissions")
    async with team:
        await team.spawn("ada", "Plan.", mode="plan")
        await team.run("See it through.")  # it waits for the person, though the lead has nothing to do
    assert [(kind, tool, owner, what) for kind, tool, owner, what, _ in asked] == [
        ("plan", "ExitPlanMode", "ada", "# Plan 1"),
        ("plan", "ExitPlanMode", "ada", "# Plan 2"),
    ]
    assert touched(tmp_path) and "not like this" in told(model, "ada")
    assert [(reply["approve"], reply["by"]) for _, reply in rows().values()] == [(False, "user"), (True, "user")]


@pytest.mark.promise("G5", "F47")
async def test_the_lead_does_not_answer_a_plan_that_is_a_persons_to_answer(tmp_path):
    def lead(request):
        if request.agent_name == "ada":
            return planning(request)
        if made(request, "SendMessage"):
            return "ok"
        reply = {"type": "plan_approval_response", "request_id": next(iter(rows())), "approve": True}
        return ("SendMessage", {"to": "ada", "message": reply})

    model = ScriptedModel(lead)
    async with a_team(tmp_path, model, plan_approval="human", on_request=lambda _request: None) as team:
        await team.spawn("ada", "Plan.", mode="plan")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting")
        run = team.run("Approve it.")
        await until(team, lambda: len([r for r in model.requests if r.agent_name == LEAD]) > 1)
        run.cancel("enough")
        assert teammate.state == "awaiting" and not touched(tmp_path)
    assert "is approved by the user, not by you" in told(model, LEAD)


@pytest.mark.promise("G5", "P4", "F44")
async def test_where_nobody_can_be_asked_a_plan_is_not_approved_and_the_reason_is_told(tmp_path):
    model = of("ada", lambda r: hand_in() if len(r.items) == 1 else "I cannot go on.")
    async with a_team(tmp_path, model, plan_approval="human") as team:
        await team.spawn("ada", "Plan.", mode="plan")
        await team.run("See it through.")
        assert team.members[0].state == "idle"
    assert "no user is present to ask" in told(model, "ada") and not touched(tmp_path)
    ((_, reply),) = rows().values()
    assert (reply["approve"], reply["by"]) == (False, "policy")


@pytest.mark.promise("G5", "F47")
@pytest.mark.parametrize("by", ["flag", "settings"])
async def test_auto_approves_and_the_log_says_who_wanted_that(tmp_path, own_home, by):
    settings = own_home / ".teamwright" / "settings.json"
    settings.parent.mkdir(mode=0o700)
    settings.write_text(json.dumps({"plan_approval": "auto"} if by == "settings" else {}))
    model = of("ada")
    async with a_team(tmp_path, model, **({"plan_approval": "auto"} if by == "flag" else {})) as team:
        await team.spawn("ada", "Plan.", mode="plan")
        await team.run("See it through.")
        seen = await heard(team, lambda e: isinstance(e, Notice) and "approved without a look" in e.text)
    assert ("--plan-approval" if by == "flag" else str(settings)) in seen[-1].text
    assert touched(tmp_path)
    ((_, reply),) = rows().values()
    assert (reply["approve"], reply["by"]) == (True, "policy")
    assert told(model, "ada").count("The user's setting approved the plan.") == 1


@pytest.mark.promise("G5", "P7")
async def test_a_repository_does_not_say_who_approves(tmp_path):
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "settings.json").write_text(json.dumps({"plan_approval": "auto"}))
    async with a_team(tmp_path, of("ada"), trust=True) as team:
        await team.spawn("ada", "Plan.", mode="plan")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting")
    assert not touched(tmp_path)


async def test_another_word_for_an_approver_starts_nothing(tmp_path):
    with pytest.raises(TeamwrightError, match="does not approve plans"):
        async with a_team(tmp_path, ScriptedModel("ok"), plan_approval="anybody"):
            pass


# ── the lead's own ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G5", "F47")
@pytest.mark.parametrize("entered", ["by flag", "by itself"])
@pytest.mark.parametrize("granted", [None, "acceptEdits"])
@pytest.mark.slow_after(2)
async def test_the_leads_plan_is_approved_by_a_person_once(tmp_path, entered, granted):
    def lead(request):
        if entered == "by itself" and len(request.items) == 1:
            return ("EnterPlanMode", {})
        if not made(request, "Bash"):
            return MAKE
        return planning(request) if not touched(tmp_path) and len(made(request, "Bash")) < 3 else "done"

    asked = []

    async def person(request: RequestOpened):
        asked.append(request)
        if request.kind != "plan":
            return await request.deny("only the plan is allowed")
        assert not touched(tmp_path)
        offered = [one for one in request.suggestions if one["mode"] == "acceptEdits"]
        return await request.allow(updates=offered if granted else ())

    mode = "plan" if entered == "by flag" else "default"
    async with a_team(tmp_path, ScriptedModel(lead), permission_mode=mode, on_request=person) as team:
        await team.run("Plan it, then do it.")
        assert team.mode == (granted or "default")
    assert [one.kind for one in asked].count("plan") == 1
    assert touched(tmp_path) is bool(granted)


@pytest.mark.promise("G5", "F47")
async def test_a_lead_whose_plan_was_refused_plans_on(tmp_path):
    answers = iter(["no", "too much", "yes"])

    async def person(request: RequestOpened):
        answer = next(answers)
        return await (request.allow() if answer == "yes" else request.deny(answer))

    model = of(LEAD, lambda r: planning(r) if not touched(tmp_path) else "done")
    async with a_team(tmp_path, model, permission_mode="plan", on_request=person) as team:
        await team.run("Plan it.")
        assert team.mode == "default"
    refusals = [newest(r) for r in model.requests if "was not approved" in newest(r)]
    assert ["no" in refusals[0], "too much" in refusals[1]] == [True, True]
    assert all("You are still in plan mode" in one for one in refusals)


@pytest.mark.promise("G5", "F44")
async def test_without_anybody_to_ask_the_lead_stays_in_plan_mode(tmp_path):
    model = of(LEAD, lambda r: hand_in() if len(r.items) == 1 else "I could not.")
    async with a_team(tmp_path, model, permission_mode="plan") as team:
        await team.run("Plan it.")
        assert team.mode == "plan"
    assert "no user is present to ask" in told(model, LEAD)


@pytest.mark.promise("G5", "F46")
async def test_nobody_changes_anything_under_a_lead_that_plans(tmp_path):
    def script(request):
        if request.agent_name == LEAD:
            return ("Agent", {"description": "x", "prompt": "y"}) if len(request.items) == 1 else "ok"
        if request.agent_name == "ada":
            return MAKE if len(request.items) == 1 else "ok"
        return ("Write", {"file_path": str(tmp_path / "made"), "content": "x"}) if len(request.items) == 1 else "ok"

    async with a_team(tmp_path, ScriptedModel(script), permission_mode="plan") as team:
        ada = await team.spawn("ada", "Make it.", mode="bypassPermissions")
        await until(team, lambda: ada.state == "idle")
        result = await team.run("Have it made.")
    assert not touched(tmp_path) and len(result.denials) == 2
    assert {one["rule"] for one in result.denials} == {"mode plan"}


@pytest.mark.promise("G5", "F46")
async def test_a_member_that_was_approved_under_a_planning_lead_is_told_what_holds(tmp_path):
    def script(request):
        if request.agent_name == "ada":
            return planning(request) if len(made(request, "Bash")) < 1 else "ok"
        if made(request, "SendMessage") or not rows():
            return "ok"
        reply = {"type": "plan_approval_response", "request_id": next(iter(rows())), "approve": True}
        return ("SendMessage", {"to": "ada", "message": reply})

    model = ScriptedModel(script)
    async with a_team(tmp_path, model, permission_mode="plan") as team:
        await team.spawn("ada", "Plan.", mode="plan")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting")
        await team.run("Answer.")
    assert "Your lead plans itself, so nothing is changed" in told(model, "ada") and not touched(tmp_path)


@pytest.mark.promise("G5", "F45")
async def test_what_is_allowed_with_the_leads_plan_is_the_leads_alone(tmp_path):
    def script(request):
        if request.agent_name != LEAD:
            return ("Bash", {"command": "npm test"}) if len(request.items) == 1 else "ok"
        if "Plan mode has ended" in newest(request):
            return [("Bash", {"command": "npm test"}), ("Agent", {"description": "x", "prompt": "y"})]
        return planning(request)

    kinds = []

    async def person(request: RequestOpened):
        kinds.append((request.kind, request.member.split(" ")[0]))
        if request.kind == "plan":
            assert "Bash(npm test)" in request.what
            return await request.allow()
        return await request.deny("no")

    async with a_team(tmp_path, ScriptedModel(script), permission_mode="plan", on_request=person) as team:
        await team.run("Plan it.")
    assert kinds == [("plan", LEAD), ("permission", "lead")]  # the sub-agent's alone is asked


@pytest.mark.promise("G5", "F44", "F47")
@pytest.mark.parametrize("who", [LEAD, "ada"])
async def test_a_plan_that_nobody_looked_at_allows_nothing_beyond_the_mode(tmp_path, who):
    """`auto` ends plan mode; what the plan would like to run without being asked nobody has read."""
    asked = []

    def script(request):
        if request.agent_name != who:
            return "ok"
        calls = [("EnterPlanMode", {}), hand_in("# Plan", "touch *", "touch made", "sh:*"), MAKE, ("Bash", SH), "done"]
        return calls[min(sum(b'"assistant"' in item for item in request.items), 4)]

    async def person(request: RequestOpened):
        asked.append((request.kind, request.what))
        return await request.deny("no")

    async with a_team(
        tmp_path, ScriptedModel(script), plan_approval="auto", permission_mode="default", on_request=person
    ) as team:
        if who == "ada":
            await team.spawn("ada", "Plan.", mode="plan")
        await team.run("Plan and do it.")
    assert asked == [("permission", "touch made"), ("permission", "sh x.sh")] and not touched(tmp_path)


@pytest.mark.promise("G5", "P4")
async def test_a_plan_is_answered_from_another_terminal(tmp_path):
    model = of("ada")
    async with a_team(tmp_path, model, plan_approval="human", on_request=lambda _request: None) as team:
        await team.spawn("ada", "Plan.", mode="plan")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.state == "awaiting" and open_requests(find_home()))
        (waits,) = [one for one in open_requests(find_home()) if one.kind == "plan"]
        assert waits.owner == "ada" and "# Plan 1" in waits.what
        assert answer_request(find_home(), waits.id, RequestAnswer(verdict="allow")).counts
        assert not answer_request(find_home(), waits.id, RequestAnswer(verdict="deny")).counts
        await until(team, lambda: teammate.turns == 2 and teammate.state == "idle")
    assert touched(tmp_path)


@pytest.mark.promise("G5", "F67")
async def test_each_change_of_mode_is_told_once(tmp_path):
    model = of("ada")
    async with a_team(tmp_path, model, plan_approval="auto") as team:
        await team.spawn("ada", "Plan.", mode="plan")
        result = await team.run("See it through.")
        seen = await heard(team, lambda e: e.KIND == "run_ended")
    changes = [(e.mode, e.by) for e in seen if isinstance(e, ModeChanged) and e.member == "ada"]
    assert result.ok and changes[-1] == ("bypassPermissions", "policy")
    assert [mode for mode, _ in changes].count("bypassPermissions") == 1
    assert record()["on"] is False
