"""The process at a location: identified by pid and start time, awaited by an event, never confused with another.

Its identity is in the location's facts (`pid`, `start`). Depends on processes.
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
from teamwright.protocol.time_limit import time_limit
from teamwright.teams.backend import Location


async def wait_set(event: asyncio.Event, seconds: float) -> bool:
    """Return True when the event is set within this many seconds."""
    try:
        async with time_limit(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def process_identity(location: Location) -> tuple[int, str]:
    """Return pid and start time; pid 0 when the process could not be seen from here."""
    pid = location.facts.get("pid", "")
    return (int(pid), location.facts.get("start", "")) if pid.isdigit() else (0, "")


def is_running(location: Location) -> bool:
    """Return True while exactly the started process runs; False when it could not be seen."""
    pid, start = process_identity(location)
    return pid > 1 and process_start(pid) == start


def process_tree(location: Location) -> ProcessTree | None:
    """Return the process with all its descendants; None when it could not be seen."""
    pid, start = process_identity(location)
    return ProcessTree.from_record(pid, "", start, ProcessSnapshot()) if pid > 1 else None


async def wait_until_ended(location: Location) -> None:
    """Wait until the process has ended, by an event if the system has one; return at once when it is not visible."""
    pid, start = process_identity(location)
    process = WatchedProcess.open(pid)
    if process is None:
        return
    has_ended = asyncio.Event()
    stop = process.on_end(has_ended.set)
    try:
        if process_start(pid) == start:
            await has_ended.wait()
    finally:
        stop()
        process.close()


def terminal_device(pid: int) -> str:
    """Return the process's terminal device, `/dev/pts/4`; empty when it has none or it is unknown."""
    if sys.platform == "linux":
        found = (_device_at(pid, descriptor) for descriptor in range(3))
        return next((path for path in found if path), "")
    result = subprocess.run(
        ["/bin/ps", "-o", "tty=", "-p", str(pid)], env={}, capture_output=True, text=True, check=False, timeout=10
    )
    name = result.stdout.strip()
    return f"/dev/{name}" if name and "?" not in name else ""


def _device_at(pid: int, descriptor: int) -> str:
    try:
        path = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    return path if path.startswith(("/dev/pts/", "/dev/tty")) else ""


async def run_to_end(work: Coroutine[object, object, None]) -> bool:
    """Run the work to its end, also when cancelled. Returns True when it finished; a backend that does not answer adds
    no second error.
    """
    task = asyncio.ensure_future(work)
    with contextlib.suppress(CannotStart):
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task
            raise
        return True
    return False
