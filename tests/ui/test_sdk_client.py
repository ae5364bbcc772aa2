"""The vendor's Python SDK as a client of this program: it starts the program by `cli_path` and reads its lines.

The SDK is installed once, into an environment in pytest's cache; where that cannot be done the tests say why they skip.
The program that the SDK brings is removed, and never started.
"""

import json
import shlex
import subprocess
import venv

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import is_session_note
from tests.support.preloaded import COMMAND
from tests.support.programs import require
from tests.support.waits import WAIT_S
from tests.ui.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.finding("C8")]

INSTALL_S = 300.0

CLIENT = """
import asyncio, json, sys
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, query

async def main():
    options = ClaudeAgentOptions(cli_path=sys.argv[1], cwd=sys.argv[2], **json.loads(sys.argv[3]))
    seen = []
    async for message in query(prompt="Read main.py", options=options):
        seen.append(message)
    print(json.dumps([type(one).__name__ for one in seen if type(one).__name__ != "SystemMessage"]))
    print(json.dumps([seen[-1].result, seen[-1].subtype, seen[-1].is_error, seen[-1].num_turns]))
    async with ClaudeSDKClient(options=options) as client:
        for prompt in ("One", "Two"):
            await client.query(prompt)
            print(json.dumps([one.result async for one in client.receive_response() if hasattr(one, "result")]))

asyncio.run(main())
"""

EXAMPLES = """
import asyncio, json, os, sys
import claude_agent_sdk as sdk

base = {"cli_path": sys.argv[1], "cwd": sys.argv[2]}
kept = []

async def collect(messages):
    async for message in messages:
        kept.append(message)

def results():
    return [one.result for one in kept if isinstance(one, sdk.ResultMessage)]

async def streaming_input():
    async def prompts():
        for text in ("One", "Two"):
            yield {"type": "user", "message": {"role": "user", "content": text}}
    await collect(sdk.query(prompt=prompts(), options=sdk.ClaudeAgentOptions(**base)))
    return results()

async def hooks():
    called = []
    async def guard(given, tool_use_id, context):
        called.append(given["tool_input"]["command"])
        if given["tool_input"]["command"] != "rm main.py":
            return {}
        said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "no rm"}
        return {"hookSpecificOutput": said}
    matchers = {"PreToolUse": [sdk.HookMatcher(matcher="Bash", hooks=[guard])]}
    await collect(sdk.query(prompt="hooks", options=sdk.ClaudeAgentOptions(**base, hooks=matchers)))
    return [called, results()]

async def permissions():
    asked = []
    async def can_use_tool(name, given, context):
        asked.append([name, given["file_path"], bool(context.tool_use_id), [one.type for one in context.suggestions]])
        if "refused" in given["file_path"]:
            return sdk.PermissionResultDeny(message="not there")
        return sdk.PermissionResultAllow(updated_input={**given, "content": "changed"})
    options = sdk.ClaudeAgentOptions(**base, can_use_tool=can_use_tool)
    async with sdk.ClaudeSDKClient(options=options) as client:
        await client.query("permissions")
        await collect(client.receive_response())
    return [asked, results()]

async def mcp_server():
    @sdk.tool("add", "Add two numbers", {"a": float, "b": float})
    async def add(args):
        return {"content": [{"type": "text", "text": f"sum {args['a'] + args['b']}"}]}
    server = sdk.create_sdk_mcp_server(name="calc", version="1.0.0", tools=[add])
    options = sdk.ClaudeAgentOptions(**base, mcp_servers={"calc": server}, allowed_tools=["mcp__calc__add"])
    await collect(sdk.query(prompt="mcp_server", options=options))
    return results()

async def interrupts():
    options = sdk.ClaudeAgentOptions(**base, permission_mode="bypassPermissions")
    async with sdk.ClaudeSDKClient(options=options) as client:
        await client.query("interrupts")
        async for message in client.receive_messages():
            if isinstance(message, sdk.AssistantMessage):
                break
        await client.interrupt()
        ended = [one.subtype async for one in client.receive_response() if isinstance(one, sdk.ResultMessage)]
        await client.set_permission_mode("acceptEdits")
        await client.set_model("haiku")
        await client.query("One")
        await collect(client.receive_response())
    return [ended, results()]

async def partial_messages():
    options = sdk.ClaudeAgentOptions(**base, include_partial_messages=True)
    await collect(sdk.query(prompt="One", options=options))
    events = [one.event for one in kept if type(one).__name__ == "StreamEvent"]
    return ["".join(one["delta"].get("text", "") for one in events if one["type"] == "content_block_delta"), results()]

async def saved_sessions():
    await collect(sdk.query(prompt="One", options=sdk.ClaudeAgentOptions(**base)))
    os.environ["CLAUDE_CONFIG_DIR"] = os.environ["TEAMWRIGHT_HOME"]
    return [one.first_prompt for one in sdk.list_sessions(directory=sys.argv[2])]

async def errors():
    try:
        await collect(sdk.query(prompt="errors", options=sdk.ClaudeAgentOptions(**base)))
    except sdk.ResultError as problem:
        facts = [problem.subtype, problem.api_error_status, problem.terminal_reason]
        return [*facts, results() == problem.errors]

async def quiet_stderr():
    lines = []
    options = sdk.ClaudeAgentOptions(**base, stderr=lines.append)
    await collect(sdk.query(prompt="One", options=options))
    return lines

async def subagents():
    agents = {"helper": sdk.AgentDefinition(description="Helps", prompt="You help.")}
    found = []
    for asks in (False, True):
        kept.clear()
        options = sdk.ClaudeAgentOptions(**base, agents=agents, forward_subagent_text=asks)
        await collect(sdk.query(prompt="subagents", options=options))
        found.append(any(getattr(one, "parent_tool_use_id", None) for one in kept))
    return found

print(json.dumps(asyncio.run(globals()[sys.argv[3]]())))
"""

