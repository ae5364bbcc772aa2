"""Files that commands create at protected paths are moved away, however the command ends."""

import asyncio
from pathlib import Path

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.tool import ToolContext, Workplace
from teamwright.permissions.call_grant import CallGrant
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
        place = Workplace(
            confined.work, lambda: (confined.work,), confined.state / "output", confined.state / "history"
        )
        self.ctx = ToolContext("ada", place, "c1", grant=CallGrant(directories=(confined.work,)))
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


@pytest.fixture
def own_hook(session, confined) -> Path:
    """A hook of the person that runs a file of the project."""
    hook = confined.work / ".git/hooks/post-checkout"
    hook.write_text("#!/bin/sh\nexec sh ./after-checkout\n")
    hook.chmod(0o755)
    return confined.work / "after-checkout"


COMMITS = "git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m begin"
BEGINS = "git checkout -q -b other"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ("git config core.fsmonitor ./evil", "core.fsmonitor"),
        ("git config core.hooksPath .", "core.hooksPath"),
        ("git config alias.status '!./evil'", "alias.status"),
        ("git config filter.x.clean ./evil", "filter.x.clean"),
        ("git config credential.helper ./evil", "credential.helper"),
        ("git config core.sshCommand ./evil", "core.sshCommand"),
        ("git config include.path ../evil", "include.path"),
        ("printf '[core] fsmonitor = ./evil\\n' >> .git/config", "a line"),
    ],
)
@pytest.mark.slow_after(1)
async def test_a_setting_that_a_hook_makes_and_that_runs_programs_is_undone_and_reported(
    session, confined, own_hook, changes, name
):
    config = confined.work / ".git/config"
    before = config.read_text()
    own_hook.write_text(f"{changes}; touch ran\n")
    await session.run(COMMITS)
    result = await session.run(BEGINS)
    assert (confined.work / "ran").exists() and config.read_text() == before
    assert "undid changes of protected paths" in result.content
    assert name in result.content or name == "a line"


@pytest.mark.slow_after(1)
async def test_settings_that_a_line_names_and_those_that_run_nothing_stay(session, confined):
    config = confined.work / ".git/config"
    for line in ("git remote add origin https://example.com/x", "git config alias.co checkout", "git lfs version"):
        result = await session.run(line)
        assert "undid" not in result.content
    assert "alias" in config.read_text() and "example.com" in config.read_text()
    result = await session.run("git config user.name core.fsmonitor && printf '\\tpager = ./evil\\n' >> .git/config")
    assert "exit code" in result.content or "undid" in result.content
    assert "evil" not in config.read_text()


@pytest.mark.slow_after(1)
async def test_a_setting_that_a_job_of_a_hook_makes_later_is_undone_at_its_end(session, confined, own_hook):
    own_hook.write_text(
        "(until test -e go; do sleep 0.05; done; git config core.fsmonitor ./evil; touch ready) </dev/null &\n"
    )
    await session.run(COMMITS)
    await session.run(BEGINS)
    (confined.work / "go").touch()
    await session.wait_for_job(session.jobs.list("ada")[-1].id)
    assert session.ready.exists() and "evil" not in (confined.work / ".git/config").read_text()
