"""A team is taken up by a session: what its former sessions left is dealt with, and a failure leaves nobody running."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.agent.background_jobs import Job, JobJournal
from teamwright.agent.prompt import restated_session_note
from teamwright.protocol.ids import LEAD
from teamwright.storage.paths import Home, find_home
from teamwright.team_records.team_state import TeamStateFile, read_team_file
from teamwright.testing import ScriptedModel
from tests.storage.test_leftovers import PROGRAM, lives
from tests.teams.crew import Holding, a_team, told, until

LEAVES_A_CHILD = "sleep 600 & echo $! > up; wait"


@pytest.fixture
def home(own_home) -> Home:
    return find_home()


def adopted(tmp_path, model) -> Team:
    return Team.adopt("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions")


async def leave_with_ada(tmp_path) -> Path:
    """A team that was left with an idle member; the directory of the session that led it."""
    async with a_team(tmp_path, ScriptedModel({"lead": ["ok"] * 9, "ada": ["Ready."]})) as team:
        ada = await team.spawn("ada", "Get ready.")
        await until(team, lambda: ada.state == "idle")
        return Path(team.session.team.log).parent


def killed_with_a_command(session: Path, tmp_path: Path) -> int:
    """A program with a command of this session is killed; the number of what stays behind."""
    argv = [sys.executable, "-c", PROGRAM, str(session), LEAVES_A_CHILD, ""]
    program = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path)
    assert program.stdout is not None and program.stdout.readline() == b"noted\n"
    while not (up := tmp_path / "up").exists() or not up.read_text().strip():
        pass
    program.kill()
    program.wait()
    return int(up.read_text())


@pytest.mark.promise("D8", "F05", "P3")
async def test_adopting_a_team_ends_what_its_former_session_left_running_and_tells_the_members(tmp_path, home):
    session = await leave_with_ada(tmp_path)
    pid = killed_with_a_command(session, tmp_path)
    journal = JobJournal(session)
    journal.record_start(Job("b000001", "ada", "", session / "out", pid, 0, "the long build"))
    journal.record_start(Job("b000002", LEAD, "", session / "out", pid, 0, "what only the former lead waits for"))
    assert lives(pid)
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["I start it again."]})
    async with adopted(tmp_path, model) as team:
        assert not lives(pid)
        await until(team, lambda: team.session.team.members["ada"].turns == 1)
        await team.run("Go on.")
    assert told(model, "ada").count("the long build") == 1
    assert "only the former lead" not in told(model, LEAD)
    assert [job.id for job in JobJournal(session).unreported()] == ["b000001"]
    async with Team.resume("crew", model=(again := ScriptedModel("ok")), cwd=tmp_path) as team:
        await team.run("And on.")
    assert JobJournal(session).unreported() == [] and not [r for r in again.requests if r.agent_name == "ada"]


@pytest.mark.promise("D8", "P3")
async def test_a_team_that_cannot_be_taken_up_to_the_end_leaves_nobody_running_and_can_be_resumed(tmp_path, home):
    await leave_with_ada(tmp_path)
    ghost = home.inbox("crew", "gus")  # of a member that was there once: it cannot be read when all are back
    ghost.mkdir()
    await TeamStateFile(home, "crew").change(lambda file: replace(file, incarnations={**file.incarnations, "gus": 1}))
    with pytest.raises(OSError):
        async with adopted(tmp_path, Holding({"lead": ["ok"] * 9, "ada": ["never"]}, "ada")):
            raise AssertionError("it could not be taken up")
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith(("member ", "deadline ", "scribe"))]
    ghost.rmdir()
    lead = read_team_file(home.team_file("crew")).lead
    async with Team.resume("crew", model=ScriptedModel("ok"), cwd=tmp_path) as team:
        assert team.session.id == lead.session
        assert [m.name for m in team.members] == ["ada"]


@pytest.mark.finding("P15")
async def test_a_member_of_an_adopted_team_keeps_the_key_of_its_session_note(tmp_path, home):
    session = await leave_with_ada(tmp_path)
    journal = JobJournal(session)
    journal.record_start(Job("b000001", "ada", "", session / "out", 0, 0, "the long build"))
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["I start it again."] * 9})
    async with adopted(tmp_path, model) as team:
        await until(team, lambda: team.session.team.members["ada"].turns == 1)
        ada, lead = team.session.team.find_in_process("ada").agent, team.session.lead.agent
        [fresh] = restated_session_note(ada)
    hers, leads = ada.tags.key, lead.tags.key
    assert hers and leads and hers != leads
    assert f'key="{hers}">\n# This session\n' in fresh["text"] and leads not in fresh["text"]
    assert f'key=\\"{hers}\\">\\n# This session\\n' in model.requests[-1].items[0].decode()
    assert f'<task-notification key=\\"{hers}\\">' in told(model, "ada") and leads not in told(model, "ada")
