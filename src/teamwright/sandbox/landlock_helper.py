"""The helper process of the Landlock implementation: it forks each command, restricts it, and executes it.

It runs as a script, with the standard library alone, and imports nothing of Teamwright. A fork of this small process
with one thread is safe and fast, which a fork of the session's process is not. The started command is a child of the
session's process (`CLONE_PARENT`), not of this one. A request is a byte with four descriptors: its JSON, stdin, stdout
and stderr.

Formats: landlock(7), linux/landlock.h, seccomp(2), clone(2).
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, NoReturn, cast

_CLONE = {"x86_64": 56, "aarch64": 220}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CLONE_PARENT = 0x00008000
_PATH_BENEATH, _NETWORK_PORT = 1, 2
_CONNECT_TCP = 2
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_CLOSE_RANGE, _SET_CLOSE_ON_EXEC = 436, 4
_DESCRIPTORS = 4

libc = ctypes.CDLL(None, use_errno=True)


def main(channel: socket.socket) -> None:
    """Answer requests until the session's process closes the channel."""
    while True:
        size = _DESCRIPTORS * array.array("i").itemsize
        byte, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
        if not byte:
            return
        descriptors = array.array("i")
        for _, _, data in ancillary:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        channel.sendall(json.dumps(_start(descriptors.tolist())).encode())
        for descriptor in descriptors:
            os.close(descriptor)


def _start(descriptors: list[int]) -> dict[str, Any]:
    """Start a command. Return its pid, or the number of the error."""
    with open(os.dup(descriptors[0]), encoding="utf-8") as file:
        file.seek(0)
        request = cast("dict[str, Any]", json.load(file))
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = libc.syscall(_CLONE[os.uname().machine], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os.close(reading)
        _become(request, descriptors[1:], writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as errors:
        problem = errors.read()
    return {"pid": pid, "errno": int(problem or b"0") if pid > 0 else ctypes.get_errno()}


def _become(request: dict[str, Any], streams: list[int], errors: int) -> NoReturn:
    """Restrict this process and execute the command. An error goes to the helper as a number."""
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        _check(libc.syscall(_CLOSE_RANGE, 3, 0xFFFFFFFF, _SET_CLOSE_ON_EXEC))
        os.chdir(request["cwd"])
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # a rule forbids it later
            file.write(str(request["oom_score"]))
        for number in (signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _restrict(request)
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except OSError as problem:
        os.write(errors, str(problem.errno or 1).encode())
    except BaseException:
        os.write(errors, b"1")
    os._exit(127)


def _restrict(request: dict[str, Any]) -> None:
    """Apply the Landlock rules and the filter of system calls to this process. Raises OSError."""
    attributes = struct.pack("QQQ", *request["handled"])[: request["size"]]
    ruleset = _check(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    for path, access in request["rules"]:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is gone needs no permission
        rule = struct.pack("=Qi", access, descriptor)
        _check(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
        os.close(descriptor)
    for port in request["ports"]:
        _check(libc.syscall(_ADD_RULE, ruleset, _NETWORK_PORT, struct.pack("=QQ", _CONNECT_TCP, port), 0))
    _check(libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    _drop_capabilities()
    program = bytes.fromhex(request["filter"])
    if program:
        buffer = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
        _check(libc.prctl(_SET_SECCOMP, _FILTER_MODE, header, 0, 0))


def _drop_capabilities() -> None:
    """Give up all capabilities of a superuser, for the program that is executed too (capset(2), prctl(2))."""
    for number in range(64):
        if libc.prctl(24, number, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            break
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)
    if os.geteuid() == 0:
        _check(libc.capset(header, nothing))


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as session:
        main(session)
