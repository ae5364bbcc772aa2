"""Doorbells: sockets by which one Teamwright process wakes another to look at its files.

A doorbell is a datagram socket at a path of any length. A ring is empty and means "look", so losing rings in a full
queue does no harm. A doorbell with a callback costs a descriptor and no task, so that a process may own hundreds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import secrets
import socket
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from teamwright.protocol.errors import StorageError
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.files import storage_error
from teamwright.storage.paths import Home, make_private


class Doorbell:
    """A doorbell that this process owns. Only the owner of a name binds it (see Lease); children do not inherit it."""

    def __init__(self, path: Path, listening: socket.socket, private: Path | None) -> None:
        self.path = path
        self._socket = listening
        self._inode = os.stat(path).st_ino
        self._private = private
        self._has_rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._callback: Callable[[], None] | None = None

    @classmethod
    def bind(cls, path: Path) -> Doorbell:
        """Bind a doorbell at this path, 0600, in place of one that a dead owner left. Raises StorageError."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            listening.setblocking(False)
            make_private(path.parent)
            return cls(path, listening, bind(listening, path))
        except OSError as problem:
            listening.close()
            raise storage_error(problem, path) from problem

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a ring; return False after `timeout_s`. Rings before the call count; look at the files
        afterwards.
        """
        self._listen()
        try:
            async with time_limit(timeout_s):
                await self._has_rung.wait()
        except TimeoutError:
            return False
        self._has_rung.clear()
        return True

    def set_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the running loop after each ring, earlier rings included, without a waiting task."""
        self._callback = callback
        self._listen()

    def clear(self) -> None:
        """Forget the rings so far: call it before looking at the files, never after."""
        self._has_rung.clear()
        self._read_all()

    def close(self) -> None:
        """Close and remove the socket; harmless when already closed."""
        if self._socket.fileno() < 0:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        _open_doorbells.discard(self)
        unbind(self.path, self._inode, self._private)

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._loop = loop
        self._has_rung = asyncio.Event()
        loop.add_reader(self._socket.fileno(), self._on_ring)

    def _on_ring(self) -> None:
        self._read_all()
        self._has_rung.set()
        if self._callback is not None:
            self._callback()

    def _read_all(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(16)


def ring(path: Path) -> bool:
    """Ring the doorbell at this path. Return False when no process listens. Never waits: a full queue means that the
    process will wake anyway."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as calling:
        calling.setblocking(False)
        try:
            with short_address(path) as short:
                calling.sendto(b"", short)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


_open_doorbells: set[Doorbell] = set()
"""The doorbells of this process with a callback: each uses a descriptor."""


def listen(path: Path, callback: Callable[[], None]) -> Callable[[], None]:
    """Bind a doorbell with a callback in the running loop; return the function that closes it.

    Where no socket can be bound (a file system without sockets, too few descriptors), no ring arrives: changes are then
    noticed by polling.
    """
    if len(_open_doorbells) >= _max_callbacks():
        return _no_doorbell
    try:
        bell = Doorbell.bind(path)
    except StorageError:
        return _no_doorbell
    _open_doorbells.add(bell)
    bell.set_callback(callback)
    return bell.close


def _max_callbacks() -> int:
    """Return how many doorbells may have a callback: a quarter of the descriptors that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(1, soft // 4)


def _no_doorbell() -> None:
    """Close nothing: no doorbell was bound."""


class TeamDoorbells(NamedTuple):
    """The doorbells of the team in `directory`, one for each member."""

    home: Home
    directory: str

    @property
    def place(self) -> Path:
        """The directory of the doorbells."""
        return self.path("any").parent

    def path(self, name: str) -> Path:
        """Return the doorbell of this member."""
        return self.home.doorbell(self.directory, name)

    def ring(self, name: str) -> bool:
        """Ring the doorbell of this member (see `ring`)."""
        return ring(self.path(name))

    def listen(self, name: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Bind the doorbell of this member of our process (see `listen`)."""
        return listen(self.path(name), callback)

    def remove_unused(self) -> None:
        """Remove the doorbells on which no process listens. Raises StorageError."""
        remove_unused_in(self.place)


def remove_unused(path: Path) -> None:
    """Remove the doorbell at this path if its owner died. One that cannot be removed is left for `remove_unused_in`."""
    with contextlib.suppress(OSError):
        if not ring(path):
            path.unlink(missing_ok=True)


def remove_unused_in(directory: Path) -> None:
    """Remove the doorbells in a directory on which no process listens: their owners died. Raises StorageError."""
    try:
        for bell in sorted(directory.iterdir()) if directory.is_dir() else ():
            if not ring(bell):
                bell.unlink(missing_ok=True)
    except OSError as problem:
        raise storage_error(problem, directory) from problem


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
