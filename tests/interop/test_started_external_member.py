"""Another program as a member that our team starts itself: from its place to its end, driven by files alone."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time

import pytest

from teamwright import Budget, MemberChanged, MessageSent, ModeChanged, Notice, RequestClosed, Team, run
from teamwright.protocol.errors import CannotStart, TeamRefused, UsageError
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import find_home
from teamwright.teams.shutdown import delete_team
from teamwright.teams.team_creation import notify_owner
from teamwright.testing import ScriptedModel
from teamwright.views.status import status_views
from tests.interop.conftest import on_roster
from tests.interop.rig import Started, a_crew, pid_of, rested, runs, told_lead
from tests.interop.test_external_member import say
from tests.session.approvals.test_queue import Asked
from tests.simulated_product.disk import FORMATS, NEWER, OLDER
from tests.support.waits import WAIT_S, wait_until
from tests.teams.backends.rig import TMUX, needs_tmux
from tests.teams.planners import said


@pytest.fixture(params=FORMATS)
def started(request, tmp_path, shared_root):
    return Started(tmp_path, request.param, shared_root)


@pytest.fixture
def newer(tmp_path, shared_root):
    return Started(tmp_path, NEWER, shared_root)


@pytest.fixture
def older(tmp_path, shared_root):
    return Started(tmp_path, OLDER, shared_root)


@pytest.mark.promise("E8", "C3", "D3", "P3")
@pytest.mark.slow_after(1)
async def test_a_stranger_is_started_works_rests_is_written_to_and_stops_on_request(started, tmp_path):
    wait, go = {"do": "await", "file": str(tmp_path / "go")}, tmp_path / "go"
    turns = [{"when": "Begin.", "do": [wait, {"do": "send", "to": LEAD, "text": "done"}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        member = await team.spawn("zed", "Begin.", command="other")
        entry = on_roster(team, "zed")
        assert [*entry][:12] == [
            *("agentId", "name", "agentType", "model", "prompt", "color", "planModeRequired", "joinedAt"),
            *("tmuxPaneId", "cwd", "subscriptions", "backendType"),
        ] or started.format == NEWER
        assert (entry["backendType"], entry["tmuxPaneId"]) == ("detached", str(pid_of(team, "zed")))
        first = await started.seen("zed", "envelope")
        assert (first["entry"]["from"], first["entry"]["text"]) == (LEAD, "Begin.")
        await heard.one(MemberChanged, member="zed", state="working")
        go.touch()
        await heard.one(MessageSent, member="zed", to=LEAD, wire="")
        await rested(team, "zed")
        states = [event.state for event in heard.of(MemberChanged, member="zed")]
        assert states[:3] == ["idle", "working", "idle"] and member.state == "idle"
        assert (await say(team, "More.")).outcome == "accepted"
        await started.seen("zed", "told", "More.")
        await rested(team, "zed")
        pid = pid_of(team, "zed")
        await team.session.deadlines.request_stop(team.session.team, "zed", "that is all")
        await heard.one(MemberChanged, member="zed", state="completed")
        await heard.until(lambda: told_lead(heard))
        assert on_roster(team, "zed") is None and not runs(pid)
        assert started.log("zed")[-1]["kind"] == "exit"
        assert len(told_lead(heard)) == 1
        assert len(heard.of(MessageSent, member="zed", wire="shutdown_approved")) == 1


@pytest.mark.promise("E8", "E5", "D3")
@needs_tmux
@pytest.mark.slow
async def test_in_tmux_it_has_a_pane_of_its_own_which_is_closed_when_it_agreed_to_stop(newer, tmp_path):
    async with a_crew(tmp_path, newer.settings({}, backend="tmux")) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        entry, teammate = on_roster(team, "zed"), team.session.team.members["zed"]
        assert entry["backendType"] == "tmux" and entry["tmuxPaneId"] == teammate.location.id
        place, location = teammate.backend, teammate.location
        await rested(team, "zed")
        await team.session.deadlines.request_stop(team.session.team, "zed", "")
        await heard.until(lambda: told_lead(heard))
        assert not await place.is_alive(location)


@pytest.mark.promise("E8", "D6", "D7")
@pytest.mark.slow
async def test_a_headless_lead_waits_while_a_stranger_works_and_ends_when_it_rests(started, tmp_path):
    go = tmp_path / "go"
    turns = [{"when": "Begin.", "do": [{"do": "await", "file": str(go)}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        going = asyncio.ensure_future(team.run("Wait for zed."))
        await heard.one(MemberChanged, member=LEAD, state="idle")
        await heard.one(MemberChanged, member="zed", state="working")
        assert not (await asyncio.wait({going}, timeout=0.5))[0]
        go.touch()
        async with asyncio.timeout(WAIT_S):
            assert (await going).stop == "done"
        assert heard.of(MemberChanged, member="zed")[-1].state == "idle"


@pytest.mark.promise("E8", "C4", "G4", "G5", "D7")
@pytest.mark.slow
async def test_what_a_started_stranger_asks_and_plans_is_answered_and_shown_while_it_waits(started, tmp_path):
    asked = Asked()
    call = {"do": "tool", "tool": "Bash", "input": {"command": "make"}}
    turns = [{"when": "Begin.", "do": [{"do": "plan", "plan": "# One"}]}, {"when": "approved", "do": [call]}]
    settings = started.settings({"zed": {"turns": turns}})
    async with a_crew(tmp_path, settings, plan_approval="human", on_request=asked) as (team, heard):
        await team.spawn("zed", "Begin.", command="other", mode="plan")
        assert (await started.seen("zed", "start"))["mode"] == "plan"
        plan = await asked.next()
        assert (plan.member, plan.tool) == ("zed", "ExitPlanMode")
        await heard.one(MemberChanged, member="zed", state="awaiting")
        await plan.allow()
        assert (await started.seen("zed", "mode"))["mode"] == "default"
        await heard.one(ModeChanged, member="zed", mode="default")
        permission = await asked.next()
        await heard.one(MemberChanged, member="zed", state="blocked")
        assert not team.session.team.is_quiet()
        await permission.deny("not on a Friday")
        assert "not on a Friday" in (await started.seen("zed", "result", do="tool"))["result"]["text"]
        await rested(team, "zed")
        assert not team.session.team.requests.open_requests()


@pytest.mark.promise("E8", "G5", "C4")
@pytest.mark.slow
async def test_a_plan_is_answered_and_the_turn_on_it_is_over_before_anybody_looked(started, tmp_path):
    """A lead that is busy for a while sees only that the member rests: it waits for no answer any more."""
    asked = Asked()
    turns = [{"when": "Begin.", "do": [{"do": "plan", "plan": "# One"}]}]
    settings = started.settings({"zed": {"turns": turns}})
    async with a_crew(tmp_path, settings, plan_approval="human", on_request=asked) as (team, heard):
        await team.spawn("zed", "Begin.", command="other", mode="plan")
        plan = await asked.next()
        await heard.one(MemberChanged, member="zed", state="awaiting")
        await rested(team, "zed")
        before = sum(line["kind"] == "idle" for line in started.log("zed"))
        answering = asyncio.ensure_future(plan.allow())
        await heard.one(MessageSent, member=LEAD, to="zed", wire="plan_approval_response")
        bound = time.monotonic() + WAIT_S
        while sum(line["kind"] == "idle" for line in started.log("zed")) == before:  # the loop does not run meanwhile
            assert time.monotonic() < bound, "it had no turn"
        await answering
        await rested(team, "zed")
        await heard.until(lambda: heard.of(MemberChanged, member="zed")[-1].state == "idle")


@pytest.mark.slow
@pytest.mark.finding("N4")
@pytest.mark.promise("E8", "C4")
async def test_the_answer_to_a_plan_is_sent_after_the_turn_that_handed_it_in(started, tmp_path):
    """The newest version of the other product starts no turn for an answer that arrives within that turn."""
    asked, end = Asked(), tmp_path / "end"
    turns = [{"when": "Begin.", "do": [{"do": "plan", "plan": "# One"}, {"do": "await", "file": str(end)}]}]
    settings = started.settings({"zed": {"turns": turns}})
    async with a_crew(tmp_path, settings, plan_approval="human", on_request=asked) as (team, heard):
        await team.spawn("zed", "Begin.", command="other", mode="plan")
        plan = await asked.next()
        answering = asyncio.ensure_future(plan.allow())
        await heard.one(RequestClosed, member="zed")
        end.touch()
        sent = await heard.one(MessageSent, member=LEAD, to="zed", wire="plan_approval_response")
        rested_at = [heard.events.index(one) for one in heard.of(MemberChanged, member="zed", state="awaiting")]
        assert rested_at and rested_at[0] < heard.events.index(sent)
        await answering


@pytest.mark.slow
@pytest.mark.finding("N2", "D5")
@pytest.mark.promise("E8", "P5", "F04")
async def test_a_started_stranger_works_on_after_its_team_s_files_were_left_empty(started, tmp_path):
    turns = [{"when": "Go on.", "do": [{"do": "say", "text": "went on"}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        crew = team.session.team
        before = on_roster(team, "zed")
        for path in (crew.home.team_file("crew"), crew.home.config("crew"), crew.mailbox("zed").path):
            path.write_bytes(b"")
        await heard.until(lambda: sum("was restored from memory" in one.text for one in heard.of(Notice)) == 2)
        assert on_roster(team, "zed") == before
        await team.send("zed", "Go on.")
        await started.seen("zed", "told", "Go on.")


@pytest.mark.slow
@pytest.mark.finding("N3")
@pytest.mark.promise("E8", "B1")
async def test_a_stranger_in_a_team_with_a_shared_list_is_told_of_its_task_by_mail(started, tmp_path):
    async with a_crew(tmp_path, started.settings({"zed": {}}), task_list="common") as (team, _heard):
        await team.spawn("zed", "Begin.", command="other")
        crew = team.session.team
        task = await crew.tasks.create("count the files", "all of them", by=LEAD, metadata={"for": ["zed"]})
        await notify_owner(crew, (await crew.tasks.update(task.id, by=LEAD, owner="zed")).task, LEAD)
        told = await started.seen("zed", "told", "task_assignment")
        assert "count the files" in told["text"] and "If you have no task tools" in told["text"]
        assert (crew.home.tasks("common") / f"{task.id}.json").exists()


# ── starts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def nothing_is_left(team, name) -> bool:
    crew = team.session.team
    lives = json.loads(crew.home.team_file("crew").read_bytes())["lives"]
    known = {*crew.members, *crew.external.external_names, *crew.external.listeners, *crew.external.own_entries, *lives}
    unread = [one for one in json.loads(crew.home.inbox("crew", name).read_bytes()) if not one["read"]]
    return name not in known and on_roster(team, name) is None and not unread


@pytest.mark.promise("E8", "P3", "A2")
@pytest.mark.slow
async def test_a_start_is_over_when_it_read_its_prompt_however_long_that_takes(newer, tmp_path):
    go = tmp_path / "go"
    async with a_crew(tmp_path, newer.settings({"zed": {"start": {"await": str(go)}}})) as (team, heard):
        spawning = asyncio.ensure_future(team.spawn("zed", "Begin.", command="other"))
        await newer.seen("zed", "start")
        assert not (await asyncio.wait({spawning}, timeout=0.7))[0]
        with pytest.raises(TeamRefused, match="live members"):
            await delete_team(team.session.team)
        go.touch()
        assert (await spawning).name == "zed"
        await heard.one(MessageSent, member="zed", wire="idle_notification")


@pytest.mark.promise("E8", "P3", "F26")
@pytest.mark.slow_after(1)
async def test_a_start_that_fails_says_what_the_program_said_last_and_leaves_nothing_behind(started, tmp_path):
    dies = {"zed": {"start": {"exit": 3, "stderr": "please log in first"}}}
    async with a_crew(tmp_path, started.settings(dies)) as (team, heard):
        with pytest.raises(CannotStart, match="ended before it read its first prompt") as problem:
            await team.spawn("zed", "Begin.", command="other")
        assert "please log in first" in problem.value.render() and "status 3" in problem.value.render()
        assert nothing_is_left(team, "zed")
        await delete_team(team.session.team)
        assert not told_lead(heard)


@pytest.mark.promise("E8", "P3")
@pytest.mark.slow
async def test_a_program_that_never_reads_its_prompt_is_ended_after_its_time(newer, tmp_path):
    never = {"zed": {"start": {"await": str(tmp_path / "never")}}}
    async with a_crew(tmp_path, newer.settings(never, other={"start_s": 1.5})) as (team, heard):
        spawning = asyncio.ensure_future(team.spawn("zed", "Begin.", command="other"))
        await newer.seen("zed", "start")
        pid = pid_of(team, "zed")
        with pytest.raises(CannotStart, match=r"did not read its first prompt within 1\.5 s"):
            await spawning
        assert nothing_is_left(team, "zed") and not runs(pid)
        assert heard.of(MemberChanged, member="zed")[-1].state == "failed"


@pytest.mark.promise("E8", "P3")
async def test_a_team_in_another_state_root_than_the_programs_says_both_and_starts_nobody(newer, tmp_path):
    settings = newer.settings({})
    async with a_crew(tmp_path, settings, home=str(tmp_path / "elsewhere")) as (team, _):
        with pytest.raises(CannotStart) as problem:
            await team.spawn("zed", "Begin.", command="other")
        said = problem.value.render()
        assert str(tmp_path / ".claude") in said and str(tmp_path / "elsewhere") in said and "--home" in said
        assert on_roster(team, "zed") is None


BAD = [
    ({"command": "othr"}, "did you mean other"),
    ({"command": "other", "budget": Budget(turns=3)}, "a budget"),
    ({"command": "other", "agent_type": "Explore"}, "tools"),
    ({"command": "other", "effort": "high"}, "an effort"),
]


@pytest.mark.promise("E8", "P7")
@pytest.mark.parametrize(("how", "words"), BAD, ids=[words for _, words in BAD])
async def test_what_a_program_cannot_be_held_to_is_refused_before_it_starts(newer, tmp_path, how, words):
    async with a_crew(tmp_path, newer.settings({})) as (team, _):
        with pytest.raises(UsageError) as problem:
            await team.spawn("zed", "Begin.", **how)
        assert words in problem.value.render() and on_roster(team, "zed") is None


@pytest.mark.promise("E8", "P7")
async def test_a_variable_that_is_not_set_or_a_program_that_is_not_there_is_said_before_anything_is_made(
    newer, tmp_path
):
    for other, words in (({"argv": ["no-such-program"]}, "is not there"), ({"env": {"A": "${NO_SUCH}"}}, "NO_SUCH")):
        async with a_crew(tmp_path, newer.settings({}, other=other), replace=True) as (team, _):
            with pytest.raises(CannotStart, match=words):
                await team.spawn("zed", "Begin.", command="other")
            assert on_roster(team, "zed") is None


@pytest.mark.promise("E8", "P7")
@pytest.mark.slow
async def test_a_repository_names_a_command_of_the_user_once_trusted_and_defines_none(newer, tmp_path):
    settings = newer.settings({})
    ours = tmp_path / ".teamwright"
    ours.mkdir()
    (ours / "team.toml").write_text('[roles.reviewer]\nprompt = "Read only."\ncommand = "other"\n')
    (ours / "settings.json").write_text('{"members": {"commands": {"other": {"argv": ["/bin/false"]}}}}')
    async with a_crew(tmp_path, settings, trust=True) as (team, _):
        await team.spawn("zed", "Begin.", agent_type="reviewer")
        start = await newer.seen("zed", "start")
        assert start["flags"][start["flags"].index("--agent-type") + 1] == "reviewer"
        assert (await newer.seen("zed", "envelope"))["entry"]["text"] == "Read only.\n\nBegin."


@pytest.mark.promise("E8", "P7")
async def test_a_role_that_nobody_trusted_runs_no_other_program(newer, tmp_path):
    settings = newer.settings({}, backend="in-process")
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "team.toml").write_text('[roles.reviewer]\ncommand = "other"\n')
    async with a_crew(tmp_path, settings) as (team, _):
        await team.spawn("zed", "Begin.", agent_type="reviewer")
        assert on_roster(team, "zed")["backendType"] == "in-process" and not newer.log("zed")


@pytest.mark.promise("E8")
@pytest.mark.slow
async def test_keys_of_ours_are_not_handed_on_and_the_mode_is_the_leads_or_a_stricter_one(newer, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ours")
    settings = newer.settings({}, permissions={"deny": ["Bash(rm:*)"]})
    async with a_crew(tmp_path, settings, permission_mode="bypassPermissions") as (team, _):
        await team.spawn("zed", "Begin.", command="other")
        await team.spawn("yan", "Begin.", command="other", mode="default")
        assert (await newer.seen("zed", "start"))["mode"] == "acceptEdits"  # a deny rule holds the lead, and not zed
        assert (await newer.seen("yan", "start"))["mode"] == "default"
        with open(f"/proc/{pid_of(team, 'zed')}/environ", "rb") as environ:
            assert b"ANTHROPIC_API_KEY" not in environ.read()


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@needs_tmux
@pytest.mark.finding("N6")
@pytest.mark.promise("E8", "P3")
@pytest.mark.parametrize(("backend", "says"), [("tmux", False), ("detached", True)])
@pytest.mark.slow
async def test_the_cause_of_a_stranger_s_end_is_its_last_output_but_not_the_status_line_of_its_screen(
    newer, tmp_path, backend, says
):
    status = {"zed": {"start": {"screen": "accept edits on (shift+tab to cycle)"}}}
    async with a_crew(tmp_path, newer.settings(status, backend=backend)) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        os.kill(pid_of(team, "zed"), signal.SIGKILL)
        ended = await heard.one(MemberChanged, member="zed", state="failed")
        assert ("shift+tab" in ended.detail) is says


@pytest.mark.promise("E8")
async def test_secrets_are_masked_in_the_last_output_of_a_stranger(newer, tmp_path, monkeypatch):
    key = "deploy-4711-not-for-logs"
    monkeypatch.setenv("DEPLOY_TOKEN", key)
    says = {"start": {"screen": f"rejected {key}, {key.encode().hex()}"}}
    async with a_crew(tmp_path, newer.settings({"zed": says}, backend="detached")) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        os.kill(pid_of(team, "zed"), signal.SIGKILL)
        ended = await heard.one(MemberChanged, member="zed", state="failed")
        assert "rejected …logs, …)" in ended.detail
        fails = {"start": {"stderr": f"no entry for {key[::-1]}", "exit": 3}}
        newer.settings({"amy": fails})
        with pytest.raises(CannotStart, match="ended before it read its first prompt") as problem:
            await team.spawn("amy", "Begin.", command="other")
        assert "no entry for …" in problem.value.render() and key[::-1] not in problem.value.render()


@pytest.mark.promise("E8", "D4", "D5", "P3")
async def test_a_stranger_that_is_killed_without_a_word_is_noticed_and_its_tasks_go_back(started, tmp_path):
    turns = [{"when": "Begin.", "do": [{"do": "claim"}, {"do": "await", "file": str(tmp_path / "never")}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        crew = team.session.team
        task = await crew.tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        await team.spawn("zed", "Begin.", command="other")
        await started.seen("zed", "result", do="claim")
        os.kill(pid_of(team, "zed"), signal.SIGKILL)
        ended = await heard.one(MemberChanged, member="zed", state="failed")
        assert "ended without a message" in ended.detail
        await heard.until(lambda: told_lead(heard))
        back = await crew.tasks.get(task.id)
        assert (back.owner, str(back.status)) == (None, "pending") and on_roster(team, "zed") is None
        assert len(told_lead(heard)) == 1 and "zed" not in crew.external.external_names
        async with asyncio.timeout(WAIT_S):
            assert (await team.run("What now?")).stop == "cut_off"  # its only member failed


@pytest.mark.promise("E8", "F44", "D5")
async def test_nobody_is_asked_any_more_for_a_stranger_that_is_gone(newer, tmp_path):
    asked, call = Asked(), {"do": "tool", "tool": "Bash", "input": {"command": "make"}}
    settings = newer.settings({"zed": {"turns": [{"when": "Begin.", "do": [call]}]}})
    async with a_crew(tmp_path, settings, on_request=asked) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        event = await asked.next()
        os.kill(pid_of(team, "zed"), signal.SIGKILL)
        await heard.one(RequestClosed, request=event.request)
        await heard.until(lambda: told_lead(heard))
        assert not await event.allow() and not team.session.team.requests.open_requests()


@pytest.mark.promise("E8", "D4", "P3")
async def test_a_session_that_ends_while_one_starts_leaves_nothing_of_it(newer, tmp_path):
    never = {"zed": {"start": {"await": str(tmp_path / "never")}}}
    async with a_crew(tmp_path, newer.settings(never)) as (team, _):
        spawning = asyncio.ensure_future(team.spawn("zed", "Begin.", command="other"))
        await newer.seen("zed", "start")
        pid = pid_of(team, "zed")
        crew = team.session.team
        await team.session.stop_members()
        with pytest.raises(TeamRefused, match="was ended while it started"):
            await spawning
        assert not runs(pid) and crew.roster is not None and on_roster(team, "zed") is None


@pytest.mark.slow
@pytest.mark.promise("E8", "D3")
async def test_a_stranger_that_objects_goes_on_and_one_that_does_not_answer_is_ended_by_us(newer, tmp_path):
    refuse = {"when": "shutdown_request", "do": [{"do": "refuse", "reason": "busy now"}]}
    silent = {"when": "shutdown_request", "do": []}
    settings = newer.settings({"zed": {"turns": [refuse, silent]}}, shutdown_objection_s=2)
    async with a_crew(tmp_path, settings) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        await team.session.deadlines.request_stop(team.session.team, "zed", "")
        await heard.one(MessageSent, member="zed", wire="shutdown_rejected")
        await rested(team, "zed")
        pid = pid_of(team, "zed")
        await team.session.deadlines.request_stop(team.session.team, "zed", "")
        killed = await heard.one(MemberChanged, member="zed", state="killed")
        assert "did not answer" in killed.detail
        await heard.until(lambda: told_lead(heard))
        assert not runs(pid) and on_roster(team, "zed") is None


@pytest.mark.promise("E8", "D4", "A2")
@pytest.mark.slow
async def test_nothing_of_a_stranger_outlives_the_session_and_a_resume_says_that_it_is_gone(newer, tmp_path):
    settings = newer.settings({})
    async with a_crew(tmp_path, settings) as (team, _):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        pid = pid_of(team, "zed")
    assert not runs(pid)
    async with Team.resume("crew", model=ScriptedModel("ok"), cwd=tmp_path, settings_file=settings) as team:
        assert on_roster(team, "zed") is None and not team.members and team.session.resumed.gone == ("zed",)
        assert "its program has ended" in team.session.team.home.inbox("crew", LEAD).read_text()


# ── after a kill of our lead ─────────────────────────────────────────────────────────────────────────────────────

KILLED = """
import asyncio, sys
from pathlib import Path
from teamwright import Team
from teamwright.testing import ScriptedModel

