"""The roster: joins, colours, names, other hands on the file."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.protocol.errors import InvalidName, StorageError, TeamRefused, TeamwrightError, UnknownMember
from teamwright.protocol.ids import COLORS
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.storage.paths import Home
from teamwright.team_records.roster import Roster, RosterFile
from tests.support.waits import WAIT_S

CHILD = Path(__file__).with_name("roster_child.py")


@pytest.fixture
def roster(tmp_path):
    made = Roster(RosterFile(Home.at(tmp_path / "home"), "demo"))
    lead = RosterMember("team-lead@demo", "team-lead", agent_type="team-lead", model="m", joined_at=1)
    assert made.document.create(TeamConfig("demo", lead.agent_id, "s", 1, None, (lead,)))
    return made


def member(name, **more):
    return RosterMember("", name, prompt="do", backend_type="in-process", **more)


def on_disk(roster):
    return json.loads(roster.document.path.read_bytes())


@pytest.mark.promise("A1", "F25")
def test_a_roster_is_made_once(roster):
    assert not roster.document.create(TeamConfig("other", "x@other", "s", 2))
    assert on_disk(roster)["name"] == "demo"


@pytest.mark.promise("A3", "A4", "A5")
async def test_a_joined_member_has_an_id_a_colour_and_its_place(roster):
    joined = await roster.join(member("Ann"))
    assert (joined.agent_id, joined.color) == ("Ann@demo", "blue")
    assert [m["name"] for m in on_disk(roster)["members"]] == ["team-lead", "Ann"]
    assert (await roster.find("aNN")).name == "Ann"
    assert roster.document.path.stat().st_mode & 0o777 == 0o600 and "color" not in on_disk(roster)["members"][0]


@pytest.mark.promise("A4")
async def test_colours_follow_the_order_of_joining_over_the_cycle_of_8(roster):
    got = [(await roster.join(member(f"m{n}"))).color for n in range(10)]
    assert got == [*COLORS, "blue", "green"]


@pytest.mark.promise("A4", "F26")
async def test_a_member_that_failed_to_start_uses_no_colour_up(roster):
    await roster.join(member("ann"))
    await roster.join(member("bob"))
    await roster.remove("bob")
    assert (await roster.join(member("cyd"))).color == "green"


@pytest.mark.promise("F15", "A4", "A5")
async def test_a_live_namesake_in_any_case_is_refused_with_two_ways_out(roster):
    await roster.join(member("ann"))
    before = roster.document.path.read_bytes()
    with pytest.raises(TeamRefused) as caught:
        await roster.join(member("ANN"))
    ways = " ".join(caught.value.do)
    assert "message" in ways and "replace" in ways and roster.document.path.read_bytes() == before


@pytest.mark.promise("A4")
async def test_with_dedupe_the_newcomer_gets_a_number(roster):
    for _ in range(3):
        await roster.join(member("ann"), dedupe=True)
    assert [m["agentId"] for m in on_disk(roster)["members"][1:]] == ["ann@demo", "ann-2@demo", "ann-3@demo"]
    long = "x" * 64
    await roster.join(member(long))
    assert (await roster.join(member(long), dedupe=True)).name == "x" * 60 + "-2"


@pytest.mark.promise("F15", "A4")
async def test_a_dead_namesake_is_replaced_in_its_place_and_colour(roster):
    await roster.join(member("ann"))
    await roster.join(member("bob"))
    joined = await roster.join(member("Ann", model="new"), is_alive=lambda m: m.name != "ann")
    assert joined.color == "blue"
    assert [(m["name"], m.get("model")) for m in on_disk(roster)["members"][1:]] == [("Ann", "new"), ("bob", None)]


@pytest.mark.promise("F15", "F64")
async def test_two_names_never_share_an_inbox_even_with_a_strangers(roster):
    data = on_disk(roster)
    data["members"].append({"agentId": "Carl X@demo", "name": "Carl X"})
    roster.document.path.write_text(json.dumps(data))
    with pytest.raises(TeamRefused, match="Carl X"):
        await roster.join(member("Carl-X"))
    await roster.join(member("carl-x"), is_alive=lambda m: False)
    assert [m["name"] for m in on_disk(roster)["members"]] == ["team-lead", "carl-x"]


@pytest.mark.promise("F64", "A5")
@pytest.mark.parametrize("name", ["..", "a/b", "team-lead", "CON", "", "x" * 65])
async def test_a_bad_name_never_reaches_the_file(roster, name):
    before = roster.document.path.read_bytes()
    with pytest.raises(InvalidName):
        await roster.join(member(name))
    assert roster.document.path.read_bytes() == before


@pytest.mark.promise("A4")
async def test_members_are_removed_by_name_or_id_and_the_lead_never(roster):
    await roster.join(member("ann"))
    await roster.join(member("bob"))
    assert (await roster.remove("ANN")).name == "ann" and (await roster.remove("bob@demo")).name == "bob"
    assert await roster.remove("bob") is None
    with pytest.raises(TeamRefused):
        await roster.remove("team-lead")
    assert [m["name"] for m in on_disk(roster)["members"]] == ["team-lead"]


@pytest.mark.promise("A4")
async def test_mode_and_activity_are_noted_behind_the_12_keys(roster):
    await roster.join(member("ann"))
    await roster.set_mode("ann", "plan")
    await roster.set_active("Ann", True)
    assert list(on_disk(roster)["members"][1].items())[-2:] == [("mode", "plan"), ("isActive", True)]
    with pytest.raises(UnknownMember) as caught:
        await roster.set_mode("anne", "plan")
    assert caught.value.do == ("did you mean ann?",)


@pytest.mark.promise("A3", "F26")
async def test_what_strangers_wrote_stays_and_an_overwritten_member_can_be_put_back(roster):
    ann = await roster.join(member("ann"))
    data = on_disk(roster)
    del data["members"][1]
    data["leadProcess"] = {"pid": 7}
    data["members"][0]["theirs"] = 1
    roster.document.path.write_text(json.dumps(data))
    assert (await roster.read()).find("ann") is None
    await roster.add(ann)
    assert on_disk(roster) == {**data, "members": [data["members"][0], ann.to_json()]}


@pytest.mark.promise("F26", "F25")
async def test_an_empty_or_cut_roster_is_waited_for_then_an_error_and_never_no_team(roster, monkeypatch):
    whole, waits = roster.document.path.read_bytes(), []

    def finish_writing(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            roster.document.path.write_bytes(whole)

    monkeypatch.setattr("teamwright.team_records.roster.time.sleep", finish_writing)
    for start in (b"", whole[:30]):
        waits.clear()
        roster.document.path.write_bytes(start)
        assert (await roster.read()).name == "demo" and waits == [0.002] * 3
    monkeypatch.setattr("teamwright.team_records.roster.time.sleep", waits.append)
    roster.document.path.write_bytes(whole[:30])
    for call in (roster.read(), roster.join(member("ann")), roster.remove("ann")):
        with pytest.raises(StorageError) as caught:
            await call
        assert caught.value.slug == "damaged-file"
    assert roster.document.path.read_bytes() == whole[:30]


@pytest.mark.promise("F25")
async def test_a_team_that_is_gone_is_told_and_not_made_again(roster):
    roster.document.path.unlink()
    roster.document.path.parent.rmdir()
    for call in (roster.read(), roster.join(member("ann")), roster.set_active("ann", True)):
        with pytest.raises(TeamwrightError) as caught:
            await call
        assert caught.value.slug == "unknown-team"
    assert not roster.document.path.parent.exists()


@pytest.mark.promise("F26", "A4")
async def test_of_parallel_joins_exactly_those_that_did_not_fail_stay(roster):
    async def spawn(n):
        joined = await Roster(RosterFile(roster.document.home, "demo")).join(member(f"m{n}"))
        if n % 3 == 0:
            await Roster(RosterFile(roster.document.home, "demo")).remove(joined.name)

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(spawn(n) for n in range(20)))
    names = {m["name"] for m in on_disk(roster)["members"]}
    assert names == {"team-lead", *(f"m{n}" for n in range(20) if n % 3)}


@pytest.mark.promise("F26", "A4")
@pytest.mark.slow
def test_processes_that_join_at_once_lose_nobody(roster):
    command = [sys.executable, str(CHILD), str(roster.document.home.shared)]
    running = [subprocess.Popen([*command, f"p{k}", "6"]) for k in range(3)]
    try:
        assert [process.wait(timeout=WAIT_S) for process in running] == [0, 0, 0]
    finally:
        for process in running:
            process.kill()
            process.wait()
    names = {m["name"] for m in on_disk(roster)["members"]}
    assert names == {"team-lead", *(f"p{k}-{n}" for k in range(3) for n in (0, 2, 4))}
    assert sorted(p.name for p in roster.document.path.parent.iterdir()) == ["config.json"]
