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

from teamwright.protocol.errors import CannotStart
from teamwright.storage.processes.family import Family, Look, start_of
from teamwright.storage.processes.lives import Life
from teamwright.teams.places.place import Spot


def process_of(spot: Spot) -> tuple[int, str]:
    """Number and start; 0 when it could not be seen from here."""
    pid = spot.facts.get("pid", "")
    return (int(pid), spot.facts.get("start", "")) if pid.isdigit() else (0, "")


def runs(spot: Spot) -> bool:
    """Whether the very process that was started runs now; False when it could not be seen."""
    pid, start = process_of(spot)
    return pid > 1 and start_of(pid) == start


def family_of(spot: Spot) -> Family | None:
    """The process with all that came out of it; None when it could not be seen."""
    pid, start = process_of(spot)
    return Family.recalled(pid, "", start, Look()) if pid > 1 else None


async def until_ended(spot: Spot) -> None:
    """Until the process has ended, by an event where the system has one; at once when nobody sees it any more."""
    pid, start = process_of(spot)
    life = Life.of(pid)
    if life is None:
        return
    gone = asyncio.Event()
    stop = life.on_end(gone.set)
    try:
        if start_of(pid) == start:
            await gone.wait()
    finally:
        stop()
        life.close()


def terminal_of(pid: int) -> str:
    """The device of the terminal that the process is in, `/dev/pts/4`; empty when it has none or nobody can tell."""
    if sys.platform == "linux":
        found = (_terminal_at(pid, descriptor) for descriptor in range(3))
        return next((path for path in found if path), "")
    asked = subprocess.run(
        ["/bin/ps", "-o", "tty=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    )
    name = asked.stdout.strip()
    return f"/dev/{name}" if name and "?" not in name else ""


def _terminal_at(pid: int, descriptor: int) -> str:
    try:
        path = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    return path if path.startswith(("/dev/pts/", "/dev/tty")) else ""


async def to_its_end(work: Coroutine[object, object, None]) -> bool:
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
