"""One task list shared by several sessions: no task twice, each sees what the others do, no team takes it along."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from teamwright import TaskChanged, Team
from teamwright.protocol.errors import InvalidName, TaskRefused
from teamwright.teams.shutdown import delete_team
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, until
from tests.teams.watched import Told

SHARER = Path(__file__).with_name("sharer.py")


def claims_and_completes(request):
    """Members complete what they are given; the lead waits."""
    text = json.loads(request.items[-1])["content"]
    words = json.dumps(text)
    if request.agent_name != "team-lead" and "The task is yours now" in words:
        number = words.split("#", 1)[1].split(" ", 1)[0]
        return ("TaskUpdate", {"taskId": number, "status": "completed"})
    return "ok"


def on_disk(team) -> list[dict]:
    directory = team.session.team.tasks.store.directory
    return [json.loads(path.read_bytes()) for path in sorted(directory.glob("*.json"), key=lambda p: int(p.stem))]


@pytest.mark.promise("B9", "B5", "P2")
async def test_two_sessions_with_namesakes_share_a_list_without_doing_a_task_twice(tmp_path):
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, str(SHARER), str(tmp_path), stdin=pipe, stdout=pipe)
    model = ScriptedModel(claims_and_completes)
    async with a_team(tmp_path, model, task_list="common") as team:
        heard = Told(team)
        async with asyncio.timeout(WAIT_S):
            assert await other.stdout.readline() == b"ready\n"
        await team.spawn("ann", "Take what comes.")
        for n in range(30):
            await team.tasks.add(f"task {n}")
        await heard.until(lambda: {e.task.id for e in heard.of(TaskChanged, change="completed")} == numbers(30))
        other.stdin.close()
        async with asyncio.timeout(WAIT_S):
            theirs = [json.loads(line) for line in (await other.stdout.read()).splitlines()]
            await other.wait()
        done = [(e.task.id, e.member) for e in heard.of(TaskChanged, change="completed")]
        assert len(done) == 30
        assert sorted(task["status"] for task in on_disk(team)) == ["completed"] * 30
        owners = {task["owner"] for task in on_disk(team)}
        own = f"ann@{team.session.team.session_list_name}"
        assert all(owner.startswith("ann@session-") for owner in owners) and own in owners
        ours = {id for id, member in done if member == "ann"}
        assert ours == {task["id"] for task in on_disk(team) if task["owner"] == own}
        # The other session was told the same, seen from its side.
        assert {(id, member == "ann") for id, member in theirs} == {(id, id not in ours) for id in numbers(30)}


def numbers(count: int) -> set[str]:
    return {str(n) for n in range(1, count + 1)}


@pytest.mark.promise("B9", "A2", "F18")
async def test_a_shared_list_outlives_the_team_and_no_team_of_its_name_takes_it_over(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model, task_list="crew") as team:
        await team.tasks.add("stays")
        directory = team.session.team.tasks.store.directory
        inner = team.session.team
        assert directory.name == "crew" and inner.directory != "crew"
        await delete_team(inner)
        assert not inner.exists and inner.tasks.store.directory == directory
        assert [task.subject for task in await inner.tasks.all()] == ["stays"]
    async with a_team(tmp_path, model) as team:  # another session, without the list, with a team of its name
        assert await team.session.team.tasks.all() == []
        await team.tasks.add("own")
    async with a_team(tmp_path, model, task_list="crew", replace=True) as team:
        assert [task.subject for task in await team.session.team.tasks.all()] == ["stays"]


@pytest.mark.promise("B9", "B5")
async def test_a_namesake_of_another_session_is_somebody_else(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model, task_list="common") as team:
        tasks = team.session.team.tasks
        await team.tasks.add("one")
        await tasks.update("1", by="team-lead", lead=True, metadata={"for": ["ann"]})
        async with tasks.store.files.task_lock("1").hold():
            path = tasks.store.directory / "1.json"
            path.write_text(
                json.dumps(json.loads(path.read_bytes()) | {"owner": "ann@session-0", "status": "in_progress"})
            )
        with pytest.raises(TaskRefused, match="belongs to ann@session-0"):
            await tasks.update("1", by="ann", status="in_progress")
        assert await tasks.release("ann") == []
        await tasks.update("1", by="team-lead", lead=True, owner="ann")
        assert (await tasks.get("1")).owner == "ann"
        assert json.loads(path.read_bytes())["owner"] == f"ann@{team.session.team.session_list_name}"


@pytest.mark.promise("B9", "F64")
@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-rf", "x" * 201])
async def test_a_name_that_could_leave_its_directory_is_refused_and_nothing_is_made(tmp_path, own_home, name):
    with pytest.raises(InvalidName):
        async with a_team(tmp_path, ScriptedModel(lambda _request: "ok"), task_list=name):
            pass
    assert not (own_home / ".teamwright" / "tasks").exists()


@pytest.mark.promise("B9", "B6")
async def test_a_task_that_another_session_adds_wakes_an_idle_member_here(tmp_path):
    model = ScriptedModel(claims_and_completes)
    second = Team("other", model=model, cwd=tmp_path, permission_mode="bypassPermissions", task_list="common")
    async with a_team(tmp_path, model, task_list="common") as team, second:
        heard = Told(team)
        await team.spawn("ann", "Take what comes.")
        await until(team, lambda: team.session.team.is_quiet())
        await second.tasks.add("from there")
        await heard.one(TaskChanged, change="completed", member="ann")
        assert [(e.task.id, e.member) for e in heard.of(TaskChanged, change="created")] == [("1", "outside")]


@pytest.mark.finding("T25")
async def test_open_tasks_of_other_sessions_on_a_shared_list_are_not_this_run_s(tmp_path):
    model = ScriptedModel({"team-lead": [[("TaskCreate", {"subject": "mine", "description": "d"})], "done"]})
    async with a_team(tmp_path, model, task_list="common") as team:
        path = team.session.team.tasks.store.directory / "7.json"
        task = {"id": "7", "subject": "theirs", "description": "", "status": "pending", "blocks": [], "blockedBy": []}
        path.write_text(json.dumps(task))
        result = await team.run("go")
    assert {task.subject for task in result.tasks} == {"mine", "theirs"}
    assert [task.subject for task in result.open_tasks] == ["mine"]
