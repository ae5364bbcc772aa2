"""What a resume must not take from a team, line by line of what goes on with it."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Team, TeamwrightError
from teamwright.models.model import Failure
from teamwright.protocol.ids import LEAD, message_id, now_ms
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import encode, text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import find_home
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_catalogue import NewTeam
from teamwright.team_records.team_state import LeadLease, read_team_file
from teamwright.teams.outgoing_mail import SendCall, send_text
from teamwright.teams.spawn import spawn
from teamwright.teams.team_creation import create_team, ensure_team
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, told, until


def resumed(tmp_path, model, **more) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", **more)


@pytest.mark.promise("D8", "D3")
async def test_who_was_at_work_when_the_session_was_left_goes_on_when_it_is_resumed(tmp_path):
    held = Holding({"lead": ["ok"] * 9, "ada": ["never said"]}, "ada")
    async with a_team(tmp_path, held) as team:
        team.session.team.settings = replace(team.session.team.settings, shutdown_timeout_s=0.01)
        await team.spawn("ada", "Think.")
        await asyncio.wait_for(held.thinking.wait(), WAIT_S)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Thought.", "Still here."]})
    async with resumed(tmp_path, model) as team:
        ada = team.session.team.members["ada"]
        await until(team, lambda: ada.turns >= 1 and ada.state in {"idle", "completed"})
        await team.send("ada", "Are you there?")
        await until(team, lambda: ada.turns == 2 and ada.state == "idle")
        assert not ada.stop_request_id and not ada.end_cause
    assert "being left" not in told(model, "ada")


async def until_true(session, condition) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            session.team.changed.clear()
            if not condition():
                await session.team.changed.wait()


def options(tmp_path, model, **more) -> Options:
    return Options(cwd=tmp_path, model=model, permission_mode="bypassPermissions", **more)


@pytest.mark.promise("P1", "D8")
async def test_mail_of_the_sessions_own_team_follows_into_the_new_one_though_a_kill_came_between(tmp_path, own_home):
    home = find_home()
    async with open_session(options(tmp_path, ScriptedModel("ok"))) as session:
        team, late = session.team, InboxEntry("bob", "late words", msg_id=message_id())
        await ensure_team(team)
        await team.mailbox(LEAD).put(late)
        lead = LeadLease(session.id, os.getpid(), team.lease)
        await team.teams.create(NewTeam("crew", lead, str(tmp_path), "m", now_ms()))  # killed before the mail moved
    model = ScriptedModel(["ok"] * 9)
    async with open_session(options(tmp_path, model, resume=session.id)) as session:
        assert session.team.name == "crew"
        await session.run([text_block("Go on.")])
        assert not home.config(f"session-{session.id[:8]}").exists()
    async with open_session(options(tmp_path, model, resume=session.id)) as session:
        await session.run([text_block("And on.")])
    assert told(model, LEAD).count("late words") == 1


@pytest.mark.promise("P1")
async def test_a_team_that_is_being_made_is_made_whole_though_the_call_is_cancelled(tmp_path, own_home):
    model = ScriptedModel(["ok"] * 9)
    async with open_session(options(tmp_path, model)) as session:
        team = session.team
        await ensure_team(team)
        await team.mailbox(LEAD).put(InboxEntry("bob", "late words", msg_id=message_id()))
        barred = Path(f"{team.home.config(team.directory)}.lock")
        barred.mkdir()  # another program changes the roster of the team that makes way
        made = asyncio.create_task(create_team(team, "crew", None, None))
        await until_true(session, lambda: team.name == "crew")
        made.cancel()
        barred.rmdir()
        await asyncio.wait({made})
        assert made.cancelled() and not team.home.config(team.session_list_name).exists()
        await session.run([text_block("Go on.")])
    assert told(model, LEAD).count("late words") == 1


async def leave_with_ada_and_bob(tmp_path, **more) -> None:
    """A team that was left with two idle members; ada has a task in progress."""
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Ready.", "I am on it."], "bob": ["Ready."]})
    async with a_team(tmp_path, model, **more) as team:
        ada, bob = await team.spawn("ada", "Get ready."), await team.spawn("bob", "Get ready.", agent_type="Explore")
        await until(team, lambda: ada.state == bob.state == "idle")
        teammates = team.session.team.members
        await team.tasks.add("Draw the map", metadata={"for": ["ada"]})
        await until(team, lambda: teammates["ada"].turns == 2 and team.session.team.is_quiet())


@pytest.mark.promise("P2", "P3", "D8")
async def test_who_was_written_off_the_roster_before_a_kill_keeps_no_task_and_the_lead_is_told(tmp_path, own_home):
    home = find_home()
    await leave_with_ada_and_bob(tmp_path)
    config = json.loads(home.config("crew").read_bytes())
    config["members"] = [m for m in config["members"] if m["name"] != "ada"]
    home.config("crew").write_text(json.dumps(config))
    for _ in range(2):
        async with resumed(tmp_path, ScriptedModel("ok")) as team:
            task = await team.session.team.tasks.get("1")
            assert (task.owner, task.status) == (None, "pending")
            assert [m.name for m in team.members] == ["bob"]
    texts = [e["text"] for e in json.loads(home.inbox("crew", LEAD).read_bytes())]
    assert sum("ada has ended" in text and "#1" in text for text in texts) == 1
    assert set(read_team_file(home.team_file("crew")).incarnation_records) == {"bob"}


def transcript(home, name: str) -> Path:
    return Path(read_team_file(home.team_file("crew")).incarnation_records[name].transcript)


@pytest.mark.promise("D8", "D5")
async def test_a_member_whose_transcript_has_an_end_that_makes_no_sense_is_resumed_without_it(tmp_path, own_home):
    home = find_home()
    await leave_with_ada_and_bob(tmp_path)
    with transcript(home, "ada").open("ab") as file:
        file.write(b'{"type":"user","message":{"role":"user","content"\n')
        file.write(b'{"type":"assistant","message":{"role":"assistant","content":[{"\0\0\0\n')
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        assert [m.name for m in team.members] == ["ada", "bob"]
        assert team.session.resumed.gone == ()
        [told] = [one for one in team.session.warnings if "could not be read" in one]
        assert "2 lines" in told and "ada" in told


@pytest.mark.promise("D8", "D5")
async def test_a_file_that_the_system_will_not_read_now_costs_nobody_its_place(tmp_path, own_home):
    home = find_home()
    await leave_with_ada_and_bob(tmp_path)
    path = transcript(home, "bob")
    path.rename(path.with_suffix(".aside"))
    path.mkdir()
    with pytest.raises(TeamwrightError, match=r"bob\.jsonl"):
        async with resumed(tmp_path, ScriptedModel("ok")):
            pass
    path.rmdir()
    path.with_suffix(".aside").rename(path)
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        assert [m.name for m in team.members] == ["ada", "bob"]


@pytest.mark.promise("D8", "D5")
async def test_a_member_whose_transcript_is_gone_does_not_begin_anew_without_a_word(tmp_path, own_home):
    home = find_home()
    await leave_with_ada_and_bob(tmp_path)
    transcript(home, "ada").unlink()
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        assert team.session.resumed.gone == ("ada",)
    texts = [e["text"] for e in json.loads(home.inbox("crew", LEAD).read_bytes())]
    assert sum("ada has ended" in text and "transcript" in text for text in texts) == 1


@pytest.mark.promise("D8")
async def test_members_of_a_home_that_was_moved_come_back_with_their_conversations(tmp_path):
    old, new = tmp_path / "old-home", tmp_path / "new-home"
    await leave_with_ada_and_bob(tmp_path, home=str(old))
    old.rename(new)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Again."]})
    async with resumed(tmp_path, model, home=str(new)) as team:
        assert [m.name for m in team.members] == ["ada", "bob"]
        await team.send("ada", "What did you get?")
        await until(team, lambda: team.session.team.members["ada"].turns == 1)
    assert "Get ready." in told(model, "ada") and "What did you get?" in told(model, "ada")
    assert not old.exists()


@pytest.mark.promise("D8", "J6")
async def test_a_member_that_had_not_begun_writes_its_transcript_into_the_home_that_was_moved(tmp_path):
    old, new = tmp_path / "old-home", tmp_path / "new-home"
    await leave_with_ada_and_bob(tmp_path, home=str(old))
    home = find_home(str(old))
    transcript(home, "ada").unlink()
    home.inbox("crew", "ada").write_text("[]")  # killed between its entry in the roster and its first prompt
    old.rename(new)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Ready."] * 9})
    async with resumed(tmp_path, model, home=str(new)) as team:
        await until(team, lambda: team.session.team.members["ada"].turns >= 1)
    assert "Ready." in transcript(find_home(str(new)), "ada").read_text()
    assert not old.exists()


@pytest.mark.promise("D8", "J6")
async def test_a_member_writes_into_this_home_although_the_former_one_has_a_transcript_that_was_never_shared(tmp_path):
    """As on a second machine with a database, when the first one was killed right after the member's start."""
    old, new = tmp_path / "old-home", tmp_path / "new-home"
    await leave_with_ada_and_bob(tmp_path, home=str(old))
    shutil.copytree(old, new)
    former, home = transcript(find_home(str(old)), "ada"), find_home(str(new))
    (new / former.relative_to(old)).unlink()
    home.inbox("crew", "ada").write_text("[]")
    before = former.read_bytes()
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Ready."] * 9})
    async with resumed(tmp_path, model, home=str(new)) as team:
        await until(team, lambda: team.session.team.members["ada"].turns >= 1)
    assert "Ready." in (new / former.relative_to(old)).read_text()
    assert former.read_bytes() == before


