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
from teamwright.testing.replies import Answer
from tests.support.preloaded import COMMAND
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


@pytest.mark.parametrize("prompt", [None, "You are a reader of files."], ids=["usual prompt", "own prompt"])
def test_the_sdk_of_the_vendor_drives_this_program(tmp_path, repo, sdk, prompt):
    def script(body):
        text = json.dumps(body["messages"])
        reads = "Read main.py" in text and "tool_result" not in text
        return Answer("Reading.", tools=[("Read", {"file_path": "main.py"})]) if reads else "Done."

    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    options = json.dumps({"allowed_tools": ["Read"], "max_turns": 5, "system_prompt": prompt})
    with LoopbackModel.in_thread(script) as server:
        env = Program(repo, tmp_path / "home", server.url).environment
        done = subprocess.run(
            [str(sdk), "-c", CLIENT, str(program), str(repo), options],
            env=env,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert done.returncode == 0, done.stderr
        first = server.bodies[0]["system"][0]["text"]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        ["UserMessage", "AssistantMessage", "UserMessage", "AssistantMessage", "ResultMessage"],
        ["Done.", "success", False, 2],
        ["Done."],
        ["Done."],
    ]
    assert first.startswith(prompt or "You are a coding agent.")
