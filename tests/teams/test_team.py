"""A team in one process, through the public API and a model that a test scripts."""

import asyncio
import json

import pytest

from teamwright import Budget, Team, UnknownMember, UsageError
from teamwright.models.model import Failure
from teamwright.protocol.errors import InvalidName, LimitExceeded, TeamRefused
from teamwright.protocol.messages import message_text
from teamwright.storage.file_watcher import Watcher
from teamwright.testing import ScriptedModel
from tests.support.leftovers import running_in
from tests.support.model_requests import is_session_note
from tests.support.notices import notices, request_ids
from tests.support.waits import WAIT_S


def newest(request) -> str:
    content = json.loads(request.items[-1])["content"]
    parts = [b["content"] if b["type"] == "tool_result" else b.get("text", "") for b in content]
    texts = (p if isinstance(p, str) else message_text(p) for p in parts)
    return "\n".join(text for text in texts if not is_session_note(text))


def everything_told(model: ScriptedModel, name: str) -> str:
    last = [r for r in model.requests if r.agent_name == name][-1]
    return "\n".join(item.decode() for item in last.items)


async def until(team: Team, condition) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            team.session.team.changed.clear()
            if condition():
                return
            await team.session.team.changed.wait()


def a_team(tmp_path, model, **more) -> Team:
    return Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions", **more)


