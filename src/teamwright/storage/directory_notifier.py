"""Notifiers of directory changes: inotify, or a thread of `watchfiles` where the system has no inotify.

`watchfiles` is imported on demand and polls at intervals. Leaves to `file_watcher` which changes matter.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

OnChanged = Callable[[set[str] | None], None]
"""Receives the paths that were created, changed or removed; None when some are unknown."""

_EVENT = struct.Struct("iIII")
_ATTRIB, _MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = (
    0x4, 0x2, 0x8, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800,
)  # fmt: skip
_WANTED = _ATTRIB | _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x4000, 0x8000, 0x1000000
_MOST_BYTES = 1 << 16


class InotifyNotifier:
    """Directories watched by inotify. `step_s`: seconds during which changes are collected. Raises OSError where the
    system refuses."""

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
        """The number of reads from the descriptor."""
        self._fd: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise self._refused("inotify")
        self._loop.add_reader(self._fd, self._ready)

    def add(self, directory: str) -> None:
        """Watch this directory. Raises OSError, FileNotFoundError when it does not exist."""
        number: int = self._library.inotify_add_watch(self._fd, os.fsencode(directory), _WANTED | _ONLY_DIRECTORIES)
        if number < 0:
            raise self._refused(directory)
        self._names.setdefault(number, set()).add(directory)

    def remove(self, directory: str) -> None:
        """Stop watching the directory; harmless when it is not watched, or was removed."""
        for number, names in list(self._names.items()):
            names.discard(directory)
            if not names:
                del self._names[number]
                self._library.inotify_rm_watch(self._fd, number)

    async def close(self) -> None:
        """Stop watching all directories."""
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
        """Schedule one read for all changes of the next `step_s`."""
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
        """Add the paths of these events to `found`. Return False when the system lost some."""
        at = 0
        complete = True
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


def is_inotify_available() -> bool:
    """Return True when this system has inotify."""
    return Path("/proc/sys/fs/inotify").is_dir()


_Awatch = Callable[..., AsyncIterator[set[tuple[int, str]]]]

STEP_MS = 250
"""Milliseconds between two polls of the library's thread: each poll wakes an idle process."""


class WatchfilesNotifier:
    """Directories watched by `watchfiles`. `failed` is called when the library cannot watch them. Raises
    ImportError.
    """

    def __init__(self, changed: Callable[[set[str] | None], None], failed: Callable[[], None]) -> None:
        self._awatch: _Awatch = importlib.import_module("watchfiles").awatch
        self._changed = changed
        self._failed = failed
        self._requested_paths: dict[str, str] = {}
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, directory: str) -> None:
        """Watch this directory."""
        self._requested_paths[os.path.realpath(directory)] = directory  # some systems report the real path
        self._restart()

    def remove(self, directory: str) -> None:
        """Stop watching the directory."""
        self._requested_paths = {real: path for real, path in self._requested_paths.items() if path != directory}
        self._restart()

    async def close(self) -> None:
        """Stop watching all directories."""
        self._requested_paths.clear()
        self._stop.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _restart(self) -> None:
        self._stop.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            self._stop.clear()
            if not self._requested_paths:
                await self._stop.wait()
                continue
            await self._watch_once()
            if not self._stop.is_set():
                await self._stop.wait()  # the library failed: retry with other directories

    async def _watch_once(self) -> None:
        requested_paths = dict(self._requested_paths)
        options = {"debounce": STEP_MS, "step": STEP_MS, "recursive": False, "force_polling": False}
        watching = self._awatch(*requested_paths.values(), watch_filter=None, stop_event=self._stop, **options)
        asyncio.get_running_loop().call_soon(self._changed, None)
        try:
            async for changes in watching:
                self._changed({_requested_name(path, requested_paths) for _, path in changes})
        except (OSError, RuntimeError):
            self._failed()


def _requested_name(path: str, requested_paths: dict[str, str]) -> str:
    if path in requested_paths:
        return requested_paths[path]
    directory, name = os.path.split(path)
    return os.path.join(requested_paths.get(directory, directory), name)