async def main(place, mode):
    async def ask_to_stop(team):
        await team.session.deadlines.request_stop(team.session.team, "zed", "")

    asked = lambda request: print("asked", flush=True)
    options = {"cwd": place, "settings_file": place / "settings.json", "plan_approval": "human", "on_request": asked}
    async with Team("crew", model=ScriptedModel("ok"), **options) as team:
        await team.spawn("zed", "Begin.", command="other", mode=mode or None)
        if not mode and (place / "stops").exists():
            await ask_to_stop(team)
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@contextlib.asynccontextmanager
async def led_until_killed(tmp_path, *, mode=""):
    """Our lead in a process of its own, which has started zed; killed at the end of the block."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), mode]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)

    async def printed(*words):
        async with asyncio.timeout(WAIT_S):
            for _ in words:
                assert (await process.stdout.readline()).decode().strip() in words

    try:
        yield printed
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


def resumed(tmp_path, **more):
    settings = tmp_path / "settings.json"
    return Team.resume("crew", model=ScriptedModel("ok"), cwd=tmp_path, settings_file=settings, **more)


def process_of(root) -> int:
    """The process of zed, as the team's file has it."""
    return int(json.loads((root / "teams/crew/team.json").read_bytes())["lives"]["zed"]["place"]["facts"]["pid"])


