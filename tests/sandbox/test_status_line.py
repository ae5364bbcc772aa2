"""The status line script of a person: git in it obeys the repository, so it runs confined while nobody trusts that."""

import json
import tempfile
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import ScriptedModel
from teamwright.ui.terminal.status_script import make_status_script
from tests.support.repositories import git, make_repository


@pytest.fixture
def place():
    """A directory that confined commands see: they have another /tmp."""
    with tempfile.TemporaryDirectory(prefix="teamwright-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.mark.finding("3P3", "3P5")
async def test_git_in_the_status_line_is_confined_from_the_moment_when_the_repository_names_a_program(
    place, each_implementation
):
    project, settings = make_repository(place / "project"), place / "settings.json"
    settings.write_text(json.dumps({"statusLine": {"command": "git status --short; echo row"}}))
    options = {"cwd": project, "home": place / "state", "settings_file": settings, "sandbox": "auto"}
    async with Team("crew", model=ScriptedModel([]), **options) as team:
        script = make_status_script(team.session, str, lambda: None)
        assert script is not None and await script.confine() is None
        assert await script.read_rows() == ("row",)
        git(project, "config", "core.fsmonitor", f"touch {place}/left; touch {project}/ran; false")
        assert await script.confine() is not None
        assert (await script.read_rows())[-1:] == ("row",)
        assert (project / "ran").exists() and not (place / "left").exists()
