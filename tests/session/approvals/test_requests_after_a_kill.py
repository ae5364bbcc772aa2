"""A kill while a request is open: the request waits for a resume, which closes it and asks for its call again."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from teamwright import RequestClosed, Team
from teamwright.approvals.answer_from_outside import answer_request
from teamwright.approvals.request_files import open_requests
from teamwright.protocol.events import RequestAnswer
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.session.approvals.test_lead_answers import ID, answer, wire
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
async def test_after_a_kill_the_request_waits_for_a_resume_which_closes_it_and_asks_for_the_call_again(tmp_path):
    id = await killed_while_it_waits(tmp_path)
    [request] = open_requests(find_home())
    assert (request.is_alive, request.waits_for_resume, request.resume) == (False, True, "teamwright resume crew")
    asked: list[tuple[str, str]] = []

    async def allow(request) -> None:
        asked.append((request.member, request.tool))
        await request.allow()

    model = ScriptedModel({"lead": ["ok"] * 5, "ada": ["done"] * 3})
    async with asyncio.timeout(WAIT_S), Team.resume("crew", model=model, cwd=tmp_path, on_request=allow) as team:
        await team.run("Go on.")
        log = team.session.log.path
    closed = [one for one in map(json.loads, log.read_text().splitlines()) if one["type"] == RequestClosed.KIND]
    assert [(one["verdict"], one["by"]) for one in closed] == [("deny", "cancelled"), ("allow", "program")]
    assert closed[0]["request"] == id and asked == [("ada", "Bash")]
    assert not list(request.box.glob("*.json"))
    assert "interrupted" not in told(model, "ada") and (tmp_path / "made").exists()
    outcome = answer_request(find_home(), id, RequestAnswer(verdict="deny"))
    assert (outcome.kind, outcome.by) == ("late", "cancelled")


@pytest.mark.promise("P4", "C4", "G4")
@pytest.mark.slow
async def test_a_lead_that_was_asked_before_the_kill_reads_after_it_that_this_is_over_and_is_asked_again(tmp_path):
    id = await killed_while_it_waits(tmp_path, "bypassPermissions", "delegate")
    to_answer = [id]

    def play(request):
        if request.agent_name != "team-lead":
            return "ok"
        known = ID.findall("\n".join(item.decode() for item in request.items))
        to_answer.extend(one for one in dict.fromkeys(known) if one not in (id, *answered, *to_answer))
        if not to_answer:
            return "ok"
        answered.append(to_answer.pop(0))
        return ("SendMessage", answer(True, answered[-1]))

    answered: list[str] = []
    model = ScriptedModel(play)
    team = Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions")
    async with asyncio.timeout(WAIT_S), team:
        await team.run("Go on.")
        assert len(wire(team, "team-lead", "permission_request")) == 2
        assert len(wire(team, "ada", "permission_response")) == 1
    words = told(model)
    assert "It was answered: the agent that asked no longer waits" in words
    assert "was answered before: denied by cancelled" in words
    assert len(answered) == 2 and (tmp_path / "made").exists()
