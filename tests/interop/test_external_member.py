"""A member of the other product in a team of ours, in both of its formats: each way that the two have to meet."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from teamwright import MemberChanged, MessageSent, Notice, TaskChanged, Team
from teamwright.protocol.errors import LockTimeout, UnknownMember
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.protocol.mail import ShutdownRequest
from teamwright.team_records.snapshots import task_views
from teamwright.teams.outgoing_mail import send_protocol, send_text
from teamwright.teams.team_creation import notify_owner
from teamwright.testing import ScriptedModel
from teamwright.ui.cli.output import task_rows
from tests.interop.conftest import joined, on_roster
from tests.session.approvals.test_queue import Asked
from tests.teams.crew import Holding, until
from tests.teams.watched import Told


def quiet_model() -> ScriptedModel:
    return ScriptedModel(lambda _request: "ok")


@asynccontextmanager
async def with_zed(strangers, tmp_path, script, *flags, model=None, **options):
    """A team of ours with ann, and zed whom the other product runs; its first mail is there before it is started.

    The older format loses mail that meets a lock: tests with it wait until nobody of ours has one.
    """
    model = model or quiet_model()
    async with Team("crew", model=model, cwd=tmp_path, **options) as team:
        heard = Told(team)
        await team.spawn("ann", "Wait.")
        if not isinstance(model, Holding):
            await heard.one(MessageSent, member="ann", wire="idle_notification")
        await joined(team, "zed", heard)
        assert (await say(team, "Go.")).outcome == "accepted"
        yield team, lambda: strangers.member("zed", "crew", script, *flags), heard


async def say(team, text, to="zed", sender=LEAD):
    return await send_text(team.session.team, sender, to, text)


def was_sent(model, name, words):
    """Whether the agent of this name was ever sent these words."""
    return any(words in item.decode() for r in model.requests if r.agent_name == name for item in r.items)


@pytest.mark.promise("C3", "C2", "E8", "P1")
async def test_mail_goes_both_ways_and_a_stranger_is_read_as_one(strangers, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    to_ann, to_lead = ({"do": "send", "to": to, "text": f"hello {to} & <all>", "summary": "s"} for to in ("ann", LEAD))
    waits = [{"do": "await", "file": str(file)} for file in (first, second)]
    do, model = [to_ann, waits[0], to_lead, waits[1]], quiet_model()
    async with with_zed(strangers, tmp_path, {"turns": [{"when": "Go.", "do": do}]}, model=model) as found:
        team, start, heard = found
        zed = start()
        assert "\nGo.\n" in (await zed.seen("told"))["text"]
        await heard.one(MessageSent, member="zed", to="ann")
        await heard.until(lambda: was_sent(model, "ann", "hello ann & <all>"))
        # she tells the lead that she is idle again: what the older format sends meanwhile would be lost
        await heard.until(lambda: len(heard.of(MessageSent, member="ann", wire="idle_notification")) == 2)
        first.touch()
        await heard.one(MessageSent, member="zed", to=LEAD, wire="")
        second.touch()
        await heard.one(MessageSent, member="zed", to=LEAD, wire="idle_notification")
        await team.run("What is new?")
        assert was_sent(model, LEAD, "hello team-lead & <all>")
        assert (await say(team, "from a member", sender="ann")).outcome == "accepted"
        text = (await zed.seen("told", "from a member"))["text"]
        assert text.startswith('<teammate-message teammate_id="ann" color=')
        assert not heard.of(Notice, level="warning")


@pytest.mark.promise("C3", "E8", "P1")
@pytest.mark.slow
async def test_a_hundred_messages_of_both_sides_at_once_all_arrive_once_or_their_sender_knows(newer, tmp_path):
    write = [{"do": "send", "to": "ann", "text": f"theirs {n}"} for n in range(50)]
    async with with_zed(newer, tmp_path, {"turns": [{"when": "Go.", "do": write}]}) as (team, start, heard):
        zed = start()
        ours = [say(team, f"ours {n}", to) for n in range(25) for to in ("zed", "ann")]
        await asyncio.gather(*ours)
        await zed.seen("idle")
        sent = sum(line["result"]["success"] for line in zed.log if line["kind"] == "result")
        await heard.until(lambda: len(heard.of(MessageSent, member="zed", to="ann")) == sent)
        while sum(zed.told().count(f"\nours {n}\n") for n in range(25)) < 25:
            await zed.seen("told")
        assert [zed.told().count(f"\nours {n}\n") for n in range(25)] == [1] * 25


@pytest.mark.promise("B1", "E8", "P2")
async def test_a_stranger_claims_and_completes_a_task_of_ours_and_everybody_hears_of_it(strangers, tmp_path):
    do = [{"do": "claim"}, {"do": "create", "subject": "theirs"}, {"do": "complete", "id": "1"}]
    async with with_zed(strangers, tmp_path, {"turns": [{"when": "Go.", "do": do}]}) as (team, start, heard):
        tasks = team.session.team.tasks
        made = await tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        zed = start()
        await zed.seen("idle")
        done = await tasks.get(made.id)
        assert (done.owner, str(done.status)) == ("zed", "completed")
        await heard.until(lambda: [e for e in heard.of(TaskChanged, change="completed") if e.task.id == made.id])
        await heard.until(lambda: [e for e in heard.of(TaskChanged, change="created") if e.task.subject == "theirs"])


@pytest.mark.finding("N3")
@pytest.mark.promise("B1", "E8", "F12")
async def test_a_stranger_is_told_of_its_task_and_how_to_report_without_task_tools(strangers, tmp_path):
    async with with_zed(strangers, tmp_path, {}) as (team, start, _heard):
        crew, zed = team.session.team, start()
        await zed.seen("idle")
        task = await crew.tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        await notify_owner(crew, (await crew.tasks.update(task.id, by=LEAD, owner="zed")).task, LEAD)
        await zed.seen("told", "task_assignment")
        body = json.loads([line["entry"]["text"] for line in zed.log if line["kind"] == "envelope"][-1])
        assert list(body) == ["type", "taskId", "subject", "description", "assignedBy", "timestamp"]
        assert (body["type"], body["taskId"], body["assignedBy"]) == ("task_assignment", task.id, LEAD)
        assert body["description"].startswith("do it\n\nIf you have no task tools, ")
        [view] = [one for one in task_views(crew.tasks.store.directory) if one.id == task.id]
        assert task_rows([view])[0][1:3] == ("given, not started", "zed")


@pytest.mark.promise("C4", "E8", "G4", "F44")
async def test_a_permission_of_a_stranger_is_answered_with_another_input_and_a_mode_and_both_hold(strangers, tmp_path):
    made = tmp_path / "made"
    write = {"do": "tool", "tool": "Write", "input": {"file_path": str(made), "content": "one"}}
    asked = Asked()
    script = {"turns": [{"when": "Go.", "do": [write, write]}]}
    async with with_zed(strangers, tmp_path, script, on_request=asked) as (_, start, _heard):
        zed = start()
        event = await asked.next()
        assert (event.member, event.tool) == ("zed", "Write")
        await event.allow(input=write["input"] | {"content": "two"}, updates=event.suggestions)
        first, second = await zed.seen("result", do="tool"), await zed.seen("result", do="tool")
        assert (first["result"]["ran"]["content"], second["result"]["ran"]["content"]) == ("two", "one")
        assert zed.log[-1]["kind"] != "asked" and made.read_text() == "one"
        assert "acceptEdits" in [line.get("mode") for line in zed.log]


@pytest.mark.promise("C4", "E8", "F44")
async def test_a_permission_that_is_denied_reaches_the_stranger_with_its_reason(strangers, tmp_path):
    call = {"do": "tool", "tool": "Bash", "input": {"command": "rm -rf x"}}
    asked = Asked()
    script = {"turns": [{"when": "Go.", "do": [call]}]}
    async with with_zed(strangers, tmp_path, script, on_request=asked) as (_, start, _heard):
        zed = start()
        await (await asked.next()).deny("not on a Friday")
        result = (await zed.seen("result", do="tool"))["result"]
        assert result["is_error"] and "not on a Friday" in result["text"]


async def ask_to_stop(team, zed, heard):
    """Once it is idle, and its notice was taken."""
    await zed.seen("idle")
    await heard.one(MessageSent, member="zed", wire="idle_notification")
    request = ShutdownRequest(request_id="shutdown-1@zed", sender=LEAD, timestamp=iso_time())
    await send_protocol(team.session.team, LEAD, "zed", request)


@pytest.mark.promise("E8", "F16", "F20", "P7")
@pytest.mark.slow_after(1)
async def test_a_stranger_that_agreed_to_stop_leaves_its_entry_and_is_seen_off_by_us(strangers, tmp_path):
    """It ends by itself; its tasks go back, its entry goes, mail that it never read is told, and so is the lead."""
    async with with_zed(strangers, tmp_path, {}) as (team, start, heard):
        crew = team.session.team
        task = await crew.tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        await crew.tasks.update(task.id, by=LEAD, owner="zed", status="in_progress")
        zed = start()
        await ask_to_stop(team, zed, heard)
        await heard.one(MemberChanged, member="zed", state="idle")
        assert await asyncio.to_thread(zed.ended) == 0
        await heard.one(MemberChanged, member="zed", state="completed", detail="agreed to stop")
        await heard.one(MessageSent, member="system", to=LEAD, wire="teammate_terminated")
        assert on_roster(team, "zed") is None
        back = await crew.tasks.get(task.id)
        assert (back.owner, str(back.status)) == (None, "pending")
        with pytest.raises(UnknownMember):
            await say(team, "still there?")
        assert len([e for e in heard.of(MemberChanged, member="zed") if e.state == "completed"]) == 1


@pytest.mark.promise("E8", "F23", "P7")
async def test_a_stranger_that_objects_stays_as_it_was(strangers, tmp_path):
    script = {"turns": [{"when": "shutdown_request", "do": [{"do": "refuse", "reason": "busy now"}]}]}
    async with with_zed(strangers, tmp_path, script) as (team, start, heard):
        zed = start()
        await ask_to_stop(team, zed, heard)
        await heard.one(MessageSent, member="zed", wire="shutdown_rejected")
        await zed.seen("idle")
        assert on_roster(team, "zed") is not None and (await say(team, "Go on.")).outcome == "accepted"


@pytest.mark.promise("E8", "C4", "F44", "D8")
@pytest.mark.slow_after(1)
async def test_after_a_resume_a_stranger_is_still_known_and_what_it_asks_reaches_a_person(strangers, tmp_path):
    call = {"do": "tool", "tool": "Bash", "input": {"command": "make"}}
    script = {"turns": [{"when": "Go.", "do": []}, {"when": "Now.", "do": [call]}]}
    async with with_zed(strangers, tmp_path, script) as (team, start, _heard):
        zed = start()
        await zed.seen("idle")
    asked = Asked()
    async with Team.resume("crew", model=quiet_model(), cwd=tmp_path, on_request=asked) as team:
        await until(team, lambda: "zed" in team.session.team.external.external_names)
        assert "ann" not in team.session.team.external.external_names
        await say(team, "Now.")
        await (await asked.next()).allow()
        result = (await zed.seen("result", do="tool"))["result"]
        assert result == {"is_error": False, "ran": {"command": "make"}}


# ── habits ───────────────────────────────────────────────────────────────────────────────────────────────────────


def gated(tmp_path, file, at, *then):
    gate = {"do": "gate", "file": file, "at": at, "until": str(tmp_path / "go")}
    return {"turns": [{"when": "Go.", "do": [gate, *then]}]}


@pytest.mark.promise("F26", "A3", "E8")
async def test_a_member_that_joins_while_a_stranger_has_an_old_copy_of_the_roster_stays(older, tmp_path):
    async with with_zed(older, tmp_path, gated(tmp_path, "config.json", "read")) as (team, start, heard):
        zed = start()
        await zed.seen("gate", at="read")
        await team.spawn("ben", "Wait.")
        (tmp_path / "go").touch()
        await zed.seen("idle")
        await heard.until(lambda: any("config.json" in one.text for one in heard.of(Notice, member="outside")))
        assert on_roster(team, "ben") and on_roster(team, "ann") and on_roster(team, "zed")


@pytest.mark.promise("F04", "E8", "P1")
async def test_what_we_send_while_a_stranger_has_emptied_the_inbox_waits_and_both_messages_are_there(older, tmp_path):
    send = {"do": "send", "to": "ann", "text": "theirs", "summary": "s"}
    async with with_zed(older, tmp_path, gated(tmp_path, "ann.json", "cut", send)) as (team, start, heard):
        zed = start()
        await zed.seen("gate", at="cut")
        path = team.session.team.home.inbox("crew", "ann")
        assert path.read_bytes() == b""
        ours = asyncio.create_task(say(team, "ours", "ann"))
        assert not (await asyncio.wait({ours}, timeout=0.05))[0]
        (tmp_path / "go").touch()
        await ours
        await heard.one(MessageSent, member="zed", to="ann")
        texts = [one["text"] for one in json.loads(path.read_bytes())]
        assert {"ours", "theirs"} <= set(texts)
        assert not list(path.parent.glob("*.bad.*"))


@pytest.mark.promise("F29", "E8", "P1")
@pytest.mark.slow
async def test_a_lock_that_a_stranger_keeps_is_an_error_with_its_path_and_nothing_was_sent(newer, tmp_path):
    send = {"do": "send", "to": "ann", "text": "theirs"}
    async with with_zed(newer, tmp_path, gated(tmp_path, "ann.json", "read", send)) as (team, start, heard):
        zed = start()
        await zed.seen("gate", at="read")
        with pytest.raises(LockTimeout) as problem:
            await say(team, "ours", "ann")
        assert "ann.json.lock" in problem.value.render()
        (tmp_path / "go").touch()
        await heard.one(MessageSent, member="zed", to="ann")
        assert "ours" not in team.session.team.home.inbox("crew", "ann").read_text()


@pytest.mark.promise("B5", "E8", "P2")
async def test_a_task_that_a_stranger_overwrites_with_an_old_copy_is_told_to_its_owner_and_the_lead(older, tmp_path):
    update = {"do": "update", "id": "1", "subject": "renamed"}
    script, model = gated(tmp_path, "1.json", "read", update), Holding(lambda _request: "ok", "ann")
    async with with_zed(older, tmp_path, script, model=model) as (team, start, heard):
        crew = team.session.team
        task = await crew.tasks.create("ours", "do it", by=LEAD)
        zed = start()
        await zed.seen("gate", at="read")
        await crew.tasks.update(task.id, by="ann", owner="ann", status="in_progress")
        (tmp_path / "go").touch()
        await zed.seen("idle")
        await heard.one(MessageSent, member="task-list", to="ann")
        await heard.one(MessageSent, member="task-list", to=LEAD)
        model.go.set()
