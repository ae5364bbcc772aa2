"""Our teams on a state root that is the other product's, and its stand-ins beside them."""

import json
import os

import pytest

from teamwright import Team
from tests.simulated_product.conftest import newer, older, strangers
from tests.support.waits import WAIT_S

__all__ = ["newer", "older", "shared_root", "strangers"]


@pytest.fixture
def patience_s():
    """Stand-ins wait for a lock here: without it the older format loses mail, and takes mail twice."""
    return WAIT_S


@pytest.fixture(autouse=True)
def shared_root(tmp_path, monkeypatch):
    """Both products keep their teams here."""
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / ".claude"))
    return tmp_path / ".claude"


def entry_of(team: Team, name: str, **more) -> dict:
    """A member of the other product, as its own lead writes the entry."""
    crew = team.session.team
    entry = {"agentId": f"{name}@{crew.name}", "name": name, "agentType": "general-purpose", "model": "haiku"}
    entry |= {"prompt": "x", "color": "purple", "planModeRequired": False, "joinedAt": 1795214741865}
    return entry | {"tmuxPaneId": "%7", "cwd": "/", "subscriptions": [], "backendType": "tmux"} | more


def on_roster(team: Team, name: str) -> dict | None:
    """Its entry now; None when there is none."""
    crew = team.session.team
    config = json.loads(crew.home.config(crew.directory).read_bytes())
    return next((one for one in config["members"] if one["name"] == name), None)


async def joined(team: Team, name: str, heard, **more) -> None:
    """A hand puts the entry into the roster; from now on our team knows that it is there."""
    crew = team.session.team
    path = crew.home.config(crew.directory)
    config = json.loads(path.read_bytes())
    config["members"].append(entry_of(team, name, **more))
    draft = path.with_name("by-hand")
    draft.write_text(json.dumps(config, indent=2))
    os.rename(draft, path)
    await heard.until(lambda: name in crew.external.external_names)