@pytest.mark.slow
@pytest.mark.promise("E8", "D8", "C4", "G4")
async def test_after_a_kill_of_our_lead_it_goes_on_and_what_it_asked_meanwhile_is_asked_of_a_person(
    started, tmp_path, shared_root
):
    """The first permission is open when the lead is killed; the second one is asked while nobody leads."""
    calls = [{"do": "tool", "tool": "Bash", "input": {"command": one}} for one in ("make", "make test")]
    started.settings({"zed": {"turns": [{"when": "Begin.", "do": calls}]}})
    async with led_until_killed(tmp_path) as printed:
        await printed("ready", "asked")
        pid = process_of(shared_root)
    asked = Asked()
    async with resumed(tmp_path, on_request=asked, plan_approval="human") as team:
        assert runs(pid) and pid_of(team, "zed") == pid and team.session.resumed.members == ("zed",)
        for command in ("make", "make test"):
            event = await asked.next()
            assert event.input == {"command": command}
            await event.allow()
        await rested(team, "zed")
        results = [line["result"] for line in started.log("zed") if line.get("do") == "tool"]
        assert [result["is_error"] for result in results] == [False, False] and asked.queue.empty()
    assert not runs(pid)


@pytest.mark.slow
@pytest.mark.promise("E8", "D8", "G5")
async def test_after_a_kill_of_our_lead_a_plan_that_waits_is_answered_once(started, tmp_path):
    started.settings({"zed": {"turns": [{"when": "Begin.", "do": [{"do": "plan", "plan": "# One"}]}]}})
    async with led_until_killed(tmp_path, mode="plan") as printed:
        await printed("ready", "asked")
    asked = Asked()
    async with resumed(tmp_path, on_request=asked, plan_approval="human") as team:
        plan = await asked.next()
        assert (plan.member, plan.tool) == ("zed", "ExitPlanMode") and "# One" in plan.what
        await plan.allow()
        assert (await started.seen("zed", "mode"))["mode"] == "default"
        await rested(team, "zed")
        assert asked.queue.empty() and not team.session.team.requests.open_requests()


