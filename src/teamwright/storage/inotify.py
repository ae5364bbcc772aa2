"""Changes of directories, as Linux reports them: a descriptor of the event loop, without a thread and without polling.

Depends on the C library through `ctypes`, imported when the first directory is watched. Leaves to `watch` which
changes matter.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from pathlib import Path

OnChanged = Callable[[set[str] | None], None]
"""Receives the paths that were made, changed or removed; None when some are not known."""

_EVENT = struct.Struct("iIII")
_ATTRIB, _MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = (
    0x4, 0x2, 0x8, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800,
)  # fmt: skip
_WANTED = _ATTRIB | _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x4000, 0x8000, 0x1000000
_MOST_BYTES = 1 << 16


class Inotify:
    """Watched directories. `step_s`: how long changes are gathered. Raises OSError where the system refuses."""

    def __init__(self, changed: OnChanged, step_s: float) -> None:
        import ctypes

        self._changed = changed
        self._step_s = step_s
        self._errno = ctypes.get_errno
        self._library = ctypes.CDLL(None, use_errno=True)
        self._loop = asyncio.get_running_loop()
        self._names: dict[int, set[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.reads = 0
        """How often the descriptor was read."""
        self._fd: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise self._refused("inotify")
        self._loop.add_reader(self._fd, self._ready)

    def add(self, directory: str) -> None:
        """Watch this directory from now on. Raises OSError, FileNotFoundError when it is not there."""
        number: int = self._library.inotify_add_watch(self._fd, os.fsencode(directory), _WANTED | _ONLY_DIRECTORIES)
        if number < 0:
            raise self._refused(directory)
        self._names.setdefault(number, set()).add(directory)

    def remove(self, directory: str) -> None:
        """Watch it no longer; harmless when it is not watched, or was removed."""
        for number, names in list(self._names.items()):
            names.discard(directory)
            if not names:
                del self._names[number]
                self._library.inotify_rm_watch(self._fd, number)

    async def close(self) -> None:
        """Watch nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _refused(self, name: str) -> OSError:
        number = self._errno()
        return OSError(number, os.strerror(number), name)

    def _ready(self) -> None:
        """Something changed: what follows within the step is read with it."""
        self._loop.remove_reader(self._fd)
        self._timer = self._loop.call_later(self._step_s, self._read)

    def _read(self) -> None:
        self._timer = None
        found: set[str] = set()
        complete = True
        try:
            while content := os.read(self._fd, _MOST_BYTES):
                self.reads += 1
                complete = self._take(content, found) and complete
        except BlockingIOError:
            pass
        self._loop.add_reader(self._fd, self._ready)
        if found or not complete:
            self._changed(found if complete else None)

    def _take(self, content: bytes, found: set[str]) -> bool:
        """Put the paths of these events into `found`. False when the system lost some."""
        at, complete = 0, True
        while at < len(content):
            number, mask, _, length = _EVENT.unpack_from(content, at)
            at += _EVENT.size + length
            complete = complete and not mask & _OVERFLOW
            name = os.fsdecode(content[at - length : at].rstrip(b"\0"))
            for directory in self._names.get(number, ()):
                found.add(f"{directory}/{name}" if name else directory)
            if mask & _IGNORED:
                self._names.pop(number, None)
        return complete


def inotify_is_there() -> bool:
    """Whether this system has it."""
    return Path("/proc/sys/fs/inotify").is_dir()
