"""MCP servers under the real program: named by a flag, looked at by others, left by a kill and ended by the resume."""

import json
import sys
from pathlib import Path

import pytest

from teamwright.processes.process_tree import list_processes
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program, told_results

SERVER = str(Path(__file__).parents[1] / "mcp" / "stdio_server.py")
CALL = ("mcp__plain__pid", {})


def config(*habits: str) -> str:
    return json.dumps({"mcpServers": {"plain": {"command": sys.executable, "args": [SERVER, *habits]}}})


def session_of(program: Program) -> Path:
    [path] = program.home.glob("projects/*/*.jsonl")
    return path.with_suffix("")


def family_of(pid: int) -> set[int]:
    return {row.pid for row in list_processes() if pid in {row.pid, row.parent, row.group}}


@pytest.mark.slow
@pytest.mark.promise("H7", "F21", "F62", "P3")
def test_a_killed_program_s_servers_are_seen_and_ended_by_the_resume_which_calls_them_again(tmp_path, repo):
    mark = Mark(tmp_path / "mark")
    hang = Answer("", tools=[("Bash", {"command": f"echo here > {mark.path}; sleep 300"})])
    with LoopbackModel.in_thread([Answer("", tools=[("TeamCreate", {"team_name": "crew"}), CALL]), hang]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        run = ("--dangerously-skip-permissions", "--mcp-config", config("child", "stubborn"))
        process = program.start("-p", "begin", *run)
        mark.wait()
        [_, first] = [told["text"] for told in told_results(server.bodies[-1])]
        state = json.loads((session_of(program) / "mcp.json").read_text())
        assert [(one["name"], one["state"], str(one["pid"])) for one in state["servers"]] == [
            ("plain", "running", first)
        ]
        assert f"plain   running  14     {first}" in program.run("status", "crew").stdout
        left = family_of(int(first))
        assert len(left) == 2
        process.kill()
        process.communicate(timeout=WAIT_S)
        assert left & {row.pid for row in list_processes()}
    with LoopbackModel.in_thread([Answer("", tools=[CALL]), Answer("Done.")]) as server:
        program.url = server.url
        done = program.run("-p", "go on", "-c", *run)
        assert done.returncode == 0, done.stderr
        [*_, second] = [told["text"] for told in told_results(server.bodies[-1])]
    assert second.isdecimal() and second != first
    assert not (left | {int(second)}) & {row.pid for row in list_processes()}
    assert not list((session_of(program) / "processes").glob("*.json"))


@pytest.mark.promise("H7", "H8")
@pytest.mark.slow
def test_a_headless_run_names_its_servers_and_a_denied_call_by_its_own_name(tmp_path, repo):
    calls = [("McpCall", {"server": "plain", "tool": "pid", "arguments": {}})]
    with LoopbackModel.in_thread([Answer("", tools=calls), Answer("Done.")]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "go", "--mcp-config", config(), "--output-format", "stream-json", "--verbose")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["mcp_servers"] == [{"name": "plain", "status": "connected"}]
    assert "mcp__plain__echo" in lines[0]["tools"] and "McpCall" in lines[0]["tools"]
    assert [one["tool_name"] for one in lines[-1]["permission_denials"]] == ["mcp__plain__pid"]


@pytest.mark.promise("H7")
def test_a_server_that_does_not_start_is_named_at_the_start_of_the_run(tmp_path, repo):
    given = json.dumps({"mcpServers": {"gone": {"command": "no-such-program-here"}}})
    with LoopbackModel.in_thread([Answer("Done.")]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "go", "--mcp-config", given)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert 'teamwright: the MCP server "gone" could not be started: no-such-program-here' in done.stderr


def test_doctor_tells_of_servers_without_starting_them(tmp_path, repo):
    program = Program(repo, tmp_path / "home")
    touched = tmp_path / "touched"
    entries = {
        "good": {"command": "touch", "args": [str(touched)]},
        "gone": {"command": "no-such-program-here"},
        "odd": {"command": "x", "args": ["${NOT_SET_ANYWHERE}"]},
    }
    program.settings(mcpServers=entries)
    rows = json.loads(program.run("doctor", "--json", "--model", "scripted:x").stdout)["findings"]
    found = {row["label"]: row for row in rows if row["section"] == "servers"}
    assert "never seen yet" in found["good"]["value"] and found["good"]["verdict"] == "ok"
    assert found["gone"]["verdict"] == "note" and "no-such-program-here is not found" in found["gone"]["do"]
    assert "NOT_SET_ANYWHERE is not set" in found["left out"]["value"]
    assert not touched.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [(["--mcp-config", "nothing.json"], "No such file"), (["--mcp-config", "{}"], "it has no mcpServers")],
)
def test_a_flag_that_names_no_servers_is_refused_before_anything_starts(tmp_path, repo, args, said):
    done = Program(repo, tmp_path / "home").run("-p", "x", *args)
    assert done.returncode == 2 and said in done.stderr and "[usage]" in done.stderr
