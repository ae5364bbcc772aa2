"""Sessions in the sandbox: the policy of each call, refusals in results, and a start without a sandbox."""

import asyncio
import os

import pytest

from teamwright import Team
from teamwright.protocol.errors import CannotStart
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.sandbox import Implementation, find_implementation
from teamwright.session.control.person_actions import move_to_background
from teamwright.testing import Call, ScriptedModel
from tests.support.programs import needs
from tests.support.waits import WAIT_S, wait_until


def result(model: ScriptedModel, at: int) -> str:
    return model.request_text(at)


async def run(tmp_path, *commands: str, **more) -> ScriptedModel:
    """Run a lead that calls Bash with each of these commands."""
    (tmp_path / "work").mkdir(exist_ok=True)
    model = ScriptedModel([*(Call("Bash", {"command": one}) for one in commands), "Done."])
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"} | more
    async with Team("crew", model=model, **options) as team:
        await team.run("Go.")
    return model


@needs("bwrap")
async def test_a_line_that_only_reads_runs_in_read_and_an_allowed_one_in_work(tmp_path):
    looks = "ls -a; [ -w . ] && echo can write"
    model = await run(tmp_path, looks, f"touch a; {looks}", permission_mode="bypassPermissions")
    assert "can write" not in result(model, 1) and "can write" in result(model, 2)
    assert (tmp_path / "work/a").exists()


@needs("bwrap")
async def test_a_refused_write_is_part_of_the_result_and_says_what_would_allow_it(tmp_path):
    program = """python3 -c "open(chr(47) + 'etc/x', 'w')"; exit 3"""
    model = await run(tmp_path, program, permission_mode="bypassPermissions")
    text = result(model, 1)
    assert "[The sandbox (policy work) refused to write /etc/x." in text and "sandbox.write" in text


@needs("bwrap")
async def test_a_rule_unconfined_runs_a_command_outside(tmp_path):
    outside = tmp_path / "outside"
    rules = [f"Unconfined(touch {outside})", "Bash(touch *)"]
    await run(tmp_path, f"touch {outside}", f"touch {outside}2", allowed_tools=rules)
    assert outside.exists() and not (tmp_path / "outside2").exists()


@needs("bwrap")
async def test_the_directory_is_kept_and_background_processes_continue(tmp_path):
    model = await run(
        tmp_path,
        "mkdir d && cd d",
        "(sleep 0.2; echo late > ../late) & echo began",
        "until [ -e ../late ]; do sleep 0.05; done; pwd; cat ../late",
        permission_mode="bypassPermissions",
    )
    assert "directory is now" in result(model, 1) and "began" in result(model, 2)
    assert str(tmp_path / "work/d") in result(model, 3) and "late" in result(model, 3)


@needs("bwrap")
async def test_a_command_that_moves_to_the_background_before_its_sandbox_is_ready_runs_to_its_end(tmp_path):
    (tmp_path / "work").mkdir()
    model = ScriptedModel([Call("Bash", {"command": "until [ -e go ]; do sleep 0.05; done; echo late"}), "Done."])
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "permission_mode": "bypassPermissions"}
    async with Team("crew", model=model, sandbox="auto", **options) as team, asyncio.timeout(WAIT_S):
        done = team.run("Go.")
        moved: list[str] = []
        while not moved:
            await asyncio.sleep(0)
            moved = await move_to_background(team.session, "lead")
        await done
        [job] = team.session.jobs.list()
        (tmp_path / "work/go").touch()
        assert await team.session.jobs.wait(job.id, WAIT_S)
    assert (job.state, job.exit_code, job.file.read_text()) == ("completed", 0, "late\n")


@needs("bwrap")
async def test_an_agent_ends_its_own_background_job(tmp_path):
    (tmp_path / "work").mkdir()
    answers = iter([Call("Bash", {"command": "touch up; sleep 1000", "run_in_background": True}), "kill", "Done."])

    def play(_request) -> Call | str:
        answer = next(answers, "Done.")
        if answer != "kill":
            return answer
        [job] = team.session.jobs.list()
        wait_until((tmp_path / "work/up").exists, "the command")  # bubblewrap has started it
        return Call("Bash", {"command": f"kill -- -{job.pid}"})

    model = ScriptedModel(play)
    async with Team(
        "crew",
        model=model,
        cwd=tmp_path / "work",
        home=tmp_path / "state",
        sandbox="auto",
        permission_mode="bypassPermissions",
    ) as team:
        await team.run("Go.")
        [job] = team.session.jobs.list()
        assert await team.session.jobs.wait(job.id, WAIT_S)


async def test_a_required_sandbox_that_does_not_work_refuses_to_start(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: Implementation("none", reason="it is not there"))
    with pytest.raises(CannotStart, match="no sandbox works here: it is not there") as caught:
        await run(tmp_path, "ls", sandbox="required")
    assert caught.value.exit_code == 3


async def test_without_a_sandbox_commands_run_and_the_session_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: Implementation("none", reason="it is not there"))
    await run(tmp_path, "touch a", "touch b", permission_mode="bypassPermissions")
    assert (tmp_path / "work/b").exists()
    logs = "".join(path.read_text() for path in (tmp_path / "state").rglob("events.jsonl"))
    assert logs.count("commands run without a sandbox: it is not there") == 1


async def test_a_sandbox_that_is_off_confines_nothing(tmp_path):
    await run(tmp_path, f"touch {tmp_path}/x", permission_mode="bypassPermissions", sandbox="off")
    assert (tmp_path / "x").exists()


def test_one_implementation_works_on_a_machine_with_bubblewrap():
    assert find_implementation().name in {"bubblewrap", "landlock", "none"}
    assert os.path.exists("/usr/bin/bwrap") <= (find_implementation().name != "none")
