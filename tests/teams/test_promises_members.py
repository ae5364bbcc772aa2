"""Members: that a start is whole or undone, an end final, a slot free again; what a team has when it goes on."""

import asyncio
import json
import os
import time

import pytest
from msgspec.structs import force_setattr

from teamwright import Budget, Team
from teamwright.agent.conversation import UserMessage
from teamwright.external.roster_watcher import RosterWatcher
from teamwright.models.model import Failure
from teamwright.protocol.errors import CannotStart, UnknownMember
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TaskChanged, ToolCalled, TurnEnded
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.messages import text_block
from teamwright.storage import locks
from teamwright.storage.locks import lock_for
from teamwright.storage.paths import find_home
from teamwright.team_records.roster import Roster
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import read_team_file
from teamwright.teams.shutdown import kill
from teamwright.teams.spawn import spawn
from teamwright.testing import ScriptedModel
from tests.support.notices import notices
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, newest, told, until, within

STOP = ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request"}})


def on_disk(directory: str = "crew") -> list[str]:
    config = json.loads(find_home().config(directory).read_bytes())
    return [member["name"] for member in config["members"] if member["name"] != LEAD]


def lives(directory: str = "crew") -> set[str]:
    file = read_team_file(find_home().team_file(directory))
    return set(file.incarnation_records) if file is not None else set()


def settings(own_home, **values) -> None:
    (own_home / ".teamwright").mkdir(mode=0o700, exist_ok=True)
    (own_home / ".teamwright" / "settings.json").write_text(json.dumps(values))


# ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Failing:
    """A builder that fails at a step for the names that it is told."""

    def __init__(self, builder, step: str, names: set[str]) -> None:
        self.builder, self.step, self.names = builder, step, names

    async def prepare(self, spec):
        self._fail("model", spec)
        return await self.builder.prepare(spec)

    async def build_teammate(self, spec, team, life):
        self._fail("agent", spec)
        return await self.builder.build_teammate(spec, team, life)

    def _fail(self, step, spec) -> None:
        if step == self.step and spec.name in self.names:
            raise CannotStart("no-key", f"{step} of {spec.name} fails")


def nothing_of(team, name: str) -> bool:
    inner = team.session.team
    unread = [e for e in _entries(inner, name) if not e["read"]]
    running = [t for t in asyncio.all_tasks() if t.get_name() == f"member {name}"]
    return not unread and not running and name not in lives() and inner.find(name) is None


def _entries(inner, name: str) -> list[dict]:
    path = inner.mailbox(name).path
    return json.loads(path.read_text()) if path.is_file() else []


