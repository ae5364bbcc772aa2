"""Where a socket lies: a path of any length, and the short form that the operating system takes for it.

Below it: the operating system. Refuses to know what is said over a socket.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

MAX_ADDRESS = 100
"""Bytes that a socket's path may have everywhere (the limit is 104 on macOS and 108 on Linux)."""

DESCRIPTORS = Path("/proc/self/fd")
"""Where an open directory has a short path, on systems that have it."""


def bind(listening: socket.socket, path: Path) -> Path | None:
    """Bind under a name beside and rename, 0600, so that a caller always meets the old socket or the new.

    Where a long path has no short form the socket lies in a private temporary directory, which is returned, and
    a link to it at the path. Raises OSError.
    """
    beside = path.with_name(f".{secrets.token_hex(4)}")
    if _fits(beside) or DESCRIPTORS.is_dir():
        with short_address(beside) as short:
            listening.bind(short)
        private = None
    else:
        private = Path(tempfile.mkdtemp(prefix="tw-", dir="/tmp")) / "socket"
        listening.bind(str(private))
        os.symlink(private, beside)
    os.chmod(beside, 0o600)
    os.rename(beside, path)
    return private


def unbind(path: Path, inode: int, private: Path | None) -> None:
    """Take the socket away, if it is still the one of that inode, and the private directory that it may lie in."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    if private is not None:
        with contextlib.suppress(OSError):
            os.unlink(private)
            os.rmdir(private.parent)


@contextlib.contextmanager
def short_address(path: Path) -> Generator[str]:
    """The path as the operating system takes it for a socket: as it is, by directory descriptor, or by the link."""
    if _fits(path):
        yield str(path)
    elif DESCRIPTORS.is_dir():
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield str(DESCRIPTORS / str(directory) / path.name)
        finally:
            os.close(directory)
    else:
        yield os.readlink(path)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_ADDRESS
