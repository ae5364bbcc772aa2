"""Confinement by Landlock and a filter of system calls, for systems without bubblewrap.

Rules only add permissions: a path inside a writable directory cannot be protected. So protected files are compared
before and after a command (`protected_files`). Depends on the port in `processes`.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import platform
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.processes.confinement import Child, ProcessStart
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside
from teamwright.sandbox.process_limits import OOM_SCORE, with_limits
from teamwright.sandbox.protected_files import ProtectedFiles
from teamwright.sandbox.secret_paths import SESSION_VARIABLES, SYSTEM
from teamwright.sandbox.system_call_filter import FilterChoice, filter_program, is_filter_known

_CREATE_RULESET, _VERSION_FLAG = 444, 1

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
"""Removing and making entries of all kinds."""
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_READING = _EXECUTE | _READ | _LIST
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
"""Rights that a rule for a single file may have."""
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1, 2

_SINCE: Mapping[int, int] = {_REFER: 2, _TRUNCATE: 3, _DEVICE_CONTROL: 5}
"""The version of the interface that has a right, for later ones."""

NETWORK_SINCE, _SCOPE_SINCE = 4, 6
_LEAST_VERSION = 3
"""Before it a file could be emptied."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")
_MAX_RULES = 2_000


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 without Landlock."""
    if not sys.platform.startswith("linux") or platform.machine() not in {"x86_64", "aarch64"}:
        return 0
    return max(0, ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


class LandlockHelper:
    """The helper process of this process, started for the first command and again if it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, request: Mapping[str, Any], streams: tuple[int, int, int]) -> int:
        """Start a command and return its pid. Raises OSError."""
        content = json.dumps(request).encode()
        payload = os.memfd_create("teamwright", os.MFD_CLOEXEC)
        try:
            os.write(payload, content)
            with self._lock:
                answer = self._ask(array.array("i", [payload, *streams])) or self._ask(
                    array.array("i", [payload, *streams])
                )
        finally:
            os.close(payload)
        if answer is None:
            raise OSError("the Landlock helper does not answer")
        if answer["errno"]:
            if answer["pid"] > 0:
                os.waitpid(answer["pid"], 0)
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        return answer["pid"]

    def _ask(self, descriptors: array.array[int]) -> dict[str, int] | None:
        """Send a request; return the answer, or None when the helper has ended."""
        if self._channel is None:
            self._channel, theirs = socket.socketpair()
            program = str(Path(__file__).with_name("landlock_helper.py"))
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", program, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=[theirs.fileno()],
                    env={},
                )
        try:
            self._channel.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            answer = self._channel.recv(1_000)
        except OSError:
            answer = b""
        if not answer:
            self._end()
            return None
        return json.loads(answer)

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.wait()
        self._channel = self._process = None


_HELPERS: dict[int, LandlockHelper] = {}


def own_helper() -> LandlockHelper:
    """Return the helper of this process; a forked process has another one."""
    return _HELPERS.setdefault(os.getpid(), LandlockHelper())