class FailsFor(ScriptedModel):
    """The service refuses one agent."""

    async def stream(self, request):
        if request.agent_name == "ada":
            yield Failure("model-failed", "the service is down")
            return
        async for part in super().stream(request):
            yield part


@pytest.mark.promise("C8", "D8")
async def test_a_member_that_fails_again_after_a_resume_is_told_again(tmp_path):
    lead = {"lead": ["ok"] * 9}
    async with a_team(tmp_path, FailsFor(lead)) as team:
        ada = await team.spawn("ada", "Think.")
        await until(team, lambda: team.session.team.members["ada"].is_paused and ada.state == "idle")
        await team.run("What is ada doing?")
    again = FailsFor(lead)
    async with resumed(tmp_path, again) as team:
        await until(team, lambda: team.session.team.members["ada"].is_paused and team.session.team.is_quiet())
        await team.run("And now?")
    assert told(again, LEAD).count("the service is down") == 2


@pytest.mark.promise("D8", "P6")
async def test_a_cap_on_a_members_rounds_is_for_its_life(tmp_path):
    script = {"lead": ["ok"] * 9, "ada": [("TaskList", {})] * 9}
    async with a_team(tmp_path, ScriptedModel(script)) as team:
        spec = SpawnSpec(prompt="Look for ever.", name="ada", max_turns=3)
        await spawn(team.session.team, spec)
        await until(team, lambda: team.session.team.members["ada"].is_paused)
    model = ScriptedModel(script)
    async with resumed(tmp_path, model) as team:
        await until(team, lambda: team.session.team.members["ada"].is_paused)
    assert not [request for request in model.requests if request.agent_name == "ada"]


