"""The short forms of the crash suite of the integration queue; `make crash` has the program."""

import asyncio
import os

import pytest

from tests.crash import worktree_storm
from tests.crash.integration import storm
from tests.support.waits import WAIT_S


@pytest.fixture(autouse=True)
def no_settings_of_git(monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


@pytest.mark.promise("P5")
@pytest.mark.finding("I4")
@pytest.mark.slow
async def test_a_killed_session_integrates_or_returns_each_commit_exactly_once(tmp_path):
    await storm(tmp_path, count=8, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(20 * WAIT_S)
async def test_a_storm_of_200_commits_survives_many_kills(tmp_path):
    await storm(tmp_path, count=200, kills=25, seed=0)


@pytest.mark.promise("P5")
@pytest.mark.finding("3W1")
@pytest.mark.finding("3W8")
@pytest.mark.slow
@pytest.mark.timeout(20 * WAIT_S)
async def test_deletions_renames_and_failing_hooks_between_kills_lose_no_finished_task(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / "home"))
    figures = await asyncio.to_thread(worktree_storm.storm, tmp_path, 2, 4)
    assert figures.kills and figures.faults
