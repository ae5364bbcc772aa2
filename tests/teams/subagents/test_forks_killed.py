"""Forks whose session is killed in the middle: told once, gone on with from the very bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.agent.fork_origin import FORK_TAG
from teamwright.protocol.ids import LEAD
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing import Call
from teamwright.views.audit.audit import audit
from tests.support.waits import WAIT_S
from tests.teams.subagents.crowd import notices_in, start
from tests.teams.subagents.test_forks import ON, Forking, job_of

CHILD = Path(__file__).with_name("mortal_forks.py")


def killed(tmp_path) -> list[str]:
    """The ids of the forks that ran when their session was killed."""
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as child:
        assert child.stdout is not None
        ids = child.stdout.readline().split()
        child.send_signal(signal.SIGKILL)
        child.wait(WAIT_S)
    assert len(ids) == 2
    return ids


def again(tmp_path, model) -> Team:
    more = {"permission_mode": "bypassPermissions", "settings_file": tmp_path / "given.json"}
    return Team.resume("crew", model=model, cwd=tmp_path / "work", **more)


@pytest.mark.promise("row F5", "F38", "F57")
@pytest.mark.slow
async def test_forks_that_a_kill_cut_off_are_told_once_and_go_on_from_the_bytes_that_they_began_with(tmp_path):
    count, other = killed(tmp_path)
    on = Call("Agent", {"description": "more", "prompt": "Finish.", "resume": count})
    model = Forking(on, "I wait.", count=["Counted.", "Sure."])
    async with again(tmp_path, model) as team:
        await team.run("Where are we?")
        runs = team.session.agents.runs
        assert [runs[id].state for id in (count, other)] == ["completed", "killed"]
        assert runs[count].agent_type == "fork" and runs[count].text == "Counted."
    asked = model.request_text(0)
    assert sorted(notices_in(asked)) == sorted([count, other]), "each is told once"
    lead = next(r for r in model.requests if r.agent_name == LEAD)
    fork = next(r for r in model.requests if r.agent_name == count)
    assert job_of(fork) == "count"
    answer = next(at for at, item in enumerate(lead.items) if b'"tool_use"' in item)
    assert fork.items[: answer + 1] == lead.items[: answer + 1], "its caller's history, byte for byte"
    assert FORK_TAG.encode() in fork.items[answer + 1] and fork.prefix.head == lead.prefix.head
    assert b"begun" in fork.items[answer + 2] and b"Finish." in fork.items[-1]
    found = audit(resolve_home(None), "crew", running=[os.getpid()])
    assert not found.transcripts.broken and found.transcripts.total == 3


@pytest.mark.promise("row F5", "F57")
@pytest.mark.slow
async def test_a_fork_of_which_only_its_transcript_is_left_is_still_a_fork(tmp_path):
    count, _ = killed(tmp_path)
    [journal] = Path(os.environ["TEAMWRIGHT_HOME"]).rglob("agents.jsonl")
    journal.unlink()
    on = Call("Agent", {"description": "more", "prompt": "Finish.", "resume": count})
    model = Forking(on, "I wait.", count=[start("deeper"), "Finished."])
    async with again(tmp_path, model) as team:
        await team.run("Where are we?")
        assert team.session.agents.runs[count].text == "Finished."
        assert len(team.session.agents.runs) == 1
    last = [r for r in model.requests if r.agent_name == count][-1]
    assert b"A fork starts no agents" in last.items[-1]
    assert ON and last.prefix.head == next(r for r in model.requests if r.agent_name == LEAD).prefix.head
