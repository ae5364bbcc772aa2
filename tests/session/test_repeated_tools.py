"""A model that makes one call, or two or three in turn, for ever: the turn ends, for every tool."""

import asyncio
import json
import random
import re
import sys
from pathlib import Path

import pytest

from teamwright import Budget, Team, tools
from teamwright.agent.repetition_guard import END_AT, LONG_END_AT
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

SERVER = str(Path(__file__).parents[1] / "mcp" / "stdio_server.py")

SETUP = [
    ("TaskCreate", {"subject": "first", "description": "d"}),
    ("Agent", {"name": "ada", "description": "waits", "prompt": "wait"}),
    ("Agent", {"description": "runs", "prompt": "JOB", "run_in_background": True}),
    ("TaskOutput", {"task_id": "{agent}", "block": True, "timeout": int(WAIT_S * 1_000)}),
]
"""What the lead does once before it repeats itself: a task, a member, a background agent that has ended."""

NOTEBOOK = {"notebook_path": "n.ipynb", "new_source": "x", "cell_type": "code", "edit_mode": "insert"}

CALLS = {
    "Agent": ("Agent", {"description": "again", "prompt": "JOB"}),
    "Agent in the background": ("Agent", {"description": "again", "prompt": "JOB", "run_in_background": True}),
    "Agent with a name": ("Agent", {"name": "bob", "description": "again", "prompt": "JOB"}),
    "AskUserQuestion": (
        "AskUserQuestion",
        {"questions": [{"question": "A?", "header": "h", "options": [{"label": "a"}, {"label": "b"}]}]},
    ),
    "Bash": ("Bash", {"command": "ls"}),
    "Bash in the background": ("Bash", {"command": "sleep 60", "run_in_background": True}),
    "Bash in the background that ends": ("Bash", {"command": "true", "run_in_background": True}),
    "Bash that fails": ("Bash", {"command": "false"}),
    "Edit": ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "aa"}),
    "EnterPlanMode": ("EnterPlanMode", {}),
    "ExitPlanMode": ("ExitPlanMode", {"plan": "p"}),
    "Glob": ("Glob", {"pattern": "*"}),
    "Grep": ("Grep", {"pattern": "a"}),
    "ListAgents": ("ListAgents", {}),
    "NotebookEdit": ("NotebookEdit", NOTEBOOK),
    "Read": ("Read", {"file_path": "a.txt"}),
    "SendMessage": ("SendMessage", {"to": "ada", "message": "hi", "summary": "s"}),
    "SendMessage to all": ("SendMessage", {"to": "*", "message": "hi", "summary": "s"}),
    "SendMessage to a sub-agent": ("SendMessage", {"to": "{agent}", "message": "hi", "summary": "s"}),
    "Skill": ("Skill", {"skill": "nothing"}),
    "TaskCreate": ("TaskCreate", {"subject": "same", "description": "d"}),
    "TaskGet": ("TaskGet", {"taskId": "1"}),
    "TaskList": ("TaskList", {}),
    "TaskOutput": ("TaskOutput", {"task_id": "{agent}", "block": True}),
    "TaskOutput without a wait": ("TaskOutput", {"task_id": "{agent}", "block": False}),
    "TaskStop": ("TaskStop", {"task_id": "{agent}"}),
    "TaskUpdate": ("TaskUpdate", {"taskId": "1", "description": "e"}),
    "TaskUpdate with a comment": ("TaskUpdate", {"taskId": "1", "comment": "e"}),
    "TeamCreate": ("TeamCreate", {"team_name": "other"}),
    "TeamDelete": ("TeamDelete", {}),
    "ToolSearch": ("ToolSearch", {"query": "notebook"}),
    "WebFetch": ("WebFetch", {"url": "http://127.0.0.1:9/", "prompt": "p"}),
    "WebSearch": ("WebSearch", {"query": "q"}),
    "Write": ("Write", {"file_path": "w.txt", "content": "w"}),
    "of an MCP server": ("mcp__plain__echo", {"text": "x"}),
    "of Python": ("lookup", {"word": "x"}),
    "unknown": ("Nothing", {}),
}

LONG = {
    "Bash that waits": ("Bash", {"command": "sleep 0"}),
    "Bash that changes a file": ("Bash", {"command": "echo x >> log"}),
    "Bash with a new result each time": ("Bash", {"command": "echo $RANDOM$RANDOM"}),
    "TaskOutput of what runs": ("TaskOutput", {"task_id": "{job}", "block": True, "timeout": 1}),
}
"""Calls that may bring something each time."""