@pytest.mark.promise("D8", "B7")
@pytest.mark.parametrize("by", ["itself", "the lead"])
async def test_a_task_that_a_member_took_or_was_given_is_not_told_as_new_at_a_resume(tmp_path, by):
    taken = [("TaskUpdate", {"taskId": "1", "status": "in_progress"}), "I took it.", "I saw it."]
    given = [("TaskUpdate", {"taskId": "1", "owner": "ada", "status": "in_progress"}), "given", "ok", "ok"]
    script = {
        "lead": given if by == "the lead" else ["ok"] * 9,
        "ada": ["Ready.", *(taken if by == "itself" else ["I see."])],
    }
    async with a_team(tmp_path, ScriptedModel(script)) as team:
        await team.spawn("ada", "Get ready.")
        teammate = team.session.team.members["ada"]
        await until(team, lambda: teammate.turns == 1 and team.session.team.is_quiet())
        await team.session.team.tasks.create("Draw the map", "", by="user", metadata={"needs": ["NoSuchTool"]})
        if by == "itself":
            await team.session.team.tasks.update("1", by=LEAD, lead=True, metadata={"needs": None, "for": ["bob"]})
            await team.session.team.tasks.update("1", by=LEAD, lead=True, owner="ada")
            await team.send("ada", "Take #1.")
        else:
            await team.run("Give #1 to ada.")
        await until(team, lambda: teammate.turns == 2 and team.session.team.is_quiet())
        assert (await team.session.team.tasks.get("1")).status == "in_progress"
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Again?"]})
    async with resumed(tmp_path, model) as team:
        await until(team, lambda: not team.session.team.members["ada"].resumed and team.session.team.is_quiet())
        assert team.session.team.members["ada"].turns == 0


