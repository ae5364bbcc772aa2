"""Checks of tasks and MCP servers of a repository run in the policy *work*; servers of a person do not."""

import json
import os
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import Call, ScriptedModel

pytestmark = pytest.mark.usefixtures("each_implementation")

SERVER = Path(__file__).parent / "writing_server.py"


def crew(tmp_path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"} | more
    return Team("crew", model=model, permission_mode="bypassPermissions", **options)


async def test_a_check_changes_the_project_and_nothing_outside(tmp_path):
    outside = f"/etc/teamwright-test-{os.getpid()}"
    complete = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = ScriptedModel([complete, "Done."])
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check=f"echo ran > inside.txt; echo x > {outside}")
        await team.run("Complete it.")
    assert (tmp_path / "work/inside.txt").read_text() == "ran\n" and not os.path.exists(outside)
    assert f"[The sandbox (policy work) refused to write {outside}." in model.request_text(1)


@pytest.mark.parametrize("place", ["repository", "person"])
async def test_an_mcp_server_of_a_repository_is_confined_and_one_of_a_person_is_not(tmp_path, place):
    work, outside = tmp_path / "work", Path(f"/var/lib/teamwright-test-{os.getpid()}")
    work.mkdir()
    entry = {"mcpServers": {"notes": {"command": "python3", "args": [str(SERVER), str(work / "in"), str(outside)]}}}
    more = {}
    if place == "repository":
        (work / ".mcp.json").write_text(json.dumps(entry))
    else:
        more = {"mcp_servers": entry["mcpServers"]}
    model = ScriptedModel([Call("mcp__notes__write", {}), "Done."])
    try:
        async with crew(tmp_path, model, trust=True, **more) as team:
            await team.run("Go.")
        assert "wrote" in model.request_text(1) and (work / "in").exists()
        assert outside.exists() == (place == "person")
    finally:
        outside.unlink(missing_ok=True)
