"""Edges of going on with a team, found by killing it at random: what a kill parts is told once, and by somebody."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.mail.inbox import read_entries
from teamwright.protocol.errors import CannotStart, TeamRefused
from teamwright.protocol.ids import LEAD, keyed_id, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.storage.paths import Home, find_home
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease, read_team_file
from teamwright.teams import team_resume
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.shutdown import delete_team, finish_delete, kill
from teamwright.teams.shutdown_requests import answer_stop, ask_to_stop
from teamwright.teams.spawn import spawn
from teamwright.teams.undelivered_mail import return_late_mail
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, told, until


@pytest.fixture
def home(own_home) -> Home:
    return find_home()


def texts_for_lead(home: Home) -> list[str]:
    return [entry["text"] for entry in json.loads(home.inbox("crew", LEAD).read_bytes())]


def a_model(*held: str) -> Holding:
    return Holding({"lead": ["ok"] * 9, "ada": ["ok"] * 9, "bob": ["ok"] * 9}, *held)


@pytest.mark.promise("P4", "P1", "D3")
@pytest.mark.parametrize("told", [False, True])
async def test_an_objection_that_a_kill_cut_off_reaches_the_lead_once(tmp_path, home, told):
    model = a_model("ada")  # it thinks, and does not look by itself
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        inner = team.session.team
        id = await ask_to_stop(inner, "ada", "enough", team.session.deadlines.timers)
        if told:
            await answer_stop(inner, "ada", id, False, "not yet")
        else:
            inner.requests.answer(id, {"approve": False, "reason": "not yet", "by": "ada"})
        assert not await answer_stop(inner, "ada", id, False, "not yet", is_rerun=True)
        objections = [text for text in texts_for_lead(home) if "shutdown_rejected" in text]
        assert len(objections) == 1 and id in objections[0]
        assert await inner.mailbox(LEAD).contains(keyed_id("objected", id))
        model.go.set()


@pytest.mark.promise("P4", "D3")
async def test_a_call_that_asked_to_stop_does_not_ask_again_though_it_was_answered_meanwhile(tmp_path, home):
    model = a_model("ada")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        inner, timers = team.session.team, team.session.deadlines.timers
        id = await ask_to_stop(inner, "ada", "enough", timers, call="a call")
        await answer_stop(inner, "ada", id, False, "not yet")
        assert await ask_to_stop(inner, "ada", "enough", timers, call="a call") == id
        assert await ask_to_stop(inner, "ada", "enough", timers, call="another") != id
        model.go.set()


@pytest.mark.promise("D8", "C9")
async def test_a_call_that_started_a_member_does_not_start_it_again_though_it_has_ended_since(tmp_path, home):
    async with a_team(tmp_path, a_model()) as team:
        inner, spec = team.session.team, SpawnSpec(prompt="Wait.", name="ada", call="a call")
        teammate = await spawn(inner, spec)
        await team.stop("ada")
        assert await spawn(inner, spec) is teammate
        assert not team.members


@pytest.mark.promise("D8", "C9", "P4")
async def test_a_call_that_started_a_member_starts_none_in_the_next_process_either(tmp_path, home):
    """Whatever became of that one since, and however often its lead was killed before the call had its result."""
    spec = SpawnSpec(prompt="Wait.", name="ada", call="a call")
    async with a_team(tmp_path, a_model()) as team:
        await spawn(team.session.team, spec)
        await team.spawn("bob", "Wait.")
        await team.stop("ada")
    for _ in range(2):
        async with Team.resume("crew", model=a_model(), cwd=tmp_path) as team:
            with pytest.raises(CannotStart, match="ada was started, and has ended: stopped by the program"):
                await spawn(team.session.team, spec)
            assert [one.name for one in team.members] == ["bob"]
    async with Team.resume("crew", model=a_model(), cwd=tmp_path) as team:
        assert (await spawn(team.session.team, replace(spec, call="another"))).incarnation == 2


@pytest.mark.promise("P1", "F11")
async def test_mail_that_came_after_its_reader_had_ended_goes_back_once(tmp_path, home):
    """Whoever wrote had looked at the roster just before."""
    async with a_team(tmp_path, a_model()) as team:
        for name in ("ada", "bob"):
            await team.spawn(name, "Wait.")
        await team.stop("ada")
        inner = team.session.team
        await inner.mailbox("ada").put(InboxEntry("user", "the door is open", msg_id=message_id()))
        await inner.mailbox("bob").put(InboxEntry("user", "for bob", msg_id=message_id()))
        for _ in range(2):
            await return_late_mail(inner)
        assert sum("ada has ended" in text and "the door is open" in text for text in texts_for_lead(home)) == 1
        assert not any("for bob" in text for text in texts_for_lead(home))
        await inner.mailbox("ada").put(InboxEntry("user", "and the window", msg_id=message_id()))
    assert sum("and the window" in text for text in texts_for_lead(home)) == 1


@pytest.mark.promise("D8", "A1")
async def test_a_team_whose_making_was_cut_off_after_its_roster_is_made_by_the_same_session(tmp_path, home):
    """Meanwhile others may have seen it, and written to it."""
    async with a_team(tmp_path, a_model()) as team:
        inner = team.session.team
        home.team_file("crew").unlink()  # as if killed before it was written
        await inner.mailbox(LEAD).put(InboxEntry("user", "hello", msg_id=message_id()))
        new = NewTeam("crew", LeadLease(inner.session, 1), str(tmp_path), "m", 1)
        made = await inner.teams.create(new)
        assert (made.directory, made.archived) == ("crew", ())
        assert read_team_file(home.team_file("crew")).lead.session == inner.session
        with pytest.raises(TeamRefused):
            await inner.teams.create(replace(new, lead=LeadLease("another", 1)))
        assert "hello" in texts_for_lead(home)


@pytest.mark.promise("P1", "F05", "F11")
async def test_what_goes_back_to_a_sender_that_comes_back_later_is_not_told_to_the_lead_too(tmp_path, home):
    async with a_team(tmp_path, a_model()) as team:
        for name in ("ada", "bob"):
            await team.spawn(name, "Wait.")
        inner = team.session.team
        await team.stop("ada")
        await inner.mailbox("ada").put(InboxEntry("bob", "are you there?", msg_id=message_id()))
        bob = inner.members.pop("bob")  # as after a kill: on the roster, and not started yet
        await return_late_mail(inner)
        inner.members["bob"] = bob
        assert not any("are you there?" in text for text in texts_for_lead(home))
        assert "are you there?" in home.inbox("crew", "bob").read_text()


@pytest.mark.promise("D5", "D8", "F16")
async def test_a_member_that_is_ended_while_it_comes_back_is_told_of_once(tmp_path, home, monkeypatch):
    async with a_team(tmp_path, a_model()) as team:
        await team.spawn("ada", "Wait.")
        await team.session.stop_members("as a kill would", keep=True)
    live = LocalTeammate.run

    async def ended_at_once(teammate):
        asyncio.get_running_loop().create_task(kill(inner[0], teammate, "ended by the test"))
        await live(teammate)

    inner, resume_members = [], team_resume.resume_members
    monkeypatch.setattr(LocalTeammate, "run", ended_at_once)

    async def resumed(team, deadlines):
        inner.append(team)
        return await resume_members(team, deadlines)

    monkeypatch.setattr(team_resume, "resume_members", resumed)
    async with Team.resume("crew", model=a_model(), cwd=tmp_path) as team:
        await until(team, lambda: team.session.team.members["ada"].end_processed)
        assert team.members == []
    told = [text for text in texts_for_lead(home) if "teammate_terminated" in text]
    assert len(told) == 1 and "ended by the test" in told[0]
    assert not read_team_file(home.team_file("crew")).incarnation_records


@pytest.mark.promise("P1", "A6", "D8")
async def test_a_deletion_that_a_kill_cut_off_is_seen_through_and_the_lead_hears_what_it_had_not_seen(tmp_path, home):
    model = a_model(LEAD)
    async with a_team(tmp_path, model) as team:
        first = await team.tasks.add("Draw the map")
        await team.session.team.tasks.update(first.id, by=LEAD, lead=True, status="completed")
        inner = team.session.team
        await inner.mailbox(LEAD).put(InboxEntry("user", "one more thing", msg_id=message_id()))
        home.archive.mkdir()
        home.team("crew").rename(home.archive / "crew-0123abcd")  # as if killed right then
        inner.forget()
        assert await finish_delete(inner) == "crew"
        assert (home.archive / "crew-0123abcd" / "tasks" / f"{first.id}.json").exists()
        assert not home.tasks("crew").exists()
        model.go.set()
        model.held.clear()
        await team.run("Go on.")
        assert told(model, LEAD).count("one more thing") == 1


@pytest.mark.promise("P1", "A6")
async def test_what_reaches_the_lead_while_its_team_is_deleted_is_told_all_the_same(tmp_path, home, monkeypatch):
    model = a_model()
    async with a_team(tmp_path, model) as team:
        inner = team.session.team
        delete = Teams.delete

        async def slowly(teams, directory):
            await inner.mailbox(LEAD).put(InboxEntry("user", "at the last moment", msg_id=message_id()))
            return await delete(teams, directory)

        monkeypatch.setattr(Teams, "delete", slowly)
        await delete_team(inner)
        await team.run("Go on.")
    assert told(model, LEAD).count("at the last moment") == 1


@pytest.mark.promise("P1", "D8", "F11")
async def test_a_member_that_is_not_back_yet_can_be_written_to_by_one_that_is(tmp_path):
    first = Holding({"lead": ["ok"] * 9, "bob": ["never said"]}, "bob")
    async with a_team(tmp_path, first) as team:
        ada, _ = await team.spawn("ada", "Wait."), await team.spawn("bob", "Write to cy.")
        await team.spawn("cy", "Wait.")
        await asyncio.wait_for(first.thinking.wait(), WAIT_S)
        await until(team, lambda: ada.state == "idle")
        await team.session.stop_members("as a kill would", keep=True)
    script = {"lead": ["ok"] * 9, "bob": [("SendMessage", {"to": "cy", "message": "are you back?"}), "written"]}
    model = ScriptedModel(script | {"ada": [], "cy": ["I am."]})
    async with Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        await until(team, lambda: team.session.team.members["cy"].turns >= 1 and team.session.team.is_quiet())
        assert not team.session.team.resuming
    assert "are you back?" in told(model, "cy") and "'cy' has ended" not in told(model, "bob")


@pytest.mark.promise("P1", "F11")
async def test_who_is_over_before_it_was_told_that_a_message_was_not_read_has_the_lead_told(tmp_path, home):
    """Two end at once, and one had written to the other."""
    model = a_model("ada", "bob")
    async with a_team(tmp_path, model) as team:
        for name in ("ada", "bob"):
            await team.spawn(name, "Wait.")
        inner = team.session.team
        await inner.mailbox("bob").put(InboxEntry("ada", "the door is open", msg_id=message_id()))
        await team.stop("bob")
        assert sum("did not read your message" in one.text for one in read_entries(home.inbox("crew", "ada"))) == 1
        await team.stop("ada")
        await return_late_mail(inner)
    [text] = [text for text in texts_for_lead(home) if "the door is open" in text]
    assert text.startswith("ada has ended and did not read this: bob has ended and did not read your message")
