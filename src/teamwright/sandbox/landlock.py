"""Confinement by Landlock and a filter of system calls, for systems without bubblewrap.

Rules only add permissions: a path inside a writable directory cannot be protected. So protected files are compared
before and after a command (`protected_files`). Depends on the port in `processes`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import platform
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.confinement import Child, ProcessStart
from teamwright.sandbox.command_limits import CommandLimits
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.owner_capabilities import kept_capabilities
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy
from teamwright.sandbox.probe_run import runs_under
from teamwright.sandbox.process_limits import OOM_SCORE, with_limits
from teamwright.sandbox.protected_files import ChangeableGitConfigs, ProtectedFiles, is_at
from teamwright.sandbox.secret_paths import SESSION_VARIABLES, SYSTEM
from teamwright.sandbox.system_call_filter import FilterChoice, filter_program, is_filter_known

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION_FLAG = 444, 445, 446, 1
_PATH_BENEATH, _NETWORK_PORT = 1, 2
_OPENAT2, _RESOLVE_NO_SYMLINKS = 437, 4
_OPEN_HOW = (
    struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS) if sys.platform.startswith("linux") else b""
)
_DROP_FROM_BOUNDING_SET, _SET_NO_NEW_PRIVILEGES = 24, 38
_SET_SECCOMP, _FILTER_MODE = 22, 2
_CAPABILITY_VERSION = 0x20080522

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

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""Devices that contain nothing. Among the others are disks, and the terminals of all programs of this user."""

