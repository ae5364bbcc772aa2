"""Members that another program put on the roster: what they ask meets an answer, and what they are asked an end."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys

import pytest

from teamwright import MemberChanged, MessageSent, Notice, Team
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import find_home
from teamwright.teams.shutdown import delete_team
from teamwright.testing import ScriptedModel
from tests.interop.conftest import on_roster
from tests.interop.test_external_member import say, with_zed
from tests.session.approvals.test_queue import Asked
from tests.support.waits import WAIT_S
from tests.teams.crew import newest, until
from tests.teams.planners import answer, answered_ids, said

SHOWN = re.compile(r'\\"request_id\\": \\"(plan_approval-\d+@zed@crew)\\", \\"approve\\": true')
PLANS = {"turns": [{"when": "Go.", "do": [{"do": "plan", "plan": "# One"}]}]}


def deciding(*verdicts):
    """A lead that answers each plan once, in this order."""

    def lead(request):
        done = answered_ids(request)
        open_ones = [id for id in dict.fromkeys(SHOWN.findall(said(request))) if id not in done]
        if not open_ones:
            return "ok"
        tool, call = answer(open_ones[0], *verdicts[len(done)])
        return tool, call | {"to": "zed"}

    return ScriptedModel(lambda request: lead(request) if request.agent_name == LEAD else "ok")


def answers_in(zed):
    """What the answers to its plans said, in order."""
    texts = [line["entry"]["text"] for line in zed.log if line["kind"] == "envelope"]
    bodies = [json.loads(text) for text in texts if text.startswith("{")]
    return [body for body in bodies if body.get("type") == "plan_approval_response"]


@pytest.mark.promise("E8", "G5", "C4", "F47")
@pytest.mark.slow
async def test_a_plan_of_a_stranger_is_answered_by_the_lead_and_its_mode_changes_by_the_answer(strangers, tmp_path):
    again = {"when": "once more", "do": [{"do": "plan", "plan": "# Two"}]}
    script, model = {"turns": [*PLANS["turns"], again]}, deciding((False, "once more"), (True,))
    more = {"model": model, "permission_mode": "acceptEdits"}
    async with with_zed(strangers, tmp_path, script, "--plan-mode-required", **more) as (team, start, heard):
        zed = start()
        for number in (1, 2):
            await heard.until(
                lambda n=number: len(heard.of(MessageSent, member="zed", wire="plan_approval_request")) == n
            )
            await heard.until(lambda n=number: len(heard.of(MessageSent, member="zed", wire="idle_notification")) == n)
            async with asyncio.timeout(WAIT_S):
                await team.run("Answer what waits.")
        assert (await zed.seen("mode"))["mode"] == "acceptEdits"
        assert [body["approved"] for body in answers_in(zed)] == [False, True]
        assert answers_in(zed)[0]["feedback"] == "once more"
        assert "# Two" in "".join(newest(one) for one in model.requests if one.agent_name == LEAD)


@pytest.mark.promise("E8", "G5", "F44")
@pytest.mark.slow
async def test_a_plan_of_a_stranger_goes_to_a_person_where_a_person_approves(newer, tmp_path):
    asked = Asked()
    more = {"plan_approval": "human", "on_request": asked}
    async with with_zed(newer, tmp_path, PLANS, "--plan-mode-required", **more) as (_, start, _heard):
        zed = start()
        event = await asked.next()
        assert (event.member, event.tool) == ("zed", "ExitPlanMode") and "# One" in event.what
        await event.allow()
        assert (await zed.seen("mode"))["mode"] == "default"


@pytest.mark.promise("E8", "G5")
@pytest.mark.slow
async def test_where_a_setting_approves_plans_a_stranger_gets_its_answer_too_and_that_is_said(newer, tmp_path):
    async with with_zed(newer, tmp_path, PLANS, "--plan-mode-required", plan_approval="auto") as (_, start, heard):
        zed = start()
        assert (await zed.seen("mode"))["mode"] == "default"
        assert any("without a look" in one.text for one in heard.of(Notice, member="zed"))


@pytest.mark.promise("E8", "G5", "P7")
@pytest.mark.slow
async def test_a_plan_under_the_id_of_another_request_or_of_none_opens_nothing(newer, tmp_path):
    """The second plan has an id that is in use; the third one's cannot be an id at all."""
    model = ScriptedModel("ok")
    async with with_zed(newer, tmp_path, {}, model=model) as (team, start, heard):
        crew, zed = team.session.team, start()
        await zed.seen("idle")
        for plan, id in (("# One", "plan_approval-1@zed@crew"), ("# Other", "plan_approval-1@zed@crew"), ("# 3", 7)):
            body = {"type": "plan_approval_request", "from": "zed", "timestamp": "2026-11-20T22:53:56.642Z"}
            body |= {"planFilePath": "/p", "planContent": plan, "requestId": id}
            await say_as(crew, "zed", json.dumps(body))
        await heard.until(lambda: len(heard.of(Notice, member="zed", level="warning")) == 2)
        (request,) = crew.requests.open_requests()
        assert (request["plan"], request["target"], request["incarnation"]) == ("# One", LEAD, 0)


