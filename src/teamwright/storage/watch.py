"""Noticing what strangers do to files: one watcher a process, with a slow look as the net below it.

Below it: `watchfiles`, imported when the first file is followed. Refuses to know what is in the files: a callback
says that inode, size or mtime of one changed, and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from teamwright.storage.array import Stamp, stamp_of

_Awatch = Callable[..., AsyncIterator[set[tuple[int, str]]]]


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a process watches."""

    step_ms: int = 10
    """How long changes are gathered before they are told."""
    poll_s: float = 2.0
    """How often all followed files are looked at, though the watcher said nothing."""
    blind_poll_s: float = 0.5
    """The same when the watcher cannot start (too many of them, a network file system)."""


@dataclass(slots=True)
class _Followed:
    """A file, the state that was told last, and whom to tell."""

    name: str
    stamp: Stamp | None
    callbacks: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Watcher:
    """`async with Watcher() as watcher:`, then `follow`; leaving the block ends all of it."""

    def __init__(self, settings: WatchSettings | None = None) -> None:
        self._settings = settings or WatchSettings()
        self._files: dict[str, _Followed] = {}
        self._names: set[str] = set()
        self._directories: dict[str, int] = {}  # watched ones and their inodes
        self._changed = asyncio.Event()
        self._stop_watching: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.blind = False
        """Whether the watcher could not start, so that only the slow look is left."""

    async def __aenter__(self) -> Watcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rewatch()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def follow(self, path: Path, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each change of the file from now on, until the returned function is called.

        The file, and its directory, need not be there yet.
        """
        name = str(path)
        followed = self._files.get(name)
        if followed is None:
            followed = self._files[name] = _Followed(os.path.basename(name), stamp_of(name))
            self._gather()
        followed.callbacks.append(callback)
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._watch()), loop.create_task(self._poll())]

        def unfollow() -> None:
            with contextlib.suppress(ValueError):
                followed.callbacks.remove(callback)
            if not followed.callbacks and self._files.get(name) is followed:
                del self._files[name]
                self._gather()

        return unfollow

    def look(self) -> None:
        """Look at all followed files now and tell what changed."""
        for name, followed in list(self._files.items()):
            now = _state(name)
            if now != followed.stamp:
                followed.stamp = now
                for callback in list(followed.callbacks):
                    self._tell(callback)

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as problem:  # one bad listener does not end the watching for the others
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a callback of the file watcher failed", "exception": problem}
            )

    def _gather(self) -> None:
        self._names = {followed.name for followed in self._files.values()}
        if self._wanted() != self._directories:
            self._rewatch()

    def _wanted(self) -> dict[str, int]:
        found = {directory: _inode(directory) for directory in {os.path.dirname(name) for name in self._files}}
        return {directory: inode for directory, inode in found.items() if inode is not None}

    def _rewatch(self) -> None:
        self._changed.set()
        if self._stop_watching is not None:
            self._stop_watching.set()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._settings.blind_poll_s if self.blind else self._settings.poll_s)
            self.look()
            if self._wanted() != self._directories:
                self._rewatch()

    async def _watch(self) -> None:
        """Watch the directories of all followed files; begin anew when they are others, or came back as others."""
        while True:
            self._changed.clear()
            self._directories = self._wanted()
            if self._directories:
                await self._watch_once(list(self._directories))
            if not self._changed.is_set():
                await self._changed.wait()

    async def _watch_once(self, directories: list[str]) -> None:
        try:
            awatch: _Awatch = importlib.import_module("watchfiles").awatch
        except ImportError:
            self.blind = True
            return
        self._stop_watching = asyncio.Event()
        step = self._settings.step_ms
        watching = awatch(
            *directories,
            watch_filter=self._concerns,
            debounce=step,
            step=step,
            stop_event=self._stop_watching,
            recursive=False,
            force_polling=False,
        )
        try:
            self.blind = False
            asyncio.get_running_loop().call_soon(self.look)  # runs when the watcher stands: nothing falls between
            async for changes in watching:
                self.look()
                if any(path in self._directories for _, path in changes):
                    self._rewatch()  # a directory itself went; one that comes in its place is another
        except (OSError, RuntimeError):
            self.blind = True
        finally:
            self._stop_watching = None

    def _concerns(self, change: object, path: str) -> bool:
        """Whether an event is worth a look. By name only: some systems tell other paths than were asked for."""
        return os.path.basename(path) in self._names or path in self._directories


def _state(name: str) -> Stamp | None:
    try:
        return stamp_of(name)
    except OSError:
        return None


def _inode(directory: str) -> int | None:
    try:
        return os.stat(directory).st_ino
    except OSError:
        return None