SCRIPTED = {
    "hooks": [("Bash", {"command": "rm main.py"}), ("Bash", {"command": "ls"})],
    "permissions": [("Write", {"file_path": name, "content": "x"}) for name in ("kept.txt", "refused.txt")],
    "mcp_server": [("mcp__calc__add", {"a": 1, "b": 2})],
    "interrupts": [("Bash", {"command": "sleep 600"})],
    "subagents": [("Agent", {"description": "d", "prompt": "help me", "subagent_type": "helper"})],
}
"""The calls of the model, by the prompt."""

EXPECTED = {
    "streaming_input": ["Done.", "Done."],
    "hooks": [["rm main.py", "ls"], ["Done."]],
    "permissions": [[["Write", "kept.txt", True, ["setMode"]], ["Write", "refused.txt", True, ["setMode"]]], ["Done."]],
    "mcp_server": ["Done: sum 3"],
    "interrupts": [["error_during_execution"], ["Done."]],
    "partial_messages": ["Done.", ["Done."]],
    "saved_sessions": ["One"],
    "errors": ["success", 400, "api_error", True],
    "quiet_stderr": [],
    "subagents": [False, True],
}
"""The output of each example."""


@pytest.fixture(scope="session")
def sdk(request):
    """The interpreter of an environment with the SDK."""
    root = request.config.cache.mkdir("claude-agent-sdk")
    python = root / "bin" / "python"
    done = root / "installed"
    if not done.exists():
        venv.create(root, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "claude-agent-sdk"]
        try:
            subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_S)
        except (subprocess.SubprocessError, OSError) as problem:
            pytest.skip(f"claude-agent-sdk could not be installed: {type(problem).__name__}")
        for bundled in root.glob("lib/python3*/site-packages/claude_agent_sdk/_bundled/claude"):
            bundled.unlink()
        done.touch()
    return python


