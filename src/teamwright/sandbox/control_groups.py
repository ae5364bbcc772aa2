"""Control groups of Linux (cgroups(7), version 2) for single commands, where this process may create them.

The kernel limits the memory and the processes of a group, and ends all of it when the memory is exhausted. A process
that no group contains starts commands with other limits (`process_limits`).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.processes.process_tree import ProcessSnapshot
from teamwright.sandbox.mount_points import unescape
from teamwright.sandbox.policy import PolicyName, SandboxPolicy, usual_memory_mb

SESSION_GROUP = "teamwright-session"
"""The group into which a process moves that was alone in its group: only groups without processes have limited ones."""

_COMMAND_GROUP = "teamwright-command-"
_WANTED = frozenset({"memory", "pids"})
_STARTERS = 4
"""Processes that start a command and are in its group: those of bubblewrap, and shells."""
_NUMBERS = itertools.count(1)


class CommandGroup(Struct, frozen=True):
    """The group of one command."""

    directory: Path

    def open_members(self) -> int:
        """Return a descriptor to which a process writes 0 to enter the group. Raises OSError."""
        return os.open(self.directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    @property
    def is_empty(self) -> bool:
        """True when no process is in the group, or the group is gone."""
        return "populated 1" not in _read(self.directory / "cgroup.events")

    def exceeded(self, policy: SandboxPolicy) -> str:
        """Return the limit that the command has exceeded, for people; empty when it has exceeded none."""
        if _number(self.directory / "memory.events", "oom_kill"):
            return f"it used more than {policy.memory_mb or usual_memory_mb()} MiB of memory (sandbox.memory_mb)"
        if _number(self.directory / "pids.events", "max"):
            return processes_text(policy)
        return ""

    def kill(self) -> None:
        """End all processes of the group."""
        with contextlib.suppress(OSError):  # they have ended
            _write(self.directory / "cgroup.kill", "1")

    def remove(self) -> bool:
        """Remove the group; return False when a process is in it."""
        try:
            self.directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def processes_text(policy: SandboxPolicy) -> str:
    """Return the sentence about a command with too many processes."""
    return f"it had more than {policy.processes:,} processes (sandbox.processes)"


class ControlGroups(Struct, frozen=True):
    """A directory in which this process creates groups, and the controllers that limit them.

    `bash` is the program that enters a group before it becomes the command.
    """

    directory: Path
    bash: str
    controllers: frozenset[str] = _WANTED

    def create(self, policy: SandboxPolicy) -> CommandGroup | None:
        """Create a group with the limits of the policy; None when that fails."""
        group = CommandGroup(self.directory / f"{_COMMAND_GROUP}{os.getpid()}-{next(_NUMBERS)}")
        try:
            group.directory.mkdir()
        except OSError:
            return None
        try:
            for name, value in self._limits(policy):
                _write(group.directory / name, value)
            if "memory" in self.controllers:
                with contextlib.suppress(FileNotFoundError):  # without swap
                    _write(group.directory / "memory.swap.max", "0")
        except OSError:
            group.remove()
            return None
        return group

    def _limits(self, policy: SandboxPolicy) -> Iterator[tuple[str, str]]:
        if "memory" in self.controllers:
            yield "memory.max", str((policy.memory_mb or usual_memory_mb()) << 20)
            yield "memory.oom.group", "1"
        if "pids" in self.controllers and policy.processes:
            yield "pids.max", str(policy.processes + _STARTERS)

    def remove_abandoned(self) -> None:
        """Remove the empty groups of processes that have ended."""
        for path in self.directory.glob(f"{_COMMAND_GROUP}*-*"):
            owner = path.name.removeprefix(_COMMAND_GROUP).partition("-")[0]
            if not os.path.exists(f"/proc/{owner}"):
                CommandGroup(path).remove()


def find_control_groups(bash: str | None) -> ControlGroups | str:
    """Return where this process creates groups for commands, or the reason why it cannot. May move this process."""
    if bash is None:
        return "bash is not installed"
    own = own_directory(_read(Path("/proc/self/cgroup")), _read(Path("/proc/self/mountinfo")))
    if own is None:
        return "this process is in no control group of version 2"
    found = prepare_directory(own, os.getpid(), bash)
    if isinstance(found, str):
        return found
    found.remove_abandoned()
    tried = found.create(SandboxPolicy(PolicyName.READ, memory_mb=100, processes=100))
    if tried is None:
        return f"the limits of a control group in {found.directory} cannot be set"
    tried.remove()
    return found


def own_directory(membership: str, mounts: str) -> Path | None:
    """Return the directory of this process's group, from the texts of /proc/self/cgroup and /proc/self/mountinfo."""
    own = next((line[3:] for line in membership.splitlines() if line.startswith("0::/")), None)
    if own is None or own.startswith("/..") or own.endswith(" (deleted)"):
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("cgroup2 "):
            continue
        root, point = map(unescape, before.split()[3:5])
        root = root.rstrip("/")
        if own == root or own.startswith(f"{root}/"):
            return Path(point, own.removeprefix(root).lstrip("/"))
    return None


def prepare_directory(own: Path, pid: int, bash: str) -> ControlGroups | str:
    """Return where the process `pid` of the group `own` creates groups, or the reason why it cannot.

    A process that is alone there but for its children moves with them into a group inside, because limited groups have
    no processes beside them.
    """
    top = own.parent if own.name == SESSION_GROUP else own
    controllers = _WANTED & set(_read(top / "cgroup.controllers").split())
    if not controllers:
        return f"the control group {top} has neither the controller memory nor pids"
    if not all(os.access(path, os.W_OK) for path in (top, top / "cgroup.procs", top / "cgroup.subtree_control")):
        return f"the control group {top} is not delegated to this user"
    if controllers <= set(_read(top / "cgroup.subtree_control").split()):
        return ControlGroups(top, bash, controllers)
    # The root of all groups alone may have processes beside limited groups. It has no file of events.
    moves = own == top and os.path.exists(top / "cgroup.events")
    members = [int(number) for number in _read(top / "cgroup.procs").split()] if moves else []
    snapshot = ProcessSnapshot()
    if moves and (pid not in members or any(pid not in snapshot.ancestors(one) for one in members)):
        return f"other processes are in the control group {top}"
    try:
        if moves:
            (top / SESSION_GROUP).mkdir(exist_ok=True)
            _move((pid, *members), top / SESSION_GROUP)
        _write(top / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(controllers)))
    except OSError as problem:
        with contextlib.suppress(OSError):
            _move((pid, *members) if moves else (), top)
            (top / SESSION_GROUP).rmdir()
        return f"no limits in the control group {top}: {problem.strerror}"
    return ControlGroups(top, bash, controllers)


def _move(pids: Iterable[int], group: Path) -> None:
    """Move the processes that still live into a group. Raises OSError."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            _write(group / "cgroup.procs", str(pid))


def _read(path: Path) -> str:
    """Return the text of a file of the kernel; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _number(path: Path, name: str) -> int:
    """Return the number of this name in a file with a name and a number in each line."""
    rows = (line.split() for line in _read(path).splitlines())
    return next((int(row[1]) for row in rows if row[:1] == [name]), 0)


def _write(path: Path, value: str) -> None:
    """Write to a file of the kernel, which must exist. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode("ascii"))
    finally:
        os.close(descriptor)
