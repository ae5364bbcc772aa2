"""From the foreground to the background: by a person, by a time limit, losing nothing; commands too."""

import asyncio
import os

import pytest

from teamwright.permissions.verdict import Mode
from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD
from teamwright.session.control.person_actions import list_foreground, move_to_background
from teamwright.testing import Call
from tests.support.waits import WAIT_S
from tests.teams.crew import within
from tests.teams.subagents.crowd import Children, crew, only, results, start, until


@pytest.mark.promise("row F4")
async def test_what_is_waited_for_goes_on_in_the_background_and_nothing_of_it_is_lost(tmp_path):
    model = Children(start("work, then hold"), "I go on.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await within(WAIT_S, model.thinking.wait())
        run = only(team)
        assert await move_to_background(team.session, run.id) == [f"{run.id} {run.description}"]
        assert await list_foreground(team.session) == [], "it is there already"
        await until(team, lambda: results(model))
        assert run.is_running and not model.notices()
        assert (
            "continues in the background" in results(model)[0]
            and f"output_file: {run.output_file}" in results(model)[0]
        )
        model.go.set()
        await within(WAIT_S, done)
        assert [r.agent_name for r in model.requests].count(run.id) == 2, "no step was done a second time"
    assert model.notices() == [run.id] and run.state == "completed"


@pytest.mark.promise("row F4")
async def test_after_the_time_that_a_setting_says_one_goes_on_in_the_background_by_itself(tmp_path):
    def end(request):
        model.go.set()
        return "I go on."

    model = Children(start("hold"), end)
    async with crew(tmp_path, model, settings={"agents.background_after_s": 0.05}) as team:
        assert team.session.agents.settings.background_after_s == 0.05
        await team.run("Go.")
    assert "continues in the background" in results(model)[0] and len(model.notices()) == 1


@pytest.mark.promise("row F4")
async def test_a_command_that_is_waited_for_goes_on_as_a_job_with_all_that_it_wrote(tmp_path):
    begun, gate = tmp_path / "work/begun", tmp_path / "work/gate"
    (tmp_path / "work").mkdir()
    os.mkfifo(begun)
    os.mkfifo(gate)
    command = f"echo first; : > {begun}; read line < {gate}; echo last"
    model = Children(Call("Bash", {"command": command}), "I go on.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await within(WAIT_S, asyncio.to_thread(begun.read_bytes))
        moved = await move_to_background(team.session, "lead")
        await within(WAIT_S, done)
        [job] = team.session.jobs.list()
        assert moved == [command] and f"as {job.id}." in results(model)[0]
        await within(WAIT_S, asyncio.to_thread(gate.write_text, "go\n"))
        assert await team.session.jobs.wait(job.id, WAIT_S)
        assert (job.state, job.exit_code) == ("completed", 0)
        assert job.file.read_text().splitlines() == ["first", "last"]


@pytest.mark.finding("3S6")
@pytest.mark.parametrize("choice", ["lead", "command"])
async def test_a_person_chooses_between_the_sub_agent_and_the_command_that_it_waits_for(tmp_path, choice):
    begun, gate = tmp_path / "work/begun", tmp_path / "work/gate"
    (tmp_path / "work").mkdir()
    os.mkfifo(begun)
    os.mkfifo(gate)
    command = f": > {begun}; read line < {gate}; echo last"

    class Runs(Children):
        def _said(self, request):
            is_new_child = request.agent_name != LEAD and len(request.items) == 1
            return Call("Bash", {"command": command}) if is_new_child else super()._said(request)

    model = Runs(start("run it"), "I go on.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await within(WAIT_S, asyncio.to_thread(begun.read_bytes))
        run = only(team)
        listed = await list_foreground(team.session)
        assert listed[0].split()[0] == run.id and command in listed[1] and run.id in listed[1]
        name = "lead" if choice == "lead" else listed[1].split()[0]
        moved = await move_to_background(team.session, name)
        if choice == "command":
            await until(team, lambda: results(model, run.id))
        assert moved == ([f"{run.id} {run.description}"] if choice == "lead" else [command])
        assert len(team.session.jobs.list()) == (choice == "command"), "only what was chosen has moved"
        await within(WAIT_S, asyncio.to_thread(gate.write_text, "go\n"))
        await within(WAIT_S, done)


@pytest.mark.promise("row F3", "P4")
async def test_one_in_the_background_asks_like_all_and_holds_nobody_up(tmp_path):
    asked: list[RequestOpened] = []
    opened = asyncio.Event()

    def ask(event: RequestOpened) -> None:
        asked.append(event)
        opened.set()

    writing = Call("Write", {"file_path": "made", "content": "x"})

    class Asks(Children):
        def _said(self, request):
            if request.agent_name != "team-lead" and len(request.items) == 1:
                return writing
            return super()._said(request)

    model = Asks(start("write", run_in_background=True), "I wait.")
    async with crew(tmp_path, model, permission_mode="default", on_request=ask) as team:
        done = team.run("Go.")
        await within(WAIT_S, opened.wait())
        assert team.session.agent_factory.policy.mode is Mode.DEFAULT and only(team).is_running
        await asked[0].allow()
        await within(WAIT_S, done)
        assert (tmp_path / "work" / "made").exists() and only(team).state == "completed"


@pytest.mark.promise("row F10")
async def test_a_yes_that_comes_after_the_deadline_runs_nothing_and_whoever_asked_is_told(tmp_path):
    asked: list[RequestOpened] = []
    model = Children(Call("Write", {"file_path": "made", "content": "x"}), "It was denied.")
    more = {
        "permission_mode": "default",
        "on_request": lambda event: asked.append(event),
        "settings": {"ask_timeout_s": 0.05},
    }
    async with crew(tmp_path, model, **more) as team:
        await team.run("Go.")
        assert not await asked[0].allow()
        await within(WAIT_S, team.session.lead.run_turn())
    assert "is allowed now, too late" in model.request_text(-1) and not (tmp_path / "work" / "made").exists()
