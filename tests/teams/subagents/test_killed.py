"""A session that is killed in the middle of its sub-agents, and gone on with: told once, nothing lost, gone on with."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.protocol.ids import LEAD
from teamwright.testing import Call
from tests.support.waits import WAIT_S
from tests.teams.subagents.crowd import Children, notices_in, results, start
from tests.teams.subagents.nest import CAPS, LOOK, USES, Nest, deep, soon

CHILD = Path(__file__).with_name("mortal.py")
NESTED = Path(__file__).with_name("mortal_nest.py")


def killed(tmp_path, how: str, child: Path = CHILD) -> str:
    """The id of the sub-agent that ran when its session was killed; of several all."""
    with subprocess.Popen(
        [sys.executable, str(child), str(tmp_path), how], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        id = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
    assert id
    return id


def again(tmp_path, model) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path / "work", permission_mode="bypassPermissions")


@pytest.mark.promise("F38", "F57", "row F3")
@pytest.mark.slow
async def test_one_in_the_background_is_told_as_killed_once_and_can_be_gone_on_with(tmp_path):
    id = killed(tmp_path, "background")
    model = Children(Call("Agent", {"description": "more", "prompt": "Finish.", "resume": id}), "Good.")
    model.stalls = False
    async with again(tmp_path, model) as team:
        await team.run("Where are we?")
        assert team.session.agents.runs[id].state == "completed"
    notice = model.request_text(0)
    assert (
        notices_in(notice) == [id]
        and f"<task-id>{id}</task-id>\n<tool-use-id>" in notice
        and '" was killed: ' in notice
    )
    assert f'Call Agent with resume "{id}" to continue it.' in notice
    child = next(r for r in model.requests if r.agent_name == id)
    assert b"work, then stall" in child.items[0] and b"Finish." in child.items[-1]
    model = Children("Nothing new.")
    async with again(tmp_path, model) as team:
        await team.run("And now?")
    assert model.notices().count(id) == 1, "it is told once, over all lives"


@pytest.mark.promise("F57", "row F1")
@pytest.mark.slow
async def test_one_that_was_waited_for_goes_on_where_it_was_and_its_answer_is_the_calls_result(tmp_path):
    id = killed(tmp_path, "foreground")
    model = Children("I have it.")
    model.stalls = False
    async with again(tmp_path, model) as team:
        await team.run("Go on.")
        [run] = team.session.agents.runs.values()
    assert run.id == id and run.generation == 1
    asked = [r for r in model.requests if r.agent_name == id]
    assert len(asked) == 1 and len(asked[0].items) == 3, "what it had done is not done again"
    assert f"agentId: {id}" in results(model)[0]
    lead = next(r for r in model.requests if r.agent_name == LEAD)
    assert len([item for item in lead.items if b"tool_use" in item and b"Agent" in item]) == 1
    assert json.loads(lead.items[-1])["role"] == "user"


@pytest.mark.finding("3S12")
@pytest.mark.parametrize("how", ["foreground", "background"])
@pytest.mark.slow_after(1)
async def test_after_a_kill_its_usage_includes_the_calls_of_before(tmp_path, how):
    id = killed(tmp_path, how)
    model = Children("I see.")
    model.stalls = False
    async with again(tmp_path, model) as team:
        await team.run("Go on.")
        run = team.session.agents.runs[id]
        assert run.tool_calls == 1
    lead = "".join(item.decode() for item in next(r for r in reversed(model.requests) if r.agent_name == LEAD).items)
    assert f"tool_uses: 1\\nduration_ms: {run.duration_ms}" in lead


def more(id: str) -> Call:
    return Call("Agent", {"description": "more", "prompt": "Go on.", "resume": id})


@pytest.mark.promise("row F15", "F57")
@pytest.mark.parametrize("cap", list(CAPS))
async def test_caps_are_for_its_life_also_when_it_is_gone_on_with(tmp_path, cap):
    model = Nest(lead=[start("one", **CAPS[cap])], one=[LOOK, "First.", LOOK, "Second."])
    model.uses = USES
    async with deep(tmp_path, model) as team:
        await soon(team.run("Go."))
        [id] = team.session.agents.runs
        model.plays["lead"] = [more(id), more(id)]
        await soon(team.run("More."))
        run = team.session.agents.runs[id]
        assert (run.generation, run.limit) == (3, cap)
    assert len(model.of("one")) == 4 and "cap on" in run.failure_reason


@pytest.mark.promise("row F15", "F57")
@pytest.mark.parametrize("cap", list(CAPS))
@pytest.mark.slow_after(1)
async def test_after_a_kill_its_caps_count_what_it_used_before(tmp_path, cap):
    id = killed(tmp_path, cap, NESTED).split()[0]
    model = Nest(lead=["I see.", more(id)], one=[LOOK] * 9)
    model.uses = USES
    async with deep(tmp_path, model, resume=True) as team:
        await soon(team.run("Where are we?"))
        await soon(team.run("Go on."))
        run = team.session.agents.runs[id]
        assert (run.state, run.limit) == ("failed", cap)
    assert len(model.of("one")) == 2, "two of its four answers came before the kill"


@pytest.mark.promise("row F15", "F38", "F57")
@pytest.mark.slow
async def test_what_a_sub_agent_started_is_told_to_it_alone_when_it_is_gone_on_with(tmp_path):
    one, two = killed(tmp_path, "nested", NESTED).split()
    model = Nest(lead=["I see.", more(one)])
    async with deep(tmp_path, model, resume=True) as team:
        await soon(team.run("Where are we?"))
        assert one in notices_in(model.told("lead")) and two not in model.told("lead")
        await soon(team.run("Go on."))
        assert team.session.agents.runs[one].state == "completed"
    assert notices_in(model.told("one")).count(two) == 1
    assert '\\" was killed: ' in model.told("one")
    model = Nest(lead=[more(one)])
    async with deep(tmp_path, model, resume=True) as team:
        await soon(team.run("And again."))
    assert notices_in(model.told("one")).count(two) == 1
