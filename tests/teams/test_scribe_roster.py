"""Another process rewrites the roster or removes the team: what is ours is put back, what is theirs is told."""

import asyncio
import json
import shutil

import pytest
from msgspec.structs import replace

from teamwright import MemberChanged, Notice
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.mail import InboxEntry
from teamwright.storage.locks import lock_for
from teamwright.teams.outgoing_mail import send_text
from teamwright.testing import ScriptedModel
from tests.teams.crew import Holding, a_team, until
from tests.teams.watched import Told, a_stranger


def quiet_model():
    return ScriptedModel(lambda _request: "ok")


def config_of(team):
    return team.session.team.home.config(team.session.team.directory)


def names(team) -> list[str]:
    try:
        return [m["name"] for m in json.loads(config_of(team).read_bytes())["members"]]
    except ValueError:  # being written at this moment
        return []


def entry(team, name):
    return next(m for m in json.loads(config_of(team).read_bytes())["members"] if m["name"] == name)


@pytest.mark.promise("F26", "P3", "A3")
async def test_a_member_of_ours_that_a_stranger_wrote_out_of_the_roster_is_put_back_as_it_was(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await team.spawn("ben", "Work.")
        before = entry(team, "ann"), entry(team, "team-lead")
        await stranger.without(config_of(team), "ann", "team-lead")
        await heard.until(lambda: len(heard.of(Notice, member="outside")) == 2)
        assert names(team) == ["team-lead", "ben", "ann"]
        assert (entry(team, "ann"), entry(team, "team-lead")) == before
        assert (await send_text(team.session.team, "team-lead", "ann", "still there?")).outcome != "accepted"
        assert not heard.of(MemberChanged, member="ann", state="completed")


@pytest.mark.promise("A3", "P3")
async def test_what_the_process_of_a_member_notes_of_its_turns_stays_in_its_entry(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard, crew = Told(team), team.session.team
        await team.spawn("ann", "Work.")
        await team.spawn("ben", "Work.")
        away = crew.external.own_entries["ann"] = replace(crew.external.own_entries["ann"], backend_type="tmux")
        await crew.roster.add(away)
        await stranger.member(config_of(team), "ann", isActive=True)
        await stranger.without(config_of(team), "ben")
        await heard.until(lambda: heard.of(Notice, member="outside"))
        assert entry(team, "ann")["isActive"] is True
        assert names(team) == ["team-lead", "ann", "ben"]
        assert not [one for one in heard.of(Notice, member="outside") if one.text.startswith("ann")]


@pytest.mark.promise("A3", "P3")
async def test_what_a_stranger_changes_in_an_entry_of_ours_is_put_right_and_its_own_keys_are_kept(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        before = entry(team, "ann")
        await stranger.member(config_of(team), "ann", mode="bypassPermissions", isActive=True, theirs=[1])
        await heard.one(Notice, member="outside")
        assert entry(team, "ann") == before | {"theirs": [1]}


@pytest.mark.promise("A3", "C2", "P3")
async def test_a_member_that_a_stranger_puts_on_the_roster_comes_goes_and_can_be_written_to(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await stranger.member(config_of(team), "bob", backendType="in-process")
        came = await heard.one(MemberChanged, member="bob")
        assert (came.state, came.detail) == ("unknown", "joined by another program")
        sent = await send_text(team.session.team, "ann", "bob", "hello")
        assert sent.outcome == "accepted"
        await stranger.member(config_of(team), "bob", isActive=True, mode="plan")
        await heard.one(MemberChanged, member="bob", state="working")
        assert entry(team, "bob")["mode"] == "plan"
        await stranger.without(config_of(team), "bob")
        await heard.one(MemberChanged, member="bob", state="completed")
        with pytest.raises(TeamwrightError, match="bob"):
            await send_text(team.session.team, "ann", "bob", "hello")
        assert not heard.of(Notice, member="outside")


@pytest.mark.promise("F26")
async def test_an_old_copy_that_brings_back_who_has_ended_is_put_right(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        old = config_of(team).read_text()
        await team.spawn("ben", "Work.")
        await team.stop("ann")
        await until(team, lambda: team.session.team.find("ann") is None and "ann" not in names(team))
        await stranger.write(str(config_of(team)), old)
        await heard.until(lambda: len(heard.of(Notice, member="outside")) == 2)
        assert names(team) == ["team-lead", "ben"]


@pytest.mark.promise("P6", "P3")
async def test_a_stranger_that_overwrites_again_and_again_is_warned_of_once_and_not_fought_for_ever(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        for _ in range(20):
            before = len(heard.of(Notice, member="outside"))
            await stranger.without(config_of(team), "ann")
            if heard.of(Notice, member="outside", level="warning"):
                break
            await heard.until(lambda n=before: len(heard.of(Notice, member="outside")) > n)
        await stranger.member(config_of(team), "bob")
        await heard.one(MemberChanged, member="bob")
        assert len(heard.of(Notice, member="outside", level="info")) == 6
        assert len(heard.of(Notice, member="outside", level="warning")) == 1
        assert "ann" not in names(team)


@pytest.mark.promise("P3", "F67")
async def test_a_team_that_is_removed_while_it_lives_is_told_stops_nobody_and_is_not_made_anew(tmp_path):
    model = Holding(lambda request: "done" if request.agent_name == "ann" else "ok", "ann")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.tasks.add("count the lines")
        await team.spawn("ann", "Work.")
        await model.thinking.wait()
        place = config_of(team).parent
        await stranger.remove(place)
        notice = await heard.one(Notice, member="outside", level="warning")
        assert "removed the files of the team" in notice.text
        model.go.set()
        result = await team.run("What happened?")
        assert result.ok
        lead = [item.decode() for r in model.requests if r.agent_name == "team-lead" for item in r.items]
        assert any("removed the files of the team" in item for item in lead)
        await until(
            team,
            lambda: any("done" in i.decode() for r in model.requests if r.agent_name == "team-lead" for i in r.items),
        )
        assert team.session.team.find("ann") is not None
        assert not place.exists()
        assert [task.subject for task in await team.session.team.tasks.all()] == ["count the lines"]


@pytest.mark.promise("P3", "F67")
async def test_what_was_under_way_when_a_team_was_removed_does_not_make_it_anew(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        await team.spawn("ann", "Work.")
        await until(team, lambda: team.session.team.is_quiet())
        place, roster, inbox = config_of(team).parent, team.session.team.roster, team.session.team.mailbox("ann")
        await stranger.remove(place)
        with pytest.raises(StorageError):
            await inbox.put(InboxEntry("team-lead", "hello"))
        with pytest.raises(StorageError):
            await lock_for(roster.document.path, team.session.team.home.guard(roster.document.path)).hold().__aenter__()
        assert not place.exists()


@pytest.mark.promise("P3")
async def test_a_removed_team_that_comes_back_is_told(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        place = config_of(team).parent
        kept = tmp_path / "kept"
        shutil.copytree(place, kept, ignore=shutil.ignore_patterns("bells"))
        await stranger.remove(place)
        await heard.until(lambda: heard.of(Notice, member="outside", level="warning"))
        kept.rename(place)
        await heard.until(lambda: any("are back" in n.text for n in heard.of(Notice)))
        assert (await send_text(team.session.team, "team-lead", "ann", "hello")).outcome


@pytest.mark.promise("P3", "F04")
@pytest.mark.slow
async def test_a_damaged_roster_is_told_once_and_taken_up_again_when_it_is_whole(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        whole = config_of(team).read_text()
        await stranger.write(config_of(team), whole[:100])
        await heard.one(Notice, member="outside", level="warning")
        await stranger.write(config_of(team), whole[:90])
        await stranger.write(config_of(team), whole)
        await stranger.member(config_of(team), "bob")
        await heard.one(MemberChanged, member="bob")
        assert len(heard.of(Notice, member="outside")) == 1


@pytest.mark.promise("F26", "A4")
async def test_members_that_start_while_a_stranger_rewrites_are_all_on_the_roster_in_the_end(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        old = config_of(team).read_text()
        spawning = [asyncio.create_task(team.spawn(f"m{n}", "Work.")) for n in range(5)]
        await stranger.write(str(config_of(team)), old)
        await asyncio.gather(*spawning)
        await until(team, lambda: sorted(names(team)) == ["m0", "m1", "m2", "m3", "m4", "team-lead"])


@pytest.mark.finding("N2")
@pytest.mark.promise("P5")
@pytest.mark.parametrize(
    "damage",
    ["", '{"name": "crew", "members": [{"na', "{}", '{"name": "crew", "leadAgentId": "team-lead@crew", "members": []}'],
)
@pytest.mark.slow_after(1)
async def test_a_roster_that_another_program_left_empty_or_cut_is_restored_from_memory(tmp_path, damage):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Wait for mail.")
        await until(team, lambda: team.session.team.is_quiet())
        crew = team.session.team
        path = crew.home.config(crew.directory)
        before = json.loads(path.read_bytes())
        await stranger.write(path, damage)
        await heard.until(lambda: any("was restored from memory" in one.text for one in heard.of(Notice)))
        assert json.loads(path.read_bytes()) == before
        assert [copy.read_text() for copy in path.parent.glob("config.json.bad.*")] == [damage]
        await crew.roster.find("ann")
        await team.spawn("bob", "Wait for mail too.")


@pytest.mark.finding("N2")
@pytest.mark.promise("P5")
@pytest.mark.slow
async def test_a_start_and_an_end_that_meet_an_empty_roster_wait_until_it_is_restored(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        ann = await team.spawn("ann", "Wait for mail.")
        await until(team, lambda: team.session.team.is_quiet())
        await stranger.write(config_of(team), "")
        await asyncio.gather(team.spawn("bob", "Wait for mail too."), ann.stop())
        assert sorted(names(team)) == ["bob", "team-lead"]
        assert len([one for one in heard.of(Notice) if "was restored from memory" in one.text]) == 1


@pytest.mark.finding("D5", "N2")
@pytest.mark.promise("P5")
@pytest.mark.parametrize("damage", [None, ""])
@pytest.mark.slow_after(1)
async def test_a_team_file_that_another_program_removed_or_emptied_is_restored_from_memory(tmp_path, damage):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Wait for mail.")
        await until(team, lambda: team.session.team.is_quiet())
        path = config_of(team).with_name("team.json")
        before = path.read_bytes()
        await (stranger.remove(path) if damage is None else stranger.write(path, damage))
        await heard.until(lambda: any("was restored from memory" in one.text for one in heard.of(Notice)))
        assert path.read_bytes() == before
        assert [copy.read_text() for copy in path.parent.glob("team.json.bad.*")] == (
            [] if damage is None else [damage]
        )
        await team.spawn("bob", "Wait for mail too.")