@pytest.mark.promise("D8", "P1")
async def test_what_the_lead_should_hear_beside_is_told_with_the_reminder_too(tmp_path, own_home):
    await leave_with_ada_and_bob(tmp_path)
    home = find_home()
    transcript(home, "ada").unlink()
    model = ScriptedModel({"lead": ["ok"] * 9})
    async with resumed(tmp_path, model) as team:
        while await team.session.lead.run_turn() is not None:
            pass
        team.session.lead.add_note("one word beside")
        await team.session.lead.run_reminder()
    assert told(model, LEAD).count("one word beside") == 1


@pytest.mark.promise("F55", "D8")
async def test_a_start_whose_name_was_taken_is_not_made_twice_when_its_call_is_run_again(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        team.session.team.settings = replace(team.session.team.settings, dedupe_names=True)
        await team.spawn("ada", "Be the first.")
        spec = SpawnSpec(prompt="Be the second.", name="ada", call="the call of the lead")
        second = await spawn(team.session.team, spec)
        assert (await spawn(team.session.team, spec)) is second and second.name == "ada-2"
        assert len(team.members) == 2


@pytest.mark.promise("P1", "F08")
async def test_a_message_to_a_name_in_another_case_is_not_sent_twice_when_its_call_is_run_again(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        await team.spawn("ada", "Wait.")
        crew = team.session.team
        first = await send_text(crew, LEAD, "ADA", "hello", call=SendCall("the call"))
        again = await send_text(crew, LEAD, "ADA", "hello", call=SendCall("the call", is_rerun=True))
        assert again.message_id == first.message_id
        entries = json.loads(crew.mailbox("ada").path.read_bytes())
    assert sum(entry["text"] == "hello" for entry in entries) == 1


@pytest.mark.promise("D8", "P5")
@pytest.mark.parametrize("name", ["config.json", "team.json"])
async def test_a_team_one_of_whose_two_files_cannot_be_read_is_not_left_out_without_a_word(tmp_path, own_home, name):
    await leave_with_ada_and_bob(tmp_path)
    home = find_home()
    place = home.team("crew")
    session = read_team_file(home.team_file("crew")).lead.session
    (place / name).rename(tmp_path / name)
    (place / name).mkdir()
    with pytest.raises(TeamwrightError, match=name.replace(".", r"\.")):
        async with resumed(tmp_path, ScriptedModel("ok")):
            pass
    async with open_session(options(tmp_path, ScriptedModel("ok"), resume=session)) as alone:
        assert any("crew" in warning and name in warning for warning in alone.warnings)
    (place / name).rmdir()
    (tmp_path / name).rename(place / name)
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        assert [m.name for m in team.members] == ["ada", "bob"]


class HeldAtSecond(Holding):
    """Lets the first call of everybody through."""

    async def stream(self, request):
        if len(request.items) == 1:
            async for part in ScriptedModel.stream(self, request):
                yield part
            return
        async for part in super().stream(request):
            yield part


@pytest.mark.promise("D3", "P4", "D8")
@pytest.mark.parametrize("answered", [False, True])
async def test_who_had_read_a_request_to_stop_before_a_kill_consents_by_ending_its_turn(tmp_path, own_home, answered):
    read = asyncio.Event()

    async def wait_until_asked() -> str:
        """Waits."""
        await read.wait()
        return "waited"

    script = {"lead": ["ok"] * 9, "ada": [("python__wait_until_asked", {}), "never said"]}
    held = HeldAtSecond(script, "ada")
    async with a_team(tmp_path, held, tools=[wait_until_asked]) as team:
        await team.spawn("ada", "Wait.")
        await team.session.deadlines.request_stop(team.session.team, "ada", "enough")
        read.set()
        await asyncio.wait_for(held.thinking.wait(), WAIT_S)
        await team.session.stop_members("as a kill would", keep=True)
    if answered:  # killed before anybody could act on it
        said = {"role": "assistant", "content": [{"type": "text", "text": "Fine, I stop."}]}
        with transcript(find_home(), "ada").open("ab") as file:
            file.write(b'{"type":"assistant","at":"","stop_reason":"end_turn","message":%s}\n' % encode(said))
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": [] if answered else ["Fine, I stop."]})
    async with resumed(tmp_path, model) as team:
        await until(team, lambda: not team.members)
    texts = [e["text"] for e in json.loads(find_home().inbox("crew", LEAD).read_bytes())]
    assert sum("ada has ended: shut down on request" in text for text in texts) == 1
    assert sum("shutdown_approved" in text for text in texts) == 1