async def say_as(crew, name, text):
    """The other product writes this into the lead's inbox."""
    path = crew.home.inbox(crew.directory, LEAD)
    entry = {"from": name, "text": text, "timestamp": "2026-11-20T22:53:56.642Z", "read": False}
    draft = path.with_name("by-hand")
    draft.write_text(json.dumps([*json.loads(path.read_bytes()), entry]))
    os.rename(draft, path)


@pytest.mark.promise("E8", "D3", "F16", "F20")
@pytest.mark.slow
async def test_a_stranger_is_asked_to_stop_agrees_and_the_team_can_be_deleted_then(strangers, tmp_path):
    async with with_zed(strangers, tmp_path, {}) as (team, start, heard):
        crew, zed = team.session.team, start()
        await zed.seen("idle")
        await heard.one(MessageSent, member="zed", wire="idle_notification")
        with pytest.raises(TeamRefused, match="live members") as refused:
            await delete_team(crew)
        assert "zed (another program runs it)" in refused.value.render()
        request = await team.session.deadlines.request_stop(team.session.team, "zed", "that is all")
        with pytest.raises(TeamRefused, match="asked to stop already"):
            await team.session.deadlines.request_stop(team.session.team, "zed", "now")
        assert await asyncio.to_thread(zed.ended) == 0
        await heard.one(MemberChanged, member="zed", state="completed")
        await heard.one(MessageSent, member="system", to=LEAD, wire="teammate_terminated")
        assert crew.requests.get_answer(request)["by"] == "zed" and on_roster(team, "zed") is None
        assert len(heard.of(MessageSent, member="system", to=LEAD, wire="teammate_terminated")) == 1
        await team.session.stop_members()
        await delete_team(crew)
        assert not find_home().team("crew").exists()


@pytest.mark.promise("E8", "D3", "F23")
@pytest.mark.slow
async def test_a_stranger_that_objects_keeps_its_place_and_can_be_asked_again(newer, tmp_path):
    script = {"turns": [{"when": "shutdown_request", "do": [{"do": "refuse", "reason": "busy now"}]}]}
    async with with_zed(newer, tmp_path, script) as (team, start, heard):
        crew, zed = team.session.team, start()
        await zed.seen("idle")
        request = await team.session.deadlines.request_stop(team.session.team, "zed", "")
        await heard.one(MessageSent, member="zed", wire="shutdown_rejected")
        assert crew.requests.get_answer(request) | {"at": 0} == {
            **{"id": request, "v": 1, "approve": False, "reason": "busy now", "by": "zed", "at": 0}
        }
        await zed.seen("idle")
        await team.session.deadlines.request_stop(team.session.team, "zed", "")
        assert await asyncio.to_thread(zed.ended) == 0


