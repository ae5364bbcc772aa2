"""One life of a session whose integration queue has work: it is killed at its N-th write or start of a program.

`python -m tests.crash.queue_life CHECKOUT KILL_AT GROUP`: resumes the team `crew`, and ends when its queue
is empty. With GROUP = 1 the kill takes the git that runs, too.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from teamwright import Team
from teamwright.testing import ScriptedModel
from tests.teams.crew import until

STEPS = 0
_AT: dict[int, Callable[[], None]] = {}
"""What else happens, by the step."""


def at_step(step: int, act: Callable[[], None]) -> None:
    """Do this once, directly before this step."""
    _AT[step] = act


def arm(kill_at: int, *, group: bool) -> None:
    """Kill the process at this step: directly before a write to the disk, or directly after the start of a program."""

    def step() -> None:
        global STEPS
        STEPS += 1
        if (act := _AT.pop(STEPS, None)) is not None:
            with contextlib.suppress(OSError):
                act()
        if kill_at == STEPS:
            os.killpg(0, signal.SIGKILL) if group else os.kill(os.getpid(), signal.SIGKILL)

    def wrap(real):
        def wrapped(*given, **more):
            step()
            return real(*given, **more)

        return wrapped

    for name in ("write", "pwrite", "rename", "link"):
        setattr(os, name, wrap(getattr(os, name)))
    start = subprocess.Popen.__init__

    def started(self, *given, **more):
        start(self, *given, **more)
        step()

    subprocess.Popen.__init__ = started


async def main(checkout: Path, kill_at: int, *, group: bool) -> None:
    arm(kill_at, group=group)
    async with Team.resume("crew", model=ScriptedModel(["ok"] * 500), cwd=checkout) as team:
        session = team.session
        await until(team, lambda: not session.integration.is_working and session.team.is_quiet())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), group=sys.argv[3] == "1"))
