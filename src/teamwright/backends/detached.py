"""The detached backend: members without a terminal, each in a separate process session with its output in a file.

A member outlives its lead and decides itself how long. The handover starts it, and pid and start time identify it.
Depends on the handover and processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

from teamwright.backends.handover import Handover, LaunchFailed, offer_launch
from teamwright.backends.terminal_adapter import DETACHED
from teamwright.backends.watched_process import (
    is_running,
    process_identity,
    process_tree,
    run_to_end,
    wait_until_ended,
)
from teamwright.processes.pid_watch import WatchedProcess
from teamwright.processes.process_tree import ProcessTree, process_start
from teamwright.protocol.errors import CannotStart, StorageError
from teamwright.protocol.ids import inbox_stem
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.paths import make_private
from teamwright.teams.backend import Launch, Location

_START_S = 20.0
_END_S = 2.0
_REAP_S = 2.0
_LAST_LINES, _LAST_BYTES = 12, 8_192


class _Child:
    """A child process of this one: its descendants, and its exit status once it has ended.

    `on_early_end` is called when the process ends before its program has begun.
    """

    def __init__(self, pid: int, start: str, on_early_end: Callable[[str], None]) -> None:
        self.start = start
        self.family = ProcessTree(pid)
        self.exit_text = ""
        self._on_early_end: Callable[[str], None] | None = on_early_end
        self.reaped = asyncio.Event()
        self._pid = pid

    def note_handover(self) -> None:
        """Note that its program has begun: no part of the handover is kept while it runs."""
        self._on_early_end = None

    def reap(self, watch: WatchedProcess) -> None:
        """Reap the ended process, after its descendants were recorded while its pid is still valid."""
        if self._on_early_end is not None:
            self._on_early_end("it ended at once")
        self.family.release()
        watch.close()
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_text = f"ended by signal {-code}" if code < 0 else f"ended with status {code}"
        self.reaped.set()


class DetachedBackend:
    """A `Backend`. Parameters: `folder`, the directory of output files, created with mode 0700 when needed."""

    def __init__(self, folder: Path, *, start_s: float = _START_S, end_s: float = _END_S) -> None:
        self._folder = folder
        self._start_s = start_s
        self._end_s = end_s
        self._children: dict[int, _Child] = {}

    async def open(self, launch: Launch) -> Location:
        """Start the program in a separate process session, without a terminal; the rest as `Backend.open`."""
        try:
            log, output = self._new_log(launch)
        except (OSError, StorageError) as problem:
            raise _cannot_start(launch, f"there is no file for its output: {problem}") from problem
        location = Location(DETACHED, "")
        try:
            async with offer_launch(launch) as handover:
                location = self._spawn(handover, output, log)
                await self._hand_over(handover, location, self._children[process_identity(location)[0]])
        except (LaunchFailed, OSError) as problem:
            words = _tail(log)
            await self._undo(location, log)
            raise _cannot_start(launch, str(problem), words) from problem
        except BaseException:
            await self._undo(location, log)
            raise
        finally:
            os.close(output)
        return location

    async def is_alive(self, location: Location) -> bool:
        """Return True while exactly the started process runs."""
        return is_running(location)

    async def wait_until_ended(self, location: Location) -> None:
        """Wait until the program has ended, by an event if the system has one."""
        await wait_until_ended(location)

    async def last_output(self, location: Location) -> str:
        """Return the exit status, for a child process, and the last lines of its output; empty without any."""
        child = self._child(location)
        how = [child.exit_text] if child is not None and child.exit_text else []
        words = _tail(Path(location.facts["log"])) if location.facts.get("log") else ""
        return "\n".join([*how, *words.splitlines()])

    async def close(self, location: Location) -> None:
        """End the process and all its descendants: SIGTERM, then SIGKILL. The output file stays.

        Raises CannotStart (`backend`) when one of them does not end.
        """
        child = self._child(location)
        family = child.family if child is not None else process_tree(location)
        if family is not None and (left := await family.terminate(self._end_s)):
            pids = ", ".join(str(row.pid) for row in left)
            raise CannotStart("backend", f"process {location.id} cannot be ended: these are left: {pids}")
        if child is not None:
            with contextlib.suppress(TimeoutError):  # a process that is stuck in the kernel counts as gone
                async with time_limit(_REAP_S):
                    await child.reaped.wait()
            self._children.pop(process_identity(location)[0], None)

    def _new_log(self, launch: Launch) -> tuple[Path, int]:
        make_private(self._folder)
        log = self._folder / f"{inbox_stem(launch.name)}-{secrets.token_hex(4)}.log"
        return log, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _spawn(self, handover: Handover, output: int, log: Path) -> Location:
        """Start the starter in a separate process session, without variables that name a terminal. Raises OSError."""
        pid = os.posix_spawn(
            handover.argv[0],
            handover.argv,
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
        start = process_start(pid)
        process = WatchedProcess.open(pid)
        child = _Child(pid, start, handover.fail)
        self._children[pid] = child
        if process is None:
            os.waitpid(pid, 0)
            child.reaped.set()
            handover.fail("it ended at once")
        else:
            process.on_end(partial(child.reap, process))
        facts = {"pid": str(pid), "start": start, "log": str(log)}
        return Location(DETACHED, str(pid), facts, f"what it writes is in {log}")

    async def _hand_over(self, handover: Handover, location: Location, child: _Child) -> None:
        try:
            pid, _ = await handover.deliver(self._start_s)
        finally:
            child.note_handover()
        if pid not in {0, process_identity(location)[0]}:
            raise LaunchFailed(f"process {pid} took what was meant for {location.id}")

    async def _undo(self, location: Location, log: Path) -> None:
        if location.id:
            await run_to_end(self.close(location))
        log.unlink(missing_ok=True)

    def _child(self, location: Location) -> _Child | None:
        pid, start = process_identity(location)
        child = self._children.get(pid)
        return child if child is not None and child.start == start else None


def _tail(log: Path) -> str:
    """Return the last lines of the file; empty without a file."""
    try:
        with open(log, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-_LAST_LINES:])


def _cannot_start(launch: Launch, why: str, output: str = "") -> CannotStart:
    return CannotStart(
        "backend",
        f"{launch.name} could not be started as a separate process: {why}",
        looked_at=[("wrote", line[:200]) for line in output.splitlines()[-6:]],
        do=["teamwright help backend"],
        note="nothing is left of it",
    )
