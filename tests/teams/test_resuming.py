"""A team that is gone on with: members, transcripts, mail, tasks and requests, and what a kill left half done."""

import asyncio
import json

import pytest
from msgspec.structs import replace

from teamwright import Team, TeamwrightError
from teamwright.agent.transcript import read_header
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.requests.request_store import RequestStore
from teamwright.storage.paths import Home, find_home
from teamwright.team_records.team_state import Incarnation, PendingEnd, TeamStateFile, read_team_file
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, told, until


@pytest.fixture
def home(own_home) -> Home:
    return find_home()


def resumed(tmp_path, model, **more) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", **more)


def roster(home: Home) -> dict[str, dict]:
    return {m["name"]: m for m in json.loads(home.config("crew").read_bytes())["members"]}


async def leave_with_ada_and_bob(tmp_path, *answers: str) -> None:
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": answers or ["Read it."], "bob": ["Nothing yet."]})
    async with a_team(tmp_path, model) as team:
        ada, bob = await team.spawn("ada", "Read the map."), await team.spawn("bob", "Wait.", agent_type="Explore")
        await until(team, lambda: ada.state == bob.state == "idle" and team.session.team.is_quiet())


@pytest.mark.promise("D8", "F55")
@pytest.mark.slow
async def test_members_come_back_with_their_colours_their_words_and_their_prefix(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path)
    before = roster(home)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Again."], "bob": ["b"]})
    async with resumed(tmp_path, model) as team:
        assert [m.name for m in team.members] == ["ada", "bob"]
        assert {n: (m.get("color"), m["agentType"], m["joinedAt"]) for n, m in roster(home).items()} == {
            n: (m.get("color"), m["agentType"], m["joinedAt"]) for n, m in before.items()
        }
        teammate = team.session.team.members["ada"]
        prefix = teammate.agent.conversation.prefix
        await team.send("ada", "What did you read?")
        await until(team, lambda: teammate.turns == 1 and teammate.state == "idle")
    request = [r for r in model.requests if r.agent_name == "ada"][-1]
    assert request.prefix.head == prefix.head
    assert prefix.digest == read_header(teammate.agent.conversation.path)["prefix"]
    assert "Read the map." in told(model, "ada") and "Read it." in told(model, "ada")


@pytest.mark.promise("D8", "P1")
async def test_a_round_that_is_owed_is_run_at_once_and_unread_mail_is_told_once(tmp_path):
    held = Holding({"lead": ["ok"] * 9, "ada": ["never said"]}, "ada")
    async with a_team(tmp_path, held) as team:
        await team.spawn("ada", "Think.")
        await asyncio.wait_for(held.thinking.wait(), WAIT_S)
        held.held.clear()
        await team.session.team.mailbox("ada").put(InboxEntry("bob", "hello from bob", msg_id=message_id()))
        await team.session.stop_members("as a kill would", keep=True)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Thought.", "Read bob."]})
    async with resumed(tmp_path, model) as team:
        ada = team.session.team.members["ada"]
        await until(team, lambda: ada.turns == 2 and ada.state == "idle")
    assert told(model, "ada").count("Think.") == 1 and told(model, "ada").count("hello from bob") == 1


@pytest.mark.promise("D8", "P2", "B7")
@pytest.mark.slow
async def test_tasks_stay_with_their_owners_and_one_that_was_not_told_yet_is_told(tmp_path):
    await leave_with_ada_and_bob(tmp_path)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["I am on it."], "bob": []})
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        first = await team.tasks.add("Draw the map")
        await team.session.stop_members("as a kill would", keep=True)
        await team.session.team.tasks.update(first.id, by="ada", status="in_progress")  # killed before ada was told
    async with resumed(tmp_path, model) as team:
        ada = team.session.team.members["ada"]
        await until(team, lambda: ada.turns == 1 and ada.state == "idle")
        task = await team.session.team.tasks.get(first.id)
        assert (task.owner, task.status) == ("ada", "in_progress")
    assert told(model, "ada").count("#1 Draw the map") == 1


@pytest.mark.promise("F08", "P1", "C8")
async def test_the_final_words_of_a_turn_reach_the_lead_though_the_kill_came_before_the_notice(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path, "Seven files.")
    inbox = home.inbox("crew", LEAD)
    entries = json.loads(inbox.read_bytes())
    assert sum("Seven files." in e["text"] for e in entries) == 1
    inbox.write_text(json.dumps([e for e in entries if "Seven files." not in e["text"]]))
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        await team.run("Go on.")
        assert sum("Seven files." in e["text"] for e in json.loads(inbox.read_bytes())) == 1
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        await team.run("And on.")
    assert sum("Seven files." in e["text"] for e in json.loads(inbox.read_bytes())) == 1


