"""A child that left the group and the output of a finished command ends with the member whose command started it."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.teams.shutdown_requests import ask_to_stop
from teamwright.testing.model_server_replies import Answer
from tests.session.member_process.test_forwarding import crew, over
from tests.support.waits import wait_until

pytestmark = [
    pytest.mark.finding("T14"),
    pytest.mark.promise("F21", "F62"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are found by their mark on Linux only"),
]


async def _stop(team: Team) -> None:
    await team.stop("ann")


async def _stop_while_it_is_stopped(team: Team) -> None:
    inner = team.session.team
    inner.settings = replace(inner.settings, cancel_grace_s=0.1)
    os.kill(inner.members["ann"].pid, signal.SIGSTOP)
    await team.stop("ann")


async def _kill(team: Team) -> None:
    os.kill(team.session.team.members["ann"].pid, signal.SIGKILL)


async def _ask(team: Team) -> None:
    await ask_to_stop(team.session.team, "ann", "The work is done.", set())


async def _delete(team: Team) -> None:
    await team.delete()


WAYS: dict[str, tuple[str, Callable[[Team], Awaitable[None]]]] = {
    "stop of a process that is stopped": ("detached", _stop_while_it_is_stopped),
    "stop of a process": ("detached", _stop),
    "shutdown of a process": ("detached", _ask),
    "SIGKILL of a process": ("detached", _kill),
    "the team is deleted, a process": ("detached", _delete),
    "stop": ("in-process", _stop),
    "shutdown": ("in-process", _ask),
    "the team is deleted": ("in-process", _delete),
}
MARK = f"300.{os.getpid()}"
LEAVES = f"mkfifo up; setsid sh -c 'echo > up; exec sleep {MARK}' >/dev/null 2>&1 & read line < up"
"""A command that ends once its child has a session without the command's output."""
QUICK = {"stop of a process that is stopped", "stop"}


@pytest.mark.parametrize(
    "way", [way if way in QUICK else pytest.param(way, marks=pytest.mark.slow) for way in WAYS], ids=str
)
@pytest.mark.slow_after(1)
async def test_a_child_that_left_a_finished_command_ends_with_the_member(tmp_path, way):
    backend, end = WAYS[way]
    results = list[str]()

    def play(body: dict[str, Any]) -> Answer | str:
        text = json.dumps(body["messages"])
        if asked := re.search(r'request_id=\\"(shutdown-[^\\"]+)|(shutdown-[\w.@-]+)', text):
            answer = {"type": "shutdown_response", "request_id": asked[1] or asked[2], "approve": True}
            return Answer(tools=[("SendMessage", answer)])
        if "tool_result" in text:
            results.append(text)
            return "Done."
        return Answer(tools=[("Bash", {"command": LEAVES})])

    async with crew(tmp_path, play, permission_mode="bypassPermissions", backend=backend) as (team, told, _):
        await team.spawn("ann", "Start it.")
        await told.until(over("ann"))
        assert "To stop it: kill" in results[0] and _is_running()
        await end(team)
        await asyncio.to_thread(wait_until, lambda: not _is_running(), "the end of the child")


def _is_running() -> bool:
    """Return True while the child runs. Its number in a sandbox is another one than outside."""
    wanted = f"sleep\0{MARK}\0".encode()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if file.read_bytes() == wanted:
                return True
    return False
