"""Teams of services: a restart loses nothing, and requests are answered from any process."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import RequestClosed, RequestOpened, RunEnded, Team, TeamRefused, TeamwrightError, UsageError
from teamwright.saved.removal import remove_team
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.session.suspended_child import COMMAND, model
from tests.support.waiting_crew import complete, waiting_crew
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, newest, told, until
from tests.teams.planners import hand_in, made

CHILD = Path(__file__).with_name("suspended_child.py")


def service_that_asked(cwd) -> tuple[subprocess.Popen, str]:
    """A service in another process whose member waits for an answer, and the request's id."""
    child = subprocess.Popen([sys.executable, str(CHILD), str(cwd)], stdout=subprocess.PIPE, text=True)
    return child, child.stdout.readline().strip()


def ended(child: subprocess.Popen, how: signal.Signals) -> None:
    child.send_signal(how)
    child.communicate(timeout=WAIT_S)


@pytest.mark.finding("3L1")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restarted_service_asks_again_and_the_call_runs_once(tmp_path, how):
    child, _ = service_that_asked(tmp_path)
    ended(child, how)
    asked = []

    async def allow(request):
        asked.append(request.tool)
        await request.allow()

    script = model()
    async with Team.resume("crew", model=script, on_request=allow, on_exit="suspend") as team:
        assert (await team.run("Go on.")).ok
    assert (asked, (tmp_path / "made.txt").read_text()) == (["Bash"], "done\n")
    assert [one.agent_name for one in script.requests].count("ann") == 1, "only the call after the answer"


@pytest.mark.finding("3L1")
@pytest.mark.parametrize(("verdict", "made"), [("allow", True), ("deny", False)])
async def test_an_answer_that_comes_while_no_process_runs_counts_at_the_resume(tmp_path, verdict, made):
    child, id = service_that_asked(tmp_path)
    ended(child, signal.SIGKILL)
    (request,) = Team.open_requests()
    assert (request.id, request.is_alive, request.team, request.input["command"]) == (id, False, "crew", COMMAND)
    assert await (request.allow() if verdict == "allow" else request.deny("not today"))
    assert not await request.allow(), "the first answer counts"
    assert Team.open_requests() == []
    again = []
    async with Team.resume("crew", model=model(), on_request=again.append) as team:
        await team.run("Go on.")
        await team.wait_idle()
    assert (again, (tmp_path / "made.txt").exists()) == ([], made)


@pytest.mark.finding("3L1")
async def test_another_call_than_the_one_that_was_answered_asks(tmp_path):
    child, _ = service_that_asked(tmp_path)
    ended(child, signal.SIGKILL)
    (request,) = Team.open_requests()
    assert await request.allow()
    # Since then the directory of the command became another one for the model's own call.
    transcript = next(Path(row.log).parent for row in Team.list() if row.name == "crew") / "agents" / "ann.jsonl"
    transcript.write_text(transcript.read_text().replace("made.txt", "more.txt"))
    asked = []

    async def deny(request):
        asked.append(request.input["command"])
        await request.deny()

    async with Team.resume("crew", model=model(), on_request=deny) as team:
        await team.run("Go on.")
    assert asked == [COMMAND.replace("made", "more")]
    assert not list(tmp_path.glob("*.txt"))


@pytest.mark.finding("3L1")
async def test_members_of_a_suspended_team_make_no_further_model_call_and_a_resume_makes_it(tmp_path):
    script = Holding({"lead": ["waiting"] * 3, "ann": [("Read", {"file_path": "a"}), "It is read."]}, "ann")
    (tmp_path / "a").write_text("text\n")
    async with a_team(tmp_path, script, on_exit="suspend") as team:
        await team.spawn("ann", "Read it.")
        run = team.run("Go.")
        await script.thinking.wait()
        stopping = asyncio.create_task(team.suspend())
        await asyncio.sleep(0)
        script.go.set()
        await stopping
        assert (await run).stop == "suspended"
        with pytest.raises(TeamRefused):
            team.run("More.")
    assert [one.agent_name for one in script.requests].count("ann") == 1
    again = ScriptedModel({"lead": ["waiting"] * 3, "ann": ["It is read."]})
    async with Team.resume("crew", model=again, permission_mode="bypassPermissions") as team:
        await team.run("Go on.")
        await team.wait_idle()
    assert [one.agent_name for one in again.requests].count("ann") == 1
    assert b"text" in b"".join(next(one for one in again.requests if one.agent_name == "ann").items)