@pytest.mark.promise("J1", "D1", "C8", "F08")
async def test_a_members_final_text_reaches_the_lead_by_itself(tmp_path):
    model = ScriptedModel({"lead": ["I wait.", "still waiting", "ada says so"], "ada": ["There are 7 files."]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Count the files.")
        result = await team.run("How many files?")
    assert result.ok
    told = everything_told(model, "team-lead")
    assert told.count("There are 7 files.") == 1
    assert notices("idle_notification", told)


@pytest.mark.promise("D1", "C10")
async def test_the_first_prompt_is_inbox_entry_one_and_comes_from_the_lead(tmp_path, own_home):
    model = ScriptedModel({"ada": ["ok"]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Look around.")
        await until(team, lambda: model.requests)
        inbox = json.loads((own_home / ".teamwright/teams/crew/inboxes/ada.json").read_text())
        assert (inbox[0]["from"], inbox[0]["text"]) == ("team-lead", "Look around.")
        assert 'teammate_id=\\"lead\\"' in model.requests[0].items[0].decode()


@pytest.mark.promise("C10")
async def test_the_user_writes_to_any_member(tmp_path):
    model = ScriptedModel({"ada": ["ok", "yes, user"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        sent = await ada.send("are you there?")
        assert sent.outcome == "woke"
        await until(team, lambda: len(model.requests) == 2 and ada.state == "idle")
    assert 'teammate_id="user"' in newest(model.requests[1])


@pytest.mark.promise("F01", "C2")
async def test_a_name_that_does_not_exist_is_an_error_with_the_nearest_and_makes_nothing(tmp_path, own_home):
    model = ScriptedModel({"tester": ["ok"]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("tester", "Wait.")
        with pytest.raises(UnknownMember) as caught:
            await team.send("testre", "hello")
        assert "did you mean tester?" in caught.value.render()
        with pytest.raises(UnknownMember, match="general-purpose"):
            await team.send("general-purpose", "hello")
        assert not list((own_home / ".teamwright" / "teams").rglob("testre*"))


@pytest.mark.promise("F15", "A4")
async def test_a_live_name_is_refused_in_any_case_and_a_bad_one_too(tmp_path):
    model = ScriptedModel({"ada": ["ok"]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        with pytest.raises(TeamRefused, match=r"(?i)ada"):
            await team.spawn("ADA", "Wait.")
        for bad in ("..", "a/b", "lead", "user", "", "x" * 65):
            with pytest.raises(InvalidName):
                await team.spawn(bad, "Wait.")
        assert [m.name for m in team.members] == ["ada"]


@pytest.mark.promise("F26", "A4", "D3")
async def test_spawns_that_fail_leave_nobody_on_the_roster(tmp_path):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        made = await asyncio.gather(
            *(
                team.spawn(f"m{n}", "Wait.", agent_type="general-purpose" if n % 2 else "no-such-type")
                for n in range(6)
            ),
            return_exceptions=True,
        )
        failed = [m for m in made if isinstance(m, UsageError)]
        assert len(failed) == 3
        config = await team.session.team.roster.read()
        assert sorted(m.name for m in config.teammates) == ["m1", "m3", "m5"]


@pytest.mark.promise("F59", "K4", "P6")
async def test_the_ninth_live_member_is_refused_naming_the_setting(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        for n in range(8):
            await team.spawn(f"m{n}", "Wait.")
        with pytest.raises(LimitExceeded) as caught:
            await team.spawn("m8", "Wait.")
        assert "limits.members" in caught.value.render()


@pytest.mark.promise("D3", "F22")
async def test_a_member_that_answers_in_prose_has_consented_and_its_tasks_go_back(tmp_path):
    def answer(request):
        if request.agent_name == "ada":
            return "I will think about it." if "shutdown_request" in newest(request) else "ok"
        return (
            ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request", "reason": "done"}})
            if len(request.items) == 1
            else "fine"
        )

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        task = await team.tasks.add("a job")
        await team.session.team.tasks.update(task.id, by="ada", status="in_progress")
        result = await team.run("Stop ada.")
        assert ada.state == "gone"
        handed = await team.tasks.get(task.id)
        assert handed is not None and handed.owner is None and str(handed.status) == "pending"
    assert result.ok
    told = everything_told(model, "team-lead")
    assert notices("teammate_terminated", told)
    assert "Its open tasks are free again: #1" in told


@pytest.mark.promise("D3", "P4")
async def test_an_objection_needs_a_reason_an_open_id_and_the_right_member(tmp_path):
    seen: list[str] = []

    def answer(request):
        text = newest(request)
        if request.agent_name == "ada" and request_ids(text):
            request_id = request_ids(text)[0]
            base = {"type": "shutdown_response", "request_id": request_id, "approve": False}
            wrong = base | {"request_id": "shutdown-1@ada", "reason": "x"}
            return [
                ("SendMessage", {"to": "lead", "message": base}),
                ("SendMessage", {"to": "lead", "message": wrong}),
                ("SendMessage", {"to": "lead", "message": base | {"reason": "not tidy yet"}}),
                ("SendMessage", {"to": "lead", "message": base | {"reason": "again"}}),
            ]
        if request.agent_name == "ada":
            seen.append(text)
            return "ok"
        if len(request.items) == 1:
            return ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request"}})
        return "fine"

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await team.run("Stop ada.")
        assert ada.state == "idle", "it objected and goes on"
    results = seen[-1]
    assert "an objection needs a reason" in results
    assert "is not an open shutdown request" in results
    assert results.count("The lead received your reason") == 1
    assert notices("shutdown_rejected", everything_told(model, "team-lead"))


@pytest.mark.promise("F22", "D3")
async def test_a_model_that_never_answers_is_gone_by_the_deadline(tmp_path, own_home):
    (own_home / ".teamwright").mkdir(mode=0o700)
    (own_home / ".teamwright" / "settings.json").write_text('{"shutdown_objection_s": 0.05}')
    hang = asyncio.Event()

    class Hanging(ScriptedModel):
        async def stream(self, request):
            if request.agent_name == "ada":
                hang.set()
                await asyncio.Event().wait()
            async for part in super().stream(request):
                yield part

    stop = ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request"}})
    model = Hanging({"lead": [stop, *["I wait."] * 5]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Think for ever.")
        async with asyncio.timeout(WAIT_S):
            await hang.wait()
        result = await team.run("Stop ada.")
        assert ada.state == "gone"
    assert result.ok
    assert "did not answer the shutdown request" in everything_told(model, "team-lead")


@pytest.mark.promise("D4", "B7", "F21")
async def test_a_killed_member_is_told_to_the_lead_once_and_its_commands_are_gone(tmp_path):
    marker = tmp_path / "begun"
    command = f": > {marker}; sleep 300"
    model = ScriptedModel({"lead": ["noted"], "ada": [("Bash", {"command": command})]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Run it.")
        seen = asyncio.Event()
        async with asyncio.timeout(WAIT_S), Watcher() as watcher:
            watcher.follow(marker, seen.set)
            if not marker.exists():
                await seen.wait()
        assert running_in(tmp_path)
        await ada.stop()
        assert ada.state == "gone"
        assert not running_in(tmp_path)
        result = await team.run("What happened?")
    assert result.ok
    told = everything_told(model, "team-lead")
    assert len(notices("teammate_terminated", told)) == 1
    assert "stopped by the program" in told


@pytest.mark.promise("B4")
async def test_a_member_that_is_made_owner_is_told(tmp_path):
    model = ScriptedModel(
        {"lead": [("TaskUpdate", {"taskId": "1", "owner": "ada"}), "ok", "ok"], "ada": ["ready", "on it"]}
    )
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        first = await team.tasks.add("reserved", "for ada")
        assert first.id == "1"
        await team.run("Give it to ada.")
    told = everything_told(model, "ada")
    assert "lead gave you task #1: reserved" in told or "#1 reserved" in told


@pytest.mark.promise("B6")
async def test_idle_members_claim_the_lowest_free_task_and_a_blocked_one_waits(tmp_path):
    done: list[str] = []

    def answer(request):
        if request.agent_name == "team-lead":
            return "waiting"
        text = newest(request)
        if 'teammate_id="task-list"' in text:
            number = text.split("#", 1)[1].split(" ", 1)[0]
            done.append(number)
            return ("TaskUpdate", {"taskId": number, "status": "completed"})
        return "ok"

    async with a_team(tmp_path, ScriptedModel(answer)) as team:
        one = await team.tasks.add("one")
        two = await team.tasks.add("two", after=[one])
        await team.tasks.add("three", after=[one, two])
        await team.spawn("ada", "Work.")
        await team.spawn("ben", "Work.")
        result = await team.run("See them through.")
        assert [t.status for t in await team.tasks.all()] == ["completed"] * 3
    assert done == ["1", "2", "3"]
    assert result.ok and not result.open_tasks


@pytest.mark.promise("F59")
async def test_two_members_that_only_thank_each_other_are_stopped_and_the_lead_is_told_once(tmp_path):
    def answer(request):
        if request.agent_name == "team-lead":
            return "hm"
        other = "ben" if request.agent_name == "ada" else "ada"
        last = json.loads(request.items[-1])["content"][0]
        if last["type"] == "tool_result":
            return "sent"
        return ("SendMessage", {"to": other, "message": "Thank you!", "summary": "thanks"})

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Be polite.")
        await team.spawn("ben", "Be polite.")
        async with asyncio.timeout(WAIT_S):
            result = await team.run("Watch them.")
        assert sum(team.session.team.message_counts.values()) <= 24
    assert result.ok
    assert everything_told(model, "team-lead").count("exchanged 20 messages") == 1


@pytest.mark.promise("F60")
async def test_a_member_whose_model_fails_is_reported_with_the_reason_and_can_be_woken(tmp_path):
    model = ScriptedModel({"lead": ["w", "w", "w"], "ada": [Failure("model-failed", "overloaded"), "back again"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Try.")
        await team.run("Wait for ada.")
        told = everything_told(model, "team-lead")
        assert "overloaded" in told and "failed" in told
        await ada.send("once more")
        await until(
            team, lambda: ada.state == "idle" and len([r for r in model.requests if r.agent_name == "ada"]) == 2
        )


@pytest.mark.promise("A2")
async def test_a_team_with_a_live_member_or_an_open_task_is_not_deleted(tmp_path):
    model = ScriptedModel({"lead": [("TeamDelete", {}), "refused", "ok"], "ada": ["ok"]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        await team.run("Delete the team.")
        assert "live members" in everything_told(model, "team-lead")
        assert team.session.team.exists


@pytest.mark.promise("row F1", "row F2", "row F13")
async def test_a_sub_agent_answers_with_its_id_and_usage_and_has_no_team_tools(tmp_path):
    def answer(request):
        if request.agent_name != "team-lead":
            return "Found 3."
        if len(request.items) == 1:
            return ("Agent", {"description": "count", "prompt": "Count.", "subagent_type": "Explore"})
        return "done"

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        await team.run("Delegate.")
    sub = next(r for r in model.requests if r.agent_name != "team-lead")
    tools = [t["name"] for t in json.loads(b"{" + sub.prefix.head + b"}")["tools"]]
    assert set(tools) == {"Bash", "Read", "Glob", "Grep", "WebFetch"}
    told = everything_told(model, "team-lead")
    assert "Found 3." in told and "agentId: a" in told and "total_tokens" in told


@pytest.mark.promise("row F1", "F59")
async def test_a_teammate_cannot_start_teammates_but_may_run_sub_agents(tmp_path):
    def answer(request):
        if request.agent_name == "team-lead":
            return "w"
        if request.agent_name != "ada":
            return "sub says hi"
        if len(request.items) == 1:
            both = {"description": "x", "prompt": "Do it."}
            return [("Agent", both | {"name": "eve"}), ("Task", both)]
        return "done"

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Go.")
        await team.run("Wait.")
        assert [m.name for m in team.members] == ["ada"]
    told = everything_told(model, "ada")
    assert "the team is flat" in told and "sub says hi" in told


@pytest.mark.promise("J1", "K4")
async def test_a_run_that_spends_its_turns_ends_with_a_limit(tmp_path):
    model = ScriptedModel(lambda request: ("TaskList", {}))
    async with a_team(tmp_path, model, budget=Budget(turns=3)) as team:
        result = await team.run("Loop.")
    assert (result.stop, result.limit, result.turns) == ("limit", "turns", 3)
    assert "resume" in result.resume_command


@pytest.mark.promise("J1")
async def test_cancelling_a_run_keeps_the_team(tmp_path):
    started = asyncio.Event()

    class Hanging(ScriptedModel):
        async def stream(self, request):
            if request.agent_name == "team-lead" and len(self.requests) < 1:
                self.requests.append(request)
                started.set()
                await asyncio.Event().wait()
            async for part in super().stream(request):
                yield part

    async with a_team(tmp_path, Hanging("fine")) as team:
        run = team.run("Wait.")
        async with asyncio.timeout(WAIT_S):
            await started.wait()
            run.cancel("enough")
            result = await run
            assert result.stop == "cancelled"
            again = await team.run("Once more.")
        assert again.ok and again.text == "fine"


@pytest.mark.promise("J1", "P3")
async def test_an_error_in_the_block_ends_everybody_and_is_raised_again(tmp_path):
    with pytest.raises(ZeroDivisionError):
        async with a_team(tmp_path, ScriptedModel("ok")) as team:
            await team.spawn("ada", "Wait.")
            raise ZeroDivisionError
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("member ")]


@pytest.mark.promise("F15")
async def test_a_name_is_free_again_once_its_member_is_gone_and_its_new_life_starts_empty(tmp_path):
    model = ScriptedModel({"ada": ["one", "two"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "First life.")
        await until(team, lambda: ada.state == "idle")
        await ada.stop()
        again = await team.spawn("ada", "Second life.")
        await until(team, lambda: again.state == "idle" and len(model.requests) == 2)
        assert "First life" not in model.requests[1].items[0].decode()


@pytest.mark.promise("P3", "F24")
async def test_a_member_that_breaks_is_told_to_the_lead_with_the_reason_and_nobody_waits_for_it(tmp_path):
    def answer(request):
        if request.agent_name == "ada":
            raise KeyError("a mistake")
        return "hm"

    model = ScriptedModel(answer)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Go.")
        async with asyncio.timeout(WAIT_S):
            result = await team.run("Wait for ada.")
        assert ada.state == "gone"
    assert result.stop == "cut_off"
    told = everything_told(model, "team-lead")
    assert len(notices("teammate_terminated", told)) == 1 and "a mistake" in told


@pytest.mark.promise("D1")
@pytest.mark.finding("T4")
async def test_a_teammate_knows_its_id_who_is_in_the_team_and_who_joins_and_leaves(tmp_path):
    model = ScriptedModel({"ada": ["ok", "I see.", "Bye."], "bob": ["ok"], "cy": ["ok"]})
    async with a_team(tmp_path, model) as team:
        bob = await team.spawn("bob", "Look for slow tests.", agent_type="Explore")
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == bob.state == "idle")
        first = next(r for r in model.requests if r.agent_name == "ada").items[0].decode()
        assert "# You are ada, a teammate\\nYour id is ada@crew" in first
        first = everything_told(model, "ada")
        assert "- bob (Explore): Look for slow tests." in first
        cy = await team.spawn("cy", "Wait.")
        await until(team, lambda: cy.state == "idle")
        await bob.stop()
        await ada.send("Who is here?")
        await until(team, lambda: ada.state == "idle" and "Who is here?" in everything_told(model, "ada"))
        second = newest([r for r in model.requests if r.agent_name == "ada"][-1])
        assert "Joined the team:\n- cy (general-purpose): Wait." in second and "Left the team: bob." in second
        await ada.send("And now?")
        await until(team, lambda: "And now?" in everything_told(model, "ada"))
        assert "the team" not in newest([r for r in model.requests if r.agent_name == "ada"][-1])
