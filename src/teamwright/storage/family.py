"""All processes that came out of one: found by group, session, descent and a mark, and ended together.

A child that left the group (`setsid`) or lost its parent is still found. Reads `/proc` on Linux and asks `ps`
elsewhere. Knows numbers and signals; starts nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

MARK = "TEAMWRIGHT_PROCESS"
"""The variable in whose value a process's descendants can be recognised (Linux)."""

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.004, 0.05
_KILL_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """A living process. `start` is opaque: with the pid it names one life, so that a reused pid is not ours."""

    pid: int
    parent: int
    group: int
    session: int
    start: str


class Family:
    """The process group `group` that we made (its leader's pid), with everything that came out of it."""

    def __init__(self, group: int, mark: str = "") -> None:
        self.group = group
        self._mark = f"{MARK}={mark}".encode() if mark else b""
        self._known: set[tuple[int, str]] = set()
        self._released = False

    def release(self) -> None:
        """The leader was reaped: from now on its number alone proves nothing, only members seen before do."""
        self.members()
        self._released = True

    def members(self) -> list[Row]:
        """The living members, zombies left out."""
        table = processes()
        known = {row.pid for row in table if (row.pid, row.start) in self._known}
        if self._released and not known:
            return []
        found = known | {row.pid for row in table if self.group in {row.group, row.session} or self._is_marked(row.pid)}
        grown = True
        while grown:
            more = {row.pid for row in table if row.parent in found} - found
            found |= more
            grown = bool(more)
        rows = [row for row in table if row.pid in found and row.pid != os.getpid()]
        self._known |= {(row.pid, row.start) for row in rows}
        return rows

    def signal(self, number: int) -> list[Row]:
        """Send a signal to all members; returns whom."""
        rows = self.members()
        if any(row.group == self.group for row in rows):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)
        for row in rows:
            if row.group != self.group:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(row.pid, number)
        return rows

    async def end(self, grace_s: float) -> list[Row]:
        """SIGTERM, after `grace_s` SIGKILL, until nobody is left; returns who would not go (normally nobody).

        Cancelled while waiting, it kills at once and lets the cancellation pass.
        """
        try:
            if self.signal(signal.SIGTERM):
                self.signal(signal.SIGCONT)  # a stopped process sees SIGTERM only when it goes on
                await self._gone(grace_s)
            return await self._killed()
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)
            raise

    async def _killed(self) -> list[Row]:
        deadline = asyncio.get_running_loop().time() + _KILL_WITHIN_S
        while (left := self.signal(signal.SIGKILL)) and asyncio.get_running_loop().time() < deadline:
            await self._gone(_LONGEST_LOOK_S)
        return left

    async def _gone(self, within_s: float) -> None:
        # Strangers' children give no event when they end; looking is bounded and happens only while we kill.
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + within_s, _FIRST_LOOK_S
        while self.members() and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_S)

    def _is_marked(self, pid: int) -> bool:
        if not self._mark or not sys.platform.startswith("linux"):
            return False
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                return self._mark in environment.read()
        except OSError:
            return False


async def kill_group(group: int, grace_s: float = 2.0) -> bool:
    """End a process group that is ours and all that came out of it; True when nobody is left."""
    return not await Family(group).end(grace_s)


def processes() -> list[Row]:
    """All living processes that can be seen; zombies left out."""
    return _from_proc() if sys.platform.startswith("linux") else _from_ps()


def _from_proc() -> list[Row]:
    rows: list[Row] = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            # proc(5): pid (comm) state ppid pgrp session … starttime is field 22; comm may hold anything
            fields = file.read().rpartition(b") ")[2].split()
            if fields and fields[0] not in {b"Z", b"X"}:
                rows.append(Row(int(name), int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode()))
    return rows


def _from_ps() -> list[Row]:
    # ps of BSD: no session numbers there; the group stands in for them
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="], capture_output=True, text=True, check=False, timeout=10
    )
    rows: list[Row] = []
    for line in listed.stdout.splitlines():
        pid, parent, group, state, start = line.split(None, 4)
        if not state.startswith("Z"):
            rows.append(Row(int(pid), int(parent), int(group), int(group), start.strip()))
    return rows
