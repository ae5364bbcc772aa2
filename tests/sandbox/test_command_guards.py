"""Files that commands create at protected paths are moved away, however the command ends."""

import asyncio

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.tool import ToolContext, Workplace
from teamwright.sandbox.policy import SandboxSettings
from teamwright.sandbox.sandbox import Sandbox
from teamwright.tools.shell.bash import Bash, BashInput
from teamwright.tools.shell.bash_settings import BashSettings
from tests.support.waits import WAIT_S, wait_until

CREATES = "echo ../evil > .git/commondir"
"""git would then read its configuration from a directory that the agent wrote, and run the programs in it."""


class Session:
    """The Bash tool of a session in the project of `confined`."""

    def __init__(self, confined) -> None:
        self.jobs = BackgroundJobs(grace_s=0.5)
        self.tool = Bash(self.jobs, BashSettings(grace_s=0.3), sandbox=Sandbox(SandboxSettings(), confined.place))
        place = Workplace(confined.work, (confined.work,), confined.state / "output", confined.state / "history")
        self.ctx = ToolContext("ada", place, "c1")
        self.created = confined.work / ".git/commondir"
        self.ready = confined.work / "ready"

    async def run(self, command: str, **more):
        return await asyncio.wait_for(self.tool.run(BashInput(command=command, **more), self.ctx), WAIT_S)

    async def wait_for_job(self, name: str) -> None:
        assert await self.jobs.wait(name, WAIT_S)


@pytest.fixture
async def session(confined, each_implementation):
    made = Session(confined)
    yield made
    await made.jobs.close()


async def test_a_file_that_a_background_command_creates_is_moved_away_at_its_end(session):
    begun = await session.run(f"{CREATES}; touch ready", run_in_background=True)
    await session.wait_for_job(begun.facts["job"])
    assert session.ready.exists() and not session.created.exists()


async def test_a_file_that_a_process_creates_after_its_command_is_moved_away(session):
    gate = "until test -e go; do sleep 0.05; done"
    result = await session.run(f"({gate}; {CREATES}; touch ready) & echo begun")
    assert "continue as" in result.content
    (session.ready.parent / "go").touch()
    await session.wait_for_job(session.jobs.list("ada")[-1].id)
    assert session.ready.exists() and not session.created.exists()


async def test_a_file_of_a_cancelled_command_is_moved_away(session):
    call = asyncio.create_task(session.run(f"{CREATES}; touch ready; sleep 600"))
    await asyncio.to_thread(wait_until, session.ready.exists)
    call.cancel()
    await asyncio.wait({call})
    assert not session.created.exists()


async def test_files_of_jobs_that_run_until_the_session_ends_are_moved_away(session):
    await session.run(f"{CREATES}; touch ready; sleep 600", run_in_background=True)
    await asyncio.to_thread(wait_until, session.ready.exists)
    await session.jobs.close()
    assert not session.created.exists()
