"""Functions of the program that learn who calls them, and the logger that shows what failed in the program's code."""

import asyncio
import logging

import pytest

from teamwright import CallContext, Hook, Team
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


@pytest.mark.finding("3S15", "3L11")
async def test_a_function_learns_which_agent_calls_it_for_which_team_and_task(tmp_path):
    found = []

    def book(hours: int, call: CallContext) -> str:
        """Book hours."""
        found.append((hours, call.caller, call.member, call.team, call.task, call.cwd))
        return "booked"

    model = ScriptedModel(
        {"lead": [("python__book", {"hours": 1}), *["waiting"] * 5], "ann": [("python__book", {"hours": 2}), "done"]}
    )
    async with asyncio.timeout(WAIT_S), Team("crew", model=model, cwd=tmp_path, tools=[book]) as team:
        await team.tasks.add("Book it.", metadata={"for": ["ann"]})
        await team.run("Book.")
        await team.spawn("ann", "Book too.")
        await team.wait_idle()
    assert found[0] == (1, "team-lead", "team-lead", "crew", "", tmp_path)
    assert found[1][:4] == (2, "ann", "ann", "crew")
    assert b'"call"' not in model.requests[0].prefix.head.split(b"python__book")[1].split(b'"name"')[0]


@pytest.mark.finding("3L11")
async def test_the_logger_has_the_traceback_of_a_tool_a_hook_and_an_approver_that_raise(tmp_path, caplog):
    def breaks() -> str:
        """Break."""
        raise LookupError("no such row")

    def guard(_payload):
        raise LookupError("no such guard")

    async def ask(_request):
        raise LookupError("no such person")

    model = ScriptedModel({"lead": [("python__breaks", {}), ("Bash", {"command": "touch x"}), "done"]})
    hooks = [Hook("PreToolUse", guard, matcher="Bash")]
    with caplog.at_level(logging.INFO, "teamwright"):
        async with Team("crew", model=model, cwd=tmp_path, tools=[breaks], hooks=hooks, on_request=ask) as team:
            await team.run("Go.")
    traces = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert traces == ["no such row", "no such guard", "no such person"]
    assert any(record.name == "teamwright" and record.levelno == logging.WARNING for record in caplog.records)


@pytest.mark.finding("3F1")
async def test_the_logger_names_the_background_commands_that_end_with_a_team(tmp_path, caplog):
    sleeps = ("Bash", {"command": "exec sleep 600", "run_in_background": True})
    model = ScriptedModel({"lead": [sleeps, "done"]})
    with caplog.at_level(logging.WARNING, "teamwright"):
        async with Team("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions") as team:
            await team.run("Go.")
    assert any("end with the team" in one.getMessage() and "sleep 600" in one.getMessage() for one in caplog.records)