class HelperChild:
    """A command that the helper started: a child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end and return the exit code."""
        code = self._wait(0)
        assert code is not None
        return code

    def _wait(self, flags: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:
                self.returncode = -9
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


class Landlock(Struct, frozen=True):
    """The confinement of one command by Landlock of this version of the kernel's interface."""

    version: int
    policy: SandboxPolicy
    route: NetworkRoute | None = None
    """The way into the network through the proxy; None: there is none, or the policy allows the network."""

    @property
    def replaces_tmp(self) -> bool:
        """Return False; see `CommandConfinement.replaces_tmp`."""
        return False

    def start(self, start: ProcessStart) -> Child:
        """Implement `Confinement.start`."""
        with contextlib.ExitStack() as stack:
            streams = tuple(_descriptor(stack, one) for one in (start.stdin, start.stdout, start.stderr))
            return HelperChild(own_helper().start(self.request(start), (streams[0], streams[1], streams[2])))

    def request(self, start: ProcessStart) -> dict[str, Any]:
        """Return the request for the helper."""
        files = _READING | _WRITE | _CHANGE_DIRECTORY
        files |= sum(right for right, since in _SINCE.items() if self.version >= since)
        closed = self.policy.network is not NetworkAccess.ALLOW
        network = _CONNECT_TCP | (_BIND_TCP if self.policy.name is PolicyName.READ else 0) if closed else 0
        handled = [files, network, _SCOPE_SOCKETS | _SCOPE_SIGNALS]
        size = 24 if self.version >= _SCOPE_SINCE else 16 if self.version >= NETWORK_SINCE else 8
        return {
            "argv": with_limits(start.argv, self.policy, limits_processes=False),
            "cwd": str(start.cwd),
            "env": self.environment(start),
            "ports": [self.route.port] if self.route is not None else [],
            "rules": [[path, _rights(path, access) & files] for path, access in self.rules()],
            "handled": handled,
            "size": size,
            "filter": filter_program(self.filter_choice()).hex() if is_filter_known() else "",
            "oom_score": OOM_SCORE,
        }

    def environment(self, start: ProcessStart) -> dict[str, str]:
        """Return the environment, without the names of sockets, and with the directory for temporary files."""
        env = {name: value for name, value in start.env.items() if name not in SESSION_VARIABLES}
        env |= {"TMPDIR": self.policy.temporary} if self.policy.temporary else {}
        return {**env, **self.route.variables()} if self.route is not None else env

    def guard(self) -> ProtectedFiles:
        """Return the state of all protected paths: no rule protects them inside a writable directory."""
        return ProtectedFiles.take(self.policy.guarded, self.policy.protected)

    def filter_choice(self) -> FilterChoice:
        """Return the filter: rules of Landlock cover TCP alone, and no sockets of programs."""
        policy, reads = self.policy, self.policy.name is PolicyName.READ
        is_open = policy.network is NetworkAccess.ALLOW
        streams = self.version >= NETWORK_SINCE and not reads
        return FilterChoice(unix_sockets=is_open, internet=is_open or streams, datagrams=is_open, only_reads=reads)

    def rules(self) -> list[tuple[str, int]]:
        """Return the rules: paths with rights."""
        policy = self.policy
        writing = _READING | _WRITE | _CHANGE_DIRECTORY | _REFER | _TRUNCATE
        found: list[tuple[str, int]] = [("/proc", _READING), ("/dev", _READING)]
        found += [(path, _READ | _WRITE | _TRUNCATE | _DEVICE_CONTROL) for path in _DEVICES]
        tops = [os.path.realpath(path) for path in SYSTEM if os.path.isdir(path)]
        if policy.name is PolicyName.WORK:
            found += [("/", _LIST), ("/dev/shm", writing)]
            tops = ["/"]
            for top in policy.writable:
                found += [(path, writing) for path in cover(top, policy.hidden)]
        for top in {*tops, *policy.readable}:
            found += [(path, _READING) for path in cover(top, policy.hidden)]
        found += [(path, _READING) for path in policy.visible]
        found += [(path, _WRITE | _TRUNCATE | _READ) for path in policy.own_files]
        own = _READING if policy.name is PolicyName.READ else writing
        found += [(policy.temporary, own)] if policy.temporary else []
        return found[:_MAX_RULES]


def probe_landlock() -> int:
    """Return the version of Landlock that confines a command here, by running one; 0 when none does."""
    version = landlock_version()
    if version < _LEAST_VERSION or not is_filter_known():
        return 0
    start = ProcessStart(("/bin/sh", "-c", ":"), Path("/"), dict(os.environ), *(subprocess.DEVNULL,) * 3)
    try:
        child = Landlock(version, SandboxPolicy(PolicyName.READ)).start(start)
    except OSError:
        return 0
    return version if child.wait() == 0 else 0


def cover(top: str, excluded: Iterable[str]) -> Iterator[str]:
    """Yield paths that together contain all of a directory but the excluded paths. Entries that are links need none."""
    inner = [path for path in excluded if is_inside(path, top)]
    if top in inner:
        return
    if not inner:
        yield top
        return
    try:
        entries = sorted(entry.path for entry in os.scandir(top) if not entry.is_symlink())
    except OSError:
        return
    for path in entries:
        yield from cover(path, inner)


def _rights(path: str, access: int) -> int:
    return access if os.path.isdir(path) else access & _OF_FILES


def _descriptor(stack: contextlib.ExitStack, stream: int) -> int:
    """Return a descriptor for a stream of a process, which may be `subprocess.DEVNULL`."""
    if stream != subprocess.DEVNULL:
        return stream
    return stack.enter_context(open(os.devnull, "rb")).fileno()
