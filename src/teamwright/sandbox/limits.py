"""Limits of a confined command: the memory of each process, and the number of its processes.

The shell that starts the command sets rlimits, so no further program is started. What the kernel does not enforce by
rlimits, a control group does (cgroups(7), version 2), where this process may create one, or a count of the processes.
One thread of this process watches the commands that have either: it ends a command with too many processes, and removes
the group when the last process of the command has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import signal
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.processes.agent_command_detection import bash_line_index
from teamwright.processes.commands import Child
from teamwright.processes.process_tree import ProcessSnapshot
from teamwright.sandbox.mounts import unescape
from teamwright.sandbox.policy import PolicyName, SandboxPolicy, usual_memory_mb

_CHECK_S = 0.2
"""Seconds between two checks. In that time a command can start some thousand processes."""

_INIT = re.compile(rb'"child-pid": (\d+)')
"""The first process of the namespace in the text of bubblewrap's `--info-fd`."""


class CommandLimits:
    """The limits of a command beside its rlimits. Start it inside of `prepared`, then call `watch` with its process."""

    def __init__(self, policy: SandboxPolicy, groups: ControlGroups | None = None) -> None:
        self.prefix: list[str] = []
        """Arguments before those of the confinement: a shell that enters the group."""
        self.options: list[str] = []
        """Options of bubblewrap."""
        self._policy = policy
        self._groups = groups
        self._group: CommandGroup | None = None
        self._information = -1
        self._ended = ""

    @contextlib.contextmanager
    def prepared(self, *, has_namespace: bool) -> Generator[list[int]]:
        """Create the group, and give the descriptors that the command inherits, to which the caller may add.

        They are closed at the end of the block; after an error the group is removed. Where no group limits processes,
        those of a superuser's command are counted, because the kernel has no rlimit for them. That needs a namespace of
        processes.
        """
        descriptors = self._open(has_namespace=has_namespace)
        try:
            yield descriptors
        except BaseException:
            self._discard()
            raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _open(self, *, has_namespace: bool) -> list[int]:
        self._group = None
        self.prefix = []
        self.options = []
        descriptors = self._open_group()
        limited = self._group is not None and self._groups is not None and "pids" in self._groups.controllers
        if has_namespace and self._policy.processes and os.geteuid() == 0 and not limited:
            self._information, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self.options = ["--info-fd", str(written)]
            descriptors.append(written)
        return descriptors

    def _open_group(self) -> list[int]:
        group = self._groups.create(self._policy) if self._groups is not None else None
        if self._groups is None or group is None:
            return []
        try:
            members = group.open_members()
        except OSError:
            group.remove()
            return []
        self._group = group
        # A descriptor, because a confined shell cannot open the file. It is closed before the command begins.
        entering = f'{{ \\echo 0 >&{members}; }} 2>/dev/null; exec {members}>&-; exec "$@"'
        self.prefix = [self._groups.bash, "-p", "-c", entering, "bash"]
        return [members]

    def watch(self, child: Child) -> None:
        """Enforce the limits of the started command until its last process has ended."""
        if self._group is not None:
            _WATCH.add(_GroupLimit(self, self._policy, self._group, child))
        if self._information >= 0:
            _WATCH.add(_NamespaceLimit(self, self._policy, self._information))
            self._information = -1

    def _discard(self) -> None:
        if self._group is not None:
            self._group.remove()
        if self._information >= 0:
            os.close(self._information)
            self._information = -1

    @property
    def exceeded(self) -> str:
        """The limit for which the command was ended, for people; empty when it has exceeded none."""
        return self._ended or (self._group.exceeded(self._policy) if self._group is not None else "")

    def note_end(self, reason: str) -> None:
        """Note that the command is ended for this reason."""
        self._ended = reason


OOM_SCORE = 800
"""The kernel ends processes with a high score first when memory is exhausted: proc_pid_oom_score_adj(5)."""


def with_limits(argv: Sequence[str], policy: SandboxPolicy, *, has_own_users: bool) -> list[str]:
    """Return the arguments that start the same program with the limits of the policy.

    `has_own_users`: only the processes of the command count, as in a separate user namespace. Elsewhere the kernel
    counts all processes of the user, so the limit is above those of the machine. It does not limit a superuser.
    """
    limits = [f"-d {max(1, (policy.memory_mb or usual_memory_mb()) * 1024)}"]
    if policy.processes:
        limits.append(f"-u {policy.processes + (0 if has_own_users else _running_threads())}")
    # A limit that the user's own hard limit forbids is not needed.
    setting = "; ".join(f"\\ulimit {limit} 2>/dev/null" for limit in limits)
    setting += f"; {{ \\echo {OOM_SCORE} >/proc/self/oom_score_adj; }} 2>/dev/null"
    at = bash_line_index(argv)
    if at:
        return [*argv[:at], f"{setting}; {argv[at]}", *argv[at + 1 :]]
    return ["/bin/sh", "-c", f'{setting}; exec "$@"', "sh", *argv]


