"""Processes that tests left: those whose working directory is in the directory of this run's temporary files."""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from tests.support.waits import WAIT_S


def release(gate: Path) -> None:
    """End every command that reads the pipe, or is about to: it gets the end of the file, or finds none."""
    with suppress(FileNotFoundError):
        held = os.open(gate, os.O_RDWR)
        gate.unlink()
        os.close(held)


def running_in(directory: Path) -> dict[int, str]:
    """Command lines of processes that run in the directory, by process id; none where the system does not tell."""
    place, found = f"{directory.resolve()}/", dict[int, str]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.name != str(os.getpid()) and f"{(process / 'cwd').readlink()}/".startswith(place):
                found[int(process.name)] = (process / "cmdline").read_text(errors="replace").replace("\0", " ")
    return found


def end_left_in(directory: Path) -> dict[int, str]:
    """Wait for the ends of the processes that run in the directory, and kill the others. Return what these were."""
    left = dict[int, str]()
    while found := running_in(directory):
        pid, line = next(iter(found.items()))
        if not await_end(pid, 0 if left else WAIT_S):
            left[pid] = line
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            await_end(pid)
    return left


def await_end(pid: int, within_s: float = WAIT_S) -> bool:
    """Whether that process ends within that time."""
    try:
        life = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        ending = select.poll()
        ending.register(life, select.POLLIN)
        return bool(ending.poll(within_s * 1000))
    finally:
        os.close(life)
