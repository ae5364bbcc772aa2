"""Process trees: all descendants of a process, found by group, session, descent and a mark, and ended together.

A child that left the group (`setsid`) or lost its parent is still found. A pid alone proves nothing: a reused pid is
never signalled. Reads `/proc` on Linux and uses `ps` elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

MARK_VARIABLE = "TEAMWRIGHT_PROCESS"
"""The variable whose value marks a process's descendants (Linux). See `new_mark`."""

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.004, 0.05
_KILL_WITHIN_S = 5.0
_EXEC_LOOKS, _EXEC_LOOK_S = 25, 0.001
"""An environment reads as empty for a moment in `exec` (fs/proc/base.c, `environ_read`): how often it is read again."""
_LINUX = sys.platform.startswith("linux")
_SAME_START_S = 2.0
"""Seconds that a recorded start and the one from `ps` may differ: `ps` reports whole seconds."""


class ProcessInfo(Struct, frozen=True):
    """A living process. `start` is opaque: with the pid it identifies the process, so that a reused pid is not mistaken
    for it."""

    pid: int
    parent: int
    group: int
    session: int
    start: str


class ProcessSnapshot:
    """All processes at one moment; each mark is read once, on demand.

    `since` is a pid: processes that began before it are left out, where that is known.
    """

    def __init__(self, since: int = 0) -> None:
        self.processes = list_processes(since)
        self._environments: dict[int, bytes] = {}

    def is_marked(self, pid: int, mark: bytes) -> bool:
        """Return True when the process was started with this mark in its environment (Linux; elsewhere False)."""
        if pid not in self._environments:
            self._environments[pid] = _environment(pid)
        return mark in self._environments[pid]

    def is_alive(self, pid: int, start: str) -> bool:
        """Return True when the process of this pid is still the one that was recorded with this start."""
        return any(row.pid == pid and is_same_start(row.start, start) for row in self.processes)

    def ancestors(self, pid: int) -> set[int]:
        """Return the pids of the process, its parent, its parent's parent, and so on."""
        parents = {row.pid: row.parent for row in self.processes}
        line: set[int] = set()
        while pid and pid not in line:
            line.add(pid)
            pid = parents.get(pid, 0)
        return line


class ProcessTree:
    """The process group `group` that this program created (its leader's pid), with all descendants."""

    def __init__(self, group: int, mark: str = "") -> None:
        self.group = group
        self._mark = f"{MARK_VARIABLE}={mark}".encode() if mark else b""
        self._seen: set[tuple[int, str]] = set()
        self._released = False
        self._is_from_record = False

    @classmethod
    def from_record(cls, group: int, mark: str, start: str, look: ProcessSnapshot) -> ProcessTree:
        """Return the tree that an earlier process recorded: its leader counts only with that start, others by their
        mark.

        `group` is 0 when the pid was never recorded.
        """
        tree = cls(group, mark)
        tree._released = tree._is_from_record = True
        tree._seen = {
            (row.pid, row.start) for row in look.processes if row.pid == group and is_same_start(row.start, start)
        }
        return tree

    def release(self, look: ProcessSnapshot | None = None) -> None:
        """Note that the leader was reaped: its pid no longer proves anything, only known members do."""
        self.members(look)
        self._released = True

    def members(self, snapshot: ProcessSnapshot | None = None, *, include_self: bool = False) -> list[ProcessInfo]:
        """Return the living members without zombies, and without this process unless `include_self`."""
        table = (snapshot := snapshot or ProcessSnapshot()).processes
        found = {row.pid for row in table if (row.pid, row.start) in self._seen}
        if self._released and not found and not self._is_from_record:
            return []
        if self._mark:
            found |= {row.pid for row in table if snapshot.is_marked(row.pid, self._mark)}
        # The group number is valid as long as a proven member has it: the system does not reuse it before.
        inside = {row.pid for row in table if self.group and self.group in {row.group, row.session}}
        if not self._released or found & inside:
            found |= inside
        grown = bool(found)
        while grown:
            more = {row.pid for row in table if row.parent in found} - found
            found |= more
            grown = bool(more)
        rows = [row for row in table if row.pid in found and (include_self or row.pid != os.getpid())]
        self._seen |= {(row.pid, row.start) for row in rows}
        return rows

    def signal(self, number: int, snapshot: ProcessSnapshot | None = None) -> list[ProcessInfo]:
        """Send a signal to all members; return them."""
        rows = self.members(snapshot)
        if self.group and any(row.group == self.group for row in rows):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)
        for row in rows:
            if row.group != self.group:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(row.pid, number)
        return rows

    async def terminate(self, grace_s: float) -> list[ProcessInfo]:
        """Send SIGTERM, after `grace_s` SIGKILL, until no process is left; return the survivors (normally none).

        When cancelled, kill at once and raise.
        """
        try:
            if self.signal(signal.SIGTERM):
                self.signal(signal.SIGCONT)  # a stopped process handles SIGTERM only after SIGCONT
                await self._wait_for_end(grace_s)
            return await self._kill()
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)
            raise

    async def _kill(self) -> list[ProcessInfo]:
        deadline = asyncio.get_running_loop().time() + _KILL_WITHIN_S
        while (left := self.signal(signal.SIGKILL)) and asyncio.get_running_loop().time() < deadline:
            await self._wait_for_end(_LONGEST_LOOK_S)
        return left

    async def _wait_for_end(self, within_s: float) -> None:
        # Children of other processes give no event at their end; polling is bounded and happens only during a kill.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        pause = _FIRST_LOOK_S
        while self.members() and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_LOOK_S)


