"""Socket addresses: a path of any length, and the short form of it that the operating system accepts.

Depends on the operating system alone.
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
"""Bytes that a socket's path may have on every system (the limit is 104 on macOS and 108 on Linux)."""

DESCRIPTORS = Path("/proc/self/fd")
"""The directory in which an open directory has a short path, on systems that have it."""


def bind(listening: socket.socket, path: Path) -> Path | None:
    """Bind under a temporary name and rename, 0600, so that a client always meets the old socket or the new.

    A socket whose long path has no short form is created in a private temporary directory, which is returned, with a
    link to it at the path. Raises OSError.
    """
    temporary = path.with_name(f".{secrets.token_hex(4)}")
    if _fits(temporary) or DESCRIPTORS.is_dir():
        with short_address(temporary) as short:
            listening.bind(short)
        private = None
    else:
        private = Path(tempfile.mkdtemp(prefix="tw-", dir="/tmp")) / "socket"
        listening.bind(str(private))
        os.symlink(private, temporary)
    os.chmod(temporary, 0o600)
    os.rename(temporary, path)
    return private


def unbind(path: Path, inode: int, private: Path | None) -> None:
    """Remove the socket, if it is still the one of that inode, and its private directory."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    if private is not None:
        with contextlib.suppress(OSError):
            os.unlink(private)
            os.rmdir(private.parent)


@contextlib.contextmanager
def short_address(path: Path) -> Generator[str]:
    """Yield the path in the form that the operating system accepts for a socket: unchanged, by directory descriptor, or
    by the link."""
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