SOME = ["SendMessage", "TaskCreate", "Bash in the background", "TaskOutput"]
"""The calls of the finding, without the mark `slow`."""


def lookup(word: str) -> str:
    """Look up a word."""
    return word


async def repeat(tmp_path, *rows, setup=SETUP, settings=None, **more):
    """A lead that makes these calls in turn for ever; how its turn ended and how many of them it made."""
    made = []

    def answer(request):
        text = b"".join(request.items).decode()
        if request.agent_name != "team-lead" or "JOB" in text.split("Go for ever.")[0]:
            return "k"
        number = len(made)
        made.append(number)
        tool, given = setup[number] if number < len(setup) else rows[(number - len(setup)) % len(rows)]
        agent, job = re.search(r"agentId: (a[0-9a-f]{6})", text), re.search(r"background as (b[0-9a-f]{6})", text)
        found = json.dumps(given).replace("{agent}", agent[1] if agent else "a000000")
        return tool, json.loads(found.replace("{job}", job[1] if job else "b000000"))

    servers = {"plain": {"command": sys.executable, "args": [SERVER]}} if rows[0][0].startswith("mcp") else {}
    place = tmp_path / "work"
    place.mkdir()
    (place / "a.txt").write_text("a\n")
    (place / "n.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    (tmp_path / "settings.json").write_text(json.dumps(settings or {}))
    options = {"permission_mode": "bypassPermissions", "cwd": place, "tools": [lookup], "mcp_servers": servers}
    options |= {"settings_file": tmp_path / "settings.json", "budget": Budget.unlimited(), **more}
    async with Team("crew", model=ScriptedModel(answer), **options) as team, asyncio.timeout(WAIT_S):
        result = await team.run("Go for ever.")
    return result, len(made) - len(setup)


@pytest.mark.finding("3W9")
@pytest.mark.parametrize("name", [pytest.param(one, marks=[] if one in SOME else [pytest.mark.slow]) for one in CALLS])
async def test_a_call_that_brings_nothing_ends_the_turn_at_the_sixth_time(tmp_path, name):
    result, made = await repeat(tmp_path, CALLS[name])
    assert (result.stop, result.limit) == ("limit", "repeats"), result.text
    # Notices about the first calls (a member is idle, a job has ended) are new once.
    assert END_AT <= made <= 2 * END_AT


@pytest.mark.finding("3W9")
@pytest.mark.parametrize("by", ["the settings", pytest.param("its type", marks=pytest.mark.slow)])
async def test_a_sub_agent_that_the_settings_or_its_type_put_in_the_background_is_no_new_work_either(tmp_path, by):
    settings = {"agents": {"background": "always"}} if by == "the settings" else {}
    kind = {"description": "d", "prompt": "p", "background": True}
    call = ("Agent", {"description": "again", "prompt": "JOB"})
    if by == "its type":
        call[1]["subagent_type"] = "helper"
    result, made = await repeat(tmp_path, call, settings=settings, agents={"helper": kind})
    assert (result.stop, result.limit) == ("limit", "repeats"), result.text
    assert END_AT <= made <= 2 * END_AT


@pytest.mark.slow
@pytest.mark.finding("3W9")
@pytest.mark.parametrize("name", LONG)
async def test_a_call_that_may_bring_something_ends_the_turn_at_the_hundredth_time(tmp_path, name):
    setup = [("Bash", {"command": "sleep 60", "run_in_background": True})]
    result, made = await repeat(tmp_path, LONG[name], setup=setup)
    assert (result.stop, result.limit, made) == ("limit", "repeats", LONG_END_AT)


@pytest.mark.slow
@pytest.mark.finding("3W9")
@pytest.mark.parametrize("seed", range(12))
async def test_calls_that_alternate_end_the_turn_too(tmp_path, seed):
    chance = random.Random(seed)
    rows = chance.sample(list(CALLS.values()) + list(LONG.values()), 2 + seed % 2)
    result, made = await repeat(tmp_path, *rows)
    assert (result.stop, result.limit) == ("limit", "repeats")
    assert made <= LONG_END_AT * len(rows)


def test_the_table_has_every_tool():
    names = {tool for tool, _ in CALLS.values()}
    entries = json.loads((Path(tools.__file__).parent / "built_in_tools.json").read_bytes())
    assert {entry["name"] for entry in entries.values()} <= names
