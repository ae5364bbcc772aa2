"""Checks of tasks and MCP servers of a repository run in the policy *work*; servers of a person do not."""

import json
import os
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import Call, ScriptedModel
from tests.support.outside import writable_outside
from tests.support.repositories import git

pytestmark = pytest.mark.usefixtures("each_implementation")

SERVER = Path(__file__).parent / "writing_server.py"


def crew(tmp_path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"} | more
    return Team("crew", model=model, permission_mode="bypassPermissions", **options)


async def test_a_check_changes_the_project_and_nothing_outside(tmp_path):
    outside = str(writable_outside())
    complete = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = ScriptedModel([complete, "Done."])
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check=f"echo ran > inside.txt; echo x > {outside}")
        await team.run("Complete it.")
    assert (tmp_path / "work/inside.txt").read_text() == "ran\n" and not os.path.exists(outside)
    assert f"[The sandbox (policy work) refused to write {outside}." in model.request_text(1)


@pytest.mark.parametrize("place", ["repository", "person"])
@pytest.mark.slow_after(1)
async def test_an_mcp_server_of_a_repository_is_confined_and_one_of_a_person_is_not(tmp_path, place):
    work, outside = tmp_path / "work", writable_outside()
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


DENIED = {"permissions": {"deny": ["Read(secret.txt)", "Read(**/*.pem)"]}}


def deny_reads(tmp_path) -> Path:
    """Write two files, and rules that forbid to read them; return the project."""
    work, home = tmp_path / "work", tmp_path / "state"
    (work / "keys").mkdir(parents=True)
    home.mkdir()
    (work / "secret.txt").write_text("DENIED-ONE")
    (work / "keys/a.pem").write_text("DENIED-TWO")
    (home / "settings.json").write_text(json.dumps(DENIED))
    return work


async def test_a_check_does_not_read_what_rules_deny(tmp_path):
    deny_reads(tmp_path)
    model = ScriptedModel([Call("TaskUpdate", {"taskId": "1", "status": "completed"}), "Done."])
    async with crew(tmp_path, model) as team:
        await team.tasks.add("make it", check="cat secret.txt keys/a.pem; echo checked; exit 3")
        await team.run("Complete it.")
    assert "checked" in model.request_text(1) and "DENIED" not in model.request_text(1)


async def test_an_mcp_server_of_a_repository_reads_no_credentials_by_its_name_and_nothing_that_rules_deny(
    tmp_path, monkeypatch
):
    work = deny_reads(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person/.ssh").mkdir(parents=True)
    (tmp_path / "person/.ssh/id_ed25519").write_text("DENIED-KEY")
    (work / "open.txt").write_text("PLAIN")
    program = work / "tools/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec python3 {SERVER} "$@"\n')
    program.chmod(0o755)
    paths = [tmp_path / "person/.ssh/id_ed25519", work / "secret.txt", work / "keys/a.pem", work / "open.txt"]
    entry = {"command": str(program), "args": [f"read:{path}" for path in paths]}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    model = ScriptedModel([Call("mcp__notes__write", {}), "Done."])
    async with crew(tmp_path, model, trust=True) as team:
        await team.run("Go.")
    assert "PLAIN" in model.request_text(1) and "DENIED" not in model.request_text(1)


@pytest.mark.slow_after(1)
async def test_a_git_file_that_an_mcp_server_of_a_repository_created_is_moved_away_at_its_end(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "--quiet")
    created = work / ".git/commondir"
    entry = {"command": "python3", "args": [str(SERVER), str(created), str(work / "in.txt")]}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    model = ScriptedModel([Call("mcp__notes__write", {}), "Done."])
    async with crew(tmp_path, model, trust=True) as team:
        await team.run("Go.")
        assert "wrote wrote" in model.request_text(1) and created.exists()
    assert not created.exists() and (work / "in.txt").exists()
    [kept] = (tmp_path / "state").rglob("quarantine/commondir.*")
    assert kept.read_text() == "x"


def plugin(tmp_path: Path, **parts: object) -> Path:
    """Write a plugin with these parts, and a file of it that its programs read; return its directory."""
    made = tmp_path / "state/plugin-source"
    (made / ".claude-plugin").mkdir(parents=True)
    (made / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "p", **parts}))
    (made / "own.txt").write_text("OWN-FILE")
    return made


@pytest.mark.slow_after(1)
async def test_a_server_of_a_plugin_is_confined_reads_its_own_files_and_keeps_its_data(tmp_path):
    outside = writable_outside()
    made = plugin(tmp_path)
    data = "${CLAUDE_PLUGIN_DATA}/kept"
    args = [str(SERVER), f"read:{made}/own.txt", f"read:{tmp_path}/state/settings.json", data, str(outside)]
    (tmp_path / "state/settings.json").write_text('{"env": {"SECRET": "DENIED-STATE"}}')
    (made / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"command": "python3", "args": args}}}))
    model = ScriptedModel([Call("mcp__plugin_p_notes__write", {}), "Done."])
    try:
        async with crew(tmp_path, model, plugin_dirs=[made]) as team:
            await team.run("Go.")
        text = model.request_text(1)
        assert "OWN-FILE" in text and "DENIED" not in text and not outside.exists()
        assert (tmp_path / "state/plugin-data/p/kept").exists()
    finally:
        outside.unlink(missing_ok=True)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.slow_after(2)
async def test_a_hook_runs_in_the_sandbox_if_its_definition_asks_for_it(tmp_path, asks):
    outside, inside = writable_outside(), tmp_path / "work/inside"
    hook = {"type": "command", "command": f"cat > /dev/null; echo x > {inside}; echo x > {outside}", "sandbox": asks}
    (tmp_path / "state").mkdir()
    hooks = {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    (tmp_path / "state/settings.json").write_text(json.dumps({"hooks": hooks}))
    model = ScriptedModel([Call("Bash", {"command": "true"}), "Done."])
    try:
        async with crew(tmp_path, model) as team:
            await team.run("Go.")
        assert inside.exists() and outside.exists() is not asks
    finally:
        outside.unlink(missing_ok=True)
