"""A network without a way out for the commands of a session, with one listening socket on its `127.0.0.1`.

A short-lived child makes the namespaces and sends their descriptors, which keep them alive. It runs as a script with
the standard library alone. The socket is used in this process: a connection of a command arrives here, outside.

Formats: namespaces(7), user_namespaces(7), netdevice(7).
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

_NEW_USERS, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_INTERFACE_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_BACKLOG = 128
_COUNT = 3
_TIMEOUT_S = 30.0


def open_namespace() -> tuple[socket.socket, int, int]:
    """Return the listening socket, and descriptors of the user and the network namespace. Raises OSError."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={},
        )
        theirs.close()
        ours.settimeout(_TIMEOUT_S)
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, _COUNT)
        finally:
            child.kill()  # it has nothing more to do, or does not answer
            child.wait()
    if len(descriptors) != _COUNT:
        raise OSError("no network namespace can be made here")
    listener, users, network = descriptors
    return socket.socket(fileno=listener), users, network


def _send_namespace(channel: socket.socket) -> None:
    """Make the namespaces of this process and send their descriptors. Raises OSError."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USERS | _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    with socket.socket() as listener:
        fcntl.ioctl(listener, _SET_INTERFACE_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
        spaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("user", "net")]
        descriptors = array.array("i", [listener.fileno(), *spaces])
        channel.sendmsg([b"n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as session:
        _send_namespace(session)
