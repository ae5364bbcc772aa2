"""The limits of a command that the kernel does not enforce by rlimits: its control group, or a count of its processes.

One thread of this process watches the commands that have either: it ends a command with too many processes, and
removes the group when the last process of the command has ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import threading
import time
from collections.abc import Generator
from typing import Protocol

from teamwright.processes.confinement import Child
from teamwright.sandbox.control_groups import CommandGroup, ControlGroups, processes_text
from teamwright.sandbox.policy import SandboxPolicy

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
        self._group, self.prefix, self.options = None, [], []
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


class _WatchedLimit(Protocol):
    """A limit that is checked repeatedly."""

    def enforce(self) -> bool:
        """Enforce the limit; return True when no process of the command is left."""
        ...


class _GroupLimit:
    """The processes of a command in a control group."""

    def __init__(self, limits: CommandLimits, policy: SandboxPolicy, group: CommandGroup, child: Child) -> None:
        self._limits, self._policy, self._group, self._child = limits, policy, group, child

    def enforce(self) -> bool:
        """Implement `_WatchedLimit.enforce`: a command that was refused a process is ended."""
        if reason := self._group.exceeded(self._policy):
            self._limits.note_end(reason)
            self._group.kill()
        # A started command is not in the group yet.
        return self._child.returncode is not None and self._group.is_empty and self._group.remove()


class _NamespaceLimit:
    """The number of processes in the namespace of a command."""

    def __init__(self, limits: CommandLimits, policy: SandboxPolicy, information: int) -> None:
        self._limits, self._policy, self._information = limits, policy, information
        self._report = b""
        self._first = self._process = 0

    def enforce(self) -> bool:
        """Implement `_WatchedLimit.enforce`."""
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


def remove_ended_groups() -> None:
    """Remove the groups of commands that have ended."""
    _WATCH.check()
