"""Confinement by Landlock and a filter of system calls, for systems without bubblewrap.

Rules only add permissions: a path inside a writable directory cannot be protected. So protected files are compared
before and after a command (`protected_file_check`).

The filter is a program for the kernel's seccomp, which bubblewrap loads too. Formats: seccomp(2), linux/filter.h,
linux/audit.h; numbers: the kernel's system call tables.
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

from teamwright.processes.commands import Child, ProcessStart
from teamwright.sandbox.known_paths import SYSTEM
from teamwright.sandbox.limits import OOM_SCORE, CommandLimits, with_limits
from teamwright.sandbox.network_proxy import NetworkRoute
from teamwright.sandbox.owner_capabilities import kept_capabilities
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy
from teamwright.sandbox.probe_run import runs_under
from teamwright.sandbox.protected_file_check import ChangeableGitConfigs, ProtectedFiles, is_at

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NETWORK_PORT = 2
_OPENAT2 = 437
_RESOLVE_NO_SYMLINKS = 4
_OPEN_HOW = (
    struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS) if sys.platform.startswith("linux") else b""
)
_DROP_FROM_BOUNDING_SET = 24
_SET_NO_NEW_PRIVILEGES = 38
_SET_SECCOMP = 22
_FILTER_MODE = 2
_CAPABILITY_VERSION = 0x20080522

_EXECUTE = 1 << 0
_WRITE = 1 << 1
_READ = 1 << 2
_LIST = 1 << 3
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
"""Removing and making entries of all kinds."""
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_DEVICE_CONTROL = 1 << 15
_READING = _EXECUTE | _READ | _LIST
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
"""Rights that a rule for a single file may have."""
_BIND_TCP = 1
_CONNECT_TCP = 2
_SCOPE_SOCKETS = 1
_SCOPE_SIGNALS = 2

_SINCE: Mapping[int, int] = {_REFER: 2, _TRUNCATE: 3, _DEVICE_CONTROL: 5}
"""The version of the interface that has a right, for later ones."""

NETWORK_SINCE = 4
_SCOPE_SINCE = 6
_LEAST_VERSION = 3
"""Before it a file could be emptied."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""Devices that contain nothing. Among the others are disks, and the terminals of all programs of this user."""

_MAX_RULES = 2_000


class Landlock(Struct, frozen=True):
    """The confinement of one command by Landlock of this version of the kernel's interface."""

    version: int
    policy: SandboxPolicy
    route: NetworkRoute | None = None
    """The way into the network through the proxy; None: there is none, or the policy allows the network."""
    limits: CommandLimits | None = None

    @property
    def replaces_tmp(self) -> bool:
        """False; see `CommandConfinement.replaces_tmp`."""
        return False

    def start(self, start: ProcessStart) -> Child:
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
        """Return the environment of the command, with the variables of the proxy."""
        env = self.policy.environment(start.env, self.policy.temporary)
        return {**env, **self.route.variables()} if self.route is not None else env

    def guard(self) -> ProtectedFiles:
        """Return the state of all protected paths: no rule protects them inside a writable directory."""
        policy = self.policy
        configs = ChangeableGitConfigs(policy.git_configs, policy.git_keys)
        closed = {*policy.hidden, *policy.own_files, policy.temporary} - {""}
        return ProtectedFiles.take(policy.guarded, policy.protected, configs, policy.writable, closed)

    def filter_choice(self) -> FilterChoice:
        """Return the filter: rules of Landlock cover TCP alone, no sockets of programs, and no shared memory."""
        policy = self.policy
        reads = policy.name is PolicyName.READ
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


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 without Landlock."""
    if not sys.platform.startswith("linux") or platform.machine() not in {"x86_64", "aarch64"}:
        return 0
    return max(0, _LIBC.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


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


class Restrictions(Struct, frozen=True):
    """The restrictions of one program: `attributes` of a ruleset (linux/landlock.h), paths with rights, TCP ports to
    which it may connect, a filter of system calls (seccomp(2)), and the numbers of the capabilities that it keeps.
    """

    attributes: bytes
    rules: Sequence[tuple[str, int]]
    ports: Sequence[int]
    filter: bytes
    capabilities: frozenset[int] = frozenset()


_ONE_START = threading.Lock()


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
    kept = restrictions.capabilities
    for number in range(64):
        if number not in kept and _LIBC.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0) != 0:
            break
    if os.geteuid() == 0:
        mask = sum(1 << number for number in kept)
        _check(_LIBC.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), struct.pack("IIIIII", mask, mask, 0, 0, 0, 0)))
    _check(_LIBC.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    if program := restrictions.filter:
        buffer = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
        _check(_LIBC.prctl(_SET_SECCOMP, _FILTER_MODE, header, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_LOAD = 0x20  # BPF_LD|W|ABS
_EQUAL = 0x15  # BPF_JMP|JEQ|K
_AT_LEAST = 0x35  # BPF_JMP|JGE|K
_ANY_BIT = 0x45  # BPF_JMP|JSET|K
_MASK = 0x54  # BPF_ALU|AND|K
_RETURN = 0x06  # BPF_RET|K
_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
_ERROR = 0x00050000  # SECCOMP_RET_ERRNO

_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_ARGUMENTS_AT = 16
"""Offsets in `struct seccomp_data`; each argument has 8 bytes, the low half first."""

_X32_BIT = 0x40000000
"""Numbers from here on are system calls of the x32 interface of x86-64."""

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""

_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which put input into a terminal."""