@pytest.mark.promise("F26", "F27", "A4")
@pytest.mark.parametrize("step", ["kind", "model", "agent", "inbox", "transcript"])
async def test_of_six_starts_at_once_those_that_fail_in_a_step_leave_nothing_and_the_others_live(tmp_path, step):
    bad = {"m0", "m2", "m4"}
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        inner = team.session.team
        inner.builder = Failing(inner.builder, step, bad)
        for name in bad:
            if step == "inbox":
                inner.mailbox(name).path.mkdir(parents=True)
            if step == "transcript":
                path = inner.home.agent_transcript(inner.cwd, inner.session, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(tmp_path / "nowhere" / "at all")
        kinds = {
            name: "no-such-kind" if step == "kind" and name in bad else "general-purpose"
            for name in map("m{}".format, range(6))
        }
        made = await asyncio.gather(
            *(team.spawn(name, "Wait.", agent_type=kind) for name, kind in kinds.items()), return_exceptions=True
        )
        failed = {name for name, one in zip(kinds, made, strict=True) if isinstance(one, Exception)}
        assert failed == bad, made
        assert sorted(on_disk()) == sorted(m.name for m in team.members) == ["m1", "m3", "m5"]
        assert all(nothing_of(team, name) for name in bad)
        assert inner.limits.started == 3, "a start that failed does not count"
        assert not inner.starting


@pytest.mark.promise("F26", "F27")
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nobody_or_a_whole_member(tmp_path):
    """Cancelled after 0, 1, 2 … steps of the loop, until one gets through."""
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        inner = team.session.team
        for steps in range(400):
            name = f"m{steps}"
            task = asyncio.ensure_future(spawn(inner, SpawnSpec("Wait.", name=name)))
            for _ in range(steps):
                await asyncio.sleep(0)
            through = task.done()
            task.cancel()
            await asyncio.wait({task})
            alive = [m.name for m in inner.running_members]
            assert on_disk() == alive
            if through or not task.cancelled():
                assert alive == [name]
                break
            assert alive == [] and nothing_of(team, name) and inner.limits.started == 0
        else:
            raise AssertionError("no start got through")
        assert steps >= 2, "it was cancelled on its way"


@pytest.mark.promise("F27")
async def test_a_start_that_succeeded_is_of_a_member_that_answers(tmp_path):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        teammate = team.session.team.members["ada"]
        assert teammate.run_task is not None and not teammate.run_task.done()
        assert on_disk() == ["ada"] and lives() == {"ada"}
        await until(team, lambda: ada.state == "idle" and model.requests)


@pytest.mark.promise("F20", "P3")
@pytest.mark.parametrize("how", ["broke", "ended", "stopped", "cancelled"])
async def test_a_member_that_is_no_more_frees_its_slot_by_itself(tmp_path, own_home, how):
    settings(own_home, limits={"members": 1})
    model = ScriptedModel(lambda r: {}["a mistake"] if r.agent_name == "ada" and how == "broke" else "ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Go.")
        inner = team.session.team
        if how == "ended":
            await until(team, lambda: ada.state == "idle")
            await kill(inner, inner.members["ada"], "enough")
        elif how == "stopped":
            await ada.stop()
        elif how == "cancelled":
            await until(team, lambda: ada.state == "idle")
            inner.members["ada"].run_task.cancel()  # by a program, or a library of it, that cancels what it finds
        await until(team, lambda: ada.state == "gone" and not inner.has_pending_end)
        kept = ["ada"] if how in {"broke", "cancelled"} else []
        assert on_disk() == kept and lives() == set(kept), "a member that failed keeps its place, and no slot"
        ben = await team.spawn("ben", "Go.")
        await until(team, lambda: ben.state == "idle")
        await ben.stop()
        await inner.teams.list()
        result = await team.run("What happened?")
    assert result.ok
    assert len(notices("teammate_terminated", told(model, LEAD))) == 2


@pytest.mark.finding("T5")
@pytest.mark.promise("D4", "P1")
async def test_a_member_that_an_error_ended_is_resumed_with_its_conversation_or_removed_on_request(tmp_path):
    broken = True
    model = ScriptedModel(lambda r: {}["a mistake"] if r.agent_name == "ada" and broken else "ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "The first job.")
        inner = team.session.team
        await until(team, lambda: ada.state == "gone" and not inner.has_pending_end)
        with pytest.raises(UnknownMember, match="has crashed"):
            await team.send("ada", "Are you there?")
        broken = False
        again = await team.spawn("ada", "The second job.")
        await until(team, lambda: again.state == "idle" and "The second job." in told(model, "ada"))
        assert told(model, "ada").count("The first job.") == 1, "it is the same conversation"
        broken = True
        await team.send("ada", "Once more.")
        await until(team, lambda: again.state == "gone" and not inner.has_pending_end)
        await team.session.deadlines.request_stop(team.session.team, "ada", "enough")
        assert on_disk() == [] and lives() == set()


@pytest.mark.promise("D4")
async def test_a_check_of_the_roster_during_the_removal_of_a_crashed_member_neither_restores_nor_reports_it(
    tmp_path, monkeypatch
):
    model = ScriptedModel(lambda r: {}["a mistake"] if r.agent_name == "ada" else "ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "The first job.")
        inner, heard = team.session.team, []
        await until(team, lambda: ada.state == "gone" and not inner.has_pending_end)
        team.session.log.subscribe(lambda _number, event: heard.append(event))
        watcher = RosterWatcher(inner, lambda: None)
        watcher.begin()
        remove = Roster.remove

        async def checked_before_and_after(roster, name):
            for step in (lambda: asyncio.sleep(0), lambda: remove(roster, name)):
                await step()
                watcher.note_change()
                await watcher.check()

        monkeypatch.setattr(Roster, "remove", checked_before_and_after)
        await team.session.deadlines.request_stop(inner, "ada", "enough")
        assert on_disk() == [] and lives() == set()
        watcher.end()
    assert not [event.text for event in heard if isinstance(event, Notice) and "roster" in event.text]


@pytest.mark.promise("A2", "F20", "F68")
async def test_a_team_with_an_open_task_is_not_deleted_and_the_lead_is_told_which(tmp_path, own_home):
    script = [("TeamDelete", {}), ("TaskUpdate", {"taskId": "1", "status": "deleted"}), ("TeamDelete", {}), "gone"]
    model = ScriptedModel({"lead": script, "ada": ["ok"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await team.tasks.add("the last job", metadata={"for": ["nobody"]})
        await ada.stop()
        assert (await team.run("Delete it.")).ok
        assert not team.session.team.exists
    refusal = newest(model.requests[-3])
    assert "has open tasks" in refusal and "#1" in refusal
    assert not (own_home / ".teamwright/teams/crew").exists(), "nobody had to remove a file by hand"


# ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F22", "D3")
@pytest.mark.parametrize(
    "answer",
    [
        {"type": "shutdown_response", "approve": False},
        {"type": "shutdown_response", "request_id": "shutdown-0@ada", "approve": False, "reason": "no"},
        {"type": "shutdown_response", "request_id": None, "approve": "never", "reason": "no"},
        '{"type":"shutdown_rejected","requestId":"x","from":"ada","reason":"no","timestamp":"t"}',
        "I am not done yet, leave me alone.",
        None,
    ],
    ids=["no id", "wrong id", "malformed", "protocol as text", "prose to the lead", "a failing model"],
)
async def test_whatever_a_model_makes_of_a_request_to_stop_it_ends_unless_it_objects_properly(
    tmp_path, own_home, answer
):
    settings(own_home, shutdown_objection_s=1)

    def script(request):
        if request.agent_name == LEAD:
            return STOP if len(request.items) == 1 else "hm"
        if "shutdown_request" not in newest(request):
            return "ok"
        if answer is None:
            return Failure("model-failed", "overloaded")
        return ("SendMessage", {"to": "lead", "message": answer})

    model = ScriptedModel(script)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        assert (await team.run("Stop ada.")).stop in {"done", "cut_off"}, "its last turn may have failed"
        assert ada.state == "gone"
        assert on_disk() == []
        assert not team.session.team.requests.open_requests()
    assert len(notices("teammate_terminated", told(model, LEAD))) == 1


@pytest.mark.promise("F28", "D4", "F23")
async def test_after_a_stop_nothing_of_the_old_life_counts_though_its_model_heeds_no_cancellation(tmp_path, own_home):
    """Ada's model swallows the cancellation and answers with calls; by then another ada lives."""
    settings(own_home, shutdown_timeout_s=1)
    late, answered, first = asyncio.Event(), asyncio.Event(), True

    class Deaf(ScriptedModel):
        async def stream(self, request):
            nonlocal first
            if request.agent_name == "ada" and first:
                first = False
                thinking.set()
                while not late.is_set():
                    try:
                        await late.wait()
                    except asyncio.CancelledError:
                        continue
                answered.set()
            async for part in super().stream(request):
                yield part

    def script(request):
        if request.agent_name != "ada" or "Second life" in newest(request) or len(request.items) > 1:
            return "ok"
        say = ("SendMessage", {"to": "lead", "message": "From beyond."})
        return [say, ("Bash", {"command": "touch late"}), ("TaskUpdate", {"taskId": "1", "status": "completed"})]

    thinking = asyncio.Event()
    async with a_team(tmp_path, Deaf(script)) as team:
        inner = team.session.team
        force_setattr(inner.settings, "cancel_grace_s", 0.01)
        ada = await team.spawn("ada", "First life.")
        await within(WAIT_S, thinking.wait())
        await team.tasks.add("a job", metadata={"for": ["nobody"]})
        old = inner.members["ada"]
        await ada.stop()
        again = await team.spawn("ada", "Second life.")
        await until(team, lambda: again.state == "idle")
        events = []
        team.session.log.subscribe(lambda _n, e: events.append(e))
        late.set()
        await within(WAIT_S, answered.wait())
        await within(WAIT_S, asyncio.wait({old.run_task}))
        assert not (tmp_path / "late").exists()
        assert not any("From beyond." in e.get("text", "") for e in _entries(inner, LEAD))
        assert [t.status for t in await team.tasks.all()] == ["pending"]
        kinds = (MessageSent, ToolCalled, TaskChanged, TurnEnded, MemberChanged)
        assert not [e for e in events if isinstance(e, kinds) and e.member == "ada"]
        assert (again.state, on_disk()) == ("idle", ["ada"])


@pytest.mark.promise("F16", "B7", "D5")
async def test_all_open_tasks_of_who_is_gone_go_back_and_the_lead_gets_one_message_with_them(tmp_path):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        inner = team.session.team
        for number in range(4):
            task = await team.tasks.add(f"job {number}", metadata={"for": ["ada"]})
            await inner.tasks.update(task.id, by="ada", status="in_progress")
        await team.tasks.update("2", status="completed")
        await kill(inner, inner.members["ada"], "enough")
        assert [(t.id, t.status, t.owner) for t in await team.tasks.all() if t.id != "2"] == [
            (id, "pending", None) for id in ("1", "3", "4")
        ]
        await team.run("What happened?")
        await team.run("And?")
        ends = [e for e in _entries(inner, LEAD) if "teammate_terminated" in e["text"]]
        assert len(ends) == 1
        assert (
            json.loads(ends[0]["text"])["message"]
            == "ada has ended: enough. Its open tasks are free again: #1, #3, #4."
        )
    assert told(model, LEAD).count("Its open tasks are free again: #1, #3, #4.") == 1


@pytest.mark.promise("F16", "D5", "P1")
@pytest.mark.finding("3I4")
@pytest.mark.parametrize("owner", ["killed", "alive"])
async def test_the_lead_reads_of_an_end_also_when_another_program_left_its_inbox_locked(tmp_path, monkeypatch, owner):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        inner = team.session.team
        inbox = inner.home.inbox(inner.directory, LEAD)
        lock_for(inbox, inner.home.guard(inbox)).wait_s = 0.1
        (lock := inbox.with_name(f"{inbox.name}.lock")).mkdir()
        if owner == "killed":
            os.utime(lock, (time.time() - 9.5,) * 2)
        else:
            monkeypatch.setattr(locks, "_STALE_MARGIN_S", -locks.STALE_S)
        await within(WAIT_S, kill(inner, inner.members["ada"], "enough"))
        if owner == "alive":
            lock.rmdir()
        await within(WAIT_S, team.run("What happened?"))
    assert told(model, LEAD).count("ada has ended: enough.") == 1


# ── going on ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F18", "F55", "D8", "B2")
async def test_the_list_is_the_same_after_a_resume_and_loses_only_what_was_deleted_by_name(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        for number in range(3):
            await team.tasks.add(f"job {number}", metadata={"for": ["nobody"]})
        await team.tasks.update("2", status="deleted")
        before, place = await team.tasks.all(), team.session.team.tasks.store.directory
    async with Team.resume("crew", model=ScriptedModel("ok"), cwd=tmp_path) as team:
        assert team.session.team.tasks.store.directory == place
        assert await team.tasks.all() == before
        assert [t.id for t in before] == ["1", "3"]
        assert (await team.tasks.add("one more")).id == "4", "a number is never given again"


@pytest.mark.promise("F57", "F55", "D8")
async def test_a_conversation_of_50_mib_with_a_torn_end_goes_on(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        await team.run("Remember the first word: mango.")
        conversation = team.session.lead.agent.conversation
        for number in range(50):
            note = text_block(f"page {number} " + "x" * (1 << 20))
            conversation.append_user_message(UserMessage((note,), (f"notice:{message_id()}",)))
        path = conversation.path
    assert path.stat().st_size > 50 << 20
    with path.open("ab") as file:
        file.write(b'{"type":"message","message":{"role":"assistant","content":[{"type":"te')
    model = ScriptedModel("The word is mango.")
    async with Team.resume("crew", model=model, cwd=tmp_path, budget=Budget.unlimited()) as team:
        result = await team.run("Which word?")
        items = model.requests[-1].items
    assert result.ok and result.text == "The word is mango."
    assert any(b"mango" in item for item in items[:3])
    assert sum(b"page " in item for item in items) == 50
    assert b'"content":[{"type":"te\n' not in path.read_bytes()


@pytest.mark.promise("F25", "F67")
async def test_two_teams_of_one_home_with_the_same_names_never_meet(tmp_path):
    models = [ScriptedModel("one"), ScriptedModel("two")]
    seen: list[list] = [[], []]
    async with (
        Team("first", model=models[0], cwd=tmp_path) as first,
        Team("second", model=models[1], cwd=tmp_path) as second,
    ):
        for number, team in enumerate((first, second)):
            team.session.log.subscribe(lambda _n, e, number=number: seen[number].append(e))
            await team.spawn("ada", f"You are of team {number}.")
        await first.send("ada", "only for the first")
        await first.tasks.add("of the first", metadata={"for": ["nobody"]})
        await until(first, first.session.team.is_quiet)
        await until(second, second.session.team.is_quiet)
        assert [t.subject for t in await second.tasks.all()] == []
        assert len(models[1].requests) == 1
    assert not [e for e in seen[1] if isinstance(e, TaskChanged)]
    assert "only for the first" not in json.dumps([repr(e) for e in seen[1]])