def terminate_trees(trees: Sequence[ProcessTree], grace_s: float) -> list[ProcessTree]:
    """End all trees together and wait: SIGTERM, after `grace_s` SIGKILL; return those with survivors.

    Blocks for `grace_s` and a few seconds at most: not for an event loop.
    """
    left = list(trees)
    look = ProcessSnapshot()
    for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process handles SIGTERM only after SIGCONT
        left = [tree for tree in left if tree.signal(number, look)]
    left = _wait(left, grace_s)
    deadline = time.monotonic() + _KILL_WITHIN_S
    while left and time.monotonic() < deadline:
        look = ProcessSnapshot()
        left = [tree for tree in left if tree.signal(signal.SIGKILL, look)]
        left = _wait(left, _LONGEST_LOOK_S)
    return left


def _wait(trees: list[ProcessTree], within_s: float) -> list[ProcessTree]:
    deadline = time.monotonic() + within_s
    pause = _FIRST_LOOK_S
    while trees and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_LOOK_S)
        look = ProcessSnapshot()
        trees = [tree for tree in trees if tree.members(look)]
    return trees


def new_mark() -> str:
    """Return a mark for a new process: the pid and start of this program, and a random part."""
    return _own_program_mark(os.getpid()) + secrets.token_hex(8)


def program_mark(pid: int, start: str) -> str:
    """Return the common prefix of the marks of all processes that this program process started."""
    return f"{pid}.{start.replace(' ', '_')}."


def is_marked(pid: int, mark: str) -> bool:
    """Return True when the process or one of its ancestors was started with a mark that begins so (Linux; else
    False).
    """
    return f"{MARK_VARIABLE}={mark}".encode() in _environment(pid)


@cache
def _own_program_mark(pid: int) -> str:
    return program_mark(pid, process_start(pid))


def list_processes(since: int = 0) -> list[ProcessInfo]:
    """Return all visible living processes, without zombies; on Linux without those that began before this pid."""
    return _list_from_proc(since) if _LINUX else _list_from_ps(since)


def find_process(pid: int) -> ProcessInfo | None:
    """Return the current process of this pid; None when there is none."""
    return _read_process(str(pid)) if _LINUX else next((row for row in list_processes() if row.pid == pid), None)


def own_ancestors() -> list[ProcessInfo]:
    """Return this process, its parent, its parent's parent, and so on, as far as they are visible."""
    rows = {} if _LINUX else {row.pid: row for row in list_processes()}
    found = list[ProcessInfo]()
    pid = os.getpid()
    while (row := _read_process(str(pid)) if _LINUX else rows.get(pid)) is not None and row not in found:
        found.append(row)
        pid = row.parent
    return found


def has_variable(pid: int, name: str) -> bool:
    """Return True when the process was started with this variable, and it was not empty (Linux; elsewhere False)."""
    begins = f"{name}=".encode()
    return any(one.startswith(begins) and one != begins for one in _environment(pid).split(b"\0"))


@cache
def boot_id() -> str:
    """Return an id of the boot and the pid namespace in which pids are valid; empty when unknown."""
    if not _LINUX:
        return ""  # `ps` reports the start as a date, which no other boot has
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def process_start(pid: int, *, just_started: bool = False) -> str:
    """Return the start that identifies the process of this pid, empty when it has ended; `just_started`: a moment
    ago.
    """
    if _LINUX:
        row = _read_process(str(pid))
        return row.start if row is not None else ""
    if just_started:
        return str(int(time.time()))  # running `ps` takes longer than many a command
    return next((str(_seconds(row.start)) for row in list_processes() if row.pid == pid), "")


def is_same_start(reported: str, recorded: str) -> bool:
    """Return True when the start that the system reports is the recorded one."""
    if _LINUX:
        return reported == recorded
    return recorded.isdigit() and abs(_seconds(reported) - int(recorded)) <= _SAME_START_S


def _list_from_proc(since: int = 0) -> list[ProcessInfo]:
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    if since and _newest_pid() >= since:  # else the pids have started again from the lowest
        names = [name for name in names if int(name) >= since]
    rows = (_read_process(name) for name in names)
    return [row for row in rows if row is not None]


def _newest_pid() -> int:
    """Return the pid that the system assigned last (Linux); 0 when unknown."""
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:
            return int(file.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _read_process(pid: str) -> ProcessInfo | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            # proc(5): pid (comm) state ppid pgrp session … starttime is field 22; comm may contain any character
            fields = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    # field 23 is the size of its memory, which a process that is about to exit has given back before its files
    if not fields or fields[0] in {b"Z", b"X"} or fields[20] == b"0":
        return None
    return ProcessInfo(int(pid), int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode())


def _environment(pid: int) -> bytes:
    if not _LINUX:
        return b""
    with contextlib.suppress(OSError):
        for _ in range(_EXEC_LOOKS):
            if found := _read_environment(pid):
                return found
            os.readlink(f"/proc/{pid}/exe")  # raises for a kernel thread, which has no environment
            time.sleep(_EXEC_LOOK_S)
    return b""


def _read_environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb") as environment:
        return environment.read()


def _list_from_ps(_since: int = 0) -> list[ProcessInfo]:
    # BSD `ps` has no session numbers; the group replaces them
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="],
        env={"LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    rows: list[ProcessInfo] = []
    for line in listed.stdout.splitlines():
        pid, parent, group, state, start = line.split(None, 4)
        if not state.startswith("Z"):
            rows.append(ProcessInfo(int(pid), int(parent), int(group), int(group), start.strip()))
    return rows


def _seconds(lstart: str) -> int:
    """Return the date of `ps` in seconds since 1970; 0 for any other text."""
    try:
        return int(time.mktime(time.strptime(lstart, "%a %b %d %H:%M:%S %Y")))
    except (ValueError, OverflowError):
        return 0
