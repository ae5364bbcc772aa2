"""What a member works with: skills, memory, servers, your shell, former contents, a pace, forks; wherever it lives."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Status
from tests.parity.house import call, house, write

pytestmark = pytest.mark.slow_after(1)

SERVER = Path(__file__).parents[1] / "mcp" / "stdio_server.py"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def use_of(body, tool: str) -> int:
    """How many calls of a tool a request shows."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return sum(block.get("type") == "tool_use" and block["name"] == tool for block in blocks)


@pytest.mark.promise("H4")
async def test_a_member_uses_a_skill_of_the_user(tmp_path, backend):
    text = "---\nname: greet\ndescription: Greets.\n---\nSay good morning to $ARGUMENTS.\n"
    put(tmp_path / "home/skills/greet/SKILL.md", text)
    async with house(tmp_path, backend, {"ann": [call("Skill", skill="greet", args="the whale")]}) as crew:
        await crew.spawn("ann")
        await crew.asked("ann", 2)
        await crew.quiet()
        told = json.dumps(crew.parts.of("ann")[-1]["messages"])
    assert "Say good morning to the whale." in told


@pytest.mark.promise("H4")
async def test_a_kind_with_a_memory_reads_it_at_birth_and_writes_it_unasked(tmp_path, backend):
    put(tmp_path / "home/agents/keeper.md", "---\nname: keeper\ndescription: k\nmemory: user\n---\nYou keep.\n")
    memory = put(tmp_path / "home/agent-memory/keeper/MEMORY.md", "The whale is white.\n")
    ann = [call("Read", file_path=str(memory)), write(str(memory), "The whale was white.\n"), "kept"]
    async with house(tmp_path, backend, {"ann": ann}) as crew:
        await crew.spawn("ann", agent_type="keeper")
        body = await crew.asked("ann", 3)
        await crew.quiet()
    assert "The whale is white." in json.dumps(body["messages"][0])
    assert memory.read_text() == "The whale was white.\n"
    assert not crew.requests


@pytest.mark.promise("H7", "F21", "F62")
async def test_a_server_that_ends_is_started_again_by_the_next_call_and_none_is_left(tmp_path, backend):
    servers = {"plain": {"command": sys.executable, "args": [str(SERVER)]}}
    pid = call("mcp__plain__pid")
    pids = []

    def killed(_body):
        pids.append(int(crew.results("ann")[-1]))
        os.kill(pids[0], signal.SIGKILL)
        return pid

    options = {"mcp_servers": servers, "permission_mode": "bypassPermissions"}
    async with house(tmp_path, backend, {"ann": [pid, killed, pid, "done"]}, **options) as crew:
        await crew.spawn("ann")
        await crew.asked("ann", 4)
        await crew.quiet()
        last = crew.results("ann")[-1]
    assert last.isdecimal() and int(last) != pids[0]
    for one in (pids[0], int(last)):
        with pytest.raises(ProcessLookupError):
            os.kill(one, 0)


@pytest.mark.promise("K6", "P5")
async def test_what_a_member_edits_is_taken_back_with_the_last_prompt(tmp_path, backend):
    put(tmp_path / "work/a.txt", "one\n")
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    ann = [call("Read", file_path="a.txt"), edit, write("new.txt"), "done"]
    async with house(tmp_path, backend, {"ann": ann, "lead": ["go on"]}, permission_mode="acceptEdits") as crew:
        await crew.team.run("Begin.")
        await crew.spawn("ann")
        await crew.asked("ann", 4)
        await crew.quiet()
        session = crew.team.session.id
    assert (tmp_path / "work/a.txt").read_text() == "two\n"
    done = crew.command("undo", session, "--yes")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work/a.txt").read_text() == "one\n" and not (tmp_path / "work/new.txt").exists()


@pytest.mark.promise("E7")
async def test_a_command_knows_the_functions_of_the_users_shell_which_starts_once(tmp_path, backend, monkeypatch):
    put(tmp_path / "person/.bashrc", f'echo began >> {tmp_path}/began\nwhale() {{ echo "a white $1"; }}\n')
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("SHELL", "/bin/bash")
    given = {name: [call("Bash", command="whale whale"), "done"] for name in ("ann", "bob")}
    async with house(tmp_path, backend, given, permission_mode="bypassPermissions") as crew:
        for name in given:
            await crew.spawn(name)
            await crew.asked(name, 2)
        await crew.quiet()
        results = [crew.results(name)[-1] for name in given]
    assert results == ["a white whale"] * 2
    assert (tmp_path / "began").read_text() == "began\n"


@pytest.mark.promise("F60", "H10")
async def test_a_limit_that_one_meets_holds_for_the_others_too(tmp_path, backend):
    given = {"ann": [Status(429, retry_after=2), "ann again."], "bob": ["ready", "bob again."]}
    async with house(tmp_path, backend, given) as crew:
        await crew.spawn("bob")
        await crew.quiet()
        await crew.spawn("ann")
        await crew.asked("ann", 1)
        await crew.team.send("bob", "go on")
        await crew.asked("bob", 2)
        await crew.quiet()
        order = [name for name, _ in crew.parts.bodies]
    [page] = [file for file in (tmp_path / "home/governors").iterdir() if len(file.name) == 32]
    assert json.loads(page.read_text().strip().rpartition(" ")[0])["epoch"] == 1
    assert sorted(order) == ["ann", "ann", "bob", "bob"]


@pytest.mark.promise("F41", "row F5")
async def test_a_member_has_forks_of_itself(tmp_path, backend):
    def ann(body):
        said = json.dumps(body["messages"])
        if "<fork-boilerplate " in said:
            return "I counted seven."
        if "I counted seven." in said:
            return "Seven, then."
        return "I wait." if use_of(body, "Agent") else call("Agent", description="count", prompt="Count the whales.")

    async with house(tmp_path, backend, {"ann": [ann] * 9}, settings={"agents": {"fork": True}}) as crew:
        await crew.spawn("ann")
        await crew.until(lambda: any("I counted seven." in json.dumps(one["messages"]) for one in crew.parts.of("ann")))
        await crew.quiet()
        bodies = crew.parts.of("ann")
    [fork] = [body for body in bodies if "<fork-boilerplate " in json.dumps(body["messages"])]
    assert fork["system"] == bodies[0]["system"] and fork["tools"] == bodies[0]["tools"]
    assert "Count the whales." in json.dumps(fork["messages"][-1])
