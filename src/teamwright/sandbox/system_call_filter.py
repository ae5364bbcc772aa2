"""The filter of system calls of a confined process, as a program for the kernel's seccomp.

Formats: seccomp(2), linux/filter.h, linux/audit.h; numbers: the kernel's system call tables. Depends on nothing; the
program is loaded by bubblewrap, or under Landlock by the thread that starts a command.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping

from msgspec import Struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
"""BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JGE|K, BPF_JMP|JSET|K, BPF_ALU|AND|K, BPF_RET|K."""

_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
"""SECCOMP_RET_ALLOW and SECCOMP_RET_ERRNO."""

_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
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

_INTERFACE_REQUESTS, _AFTER_THEM = 0x8900, 0x8A00
"""The requests of sockets and network interfaces (netdevice(7))."""

_UNIX, _INTERNET, _NETLINK = 1, (2, 10), 16
_STREAM, _PACKETS, _TYPE_BITS = 1, 5, 0xF
_DEFAULT_PROTOCOL, _TCP = 0, 6

_FAST_OPEN = 0x20000000
"""MSG_FASTOPEN, a flag by which a call that sends also connects."""

_SENDING: Mapping[str, tuple[tuple[int, int], int]] = {
    "sendto": ((44, 206), 3),
    "sendmsg": ((46, 211), 2),
    "sendmmsg": ((307, 269), 3),
}
"""System calls that send, with their numbers on x86-64 and on ARM 64, and the index of their argument with flags."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NUMBERS: Mapping[str, tuple[int, int]] = {
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


def is_filter_known(machine: str = "") -> bool:
    """Return True when the system calls of this machine are known. Without a name: of this one."""
    return (machine or platform.machine()) in _ARCHITECTURES


def filter_program(choice: FilterChoice, machine: str = "") -> bytes:
    """Return the program as an array of `struct sock_filter`. Raises KeyError for a machine that is not known."""
    machine = machine or platform.machine()
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
    lines += [(_EQUAL, 0, 1, _NUMBERS["clone3"][column]), _error(errno.ENOSYS)]
    for name in ("clone", "unshare"):
        flags = [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(errno.EPERM)]
        lines += _examine(_NUMBERS[name][column], 0, flags)
    # Limits of another process of this user could end it: its processor time, its files.
    lines += _examine(_NUMBERS["prlimit64"][column], 0, [(_EQUAL, 1, 0, 0), _error(errno.EPERM)])
    inputs = [line for request in _TERMINAL_INPUT for line in ((_EQUAL, 0, 1, request), _error(errno.EPERM))]
    lines += _examine(_NUMBERS["ioctl"][column], 1, _reading_requests() if choice.only_reads else inputs)
    lines += _examine(_NUMBERS["socket"][column], 0, _socket_lines(choice))
    if not choice.unix_sockets:  # one of a pair could send datagrams to any other socket
        pairs = [(_MASK, 0, 0, _TYPE_BITS), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _PACKETS), _error(errno.EACCES)]
        lines += _examine(_NUMBERS["socketpair"][column], 1, pairs)
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
    lines += [(_AT_LEAST, 0, 2, _INTERFACE_REQUESTS), (_AT_LEAST, 1, 0, _AFTER_THEM), (_RETURN, 0, 0, _ALLOW)]
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
