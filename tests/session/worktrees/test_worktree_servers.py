"""MCP servers with `"cwd": "worktree"` have one process in the worktree of each agent."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from teamwright.processes.process_tree import list_processes
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from teamwright.worktrees.worktree_record import list_records
from tests.session.mcp.test_session_servers import by_asker, results
from tests.support.repositories import commit, make_repository
from tests.teams.crew import a_team, until

PLACE = ("mcp__plain__place", {})
SERVER = Path(__file__).parents[2] / "mcp" / "stdio_server.py"


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    shop = make_repository(tmp_path / "shop")
    (shop / "tools").mkdir()
    shutil.copy(SERVER, shop / "tools/server.py")
    commit(shop, "a server")
    return shop


def place_of(model: ScriptedModel, name: str) -> list:
    last = [request for request in model.requests if request.agent_name == name][-1]
    return json.loads(results(last)[-1])


@pytest.mark.slow
async def test_each_worktree_has_a_process_of_the_server_with_the_program_of_the_checkout(shop):
    member = [PLACE, "Done."]
    agent = ("Agent", {"description": "Ask", "prompt": "Call it.", "isolation": "worktree"})
    model = ScriptedModel(by_asker({"team-lead": [PLACE, agent, "Done."], "ann": member, "ben": member, "*": member}))
    entry = {"command": sys.executable, "args": ["tools/server.py", "place"], "cwd": "worktree"}
    async with a_team(shop, model, keep=True, mcp_servers={"plain": entry}) as team:
        members = [await team.spawn(name, "Call it.", isolation="worktree") for name in ("ann", "ben")]
        await until(team, lambda: all(one.state == "idle" for one in members) and team.session.team.is_quiet())
        trees = {record.member: record.path for record in list_records(find_home().worktrees)[0]}
        places = {name: place_of(model, name) for name in ("ann", "ben")}
        for name in places:
            (tree_of_argv,) = [places[name][3][0]]
            assert places[name][1:3] == [trees[name], trees[name]]
            assert tree_of_argv == str(shop / "tools/server.py"), "the copy in the worktree may be changed"
        await team.run("Ask, and let another ask.")
        [sub] = {request.agent_name for request in model.requests} - {"team-lead", "ann", "ben"}
        places |= {"lead": json.loads(results(model.requests[-1])[0]), "sub": place_of(model, sub)}
        assert places["lead"][1:3] == [str(shop), str(shop)]
        assert places["sub"][1].startswith(str(find_home().worktrees))
        assert len({place[0] for place in places.values()}) == 4
        assert places["sub"][0] not in {row.pid for row in list_processes()}, "it ended with its agent"
        logs = {path.name for path in (team.session.log.path.parent / "mcp").glob("*.log")}
        assert len([name for name in logs if name.startswith("plain")]) >= 3
    assert not {row.pid for row in list_processes()} & {place[0] for place in places.values()}


async def test_a_server_without_it_is_shared_and_runs_in_the_directory_of_the_session(shop):
    model = ScriptedModel(by_asker({"team-lead": [PLACE, "Done."], "*": [PLACE, "Done."]}))
    entry = {"command": sys.executable, "args": [str(SERVER), "place"]}
    async with a_team(shop, model, keep=True, mcp_servers={"plain": entry}) as team:
        ann = await team.spawn("ann", "Call it.", isolation="worktree")
        await until(team, lambda: ann.state == "idle" and team.session.team.is_quiet())
        await team.run("Ask.")
        assert place_of(model, "ann") == json.loads(results(model.requests[-1])[0])
    assert place_of(model, "ann")[1] == str(shop)