@pytest.mark.promise("E8", "D8", "D3")
@pytest.mark.slow_after(1)
async def test_one_that_agreed_to_stop_while_nobody_led_is_seen_off_by_the_resume(started, tmp_path, shared_root):
    go = tmp_path / "go"
    turns = [{"when": "shutdown_request", "do": [{"do": "await", "file": str(go)}, {"do": "agree"}]}]
    started.settings({"zed": {"turns": turns}})
    (tmp_path / "stops").touch()
    async with led_until_killed(tmp_path) as printed:
        await printed("ready")
        await started.seen("zed", "told", "shutdown_request")
        pid = process_of(shared_root)
    go.touch()
    await asyncio.to_thread(wait_until, lambda: not runs(pid), "the end of its process")  # a resume keeps who lives
    async with resumed(tmp_path, plan_approval="human") as team:
        assert on_roster(team, "zed") is None and not team.members
        assert team.session.resumed.gone == ("zed",)
        sent = team.session.team.home.inbox("crew", LEAD).read_text()
        assert "ended after it agreed to stop" in sent
        assert sent.count("teammate_terminated") == 1 and sent.count("shutdown_approved") == 1
        assert not team.session.team.requests.open_requests()


# ── what cannot be done ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E8", "D4", "D7")
@pytest.mark.slow
async def test_what_only_its_own_program_can_do_is_refused_and_a_stop_closes_its_place(newer, tmp_path):
    async with a_crew(tmp_path, newer.settings({})) as (team, heard):
        member = await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        for refused in (member.set_mode("dontAsk"), team.set_model("x", "zed"), team.compact("zed")):
            with pytest.raises(TeamRefused, match="runs in another program"):
                await refused
        with pytest.raises(TeamRefused, match="not counted"):
            await team.set_budget("zed", Budget(turns=3))
        assert (member.mode, member.model, member.interrupt()) == ("default", "default", False)
        (view,) = status_views(find_home(), tmp_path)
        assert [(one.name, one.state) for one in view.members if one.name == "zed"] == [("zed", "idle")]
        pid = pid_of(team, "zed")
        await member.stop()
        await heard.until(lambda: told_lead(heard))
        assert (
            not runs(pid) and on_roster(team, "zed") is None and "zed" not in team.session.team.external.external_names
        )


