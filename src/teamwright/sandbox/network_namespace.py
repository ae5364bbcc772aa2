"""A network without a way out for the commands of a session, with one listening socket on its `127.0.0.1`.

A short-lived child makes the namespaces and sends their descriptors, which keep them alive. Another one connects to a
server in them. Both run as a script with the standard library alone. The sockets are used in this process, outside.

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
_CONNECT_TIMEOUT_S = 5.0


def open_namespace() -> tuple[socket.socket, int, int]:
    """Return the listening socket, and descriptors of the user and the network namespace. Raises OSError."""
    descriptors = _receive((), ())
    if len(descriptors) != _COUNT:
        raise OSError("no network namespace can be made here")
    listener, users, network = descriptors
    return socket.socket(fileno=listener), users, network


def connect_inside(namespaces: tuple[int, ...], port: int) -> socket.socket | None:
    """Return a connection to a server on this port of `localhost` in the namespaces; None when there is none."""
    try:
        found = _receive(namespaces, (*namespaces, port))
    except OSError:
        return None
    return socket.socket(fileno=found[0]) if found else None


def _receive(inherited: tuple[int, ...], arguments: tuple[int, ...]) -> list[int]:
    """Run the child; return the descriptors that it sends. Raises OSError."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), *inherited],
            env={},
        )
        theirs.close()
        ours.settimeout(_TIMEOUT_S)
        try:
            _, descriptors, _, _ = socket.recv_fds(ours, 1, _COUNT)
        finally:
            child.kill()  # it has nothing more to do, or does not answer
            child.wait()
    return descriptors


def _send_namespace(channel: socket.socket) -> None:
    """Make the namespaces of this process and send their descriptors. Raises OSError."""
    uid = os.getuid()
    gid = os.getgid()
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


def _send_connection(channel: socket.socket, users: int, network: int, port: int) -> None:
    """Enter the namespaces, and send a connection to a server there. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for descriptor, kind in ((users, _NEW_USERS), (network, _NEW_NETWORK)):
        if libc.setns(descriptor, kind) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    for host in ("127.0.0.1", "::1"):
        try:
            made = socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S)
        except OSError:
            continue
        made.setblocking(True)
        socket.send_fds(channel, [b"c"], [made.fileno()])
        return


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as session:
        if sys.argv[2:]:
            _send_connection(session, *map(int, sys.argv[2:5]))
        else:
            _send_namespace(session)