def _running_threads() -> int:
    """Return the number of threads of all processes of the machine: proc_loadavg(5)."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def describe_limits(groups: ControlGroups | str, *, counts: bool) -> str:
    """Return how the memory and the processes of a command are limited here, for people.

    `groups` is where commands get control groups, or why they get none. `counts`: the processes of a superuser's
    command are counted.
    """
    held = groups.controllers if isinstance(groups, ControlGroups) else frozenset[str]()
    memory = "a control group" if "memory" in held else "an rlimit of each process"
    processes = "an rlimit"
    if "pids" in held:
        processes = "a control group"
    elif os.geteuid() == 0:
        processes = "a count" if counts else "nothing, because rlimits do not hold for root"
    why = f" ({groups})" if isinstance(groups, str) and groups else ""
    return f"limits: memory by {memory}, processes by {processes}{why}"


def remove_ended_groups() -> None:
    """Remove the groups of commands that have ended."""
    _WATCH.check()


class _WatchedLimit(Protocol):
    """A limit that is checked repeatedly."""

    def enforce(self) -> bool:
        """Enforce the limit; return True when no process of the command is left."""
        ...


class _GroupLimit:
    """The processes of a command in a control group."""

    def __init__(self, limits: CommandLimits, policy: SandboxPolicy, group: CommandGroup, child: Child) -> None:
        self._limits = limits
        self._policy = policy
        self._group = group
        self._child = child

    def enforce(self) -> bool:
        """Enforce the limit: a command that was refused a process is ended."""
        if reason := self._group.exceeded(self._policy):
            self._limits.note_end(reason)
            self._group.kill()
        # A started command is not in the group yet.
        return self._child.returncode is not None and self._group.is_empty and self._group.remove()


class _NamespaceLimit:
    """The number of processes in the namespace of a command."""

    def __init__(self, limits: CommandLimits, policy: SandboxPolicy, information: int) -> None:
        self._limits = limits
        self._policy = policy
        self._information = information
        self._report = b""
        self._first = 0
        self._process = 0

    def enforce(self) -> bool:
        if not self._first and not self._find_first():
            return self._information < 0
        if select.select([self._process], [], [], 0)[0]:
            os.close(self._process)
            return True
        if self._count() > self._policy.processes:
            self._limits.note_end(processes_text(self._policy))
            signal.pidfd_send_signal(self._process, signal.SIGKILL)  # the kernel ends all others with the first one
        return False

    def _find_first(self) -> bool:
        """Read the report of bubblewrap; return True when it is complete and the first process lives.

        The descriptor is read to its end: bubblewrap is ended by a signal when it writes more and nothing reads it.
        """
        try:
            while part := os.read(self._information, 4096):
                self._report += part
        except BlockingIOError:
            return False
        os.close(self._information)
        self._information = -1
        if found := _INIT.search(self._report):
            with contextlib.suppress(OSError):
                self._process = os.pidfd_open(int(found[1]))
                self._first = int(found[1])
        return self._first > 0

    def _count(self) -> int:
        """Return the number of processes that the first one sees."""
        own = os.path.join("/proc", str(self._first), "root", "proc")
        try:
            if os.stat(own).st_dev == os.stat("/proc").st_dev:
                return 0
            return sum(name.isdecimal() for name in os.listdir(own))
        except OSError:  # bubblewrap is not ready yet, or it has ended
            return 0


class _LimitWatch:
    """The thread that enforces the limits of the commands of this process. It ends with the last of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: list[_WatchedLimit] = []
        self._thread: threading.Thread | None = None

    def add(self, limit: _WatchedLimit) -> None:
        """Watch one more command. Without room for a thread, watching begins with the next command."""
        with self._lock:
            self._limits.append(limit)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="command limits", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:
                    self._thread = None

    def check(self) -> None:
        """Enforce each limit once."""
        with self._lock:
            self._limits = [limit for limit in self._limits if not limit.enforce()]

    def _run(self) -> None:
        while self._is_needed():
            self.check()
            time.sleep(_CHECK_S)

    def _is_needed(self) -> bool:
        with self._lock:
            if not self._limits:
                self._thread = None
            return bool(self._limits)