@pytest.mark.promise("E8", "D3", "D2")
async def test_a_stranger_that_does_not_answer_in_time_is_taken_off_the_roster_and_its_tasks_go_back(newer, tmp_path):
    settings = tmp_path / "settings.json"
    settings.write_text('{"shutdown_objection_s": 0.3}')
    async with with_zed(newer, tmp_path, {}, settings_file=settings) as (team, _start, heard):
        crew = team.session.team
        task = await crew.tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        await crew.tasks.update(task.id, by=LEAD, owner="zed", status="in_progress")
        await team.session.deadlines.request_stop(team.session.team, "zed", "")
        told = await heard.one(MemberChanged, member="zed", state="completed")
        assert "whether its program still runs is not known" in told.detail
        await heard.one(MessageSent, member="system", to=LEAD, wire="teammate_terminated")
        assert on_roster(team, "zed") is None and (await crew.tasks.get(task.id)).owner is None


KILLED = """
import asyncio, sys
from pathlib import Path
from teamwright import Team
from teamwright.testing import ScriptedModel

async def main(place):
    asked = lambda request: print("asked", flush=True)
    async with Team("crew", model=ScriptedModel("ok"), cwd=place, on_request=asked) as team:
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


@contextlib.asynccontextmanager
async def a_lead_to_kill(tmp_path):
    """A team that another process of ours leads; what it prints is read line by line."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)

    async def said(word):
        async with asyncio.timeout(WAIT_S):
            assert await process.stdout.readline() == f"{word}\n".encode()

    try:
        await said("ready")
        yield process, said
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.promise("E8", "C4", "D8", "F44", "G4")
@pytest.mark.slow
async def test_a_permission_that_was_open_when_our_lead_was_killed_is_asked_again_and_answered_once(
    strangers, tmp_path, shared_root
):
    call = {"do": "tool", "tool": "Bash", "input": {"command": "make"}}
    async with a_lead_to_kill(tmp_path) as (process, said):
        zed = strangers.member("zed", "crew", {"turns": [{"when": "Now.", "do": [call]}]})
        path = shared_root / "teams" / "crew" / "config.json"
        config = json.loads(path.read_bytes())
        entry = config["members"][0] | {"agentId": "zed@crew", "name": "zed", "backendType": "tmux", "tmuxPaneId": "%7"}
        draft = path.with_name("by-hand")
        draft.write_text(json.dumps(config | {"members": [*config["members"], entry]}))
        os.rename(draft, path)
        inbox = shared_root / "teams" / "crew" / "inboxes" / "zed.json"
        inbox.parent.mkdir(exist_ok=True)
        now = {"from": LEAD, "text": "Now.", "timestamp": "2026-11-20T22:53:56.642Z", "read": False}
        inbox.write_text(json.dumps([now]))
        await zed.seen("asked")
        await said("asked")
        process.send_signal(signal.SIGKILL)
        await process.wait()
    asked = Asked()
    async with Team.resume("crew", model=ScriptedModel("ok"), cwd=tmp_path, on_request=asked) as team:
        event = await asked.next()
        assert (event.member, event.tool, event.input) == ("zed", "Bash", {"command": "make"})
        await event.allow()
        assert (await zed.seen("result", do="tool"))["result"] == {"is_error": False, "ran": {"command": "make"}}
        await until(team, lambda: not team.session.team.requests.open_requests())
        assert asked.queue.empty()
    responses = [line for line in zed.log if line["kind"] == "envelope" and "permission_response" in str(line)]
    assert len(responses) == 1


@pytest.mark.promise("E8", "P1")
async def test_mail_to_a_stranger_counts_as_accepted_and_its_answers_reach_the_lead_while_it_has_no_turn(
    newer, tmp_path
):
    script = {"turns": [{"when": "Go.", "do": [{"do": "send", "to": LEAD, "text": "here"}]}]}
    async with with_zed(newer, tmp_path, script) as (team, start, heard):
        zed = start()
        await zed.seen("idle")
        await heard.one(MessageSent, member="zed", to=LEAD, wire="")
        assert (await say(team, "more")).outcome == "accepted"