_REQUESTS_TO_READ = (
    *(0x5401, 0x5402, 0x5403, 0x5404, 0x540A, 0x540B, 0x540F, 0x5410, 0x5413, 0x541B, 0x5421, 0x5429),
    *(0x5450, 0x5451, 0x5452, 0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D, 0x80086601, 0x801C581F, 0xC020660B),
)
"""The requests of ioctl that a reading command may make: of terminals and pipes (TCGETS, TCSETS, TCSETSW, TCSETSF,
TCXONC, TCFLSH, TIOCGPGRP, TIOCSPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, TIOCGSID, FIONCLEX, FIOCLEX, FIOASYNC, TCGETS2,
TCSETS2), and those that get attributes and extents of files. Other ones change flags, encryption or subvolumes by a
file that is open to be read."""

_INTERFACE_REQUESTS = 0x8900
_AFTER_INTERFACES = 0x8A00
"""The requests of sockets and network interfaces (netdevice(7)), and the number after them."""

_UNIX = 1
_INTERNET = (2, 10)
_NETLINK = 16
_STREAM = 1
_PACKETS = 5
_TYPE_BITS = 0xF
_DEFAULT_PROTOCOL = 0
_TCP = 6

_FAST_OPEN = 0x20000000
"""MSG_FASTOPEN, a flag by which a call that sends also connects."""

_SENDING: Mapping[str, tuple[tuple[int, int], int]] = {
    "sendto": ((44, 206), 3),
    "sendmsg": ((46, 211), 2),
    "sendmmsg": ((307, 269), 3),
}
"""System calls that send, with their numbers on x86-64 and on ARM 64, and the index of their argument with flags."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_EXAMINED: Mapping[str, tuple[int, int]] = {
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "unshare": (272, 97),
    "clone3": (435, 435),
    "prlimit64": (302, 261),
}
"""System calls that are examined, with their numbers on x86-64 and on ARM 64."""

_REFUSED: Mapping[str, tuple[int, int]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "pidfd_getfd": (438, 438),
}
"""System calls that no command needs. io_uring would open sockets that this filter does not see."""

_REFUSED_TO_READERS: Mapping[str, tuple[int, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Landlock has no right for modes, owners, times and attributes of files. ARM 64 lacks some of the calls."""