@pytest.mark.promise("D5", "F16", "B7")
async def test_a_parting_that_a_kill_cut_off_is_seen_through_and_told_once(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path)
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        task = await team.tasks.add("Draw the map")
        await team.session.stop_members("as a kill would", keep=True)
        await team.session.team.tasks.update(task.id, by="ada", status="in_progress")
    parting = PendingEnd("ada", 1, "killed by the test", message_id(), "", (task.id,))
    await TeamStateFile(home, "crew").change(lambda file: file.with_pending_end(parting))
    for _ in range(2):
        async with resumed(tmp_path, ScriptedModel("ok")) as team:
            await until(team, lambda: team.session.team.members["bob"].state == "idle")
            assert [m.name for m in team.members] == ["bob"]
    assert set(roster(home)) == {LEAD, "bob"}
    file = read_team_file(home.team_file("crew"))
    assert set(file.incarnation_records) == {"bob"} and not file.pending_ends
    entries = json.loads(home.inbox("crew", LEAD).read_bytes())
    assert sum("killed by the test" in e["text"] and f"#{task.id}" in e["text"] for e in entries) == 1


@pytest.mark.promise("F26", "D8")
@pytest.mark.slow
async def test_a_start_that_had_only_its_name_is_taken_back_and_one_with_a_life_is_completed(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path)
    config = json.loads(home.config("crew").read_bytes())
    ada = next(m for m in config["members"] if m["name"] == "ada")
    for name in ("eva", "gus"):
        config["members"].append(ada | {"name": name, "agentId": f"{name}@crew", "prompt": f"{name}, begin."})
    home.config("crew").write_text(json.dumps(config))
    old = read_team_file(home.team_file("crew")).incarnation_records["ada"]
    path = old.transcript.replace("ada", "gus")
    life = replace(old, transcript=path, first=message_id())
    await TeamStateFile(home, "crew").change(lambda file: file.with_incarnation("gus", life))
    model = ScriptedModel({"lead": ["ok"] * 9, "gus": ["I began."]})
    async with resumed(tmp_path, model) as team:
        assert [m.name for m in team.members] == ["ada", "bob", "gus"]
        await until(team, lambda: team.session.team.members["gus"].turns == 1)
    assert told(model, "gus").count("gus, begin.") == 1
    assert set(roster(home)) == {LEAD, "ada", "bob", "gus"}


@pytest.mark.promise("D3", "P4", "F22")
async def test_a_shutdown_request_is_open_again_and_one_that_was_agreed_to_is_carried_out(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path)
    box, agreed, asked = RequestStore(home.requests("crew")), "shutdown-1@ada", "shutdown-2@bob"
    for id, name in ((agreed, "ada"), (asked, "bob")):  # killed before bob's notice was sent, and before ada was gone
        box.open(id, {"kind": "shutdown", "requester": LEAD, "target": name, "incarnation": 1, "reason": "enough"})
    box.answer(agreed, {"approve": True, "by": "ada"})
    model = ScriptedModel({"lead": ["ok"] * 9, "bob": ["fine, I stop"]})
    async with resumed(tmp_path, model) as team:
        assert "ada" not in [m.name for m in team.members]
        await until(team, lambda: not team.members)
    assert asked in told(model, "bob") and set(roster(home)) == {LEAD}
    texts = [e["text"] for e in json.loads(home.inbox("crew", LEAD).read_bytes())]
    assert sum("shutdown_approved" in t and agreed in t for t in texts) == 1


@pytest.mark.promise("D8", "D5")
async def test_a_member_that_cannot_come_back_is_told_of_and_its_tasks_go_back(tmp_path, home):
    await leave_with_ada_and_bob(tmp_path)
    life: Incarnation = read_team_file(home.team_file("crew")).incarnation_records["ada"]
    with open(life.transcript, "r+b") as file:
        file.write(b"not a transcript at all\n")
    async with resumed(tmp_path, ScriptedModel("ok")) as team:
        assert [m.name for m in team.members] == ["bob"]
        assert team.session.resumed.gone == ("ada",)
    texts = [e["text"] for e in json.loads(home.inbox("crew", LEAD).read_bytes())]
    assert sum("could not be resumed" in text for text in texts) == 1


@pytest.mark.promise("F11", "P1")
async def test_who_wrote_to_a_member_that_ended_unread_is_told(tmp_path, home):
    model = Holding({"lead": ["ok"] * 9, "ada": ["ok"], "bob": ["ok", "I see"]}, "ada")
    async with a_team(tmp_path, model) as team:
        ada, bob = await team.spawn("ada", "Think."), await team.spawn("bob", "Wait.")
        await asyncio.wait_for(model.thinking.wait(), WAIT_S)
        await until(team, lambda: bob.state == "idle")
        await team.session.team.mailbox("ada").put(
            InboxEntry("bob", "are you there?", "a question", msg_id=message_id())
        )
        model.go.set()
        model.held.clear()
        await ada.stop()
        await until(team, lambda: "a question" in told(model, "bob"))
    assert "did not read your message" in told(model, "bob")


@pytest.mark.promise("D8", "J1")
async def test_resuming_a_team_that_nobody_has_names_the_nearest(tmp_path):
    await leave_with_ada_and_bob(tmp_path)
    with pytest.raises(TeamwrightError, match="there is no team 'crow'") as caught:
        async with Team.resume("crow", model=ScriptedModel("ok"), cwd=tmp_path):
            pass
    assert "crew" in caught.value.do[0]


@pytest.mark.promise("F25", "D8")
async def test_a_team_that_is_led_cannot_be_resumed_by_a_second_lead(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")):
        with pytest.raises(TeamwrightError, match="leads the team"):
            async with resumed(tmp_path, ScriptedModel("ok")):
                pass
