"""The process in a place: found again by number and start, awaited by an event, never taken for another.

What a spot knows of it is in its facts (`pid`, `start`). Below are processes; refuses to know terminals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Coroutine

from teamwright.processes.pid_watch import WatchedProcess
from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, process_start
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backends.backend import Location


async def wait_set(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def process_identity(location: Location) -> tuple[int, str]:
    """Number and start; 0 when it could not be seen from here."""
    pid = location.facts.get("pid", "")
    return (int(pid), location.facts.get("start", "")) if pid.isdigit() else (0, "")


def is_running(location: Location) -> bool:
    """Whether the very process that was started runs now; False when it could not be seen."""
    pid, start = process_identity(location)
    return pid > 1 and process_start(pid) == start


def process_tree(location: Location) -> ProcessTree | None:
    """The process with all that came out of it; None when it could not be seen."""
    pid, start = process_identity(location)
    return ProcessTree.from_record(pid, "", start, ProcessSnapshot()) if pid > 1 else None


async def wait_until_ended(location: Location) -> None:
    """Until the process has ended, by an event where the system has one; at once when nobody sees it any more."""
    pid, start = process_identity(location)
    life = WatchedProcess.open(pid)
    if life is None:
        return
    gone = asyncio.Event()
    stop = life.on_end(gone.set)
    try:
        if process_start(pid) == start:
            await gone.wait()
    finally:
        stop()
        life.close()


def terminal_device(pid: int) -> str:
    """The device of the terminal that the process is in, `/dev/pts/4`; empty when it has none or nobody can tell."""
    if sys.platform == "linux":
        found = (_device_at(pid, descriptor) for descriptor in range(3))
        return next((path for path in found if path), "")
    asked = subprocess.run(
        ["/bin/ps", "-o", "tty=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    )
    name = asked.stdout.strip()
    return f"/dev/{name}" if name and "?" not in name else ""


def _device_at(pid: int, descriptor: int) -> str:
    try:
        path = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    return path if path.startswith(("/dev/pts/", "/dev/tty")) else ""


async def run_to_end(work: Coroutine[object, object, None]) -> bool:
    """Do this also when cancelled meanwhile; whether it was done: a place that does not answer is no second error."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(CannotStart):
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task
            raise
        return True
    return False
