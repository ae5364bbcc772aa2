"""A kill while a request is open: nobody waits any more, which whoever answers is told, and a resume closes it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from teamwright import RequestClosed, Team
from teamwright.approvals import answer_request, open_requests
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.session.approvals.test_lead_answers import MAKE, Leading, answer, wire
from tests.session.approvals.test_queue import told
from tests.support.waits import WAIT_S

LIFE = """
import asyncio, sys
from teamwright import Team
from teamwright.testing import ScriptedModel

MODE, MEMBER_MODE = sys.argv[1], sys.argv[2] or None

async def main():
    make = ("Bash", {"command": "install /dev/null made"})
    model = ScriptedModel({"lead": ["ok"] * 5, "ada": [make, "done"]})
    told = lambda request: print(request.request, flush=True)
    async with Team("crew", model=model, permission_mode=MODE, on_request=told) as team:
        await team.spawn("ada", "Go.", mode=MEMBER_MODE)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def killed_while_it_waits(cwd: Path, mode: str = "default", member_mode: str = "") -> str:
    """A team whose process is killed while ada waits for an answer; the id of her request."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIFE, mode, member_mode, cwd=cwd, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        line = await asyncio.wait_for(child.stdout.readline(), WAIT_S)
        id = line.decode().strip()
        [request] = open_requests(find_home())
        assert (request.id, request.is_alive, request.pid) == (id, True, child.pid)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        await child.wait()
    return id


@pytest.mark.promise("P4", "P5", "F44", "G4")
@pytest.mark.slow
async def test_after_a_kill_nobody_waits_and_the_next_life_closes_the_request_and_the_call(tmp_path):
    id = await killed_while_it_waits(tmp_path)
    [request] = open_requests(find_home())
    assert not request.is_alive and request.resume == "teamwright resume crew"
    assert answer_request(find_home(), id, RequestAnswer(verdict="allow")).kind == "gone"
    model = ScriptedModel({"lead": ["ok"] * 5, "ada": ["I read that it was cut off."] * 3})
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=model, cwd=tmp_path) as team:
        assert open_requests(find_home()) == []
        await team.run("Go on.")
        log = team.session.log.path
        box = request.box
    closed = [one for one in map(json.loads, log.read_text().splitlines()) if one["type"] == RequestClosed.KIND]
    assert [(one["request"], one["verdict"], one["by"]) for one in closed] == [(id, "deny", "cancelled")]
    assert not list(box.glob("*.json"))
    assert "interrupted before it ended" in told(model, "ada")
    outcome = answer_request(find_home(), id, RequestAnswer(verdict="allow"))
    assert (outcome.kind, outcome.by) == ("late", "cancelled")
    assert not (tmp_path / "made").exists()


@pytest.mark.promise("P4", "C4", "G4")
@pytest.mark.slow
async def test_a_lead_that_was_asked_before_the_kill_reads_after_it_that_it_is_over(tmp_path):
    id = await killed_while_it_waits(tmp_path, "bypassPermissions", "delegate")
    lead = Leading(answer(True, id), member=["ok"] * 3)
    team = Team.resume("crew", model=lead.model, cwd=tmp_path, permission_mode="bypassPermissions")
    async with asyncio.timeout(WAIT_S), team:
        await team.run("Go on.")
        assert len(wire(team, "team-lead", "permission_request")) == 1
        assert not wire(team, "ada", "permission_response")
    words = told(lead.model)
    assert "It was answered: the agent that asked no longer waits" in words
    assert "was answered before: denied by cancelled" in words
    assert not (tmp_path / "made").exists()


@pytest.mark.promise("P4", "G4")
@pytest.mark.slow
async def test_a_member_that_goes_on_may_ask_again_and_is_answered(tmp_path):
    await killed_while_it_waits(tmp_path)
    asked: list[str] = []

    async def allow(request) -> None:
        asked.append(request.member)
        await request.allow()

    model = ScriptedModel({"lead": ["ok"] * 5, "ada": [MAKE, "done", "ok"]})
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=model, cwd=tmp_path, on_request=allow) as team:
        await team.run("Go on.")
    assert asked == ["ada"] and (tmp_path / "made").exists()
