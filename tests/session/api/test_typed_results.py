"""Typed results, tools of single members, waiting for members, and functions that need no rule."""

import asyncio
from typing import TypedDict

import pytest
from pydantic import BaseModel

from teamwright import Team, UsageError
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("U13")


class Report(BaseModel):
    title: str
    findings: list[str]


class Count(TypedDict):
    count: int


def open_ticket(title: str) -> str:
    """Open a ticket."""
    return f"opened {title}"


async def test_a_result_is_a_value_of_the_type(tmp_path):
    model = ScriptedModel('{"title": "All", "findings": ["one"]}')
    async with Team("crew", model=model, cwd=tmp_path, output_type=Report) as team:
        result = await team.run("Report.")
    assert result.output == Report(title="All", findings=["one"])
    assert '"findings"' in model.request_text()


async def test_an_answer_of_another_form_is_repaired_once(tmp_path):
    model = ScriptedModel(['{"count": "many"}', '{"count": 3}'])
    async with Team("crew", model=model, cwd=tmp_path, output_type=Count) as team:
        result = await team.run("Count.")
    assert (result.output, result.text) == ({"count": 3}, '{"count": 3}')
    assert "count: Input should be a valid integer" in model.request_text()


async def test_an_answer_that_stays_of_another_form_is_a_failed_run(tmp_path):
    model = ScriptedModel(["many", "very many", '{"count": 3}'])
    async with Team("crew", model=model, cwd=tmp_path, output_type=Count) as team:
        failed = await team.run("Count.")
        assert (failed.stop, failed.output, failed.exit_code) == ("failed", None, 1)
        assert failed.error is not None and failed.error.slug == "invalid-output"
        assert (await team.run("Count again.")).output == {"count": 3}


def test_a_type_without_a_json_form_is_refused():
    with pytest.raises(UsageError, match="output_type= has no JSON form"):
        Team("crew", output_type=object())


async def test_a_function_of_the_program_needs_no_rule(tmp_path):
    model = ScriptedModel([("python__open_ticket", {"title": "A"}), "done"])
    async with Team("crew", model=model, cwd=tmp_path, tools=[open_ticket]) as team:
        result = await team.run("Open it.")
    assert not result.denials
    assert "opened A" in model.request_text()


async def test_a_deny_rule_holds_for_a_function_of_the_program(tmp_path):
    model = ScriptedModel([("python__open_ticket", {"title": "A"}), "done"])
    options = {"tools": [open_ticket], "disallowed_tools": ["python__open_ticket"]}
    async with Team("crew", model=model, cwd=tmp_path, **options) as team:
        await team.run("Open it.")
    assert "opened A" not in model.request_text()


async def test_a_member_has_the_tools_that_it_was_given(tmp_path):
    model = ScriptedModel({"ada": ["hello"], "bob": ["hello"]})
    async with asyncio.timeout(WAIT_S), Team("crew", model=model, cwd=tmp_path, tools=[open_ticket]) as team:
        await team.spawn("ada", "Go.", tools=["Read", open_ticket])
        await team.spawn("bob", "Go.")
        await team.wait_idle()
        tools = {teammate.name: teammate.agent.toolbox.names for teammate in team.session.team.in_process_members}
    given = {"Read", "python__open_ticket"}
    kept = {"SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "EnterPlanMode", "ExitPlanMode"}
    assert set(tools["ada"]) - kept == given
    assert set(tools["bob"]) > set(tools["ada"])


async def test_a_tool_that_does_not_exist_is_named(tmp_path):
    async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path) as team:
        with pytest.raises(UsageError, match="no tool 'Raed'"):
            await team.spawn("ada", "Go.", tools=["Raed"])


async def test_wait_idle_returns_when_all_members_rest(tmp_path):
    model = ScriptedModel({"ada": ["one", "two"]})
    async with asyncio.timeout(WAIT_S), Team("crew", model=model, cwd=tmp_path) as team:
        await team.wait_idle()
        ada = await team.spawn("ada", "Go.")
        await team.wait_idle()
        assert (ada.state, len(model.requests)) == ("idle", 1)
        await ada.send("And more.")
        assert await ada.wait_idle() == "idle"
        assert len(model.requests) == 2
        await ada.stop()
        assert await ada.wait_idle() == "gone"