@pytest.mark.finding("3L1")
async def test_the_cancellation_of_a_task_that_awaits_a_run_leaves_the_run_to_a_block_that_suspends(tmp_path):
    opened = asyncio.Event()

    async def ask(_request):
        opened.set()

    async def job():
        async with Team("crew", model=model(), cwd=tmp_path, on_request=ask, on_exit="suspend") as team:
            await team.spawn("ann", "Make the file.")
            await team.run("Go.")
            await team.wait_idle()

    task = asyncio.create_task(job())
    await asyncio.wait_for(opened.wait(), WAIT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    events = [event for _, event in Team.read_events("crew")]
    assert not [one for one in events if isinstance(one, RequestClosed)]
    assert [one.id for one in Team.open_requests()] == [one.request for one in events if isinstance(one, RequestOpened)]


@pytest.mark.finding("3L1")
async def test_a_team_that_suspends_waits_for_answers_without_a_reader(tmp_path):
    async with Team("crew", model=model(), cwd=tmp_path, on_exit="suspend", keep=False) as team:
        await team.spawn("ann", "Make the file.")
        run = team.run("Go.")
        opened = await asyncio.wait_for(first_request(team), WAIT_S)
        assert (opened.member, [one.id for one in team.requests]) == ("ann", [opened.request])
        (request,) = team.requests
        assert json.loads(json.dumps(request.as_json()))["what"] == request.what
        assert await request.allow()
        assert (await run).ok
    assert (tmp_path / "made.txt").exists()
    assert [one.name for one in Team.list()] == [], "keep=False archives a team whose block ends in order"


async def test_commands_name_the_home_that_the_program_named(tmp_path):
    home = tmp_path / "a home"
    named = f"teamwright --home '{home}' "
    async with Team("crew", model=model(), cwd=tmp_path, home=home, on_exit="suspend") as team:
        await team.spawn("ann", "Make the file.")
        await team.tasks.add("wait")
        team.run("Go.")
        await asyncio.wait_for(first_request(team), WAIT_S)
    (request,) = Team.open_requests(home)
    assert request.resume == Team.read("crew", home).resume == f"{named}resume crew"
    with pytest.raises(TeamRefused) as refused:
        await Team("crew", model=model(), cwd=tmp_path, home=home).__aenter__()
    assert refused.value.do[0] == "Team.resume('crew') continues it"
    assert f"continue it: {named}resume crew, or {named}teams adopt crew" in refused.value.do
    assert f"{named}teams rm" in refused.value.__notes__[0], "a traceback shows it too"
    with pytest.raises(TeamwrightError) as unknown:
        Team.read("nobody", home)
    assert unknown.value.do == (f"{named}teams",)


@pytest.mark.parametrize("answered", [False, True])
async def test_a_team_with_a_request_that_a_resume_takes_up_is_open_and_is_not_replaced(tmp_path, own_home, answered):
    lead = ScriptedModel({"lead": [("Bash", {"command": COMMAND}), "Made."]})
    async with Team("crew", model=lead, cwd=tmp_path, on_exit="suspend", keep=False) as team:
        team.run("Go.")
        await asyncio.wait_for(first_request(team), WAIT_S)
        await team.suspend()
    if answered:
        assert await Team.open_requests()[0].allow()
    assert [(one.name, one.state) for one in Team.list()] == [("crew", "open")]
    with pytest.raises(TeamRefused, match="has 1 open request"):
        await Team("crew", model=lead, cwd=tmp_path).__aenter__()
    with pytest.raises(TeamRefused, match="has something open"):
        await remove_team(find_home(), "crew", force=False)
    async with Team.resume("crew", model=lead, on_request=RequestOpened.allow, on_exit="suspend") as team:
        assert (await team.run("Go on.")).ok
    assert [one.state for one in Team.list()] == ["finished"]


async def first_request(team) -> RequestOpened:
    async for _, event in team.events(after=0, answers=False):
        if isinstance(event, RequestOpened):
            return event
    raise AssertionError("the block was left")


def planner(request):
    """A lead that waits, and a member that submits a plan and carries it out when it is approved."""
    if request.agent_name != "ann":
        return "ok"
    if "was approved" in newest(request):
        return ("Bash", {"command": COMMAND})
    return hand_in() if not made(request, "ExitPlanMode") else "ok"


def delegator(owner: str):
    """An owner, the lead or the member, whose background sub-agent runs one command and reports."""

    def answer(request):
        if request.agent_name not in {"team-lead", "ann"}:
            ran = any(b'"tool_result"' in item for item in request.items)
            return "It is made." if ran else [("Bash", {"command": COMMAND})]
        if request.agent_name != owner or any(b'"tool_use"' in item for item in request.items):
            return "waiting"
        return [("Agent", {"description": "make it", "prompt": "Make the file.", "run_in_background": True})]

    return ScriptedModel(answer)


@pytest.mark.finding("T39")
@pytest.mark.parametrize("owner", ["team-lead", "ann"])
@pytest.mark.parametrize("answered", [True, False])
async def test_a_background_sub_agent_that_waited_is_continued_and_its_answer_counts(tmp_path, owner, answered):
    async with Team("crew", model=delegator(owner), cwd=tmp_path, on_exit="suspend") as team:
        await team.spawn("ann", "Go.")
        team.run("Go.")
        await asyncio.wait_for(first_request(team), WAIT_S)
    if answered:
        (request,) = Team.open_requests()
        assert await request.allow()
    again, script = [], delegator(owner)

    async def allow(request):
        again.append(request.tool)
        await request.allow()

    async with Team.resume("crew", model=script, on_request=allow) as team:
        await team.run("Go on.")
        await team.wait_idle()
    assert (again, (tmp_path / "made.txt").read_text()) == ([] if answered else ["Bash"], "done\n")
    assert "It is made." in told(script, owner)
    assert "was killed" not in told(script, owner)


@pytest.mark.finding("T39")
@pytest.mark.parametrize("allows", [True, False])
async def test_a_plan_is_answered_while_no_process_runs_and_the_answer_counts_at_the_resume(tmp_path, allows):
    person = tmp_path / "person.json"
    person.write_text('{"plan_approval": "human", "permissions": {"allow": ["Bash"]}}')
    async with Team(
        "crew", model=ScriptedModel(planner), cwd=tmp_path, on_exit="suspend", settings_file=person
    ) as team:
        await team.spawn("ann", "Plan it.", mode="plan")
        await asyncio.wait_for(first_request(team), WAIT_S)
    (request,) = Team.open_requests()
    assert (request.kind, request.is_alive, "1. Make it." in request.what) == ("plan", False, True)
    assert await (request.allow() if allows else request.deny("Too long."))
    assert Team.open_requests() == []
    again, script = [], ScriptedModel(planner)
    async with Team.resume("crew", model=script, on_request=again.append, settings_file=person) as team:
        await until(team, lambda: team.session.team.find("ann").turns and team.session.team.find("ann").is_resting)
    assert (again, (tmp_path / "made.txt").exists()) == ([], allows)
    assert ("Your plan was approved." if allows else "Too long.") in told(script, "ann")


@pytest.mark.finding("T39")
async def test_the_leads_own_plan_is_answered_while_no_process_runs(tmp_path):
    script = ScriptedModel([hand_in(), "Approved."])
    async with Team("crew", model=script, cwd=tmp_path, on_exit="suspend", permission_mode="plan") as team:
        team.run("Plan it.")
        await asyncio.wait_for(first_request(team), WAIT_S)
    (request,) = Team.open_requests()
    assert (request.kind, await request.allow()) == ("plan", True)
    again, script = [], ScriptedModel(["Approved."] * 2)
    async with Team.resume("crew", model=script, on_request=again.append, permission_mode="plan") as team:
        await team.run("Go on.")
    assert (again, "approved" in told(script, "team-lead")) == ([], True)


@pytest.mark.finding("T39")
@pytest.mark.parametrize("allows", [True, False])
async def test_a_review_is_answered_while_no_process_runs_and_the_answer_counts_at_the_resume(tmp_path, allows):
    async with a_team(tmp_path, waiting_crew(ann=[complete("1"), "Done."]), on_exit="suspend") as team:
        await team.spawn("ann", "Take a task.")
        await team.tasks.add("Do it", metadata={"for": ["ann"]}, review="human")
        await asyncio.wait_for(first_request(team), WAIT_S)
    (request,) = Team.open_requests()
    assert (request.kind, request.is_alive) == ("review", False)
    assert await (request.allow() if allows else request.deny("Too short."))
    again, script = [], ScriptedModel({"lead": ["ok"] * 9, "ann": ["ok"] * 9})
    async with Team.resume("crew", model=script, on_request=again.append) as team:
        async with asyncio.timeout(WAIT_S):
            while (task := await team.tasks.get("1")).in_review:
                team.session.team.changed.clear()
                await team.session.team.changed.wait()
        assert (task.status == "completed", task.review_note.by) == (allows, "user")
    assert again == []


@pytest.mark.finding("3L11")
async def test_teams_are_listed_and_a_finished_one_is_read_without_its_process(tmp_path):
    async with a_team(tmp_path, ScriptedModel({"lead": ["The answer."]})) as team:
        assert [(one.name, one.state) for one in Team.list()] == [("crew", "live")]
        await team.run("Go.")
    assert [(one.name, one.state) for one in Team.list()] == [("crew", "finished")]
    view = Team.read("crew")
    assert (view.state, view.ended, [one.name for one in view.members]) == ("finished", "done", ["lead"])
    assert [event.text for _, event in Team.read_events("crew") if isinstance(event, RunEnded)] == ["The answer."]
    async with a_team(tmp_path, ScriptedModel("ok"), replace=True, keep=False):
        pass
    archived = Team.list(archived=True)
    assert (len(archived), {one.state for one in archived}) == (2, {"archived"})
    assert Team.read(archived[-1].directory).ended == "done"
    json.dumps(Team.read(archived[-1].directory).as_json(), default=str)


@pytest.mark.finding("3L1")
def test_a_wrong_word_for_the_exit_is_refused(tmp_path):
    with pytest.raises(UsageError, match="on_exit= takes end or suspend"):
        Team("crew", cwd=tmp_path, on_exit="stop")