# ── habits of the other side ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E8", "F26", "A3")
@pytest.mark.slow
async def test_an_old_copy_of_the_roster_costs_a_started_stranger_neither_its_entry_nor_its_rest(older, tmp_path):
    """yan writes the roster back as it was before zed joined, in the middle of zed's start."""
    gate = {"do": "gate", "file": "config.json", "at": "read", "until": str(tmp_path / "go")}
    yan = {"turns": [{"when": "Begin.", "do": [gate]}]}
    async with a_crew(tmp_path, older.settings({"yan": yan})) as (team, heard):
        await team.spawn("yan", "Begin.", command="other")
        await older.seen("yan", "gate", at="read")
        await team.spawn("zed", "Begin.", command="other")
        (tmp_path / "go").touch()
        await older.seen("yan", "idle")
        await heard.until(lambda: any("config.json" in one.text for one in heard.of(Notice, member="outside")))
        assert on_roster(team, "zed") and on_roster(team, "yan")
        assert on_roster(team, "zed")["tmuxPaneId"] == str(pid_of(team, "zed"))
        await rested(team, "zed")
        await rested(team, "yan")


@pytest.mark.promise("E8", "F04", "P1")
@pytest.mark.slow
async def test_mail_that_meets_the_inbox_while_its_program_has_emptied_it_waits_and_is_read(older, tmp_path):
    gate = {"do": "gate", "file": "zed.json", "at": "cut", "until": str(tmp_path / "go")}
    async with a_crew(tmp_path, older.settings({"zed": {"turns": [{"when": "Begin.", "do": [gate]}]}})) as (
        team,
        heard,
    ):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        await say(team, "one")
        await older.seen("zed", "gate", at="cut")
        assert team.session.team.home.inbox("crew", "zed").read_bytes() == b""
        second = asyncio.ensure_future(say(team, "two"))
        assert not (await asyncio.wait({second}, timeout=0.05))[0]
        (tmp_path / "go").touch()
        await second
        await older.seen("zed", "told", "two")
        await rested(team, "zed")
        told = "\n".join(line["text"] for line in older.log("zed") if line["kind"] == "told")
        assert (told.count("\none\n"), told.count("\ntwo\n")) == (1, 1)
        assert not heard.of(Notice, level="warning")


