"""The short forms of the crash suite of the integration queue; `make crash` has the program."""

import os

import pytest

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
