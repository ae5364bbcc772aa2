"""A background command that waits for an input is told to its owner, which ends it, and to the person."""

import asyncio
import re

import pytest

from teamwright.agent import silent_jobs
from teamwright.agent.silent_jobs import SilenceSettings
from teamwright.protocol.events import Notice
from teamwright.session.control.action_table import list_running
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team

ASKS = ("Bash", {"command": "printf 'Remove all? [y/N] '; exec sleep 600", "run_in_background": True})


@pytest.mark.finding("S7")
@pytest.mark.parametrize("member", ["team-lead", "ann"])
async def test_the_owner_is_told_the_question_and_stops_the_command(tmp_path, monkeypatch, member):
    monkeypatch.setattr(silent_jobs, "SilenceSettings", lambda: SilenceSettings(0.01))
    seen: list[str] = []
    shown: list[str] = []
    stopped = asyncio.Event()

    def says(request):
        if request.agent_name != member:
            return "ok"
        words = request.items[-1].decode()
        if "seems to wait for an input" in words and not seen:
            seen.append(words)
            shown.extend(list_running(team.session.agent_factory, member))
            return ("TaskStop", {"task_id": re.search(r"<task-id>(\w+)<", words)[1]})
        if not seen:
            return ASKS if b'"tool_result"' not in b"".join(request.items) else "I wait."
        stopped.set()
        return "Done."

    async with a_team(tmp_path, ScriptedModel(says)) as team:
        warnings: list[Notice] = []
        warned = asyncio.Event()

        def note(_number, event):
            if isinstance(event, Notice) and "seems to wait" in event.text:
                warnings.append(event)
                warned.set()

        team.session.log.subscribe(note)
        async with asyncio.timeout(WAIT_S):
            if member == "ann":
                await team.spawn("ann", "Remove it.")
            await team.run("Go.")
            await warned.wait()
            await team.run("Go on.")
            await stopped.wait()
        assert not team.session.jobs.running()
    assert len(seen) == 1 and "Remove all? [y/N]" in seen[0] and "<status>" not in seen[0]
    assert any("it seems to wait for an input" in line for line in shown)
    [warning] = warnings
    assert (warning.member, warning.level) == (member, "warning")