@pytest.fixture
def command(tmp_path):
    """The program as one executable file."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("prompt", [None, "You are a reader of files."], ids=["usual prompt", "own prompt"])
def test_the_sdk_of_the_vendor_drives_this_program(tmp_path, repo, sdk, command, prompt):
    def script(body):
        text = json.dumps(body["messages"])
        reads = "Read main.py" in text and "tool_result" not in text
        return Answer("Reading.", tools=[("Read", {"file_path": "main.py"})]) if reads else "Done."

    options = json.dumps({"allowed_tools": ["Read"], "max_turns": 5, "system_prompt": prompt})
    with LoopbackModel.in_thread(script) as server:
        done = run_client(sdk, CLIENT, command, Program(repo, tmp_path / "home", server.url), options)
        first = server.bodies[0]["system"][0]["text"]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        ["AssistantMessage", "UserMessage", "AssistantMessage", "ResultMessage"],
        ["Done.", "success", False, 2],
        ["Done."],
        ["Done."],
    ]
    assert first.startswith(prompt or "You are a coding agent.")


@pytest.mark.finding("3I9", "3I10", "3I11")
@pytest.mark.parametrize("example", EXPECTED)
def test_the_documented_uses_of_the_sdk_work(tmp_path, repo, sdk, command, example):
    def script(body):
        last = [block for block in body["messages"][-1]["content"] if not is_session_note(block.get("text", ""))]
        if last[0]["type"] == "tool_result":
            return "Done: sum 3" if last[0]["content"] == "sum 3" else "Done."
        if last[0]["text"] == "errors":
            return Status(400, "no such field")
        calls = SCRIPTED.get(last[0]["text"]) if last[0]["type"] == "text" else None
        return Answer("At work.", tools=calls) if calls else "Done."

    with LoopbackModel.in_thread(script) as server:
        done = run_client(sdk, EXAMPLES, command, Program(repo, tmp_path / "home", server.url), example)
    assert json.loads(done.stdout) == EXPECTED[example]
    if example == "permissions":
        assert (repo / "kept.txt").read_text() == "changed"
        assert not (repo / "refused.txt").exists()


def run_client(sdk, code, command, program, argument):
    """Run the code of a client in the SDK's environment, to its end."""
    args = [str(sdk), "-c", code, str(command), str(program.cwd), argument]
    done = subprocess.run(args, env=program.environment, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done


TYPESCRIPT = """
import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const add = tool("add", "Add two numbers", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
  content: [{ type: "text", text: `sum ${a + b}` }],
}));
const options = {
  pathToClaudeCodeExecutable: process.argv[2],
  cwd: process.argv[3],
  systemPrompt: "You count.",
  mcpServers: { calc: createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] }) },
  permissionMode: "bypassPermissions",
  allowDangerouslySkipPermissions: true,
  thinking: { type: "enabled", budgetTokens: 2000 },
  maxTurns: 3,
};
const run = query({ prompt: "mcp_server", options });
const models = await run.supportedModels();
for await (const message of run) {
  if (message.type === "result") console.log(JSON.stringify([message.subtype, message.result, models.length > 0]));
}
"""


@pytest.fixture(scope="module")
def typescript(request):
    """An npm project with the SDK, without the program that the SDK can bring."""
    require("node")
    require("npm")
    place = request.config.cache.mkdir("typescript-sdk")
    if not (place / "node_modules" / "@anthropic-ai" / "claude-agent-sdk").is_dir():
        install = ["npm", "install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", "."]
        done = subprocess.run(
            [*install, "zod", "@anthropic-ai/claude-agent-sdk"], cwd=place, capture_output=True, timeout=INSTALL_S
        )
        if done.returncode != 0:
            pytest.skip(f"the SDK could not be installed: {done.stderr.decode()[-300:]}")
    return place


@pytest.mark.finding("3I1", "3I2", "3I7")
def test_the_typescript_sdk_runs_with_instructions_and_tools_of_its_own(tmp_path, repo, typescript):
    (typescript / "client.mjs").write_text(TYPESCRIPT)

    def script(body):
        if "sum 3" in json.dumps(body["messages"]):
            return "Done: sum 3"
        return Answer("", tools=SCRIPTED["mcp_server"])

    with LoopbackModel.in_thread(script) as server:
        program = Program(repo, tmp_path / "home", server.url)
        start = tmp_path / "teamwright"
        start.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
        start.chmod(0o755)
        done = subprocess.run(
            ["node", "client.mjs", str(start), str(repo)],
            cwd=typescript,
            env=program.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
    assert json.loads(done.stdout) == ["success", "Done: sum 3", True], done.stderr
    assert server.bodies[0]["system"][0]["text"].startswith("You count.")
