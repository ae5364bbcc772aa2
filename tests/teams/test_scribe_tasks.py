"""What another process does to the tasks of a live team is told once, and whoever must give way hears of it."""

import asyncio
import json
from typing import cast

import pytest

from teamwright import Notice, TaskChanged, Team
from teamwright.agent.tool import ToolContext
from teamwright.agent.tool_input import NoInput
from teamwright.external.task_watcher import TaskWatcher
from teamwright.protocol.errors import TaskRefused, TeamRefused
from teamwright.teams.shutdown import delete_team
from teamwright.testing import ScriptedModel
from teamwright.tools.caller import Caller
from teamwright.tools.tasks.task_list import TaskListTool
from tests.teams.crew import Holding, a_team, until
from tests.teams.watched import Told, a_stranger


def changes(told: Told) -> list[tuple[str, str, str]]:
    return [(e.task.id, e.change, e.member) for e in told.events if isinstance(e, TaskChanged)]


def quiet_model():
    return ScriptedModel(lambda _request: "ok")


@pytest.mark.promise("B1", "P3")
async def test_each_change_of_a_stranger_is_told_once_and_ours_never_again(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        tasks = team.session.team.tasks
        await team.tasks.add("ours")
        await tasks.update("1", by="team-lead", lead=True, description="more of it")
        directory = tasks.store.directory
        await stranger.task(directory, 2)
        await heard.one(TaskChanged, change="created", member="outside")
        await stranger.change(directory / "2.json", owner="bob", status="in_progress")
        await heard.one(TaskChanged, change="claimed", member="outside")
        await stranger.change(directory / "2.json", status="completed")
        await heard.one(TaskChanged, change="completed", member="outside")
        await stranger.remove(directory / "2.json")
        await heard.one(TaskChanged, change="deleted", member="outside")
        await tasks.update("1", by="team-lead", lead=True, status="completed")
        await stranger.task(directory, 3)  # told after whatever an echo of ours would be
        await heard.until(lambda: ("3", "created", "outside") in changes(heard))
    assert changes(heard) == [
        ("1", "created", "user"),
        ("1", "updated", "team-lead"),
        ("2", "created", "outside"),
        ("2", "claimed", "outside"),
        ("2", "completed", "outside"),
        ("2", "deleted", "outside"),
        ("1", "completed", "team-lead"),
        ("3", "created", "outside"),
    ]


@pytest.mark.promise("B6", "P3")
async def test_a_task_that_a_stranger_makes_or_frees_wakes_an_idle_member(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Take what comes.")
        await until(team, lambda: team.session.team.is_quiet())
        directory = team.session.team.tasks.store.directory
        await stranger.task(directory, 1)
        await heard.one(TaskChanged, change="claimed", member="ann")
        await stranger.task(directory, 2, owner="bob", status="in_progress")
        await stranger.task(directory, 3, blockedBy=["2"])
        await stranger.change(directory / "2.json", status="completed")
        await heard.until(lambda: ("3", "claimed", "ann") in changes(heard))


@pytest.mark.promise("B5", "P2")
async def test_a_task_that_a_stranger_takes_away_is_given_up_and_both_are_told_once(tmp_path):
    model = Holding(lambda _request: "ok", "ann")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.tasks.add("count the lines")
        await team.spawn("ann", "Work.")
        await model.thinking.wait()
        tasks = team.session.team.tasks
        await tasks.update("1", by="ann", status="in_progress")
        await stranger.change(tasks.store.directory / "1.json", owner="bob")
        await heard.one(TaskChanged, change="assigned", member="outside")
        with pytest.raises(TaskRefused, match="#1 belongs to bob") as refused:
            await tasks.update("1", by="ann", status="completed")
        assert refused.value.code == "already_claimed"
        model.go.set()
        await until(team, lambda: "#1 was taken from ann" in lead_mail(team) and was_told(model, "no longer yours"))
        assert json.loads((tasks.store.directory / "1.json").read_bytes())["owner"] == "bob"
        home, directory = team.session.team.home, team.session.team.directory
        for name in ("ann", "team-lead"):
            letters = json.loads(home.inbox(directory, name).read_bytes())
            assert [e["from"] for e in letters].count("task-list") == 1
        assert [c for c in changes(heard) if c[2] == "outside"] == [("1", "assigned", "outside")]


def was_told(model, words: str) -> bool:
    """Whether ann was ever sent these words."""
    return any(words in item.decode() for r in model.requests if r.agent_name == "ann" for item in r.items)


def lead_mail(team) -> str:
    home, directory = team.session.team.home, team.session.team.directory
    path = home.inbox(directory, "team-lead")
    return path.read_text() if path.exists() else ""


@pytest.mark.promise("B5", "P2")
async def test_who_completes_a_task_that_changed_hands_unnoticed_is_refused_and_both_are_told_all_the_same(tmp_path):
    model = Holding(lambda _request: "ok", "ann")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.tasks.add("count the lines")
        await team.spawn("ann", "Work.")
        await model.thinking.wait()
        tasks = team.session.team.tasks
        await tasks.update("1", by="ann", status="in_progress")
        await stranger.change(tasks.store.directory / "1.json", owner="bob", status="completed")
        with pytest.raises(TaskRefused, match="bob"):  # read anew, whether the watcher told of it or not
            await tasks.update("1", by="ann", status="completed")
        await heard.one(TaskChanged, change="completed", member="outside")
        model.go.set()
        await until(team, lambda: "#1 was taken from ann" in lead_mail(team))


@pytest.mark.promise("B1", "F04")
@pytest.mark.slow
async def test_a_damaged_task_is_told_once_and_its_repair_is_a_change(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        tasks = team.session.team.tasks
        await team.tasks.add("ours")
        await stranger.write(tasks.store.directory / "1.json", '{"id": "1", "subj')
        notice = await heard.one(Notice, member="outside")
        assert "Task #1 cannot be read" in notice.text and notice.level == "warning"
        await stranger.write(tasks.store.directory / "1.json", '{"id": "1", "sub')
        await stranger.task(tasks.store.directory, 1)
        await heard.one(TaskChanged, member="outside")
        assert len(heard.of(Notice, member="outside")) == 1


@pytest.mark.promise("B1", "F04")
async def test_a_file_that_is_being_written_in_several_steps_is_not_reported_as_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr("teamwright.external.task_watcher.PATIENCE_S", 3600.0)
    async with a_team(tmp_path, quiet_model()) as team:
        heard = Told(team)
        await team.tasks.add("ours")
        path = team.session.team.tasks.store.directory / "1.json"
        whole = path.read_bytes()
        watcher = TaskWatcher(team.session.team, lambda: None)
        watcher.begin()
        for length in (5, 10, 20):
            path.write_bytes(whole[:length])
            watcher.note_change({"1.json"})
            await watcher.check()
        path.write_bytes(whole.replace(b"ours", b"hers"))
        watcher.note_change({"1.json"})
        await watcher.check()
        watcher.end()
        assert heard.of(Notice, member="outside") == []
        assert heard.of(TaskChanged, member="outside")


@pytest.mark.finding("D1")
@pytest.mark.promise("B1", "F04")
async def test_a_task_that_was_damaged_before_a_resume_is_repaired_and_not_created_again(tmp_path, own_home):
    async with a_team(tmp_path, quiet_model()) as team:
        await team.tasks.add("ours")
        path = team.session.team.tasks.store.directory / "1.json"
    whole = path.read_bytes()
    path.write_bytes(b"{}")
    async with Team.resume("crew", model=quiet_model(), cwd=tmp_path) as team:
        heard = Told(team)
        path.write_bytes(whole)
        repaired = await heard.one(TaskChanged, member="outside")
        assert (repaired.task.id, repaired.change) == ("1", "updated")


@pytest.mark.finding("D1")
@pytest.mark.promise("B1", "F04")
@pytest.mark.slow
async def test_odd_json_in_a_task_file_is_told_to_the_lead_and_keeps_the_team_from_being_removed(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        inner = team.session.team
        await team.tasks.add("ours")
        path = inner.tasks.store.directory / "1.json"
        await stranger.write(path, "{}")
        what = f"{path} is not a whole task: 'subject', "
        assert what in (await heard.one(Notice, member="outside")).text
        await until(team, lambda: what in inner.home.inbox(inner.directory, "team-lead").read_text())
        listed = await TaskListTool(Caller("team-lead", inner)).run(NoInput(), cast("ToolContext", None))
        assert "[damaged]" in str(listed.content) and str(path) in str(listed.content)
        assert any(str(path) in line and "[damaged]" in line for line in await team.session.lead.status_lines())
        assert [task.status for task in await team.session.task_lines() if str(path) in task.subject] == ["damaged"]
        with pytest.raises(TeamRefused, match="damaged task files") as refused:
            await delete_team(inner)
        assert str(path) in refused.value.for_model() and path.read_bytes() == b"{}"


@pytest.mark.promise("P3", "P6")
@pytest.mark.slow
async def test_a_thousand_files_at_once_are_told_one_by_one_while_others_go_on(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        steps = 0

        async def others():
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        going = asyncio.create_task(others())
        await stranger.many(team.session.team.tasks.store.directory, 1, 1_000)
        await heard.until(lambda: len(heard.of(TaskChanged, member="outside")) >= 1_000)
        going.cancel()
        seen = [e.task.id for e in heard.of(TaskChanged, member="outside")]
        assert len(set(seen)) == len(seen) == 1_000
        assert steps > 1_000 / 32


@pytest.mark.promise("F18")
async def test_a_list_that_a_stranger_removes_is_told_and_goes_on_being_watched(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        tasks = team.session.team.tasks
        await team.tasks.add("one")
        await team.tasks.add("two")
        await stranger.remove(tasks.store.directory)
        await heard.until(lambda: len(heard.of(TaskChanged, change="deleted")) == 2)
        await stranger.task(tasks.store.directory, 7)
        await heard.until(lambda: ("7", "created", "outside") in changes(heard))


@pytest.mark.promise("P3", "B1")
@pytest.mark.slow
async def test_whatever_our_own_members_do_at_once_is_never_taken_for_a_strangers(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        tasks = team.session.team.tasks
        for n in range(40):
            await team.tasks.add(f"task {n}")
        await tasks.update("40", by="team-lead", lead=True, add_blocked_by=["1", "2"])

        async def work(name: str) -> None:
            while (task := await tasks.claim_next(name, frozenset())) is not None:
                await tasks.update(task.id, by=name, status="completed", metadata={"n": [1, {"by": name}]})

        await asyncio.gather(*(work(f"m{n}") for n in range(4)))
        await tasks.update("7", by="team-lead", lead=True, status="deleted")
        await stranger.task(tasks.store.directory, 41)
        await heard.until(lambda: ("41", "created", "outside") in changes(heard))
        assert [c for c in changes(heard) if c[2] == "outside"] == [("41", "created", "outside")]
        assert len(heard.of(TaskChanged, change="completed")) == 40


@pytest.mark.promise("B1", "P3")
async def test_a_task_that_is_made_and_done_before_anybody_looked_is_two_events(tmp_path):
    async with a_team(tmp_path, quiet_model()) as team, a_stranger() as stranger:
        heard = Told(team)
        await stranger.task(team.session.team.tasks.store.directory, 1, owner="bob", status="completed")
        await heard.one(TaskChanged, change="completed")
        assert changes(heard) == [("1", "created", "outside"), ("1", "completed", "outside")]
