"""Calls of agents, and what they leave, in words of the pairs."""

import re
import sys
from pathlib import Path
from typing import Any

from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program, told_results
from tests.ui.subagents.play import call

SERVER = Path(__file__).with_name("writing_mcp_server.py")

READY = "Ready."
"""The first answer of a member, which then waits for its task."""

LATE = "trap 'echo late > late.txt; exit' TERM; echo ready; while :; do sleep 0.1; done"
"""A background command that writes its last file when it is stopped."""

SHORT_WAIT = {"jobs_wait_s": 1}
"""The setting `agents` for agents whose background commands never end."""


def servers(**more: Any) -> dict[str, Any]:
    """The setting `mcpServers` with the server that writes files."""
    return {"w": {"command": sys.executable, "args": [str(SERVER)], **more}}


def hook(event: str, matcher: str, **what: Any) -> dict[str, Any]:
    """The setting `hooks` with one hook."""
    return {event: [{"matcher": matcher, "hooks": [what]}]}


def write(path: str, content: str = "x\n") -> Answer:
    return call("Write", file_path=path, content=content)


def bash(command: str, **more: Any) -> Answer:
    return call("Bash", command=command, **more)


def serve(name: str) -> Answer:
    """A call of the tool of the server."""
    return call("mcp__w__write", name=name)


def served_text(name: str) -> Answer:
    """A call of the other tool of the server, which returns the file."""
    return call("mcp__w__read", name=name)


def update(**more: Any) -> Answer:
    return call("TaskUpdate", taskId="1", **more)


def given(member: str, **more: Any) -> Answer:
    """The lead adds a task for a member."""
    return call("TaskCreate", subject="Do it", description="Do it.", **{"for": [member]}, **more)


def when_ready(body: dict[str, Any]) -> Answer:
    """Wait for the first output of the background command that was just started."""
    found = re.search(r"Output: (\S+) ", told_results(body)[-1]["text"])
    assert found is not None, told_results(body)[-1]
    return bash(f"while ! grep -q ready {found[1]}; do sleep 0.05; done")


def tree_of(program: Program) -> Path:
    """The one worktree of an agent."""
    [tree] = [path for path in program.home.glob("worktrees/*/*") if (path / ".git").exists()]
    return tree


def cost_rows(program: Program, *args: str) -> dict[str, list[str]]:
    """The rows of `teamwright cost` by their first word."""
    lines = [line.replace("└", " ").split() for line in program.run(*args, "cost").stdout.splitlines()]
    return {words[0]: words[1:] for words in lines if words}
