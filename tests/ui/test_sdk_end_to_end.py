"""The end-to-end tests of the vendor's Python SDK, with this program as its executable and a scripted model.

They come from a checkout of github.com/anthropics/claude-agent-sdk-python: the one that the variable
`CLAUDE_AGENT_SDK_CHECKOUT` names, else one that is cloned into pytest's cache. Without either the test skips.
"""

import json
import os
import re
import shlex
import subprocess

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import is_session_note
from tests.support.preloaded import COMMAND
from tests.ui.program import Program
from tests.ui.test_sdk_client import INSTALL_S, sdk  # noqa: F401 - a fixture

pytestmark = [pytest.mark.slow, pytest.mark.finding("C8")]

VERSION = "0.2.143"
CHECKOUT = "CLAUDE_AGENT_SDK_CHECKOUT"
SOURCE = "https://github.com/anthropics/claude-agent-sdk-python"
TESTS = 42
RUN_S = 300.0

AGENT = {"description": "d", "prompt": "say hi", "subagent_type": "greeter", "run_in_background": False}
MODELS = ("claude-sonnet-5-5", "claude-3-5-haiku-20241022")
"""The models of the service, with the one that `test_set_model` names."""

CALLS = [
    (r"touch (\S+)", lambda found: [("Bash", {"command": f"touch {found[1]}"})]),
    (r"create the file (\S+)", lambda found: [("Write", {"file_path": found[1], "content": "hello"})]),
    (r"greet 'Alice'", lambda _: [("mcp__test__greet", {"name": "Alice"}), ("mcp__test__echo", {"text": "test"})]),
    (
        r"mcp__multi__echo",
        lambda _: [("mcp__multi__echo", {"text": "test"}), ("mcp__multi__greet", {"name": "Bob"})],
    ),
    (r"Call the (mcp__\w+__echo)", lambda found: [(found[1], {"text": "any"})]),
    (r"(?:bash command|Run): (echo '[^']*')", lambda found: [("Bash", {"command": found[1]})]),
    (r"Use the Agent tool", lambda _: [("Agent", AGENT)]),
]
"""The calls of the model, by a pattern of the prompt."""

OUTPUTS = [
    ("Count how many Python files", {"file_count": 3, "has_tests": True}),
    ("Analyze this text", {"analysis": {"word_count": 2, "character_count": 11}, "words": ["Hello", "world"]}),
    ("Determine which test framework", {"has_tests": True, "test_framework": "pytest"}),
    ("a README file", {"file_count": 0, "has_readme": False}),
]
"""The JSON answers of the model, by a part of the prompt."""


def script(body):
    if "nonexistent" in body["model"]:
        return Status(404, "model not found")
    last = [block for block in body["messages"][-1]["content"] if not is_session_note(block.get("text", ""))]
    if last[0]["type"] == "tool_result":
        return "Done."
    prompt = "\n".join(block.get("text", "") for block in last)
    for pattern, calls in CALLS:
        if found := re.search(pattern, prompt):
            return Answer("At work.", tools=calls(found))
    for part, output in OUTPUTS:
        if part in prompt:
            return json.dumps(output)
    return Answer("Done.", thinking="2 and 2 make 4, as ever.") if "Think" in prompt else "Done."


@pytest.fixture(scope="module")
def checkout(request, sdk):  # noqa: F811
    """The end-to-end tests of the SDK, and pytest in its environment."""
    subprocess.run(
        [sdk, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pytest", f"claude-agent-sdk=={VERSION}"],
        capture_output=True,
        timeout=INSTALL_S,
    )
    for bundled in sdk.parent.parent.glob("lib/python3*/site-packages/claude_agent_sdk/_bundled/claude"):
        bundled.unlink()
    found = os.environ.get(CHECKOUT) or str(request.config.cache.mkdir("claude-agent-sdk-python") / VERSION)
    if not os.path.isdir(found):
        clone = ["git", "clone", "-q", "--depth", "1", "--branch", f"v{VERSION}", SOURCE, found]
        try:
            subprocess.run(clone, check=True, capture_output=True, timeout=INSTALL_S)
        except (subprocess.SubprocessError, OSError):
            pytest.skip(f"{SOURCE} could not be cloned, and {CHECKOUT} names no checkout")
    return found


@pytest.mark.finding("3I1", "3I9", "3I11")
def test_the_end_to_end_tests_of_the_sdk_pass(tmp_path, sdk, checkout):  # noqa: F811
    trusting = tmp_path / "teamwright"
    trusting.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@" --trust\n')
    trusting.chmod(0o755)
    start = tmp_path / "conftest.py"
    start.write_text(
        "import claude_agent_sdk._internal.transport.subprocess_cli as cli\n"
        f"cli.SubprocessCLITransport._find_cli = lambda self: {str(trusting)!r}\n"
    )
    project = tmp_path / "project"
    project.mkdir()
    with LoopbackModel.in_thread(script, models=MODELS) as server:
        program = Program(project, tmp_path / "home", server.url)
        env = program.environment | {
            "CLAUDE_CONFIG_DIR": str(program.home),
            "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(tmp_path),
        }
        tests = os.path.join(checkout, "e2e-tests")
        flags = ["-p", "anyio", "-p", "conftest_of_us", "-p", "no:cacheprovider", "-q", "--rootdir", tests]
        start.rename(tmp_path / "conftest_of_us.py")
        done = subprocess.run(
            [sdk, "-m", "pytest", *flags, tests], cwd=project, env=env, capture_output=True, text=True, timeout=RUN_S
        )
    assert done.returncode == 0, done.stdout
    assert f"{TESTS} passed" in done.stdout