@pytest.mark.slow
@pytest.mark.promise("E8", "F26", "P3")
async def test_an_entry_that_says_active_for_ever_though_it_told_that_it_is_idle_keeps_no_run_waiting(newer, tmp_path):
    """Somebody's old copy of the roster says so; the program itself has ended its turn."""
    go = tmp_path / "go"
    turns = [{"when": "Begin.", "do": [{"do": "gate", "file": "config.json", "at": "read", "until": str(go)}]}]
    async with a_crew(tmp_path, newer.settings({"zed": {"turns": turns}})) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await newer.seen("zed", "gate", at="read")
        await heard.one(MemberChanged, member="zed", state="working")
        path = team.session.team.home.config("crew")
        entry = path.read_text()
        go.touch()
        await newer.seen("zed", "idle")
        draft = path.with_name("by-hand")
        draft.write_text(entry)
        os.rename(draft, path)
        await rested(team, "zed")
        assert on_roster(team, "zed")["isActive"] is True
        assert team.session.team.members["zed"].state == "idle"


# ── a whole run ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("E8", "D6", "row F1")
@pytest.mark.slow
async def test_a_headless_run_starts_one_by_its_role_hears_of_its_work_and_leaves_nothing_of_it(started, tmp_path):
    do = [{"do": "claim"}, {"do": "complete"}, {"do": "send", "to": LEAD, "text": "the review is done"}]
    settings = started.settings({"zed": {"turns": [{"when": "Begin.", "do": do}]}})
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "team.toml").write_text('[roles.reviewer]\ncommand = "other"\n')

    def lead(request):
        made = [item for item in request.items if b'"tool_use"' in item]
        if not made:
            return "TaskCreate", {"subject": "review", "description": "all of it"}
        if len(made) == 1:
            return "Agent", {"description": "d", "prompt": "Begin.", "name": "zed", "subagent_type": "reviewer"}
        return "zed said it" if "the review is done" in said(request) else "I wait."

    options = {"cwd": tmp_path, "settings_file": settings, "trust": True, "permission_mode": "bypassPermissions"}
    result = await asyncio.to_thread(run, "Have it reviewed.", model=ScriptedModel(lead), **options)
    assert (result.stop, result.text) == ("done", "zed said it")
    assert [(one.name, one.state) for one in result.members if one.name == "zed"] == [("zed", "completed")]
    assert [task.status for task in result.tasks] == ["completed"]
    pids = [line for line in started.log("zed") if line["kind"] == "start"]
    assert len(pids) == 1 and not list((tmp_path / ".claude" / "teams").glob("session-*"))


@pytest.mark.promise("E8", "P7")
@pytest.mark.slow
async def test_the_usual_command_runs_teammates_of_which_nothing_else_is_said(newer, tmp_path):
    settings = newer.settings({})
    body = json.loads(settings.read_text())
    settings.write_text(json.dumps(body | {"members": body["members"] | {"command": "other", "backend": "in-process"}}))
    if not TMUX:
        pytest.skip("where members live in the lead's process, programs live in tmux")
    async with a_crew(tmp_path, settings) as (team, _):
        await team.spawn("zed", "Begin.")
        await team.spawn("ann", "Begin.", command="teamwright")
        assert on_roster(team, "zed")["backendType"] == "tmux" and on_roster(team, "ann")["backendType"] == "in-process"
