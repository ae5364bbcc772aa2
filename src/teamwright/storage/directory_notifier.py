"""Changes of directories where the system has no inotify: a thread of `watchfiles`, imported when it is needed.

Depends on that library, which looks for news at intervals. Leaves to `watch` which changes matter.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import struct
from collections.abc import AsyncIterator, Callable
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


class InotifyNotifier:
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


def is_inotify_available() -> bool:
    """Whether this system has it."""
    return Path("/proc/sys/fs/inotify").is_dir()


_Awatch = Callable[..., AsyncIterator[set[tuple[int, str]]]]

STEP_MS = 250
"""How often the library's thread looks for news: each look is a wake-up of a process that rests."""


class WatchfilesNotifier:
    """Watched directories. `failed` is called when the library cannot watch them. Raises ImportError."""

    def __init__(self, changed: Callable[[set[str] | None], None], failed: Callable[[], None]) -> None:
        self._awatch: _Awatch = importlib.import_module("watchfiles").awatch
        self._changed = changed
        self._failed = failed
        self._requested_paths: dict[str, str] = {}
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, directory: str) -> None:
        """Watch this directory from now on."""
        self._requested_paths[os.path.realpath(directory)] = directory  # some systems report the real path
        self._restart()

    def remove(self, directory: str) -> None:
        """Watch it no longer."""
        self._requested_paths = {real: asked for real, asked in self._requested_paths.items() if asked != directory}
        self._restart()

    async def close(self) -> None:
        """Watch nothing any more."""
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
                await self._stop.wait()  # the library failed: it is asked again for other directories

    async def _watch_once(self) -> None:
        asked = dict(self._requested_paths)
        options = {"debounce": STEP_MS, "step": STEP_MS, "recursive": False, "force_polling": False}
        watching = self._awatch(*asked.values(), watch_filter=None, stop_event=self._stop, **options)
        asyncio.get_running_loop().call_soon(self._changed, None)
        try:
            async for changes in watching:
                self._changed({_requested_name(path, asked) for _, path in changes})
        except (OSError, RuntimeError):
            self._failed()


def _requested_name(path: str, asked: dict[str, str]) -> str:
    if path in asked:
        return asked[path]
    directory, name = os.path.split(path)
    return os.path.join(asked.get(directory, directory), name)