_SHARED_MEMORY: Mapping[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Memory, semaphores and queues that all processes of a user share, where a process has no namespace for them."""

_LISTEN = (50, 201)
"""Without a namespace of the network other machines could connect to a command that listens, and get what it reads."""


class FilterChoice(Struct, frozen=True):
    """The choices of a filter. `unix_sockets`, `internet`, `datagrams`: the sockets that a process may create.

    Without `datagrams` a process may connect only by TCP and by `connect`, which are what rules of Landlock see, and it
    may not listen.
    `shared_memory`: it may use that of System V. `only_reads`: the process is confined by the policy *read*.
    """

    unix_sockets: bool = True
    internet: bool = True
    datagrams: bool = True
    shared_memory: bool = True
    only_reads: bool = False


def is_filter_known() -> bool:
    """Return True when the system calls of this machine are known."""
    return platform.machine() in _ARCHITECTURES


def filter_program(choice: FilterChoice) -> bytes:
    """Return the program as an array of `struct sock_filter`. Raises ValueError for a machine that is not known."""
    machine = platform.machine()
    column = list(_ARCHITECTURES).index(machine)
    refused = {**_REFUSED, **(_REFUSED_TO_READERS if choice.only_reads else {})}
    refused |= {} if choice.shared_memory else _SHARED_MEMORY
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _error(errno.ENOSYS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32_BIT), _error(errno.ENOSYS)]
    numbers = [number for row in refused.values() if (number := row[column]) is not None]
    numbers += [] if choice.datagrams else [_LISTEN[column]]
    for number in numbers:
        lines += [(_EQUAL, 0, 1, number), _error(errno.EPERM)]
    # Without clone3 the C library uses clone, whose flags a filter can read.
    lines += [(_EQUAL, 0, 1, _EXAMINED["clone3"][column]), _error(errno.ENOSYS)]
    for name in ("clone", "unshare"):
        flags = [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(errno.EPERM)]
        lines += _examine(_EXAMINED[name][column], 0, flags)
    # Limits of another process of this user could end it: its processor time, its files.
    lines += _examine(_EXAMINED["prlimit64"][column], 0, [(_EQUAL, 1, 0, 0), _error(errno.EPERM)])
    inputs = [line for request in _TERMINAL_INPUT for line in ((_EQUAL, 0, 1, request), _error(errno.EPERM))]
    lines += _examine(_EXAMINED["ioctl"][column], 1, _reading_requests() if choice.only_reads else inputs)
    lines += _examine(_EXAMINED["socket"][column], 0, _socket_lines(choice))
    if not choice.unix_sockets:  # one of a pair could send datagrams to any other socket
        pairs = [(_MASK, 0, 0, _TYPE_BITS), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _PACKETS), _error(errno.EACCES)]
        lines += _examine(_EXAMINED["socketpair"][column], 1, pairs)
    if choice.internet and not choice.datagrams:
        for by_machine, argument in _SENDING.values():
            lines += _examine(by_machine[column], argument, [(_ANY_BIT, 0, 1, _FAST_OPEN), _error(errno.EACCES)])
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _error(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERROR | number)


def _load_argument(index: int) -> tuple[int, int, int, int]:
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index)


def _examine(number: int, argument: int, lines: Iterable[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return lines that decide about one system call by an argument; what they do not refuse is allowed."""
    inner = [_load_argument(argument), *lines, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(inner), number), *inner]


def _reading_requests() -> list[tuple[int, int, int, int]]:
    """Return lines for the request in the accumulator: each one that is not named here is refused."""
    lines = [line for one in _REQUESTS_TO_READ for line in ((_EQUAL, 0, 1, one), (_RETURN, 0, 0, _ALLOW))]
    lines += [
        (_AT_LEAST, 0, 2, _INTERFACE_REQUESTS),
        (_AT_LEAST, 1, 0, _AFTER_INTERFACES),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [*lines, _error(errno.ENOTTY)]


def _socket_lines(choice: FilterChoice) -> list[tuple[int, int, int, int]]:
    """Return lines for the family in the accumulator: each family that is not named here is refused."""
    allowed = [_NETLINK, *([_UNIX] if choice.unix_sockets else [])]
    lines: list[tuple[int, int, int, int]] = []
    if choice.internet and choice.datagrams:
        allowed += _INTERNET
    elif choice.internet:
        streams = [
            _load_argument(1),
            (_MASK, 0, 0, _TYPE_BITS),
            (_EQUAL, 0, 4, _STREAM),
            _load_argument(2),
            (_EQUAL, 1, 0, _DEFAULT_PROTOCOL),
            (_EQUAL, 0, 1, _TCP),
            (_RETURN, 0, 0, _ALLOW),
            _error(errno.EACCES),
        ]
        for family in _INTERNET:
            lines += [(_EQUAL, 0, len(streams), family), *streams]
    for family in allowed:
        lines += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    return [*lines, _error(errno.EACCES)]