_MAX_RULES = 2_000


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 without Landlock."""
    if not sys.platform.startswith("linux") or platform.machine() not in {"x86_64", "aarch64"}:
        return 0
    return max(0, _LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


class Restrictions(Struct, frozen=True):
    """The restrictions of one program: `attributes` of a ruleset (linux/landlock.h), paths with rights, TCP ports to
    which it may connect, a filter of system calls (seccomp(2)), and the numbers of the capabilities that it keeps.
    """

    attributes: bytes
    rules: Sequence[tuple[str, int]]
    ports: Sequence[int]
    filter: bytes
    capabilities: frozenset[int] = frozenset()


def start_restricted(restrictions: Restrictions, start: ProcessStart, descriptors: Sequence[int] = ()) -> Child:
    """Start a program with restrictions, in a new session; it inherits the descriptors. Raises OSError.

    A thread restricts itself alone and starts the program, which inherits that. Nothing runs between fork and exec, so
    that other threads do not matter, and no memory of this process is copied.
    """
    outcome: list[subprocess.Popen[bytes] | BaseException] = []
    with contextlib.ExitStack() as stack:
        ruleset = _make_ruleset(restrictions)
        stack.callback(os.close, ruleset)
        stack.enter_context(_ONE_START)
        if gc.isenabled():  # finalizers of other objects must not run in the restricted thread
            gc.disable()
            stack.callback(gc.enable)
        thread = threading.Thread(target=_start_in_thread, args=(restrictions, ruleset, start, descriptors, outcome))
        try:
            thread.start()
        except RuntimeError:
            raise OSError(errno.EAGAIN, "the system has no room for another thread or process") from None
        thread.join()
    [child] = outcome
    if isinstance(child, BaseException):
        raise child
    with contextlib.suppress(OSError):  # it has ended; a rule forbids the command to write this
        Path(f"/proc/{child.pid}/oom_score_adj").write_text(str(OOM_SCORE), encoding="ascii")
    return child


_ONE_START = threading.Lock()


def _start_in_thread(
    restrictions: Restrictions,
    ruleset: int,
    start: ProcessStart,
    descriptors: Sequence[int],
    outcome: list[subprocess.Popen[bytes] | BaseException],
) -> None:
    try:
        _restrict_thread(ruleset, restrictions)
        outcome.append(
            subprocess.Popen(
                start.argv,
                cwd=start.cwd,
                env=start.env,
                stdin=start.stdin,
                stdout=start.stdout,
                stderr=start.stderr,
                start_new_session=True,
                pass_fds=descriptors,
            )
        )
    except BaseException as problem:
        outcome.append(problem)


def _make_ruleset(restrictions: Restrictions) -> int:
    """Return the descriptor of a ruleset. What is gone needs no rule. Raises OSError."""
    attributes = restrictions.attributes
    ruleset = _check(_LIBC.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path, access in restrictions.rules:
            _add_rule(ruleset, path, access)
        for port in restrictions.ports:
            _check(_LIBC.syscall(_ADD_RULE, ruleset, _NETWORK_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0))
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _add_rule(ruleset: int, path: str, access: int) -> None:
    """Add a rule for a real path, unless it is gone, or another command has put a link there. Raises OSError."""
    descriptor = _open_without_links(path)
    if descriptor < 0:
        return
    try:
        result = _add_path_rule(ruleset, descriptor, access)
        if result < 0 and ctypes.get_errno() == errno.EINVAL:  # a file, for which some rights are unknown
            result = _add_path_rule(ruleset, descriptor, access & _OF_FILES)
        _check(result)
    finally:
        os.close(descriptor)


def _add_path_rule(ruleset: int, descriptor: int, access: int) -> int:
    return _LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)


def _open_without_links(path: str) -> int:
    """Return a descriptor of a path none of whose parts is a link, or -1: openat2(2)."""
    opened = _LIBC.syscall(_OPENAT2, -1, os.fsencode(path), _OPEN_HOW, len(_OPEN_HOW))
    if opened >= 0 or ctypes.get_errno() not in {errno.ENOSYS, errno.EPERM}:
        return opened
    try:  # a container may forbid the call
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return -1
    if is_at(opened, path):
        return opened
    os.close(opened)
    return -1


def _restrict_thread(ruleset: int, restrictions: Restrictions) -> None:
    """Restrict the calling thread: capabilities, files, the network, and system calls. Raises OSError."""
    program, kept = restrictions.filter, restrictions.capabilities
    for number in range(64):
        if number not in kept and _LIBC.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0) != 0:
            break
    if os.geteuid() == 0:
        mask = sum(1 << number for number in kept)
        _check(_LIBC.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), struct.pack("IIIIII", mask, mask, 0, 0, 0, 0)))
    _check(_LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    if program:
        buffer = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
        _check(_LIBC.prctl(_SET_SECCOMP, _FILTER_MODE, header, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Landlock(Struct, frozen=True):
    """The confinement of one command by Landlock of this version of the kernel's interface."""

    version: int
    policy: SandboxPolicy
    route: NetworkRoute | None = None
    """The way into the network through the proxy; None: there is none, or the policy allows the network."""
    limits: CommandLimits | None = None

    @property
    def replaces_tmp(self) -> bool:
        """Return False; see `CommandConfinement.replaces_tmp`."""
        return False

    def start(self, start: ProcessStart) -> Child:
        """Implement `Confinement.start`."""
        limits = self.limits or CommandLimits(self.policy)
        with limits.prepared(has_namespace=False) as descriptors:
            argv = [*limits.prefix, *with_limits(start.argv, self.policy, has_own_users=False)]
            limited = replace(start, argv=argv, env=self.environment(start))
            child = start_restricted(self.restrictions(), limited, descriptors)
        limits.watch(child)
        return child

    def restrictions(self) -> Restrictions:
        """Return the restrictions of this policy, with the rights that the kernel's interface knows."""
        files = _READING | _WRITE | _CHANGE_DIRECTORY
        files |= sum(right for right, since in _SINCE.items() if self.version >= since)
        closed = self.policy.network is not NetworkAccess.ALLOW
        network = _CONNECT_TCP | (_BIND_TCP if self.policy.name is PolicyName.READ else 0) if closed else 0
        handled = struct.pack("QQQ", files, network, _SCOPE_SOCKETS | _SCOPE_SIGNALS)
        size = 24 if self.version >= _SCOPE_SINCE else 16 if self.version >= NETWORK_SINCE else 8
        return Restrictions(
            handled[:size],
            [(path, access & files) for path, access in self.rules()],
            [self.route.port] if self.route is not None else [],
            filter_program(self.filter_choice()) if is_filter_known() else b"",
            frozenset(kept_capabilities(self.policy).values()),
        )

    def environment(self, start: ProcessStart) -> dict[str, str]:
        """Return the environment, without the names of sockets, and with the directory for temporary files."""
        env = {name: value for name, value in start.env.items() if name not in SESSION_VARIABLES}
        env |= dict(self.policy.variables)
        env |= {"TMPDIR": self.policy.temporary} if self.policy.temporary else {}
        return {**env, **self.route.variables()} if self.route is not None else env

    def guard(self) -> ProtectedFiles:
        """Return the state of all protected paths: no rule protects them inside a writable directory."""
        policy = self.policy
        configs = ChangeableGitConfigs(policy.git_configs, policy.git_keys)
        closed = {*policy.hidden, *policy.own_files, policy.temporary} - {""}
        return ProtectedFiles.take(policy.guarded, policy.protected, configs, policy.writable, closed)

    def filter_choice(self) -> FilterChoice:
        """Return the filter: rules of Landlock cover TCP alone, no sockets of programs, and no shared memory."""
        policy, reads = self.policy, self.policy.name is PolicyName.READ
        is_open = policy.network is NetworkAccess.ALLOW
        streams = self.version >= NETWORK_SINCE and not reads
        return FilterChoice(
            unix_sockets=is_open and policy.names_sockets,
            internet=is_open or streams,
            datagrams=is_open,
            shared_memory=False,
            only_reads=reads,
        )

    def rules(self) -> list[tuple[str, int]]:
        """Return the rules: real paths with rights."""
        policy = self.policy
        writing = _READING | _WRITE | _CHANGE_DIRECTORY | _REFER | _TRUNCATE
        found: list[tuple[str, int]] = [("/proc", _READING), ("/dev", _LIST)]
        found += [(path, _READ | _WRITE | _TRUNCATE | _DEVICE_CONTROL) for path in _DEVICES]
        closed = policy.hidden | {"/dev"}
        tops = [os.path.realpath(path) for path in SYSTEM if os.path.isdir(path)]
        if policy.name is PolicyName.WORK:
            found += [("/", _LIST), (os.path.realpath("/dev/shm"), writing)]
            tops = ["/"]
            for top in policy.writable:
                found += [(path, writing) for path in cover(top, closed)]
        for top in {*tops, *policy.readable}:
            found += [(path, _READING) for path in cover(top, closed)]
        found += [(path, _READING) for path in policy.visible]
        found += [(os.path.realpath(path), _WRITE | _TRUNCATE | _READ) for path in policy.own_files]
        own = _READING if policy.name is PolicyName.READ else writing
        found += [(policy.temporary, own)] if policy.temporary else []
        return found[:_MAX_RULES]


def probe_landlock() -> int:
    """Return the version of Landlock that confines a command here, by running one; 0 when none does.

    Raises NoRoomError.
    """
    version = landlock_version()
    if version < _LEAST_VERSION or not is_filter_known():
        return 0
    return version if runs_under(Landlock(version, SandboxPolicy(PolicyName.READ))) else 0


def cover(top: str, excluded: Iterable[str]) -> Iterator[str]:
    """Yield paths that together contain all of a directory but the excluded paths. Entries that are links need none."""
    excluded = frozenset(excluded)
    if top in excluded:
        return
    prefix = f"{top.rstrip('/')}/"
    inner = [path for path in excluded if path.startswith(prefix)]
    if not inner:
        yield top
        return
    try:
        entries = sorted(entry.path for entry in os.scandir(top) if not entry.is_symlink())
    except OSError:
        return
    divided = {prefix + path[len(prefix) :].partition("/")[0] for path in inner}
    for path in entries:
        if path in divided:
            yield from cover(path, inner)
        else:
            yield path
