"""A watch on one process: whether it is alive, its end as an event, and its descendants.

A pid alone proves nothing, because it is reused: the process is identified by a descriptor (Linux) or by its start
time. Depends on the operating system and `process_tree`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from teamwright.processes.process_tree import ProcessInfo, is_marked, list_processes, process_start, program_mark
from teamwright.protocol.time_limit import time_limit

_LOOK_S = 0.05
"""Seconds between two checks of a process without an end event (not Linux), and of one that is being killed."""


class WatchedProcess:
    """One process with its start time. Get it from `open`, `close` it afterwards."""

    def __init__(self, pid: int, start: str, descriptor: int) -> None:
        self.pid = pid
        self._start = start
        self._descriptor = descriptor

    @classmethod
    def open(cls, pid: int) -> WatchedProcess | None:
        """Return the process that has this pid now; None when there is none, or for a pid below 2."""
        if pid < 2:
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        except (AttributeError, OSError):  # not Linux, or a sandbox without it
            descriptor = -1
        start = process_start(pid)
        if not start:
            if descriptor >= 0:
                os.close(descriptor)
            return None
        return cls(pid, start, descriptor)

    @property
    def is_alive(self) -> bool:
        """True while it runs; False for a zombie."""
        if self._descriptor < 0:
            return process_start(self.pid) == self._start
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return not poll.poll(0)

    def signal(self, number: int) -> None:
        """Send it a signal; do nothing when it is gone, or its pid was reused."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._descriptor >= 0 and sys.platform == "linux":
                signal.pidfd_send_signal(self._descriptor, number)
            elif self.is_alive:
                os.kill(self.pid, number)

    def on_end(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back in the running loop once it has ended; return the function that removes the callback."""
        loop = asyncio.get_running_loop()
        if self._descriptor < 0:
            looking = loop.create_task(self._look(callback))
            return looking.cancel
        descriptor = self._descriptor

        def ended() -> None:
            loop.remove_reader(descriptor)  # the descriptor stays readable
            callback()

        loop.add_reader(descriptor, ended)
        return partial(loop.remove_reader, descriptor)

    async def wait_for_end(self, within_s: float) -> bool:
        """Return True when it has ended within that many seconds."""
        ended = asyncio.Event()
        stop = self.on_end(ended.set)
        try:
            async with time_limit(within_s):
                await ended.wait()
        except TimeoutError:
            return not self.is_alive
        finally:
            stop()
        return True

    def descendants(self) -> set[ProcessInfo]:
        """Return its living descendants, and the living processes that carry its mark (see `process_tree`)."""
        table = list_processes()
        found = {row.pid for row in table if row.pid == self.pid and row.start == self._start}
        grown = bool(found)
        while grown:
            more = {row.pid for row in table if row.parent in found} - found
            found |= more
            grown = bool(more)
        mark = program_mark(self.pid, self._start)
        others = {self.pid, os.getpid()}
        return {row for row in table if row.pid not in others and (row.pid in found or is_marked(row.pid, mark))}

    def has_open(self, path: Path) -> bool | None:
        """Return True when it has this file open; None where that is unknown."""
        try:
            file_stat = os.stat(path)
            entries = list(os.scandir(f"/proc/{self.pid}/fd"))
        except OSError:
            return None
        for entry in entries:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(entry.path), file_stat):
                    return True
        return False

    def close(self) -> None:
        """Release the descriptor; harmless when already closed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _look(self, callback: Callable[[], None]) -> None:
        never = asyncio.Event()
        while self.is_alive:
            with contextlib.suppress(TimeoutError):
                async with time_limit(_LOOK_S):
                    await never.wait()
        callback()


async def kill_all(rows: set[ProcessInfo], within_s: float) -> set[ProcessInfo]:
    """Send SIGKILL to these processes until none is left; return those that survive (normally none)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while left := {row for row in list_processes() if _is_same_process(row, rows)}:
        for row in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(row.pid, signal.SIGKILL)
        if loop.time() >= deadline:
            return left
        await asyncio.sleep(_LOOK_S)
    return set()


def _is_same_process(row: ProcessInfo, rows: set[ProcessInfo]) -> bool:
    return any(one.pid == row.pid and one.start == row.start for one in rows)
