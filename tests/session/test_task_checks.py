"""Task checks with real commands: on every path of ours, bounded, allowed by somebody, and proof against kills."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import Notice, Progress, TaskChanged, Team
from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import TaskRefused
from teamwright.saved.teams import find_tasks
from teamwright.session.wiring import team_factory
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from teamwright.ui.cli.output import task_rows
from tests.support.waits import WAIT_S
from tests.teams.crew import newest, told, until
from tests.teams.watched import Told, a_stranger

pytestmark = pytest.mark.promise("B8", "F19")

CHILD = Path(__file__).with_name("check_child.py")
DONE = "test -e done || { echo nothing is done; exit 3; }"


def crew(tmp_path, model=None, **more):
    model = model or ScriptedModel(lambda _request: "ok")
    return Team("crew", model=model, cwd=tmp_path, **{"permission_mode": "bypassPermissions", **more})


def settings(own_home, **values):
    place = own_home / ".teamwright"
    place.mkdir(exist_ok=True)
    (place / "settings.json").write_text(json.dumps(values))


def finish(tmp_path):
    (tmp_path / "done").write_text("")


async def test_a_member_completes_a_task_when_its_check_succeeds_and_not_before(tmp_path):
    """It is told how the check failed, mends it, and the task is noted as checked."""
    complete = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    script = {"ada": [complete, ("Bash", {"command": "touch done"}), complete, "I am done."], "lead": ["w"] * 9}
    model = ScriptedModel(script)
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check=DONE)
        await team.spawn("ada", "Take the task.")
        await team.run("Wait.")
        task = await team.tasks.get("1")
    first, _, last = [newest(r) for r in model.requests if r.agent_name == "ada"][-3:]
    what, do, *rest = first.split("\n")
    assert what.startswith(f"#1 is not completed: its check failed (exit code 3): {DONE}")
    assert do.startswith("Fix the problems") and rest == ["nothing is done"]
    assert "updated" in last
    assert (task.status, task.passed_checks(DONE), task.is_unverified) == ("completed", True, False)


@pytest.mark.parametrize("by", ["lead", "program"])
async def test_the_lead_and_a_program_complete_nothing_whose_check_fails(tmp_path, by):
    complete = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = ScriptedModel({"lead": [complete, "It fails.", complete, "Done."]})
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check=DONE)

        async def try_it():
            if by == "lead":
                await team.run("Complete it.")
                return told(model, "team-lead")
            with pytest.raises(TaskRefused) as refused:
                await team.tasks.update("1", status="completed")
            assert refused.value.code == "check_failed"
            return refused.value.for_model()

        assert "nothing is done" in await try_it()
        assert (await team.tasks.get("1")).status == "pending"
        finish(tmp_path)
        await (team.run("Again.") if by == "lead" else team.tasks.update("1", status="completed"))
        assert (await team.tasks.get("1")).status == "completed"


async def test_a_check_for_all_tasks_comes_from_the_users_settings(tmp_path, own_home):
    settings(own_home, task_check=DONE)
    async with crew(tmp_path) as team:
        await team.tasks.add("one")
        await team.tasks.add("two", check="test -e second")
        finish(tmp_path)
        assert (await team.tasks.update("1", status="completed")).passed_checks(DONE)
        with pytest.raises(TaskRefused, match="test -e second"):
            await team.tasks.update("2", status="completed")
        (tmp_path / "second").write_text("")
        assert (await team.tasks.update("2", status="completed")).passed_checks(DONE, "test -e second")


@pytest.mark.promise("F66", "P7")
async def test_a_repository_that_nobody_trusted_sets_no_check(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".teamwright").mkdir()
    (tmp_path / ".teamwright" / "settings.json").write_text(json.dumps({"task_check": "touch ran"}))
    async with crew(tmp_path) as team:
        await team.tasks.add("one")
        await team.tasks.update("1", status="completed")
    assert not (tmp_path / "ran").exists()


async def test_a_check_that_hangs_is_ended_with_all_that_it_started(tmp_path, own_home):
    settings(own_home, task_check_timeout_s=0.5)
    async with crew(tmp_path) as team:
        check = "sleep 1000 & echo $! > child; echo $$ > parent; wait"
        await team.tasks.add("one", check=check)
        with pytest.raises(TaskRefused, match=r"took longer than 0\.5 s"):
            await team.tasks.update("1", status="completed")
        assert (await team.tasks.get("1")).status == "pending"
    assert [process_start(int((tmp_path / name).read_text())) for name in ("child", "parent")] == ["", ""]


async def test_a_long_output_is_cut_to_its_end(tmp_path):
    async with crew(tmp_path) as team:
        await team.tasks.add("one", check="seq 1 100000; echo the last word; false")
        with pytest.raises(TaskRefused) as refused:
            await team.tasks.update("1", status="completed")
    text = refused.value.for_model()
    assert text.endswith("the last word") and len(text) < team_factory.OUTPUT_CHARS + 600


async def test_a_check_that_lasts_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(team_factory, "NOTIFY_AFTER_S", 0.0)
    os.mkfifo(tmp_path / "gate")
    async with crew(tmp_path) as team:
        heard = Told(team)
        await team.tasks.add("one", check="cat gate")
        completing = asyncio.create_task(team.tasks.update("1", status="completed"))
        seen = await heard.one(Progress, doing="tool")
        assert seen.what == "check of #1: cat gate"
        await asyncio.to_thread((tmp_path / "gate").write_text, "")
        assert (await completing).status == "completed"


async def test_a_task_that_is_changed_while_its_check_runs_is_not_completed(tmp_path):
    os.mkfifo(tmp_path / "gate")
    async with crew(tmp_path) as team:
        await team.tasks.add("one", check="cat gate")
        completing = asyncio.create_task(team.tasks.update("1", status="completed"))
        gate = await asyncio.to_thread(open, tmp_path / "gate", "w")  # the check runs, and no lock is held:
        async with asyncio.timeout(WAIT_S):
            await team.tasks.update("1", description="more than before")
        gate.close()
        with pytest.raises(TaskRefused) as refused:
            await completing
    assert refused.value.code == "changed"


async def test_whoever_gives_up_waiting_leaves_no_process_and_no_completed_task(tmp_path):
    async with crew(tmp_path) as team:
        os.mkfifo(tmp_path / "pid")
        await team.tasks.add("one", check="echo $$ > pid; exec sleep 1000")
        completing = asyncio.create_task(team.tasks.update("1", status="completed"))
        pid = await written(tmp_path / "pid")
        completing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await completing
        assert process_start(pid) == ""
        assert (await team.tasks.get("1")).status == "pending"


async def written(path):
    """The number that another process writes into a pipe."""
    async with asyncio.timeout(WAIT_S):
        return int(await asyncio.to_thread(path.read_text))


@pytest.fixture
def child(tmp_path):
    """A program in the middle of a check."""
    os.mkfifo(tmp_path / "pid")
    process = subprocess.Popen([sys.executable, str(CHILD), str(tmp_path)])
    yield process
    process.kill()
    process.wait(WAIT_S)


@pytest.mark.promise("P5", "F62")
@pytest.mark.slow
async def test_a_kill_in_the_middle_of_a_check_leaves_the_task_open_and_no_process_after_a_resume(tmp_path, child):
    pid = await written(tmp_path / "pid")
    child.send_signal(signal.SIGKILL)
    await asyncio.to_thread(child.wait, WAIT_S)
    model = ScriptedModel(lambda _request: "ok")
    async with Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
        await team.run("Go on.")
        assert (await team.tasks.get("1")).status == "pending"
        (tmp_path / "ok").write_text("")
        task = await team.tasks.update("1", status="completed")
        assert task.status == "completed" and not task.is_unverified, "the session knows still that it was allowed"
        assert process_start(pid) == ""


# ── who may have a command run ───────────────────────────────────────────────────────────────────────────────


def result_of(model, name="team-lead"):
    return newest([r for r in model.requests if r.agent_name == name][-1])


@pytest.mark.promise("F44", "F45")
@pytest.mark.parametrize("allowed", [False, True])
async def test_who_sets_a_check_must_be_allowed_the_command(tmp_path, allowed):
    create = ("TaskCreate", {"subject": "s", "description": "d", "metadata": {"check": "touch ran"}})
    change = ("TaskUpdate", {"taskId": "1", "metadata": {"check": "touch ran"}})
    model = ScriptedModel({"lead": [("TaskCreate", {"subject": "plain", "description": "d"}), change, create, "ok"]})
    rules = {"allowed_tools": ["Bash(touch ran)"]} if allowed else {}
    async with crew(tmp_path, model, permission_mode="default", **rules) as team:
        result = await team.run("Set task_checks.")
        tasks = await team.tasks.all()
        assert [task.check for task in tasks] == (["touch ran", "touch ran"] if allowed else [""])
        assert [d["tool_name"] for d in result.denials] == ([] if allowed else ["TaskUpdate", "TaskCreate"])
        await team.tasks.update("1", status="completed")
    assert (tmp_path / "ran").exists() is allowed


@pytest.mark.promise("F44")
@pytest.mark.parametrize("by", ["lead", "ada"])
async def test_a_check_that_was_allowed_in_one_directory_reaches_no_further_from_another(tmp_path, by):
    """From `a/b` it reads inside; from where the shell was moved to since it would read outside."""
    project = tmp_path / "x" / "y"
    (project / "a" / "b").mkdir(parents=True)
    (tmp_path / "secret").write_text("of somebody else")
    create = {"subject": "s", "description": "d", "metadata": {"check": "cat ../../secret"}}
    calls = [
        ("Bash", {"command": "cd a/b"}),
        ("TaskCreate", create),
        ("Bash", {"command": f"cd {project}"}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}),
        "I tried.",
    ]
    model = ScriptedModel({"ada": calls, "lead": ["w"] * 9} if by == "ada" else {"lead": [*calls, "w"]})
    async with crew(project, model, permission_mode="default") as team:
        if by == "ada":
            await team.spawn("ada", "Try.")
        await team.run("Go on.")
        task = await team.tasks.get("1")
    assert "of somebody else" not in str([request.items for request in model.requests])
    assert task.check == "cat ../../secret" and task.is_unverified


@pytest.mark.promise("F44")
async def test_a_check_that_a_program_runs_is_allowed_wherever_its_owner_works(tmp_path):
    (tmp_path / "sub").mkdir()
    calls = [
        ("TaskCreate", {"subject": "s", "description": "d", "metadata": {"check": "touch ran"}}),
        ("Bash", {"command": "cd sub"}),
        ("TaskUpdate", {"taskId": "1", "owner": "ada", "status": "completed"}),
        "Done.",
    ]
    model = ScriptedModel({"ada": calls, "lead": ["w"] * 9})
    async with crew(tmp_path, model, permission_mode="default", on_request=lambda one: one.allow()) as team:
        await team.spawn("ada", "Go.")
        await team.run("Wait.")
        task = await team.tasks.get("1")
    assert (task.status, task.is_unverified) == ("completed", False)
    assert (tmp_path / "sub" / "ran").exists()


async def test_a_check_that_nobody_of_ours_set_is_not_run_and_the_completion_says_so(tmp_path):
    complete = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = ScriptedModel({"lead": [complete, ("TaskList", {}), ("TaskGet", {"taskId": "1"}), "ok"]})
    async with crew(tmp_path, model) as team, a_stranger() as stranger:
        directory = team.session.team.tasks.store.directory
        await team.tasks.add("first")
        await stranger.change(directory / "1.json", metadata={"check": f"touch {tmp_path}/ran"})
        await team.run("Complete it.")
        told_all = told(model, "team-lead")
        task = await team.tasks.get("1")
        shown = task_rows(find_tasks(find_home(), "crew"))
    assert task.status == "completed" and task.is_unverified
    assert not (tmp_path / "ran").exists()
    assert "#1 [completed, unverified] first" in told_all
    assert "unverified: its check was not seen to succeed" in told_all
    assert shown == [("#1", "completed, unverified", "", "first")]


@pytest.mark.slow
async def test_a_member_cannot_take_a_check_away_nor_say_that_it_passed(tmp_path):
    calls = [
        ("TaskUpdate", {"taskId": "1", "status": "completed", "metadata": {"check": None}}),
        ("TaskUpdate", {"taskId": "1", "metadata": {"check": "true"}}),
        ("TaskUpdate", {"taskId": "1", "metadata": {"checked": [DONE], "note": "x"}}),
        ("TaskCreate", {"subject": "s", "description": "d", "metadata": {"check": DONE, "checked": [DONE]}}),
        "I tried.",
    ]
    model = ScriptedModel({"ada": calls, "lead": ["w"] * 9})
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check=DONE)
        await team.spawn("ada", "Try.")
        await team.run("Wait.")
        one, two = await team.tasks.all()
    assert told(model, "ada").count("which only the lead changes") == 2
    assert (one.check, one.status, one.passed_checks(DONE), one.metadata["note"]) == (DONE, "in_progress", False, "x")
    assert not two.passed_checks(DONE)


# ── completions by other programs ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("takes_it_away", [False, True])
async def test_a_strangers_completion_whose_check_fails_is_taken_back_and_told_once(tmp_path, takes_it_away):
    model = ScriptedModel(lambda _request: "ok")
    async with crew(tmp_path, model) as team, a_stranger() as stranger:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        heard = Told(team)
        await team.tasks.add("make it", check=DONE)
        await until(team, lambda: ada.state == "idle" and team.session.team.is_quiet())
        assert (await team.tasks.get("1")).owner == "ada"
        metadata = {"metadata": {}} if takes_it_away else {}
        await stranger.change(team.session.team.tasks.store.directory / "1.json", status="completed", **metadata)
        await heard.one(TaskChanged, change="updated", member="task-list")
        task = await team.tasks.get("1")
        assert (task.status, task.owner, task.check) == ("in_progress", "ada", DONE)
        await until(team, lambda: "and you own it. Fix the problems" in told(model, "ada"))
        await team.run("What happened?")
        assert told(model, "ada").count("Fix the problems") == 1
        assert told(model, "team-lead").count("It is in progress again, with ada") == 1


async def test_a_strangers_completion_whose_check_passes_is_accepted(tmp_path):
    finish(tmp_path)
    async with crew(tmp_path) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.tasks.add("make it", check=DONE)
        await team.tasks.add("next", after=["1"])
        tasks = team.session.team.tasks
        await stranger.change(tasks.store.directory / "1.json", owner="bob", status="completed")
        await heard.one(TaskChanged, change="completed", member="outside")
        await heard.one(TaskChanged, change="updated", member="task-list")
        assert (await team.tasks.get("1")).passed_checks(DONE)
        assert not tasks.is_unverified(await team.tasks.get("1"))
        assert not [e for e in heard.events if isinstance(e, Notice)]


async def test_a_strangers_completion_without_an_owner_of_ours_goes_back_to_the_list(tmp_path):
    async with crew(tmp_path) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.tasks.add("make it", check=DONE)
        await stranger.change(team.session.team.tasks.store.directory / "1.json", owner="bob", status="completed")
        await heard.one(TaskChanged, change="released", member="task-list")
        task = await team.tasks.get("1")
    assert (task.status, task.owner) == ("pending", None)