_WATCH = _LimitWatch()

SESSION_GROUP = "teamwright-session"
"""The group into which a process moves that was alone in its group: only groups without processes have limited ones."""

_COMMAND_GROUP = "teamwright-command-"
_WANTED = frozenset({"memory", "pids"})
_STARTERS = 4
"""Processes that start a command and are in its group: those of bubblewrap, and shells."""
_GROUP_NUMBERS = itertools.count(1)


class CommandGroup(Struct, frozen=True):
    """The group of one command."""

    directory: Path

    def open_members(self) -> int:
        """Return a descriptor to which a process writes 0 to enter the group. Raises OSError."""
        return os.open(self.directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    @property
    def is_empty(self) -> bool:
        """True when no process is in the group, or the group is gone."""
        return "populated 1" not in _read_kernel_file(self.directory / "cgroup.events")

    def exceeded(self, policy: SandboxPolicy) -> str:
        """Return the limit that the command has exceeded, for people; empty when it has exceeded none."""
        if _named_number(self.directory / "memory.events", "oom_kill"):
            return f"it used more than {policy.memory_mb or usual_memory_mb()} MiB of memory (sandbox.memory_mb)"
        if _named_number(self.directory / "pids.events", "max"):
            return processes_text(policy)
        return ""

    def kill(self) -> None:
        """End all processes of the group."""
        with contextlib.suppress(OSError):  # they have ended
            _write_kernel_file(self.directory / "cgroup.kill", "1")

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
        group = CommandGroup(self.directory / f"{_COMMAND_GROUP}{os.getpid()}-{next(_GROUP_NUMBERS)}")
        try:
            group.directory.mkdir()
        except OSError:
            return None
        try:
            for name, value in self._limits(policy):
                _write_kernel_file(group.directory / name, value)
            if "memory" in self.controllers:
                with contextlib.suppress(FileNotFoundError):  # without swap
                    _write_kernel_file(group.directory / "memory.swap.max", "0")
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
    own = own_directory(_read_kernel_file(Path("/proc/self/cgroup")), _read_kernel_file(Path("/proc/self/mountinfo")))
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
    controllers = _WANTED & set(_read_kernel_file(top / "cgroup.controllers").split())
    if not controllers:
        return f"the control group {top} has neither the controller memory nor pids"
    if not all(os.access(path, os.W_OK) for path in (top, top / "cgroup.procs", top / "cgroup.subtree_control")):
        return f"the control group {top} is not delegated to this user"
    if controllers <= set(_read_kernel_file(top / "cgroup.subtree_control").split()):
        return ControlGroups(top, bash, controllers)
    # The root of all groups alone may have processes beside limited groups. It has no file of events.
    moves = own == top and os.path.exists(top / "cgroup.events")
    members = [int(number) for number in _read_kernel_file(top / "cgroup.procs").split()] if moves else []
    snapshot = ProcessSnapshot()
    if moves and (pid not in members or any(pid not in snapshot.ancestors(one) for one in members)):
        return f"other processes are in the control group {top}"
    try:
        if moves:
            (top / SESSION_GROUP).mkdir(exist_ok=True)
            _move_processes((pid, *members), top / SESSION_GROUP)
        _write_kernel_file(top / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(controllers)))
    except OSError as problem:
        with contextlib.suppress(OSError):
            _move_processes((pid, *members) if moves else (), top)
            (top / SESSION_GROUP).rmdir()
        return f"no limits in the control group {top}: {problem.strerror}"
    return ControlGroups(top, bash, controllers)


def _move_processes(pids: Iterable[int], group: Path) -> None:
    """Move the processes that still live into a group. Raises OSError."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            _write_kernel_file(group / "cgroup.procs", str(pid))


def _read_kernel_file(path: Path) -> str:
    """Return the text of a file of the kernel; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _named_number(path: Path, name: str) -> int:
    """Return the number of this name in a file with a name and a number in each line."""
    rows = (line.split() for line in _read_kernel_file(path).splitlines())
    return next((int(row[1]) for row in rows if row[:1] == [name]), 0)


def _write_kernel_file(path: Path, value: str) -> None:
    """Write to a file of the kernel, which must exist. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode("ascii"))
    finally:
        os.close(descriptor)
