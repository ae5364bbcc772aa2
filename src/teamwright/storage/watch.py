"""Noticing what strangers do to files: one watcher a process, with a slow look as the net below it.

Below it: `watchfiles`, imported when the first file is followed. Refuses to know what is in the files: a callback
says that inode, size or mtime of one changed, or which entries of a directory did, and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import field
from functools import partial
from pathlib import Path
from types import TracebackType

from teamwright.protocol.values import dataclass
from teamwright.storage.array import Stamp, stamp_of

_Awatch = Callable[..., AsyncIterator[set[tuple[int, str]]]]

Names = frozenset[str] | None
"""Entries of a directory that changed; None: any of them may have."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How a process watches."""

    step_ms: int = 30
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


@dataclass(frozen=True, slots=True)
class _Listener:
    """Whom to tell of a directory's entries, and of which."""

    concerns: Callable[[str], bool]
    callback: Callable[[Names], None]


@dataclass(slots=True)
class _Place:
    """A directory whose entries are followed, and its state when they were told last."""

    stamp: tuple[int, int] | None
    listeners: list[_Listener] = field(default_factory=list[_Listener])


class Watcher:
    """`async with Watcher() as watcher:`, then `follow`; leaving the block ends all of it."""

    def __init__(self, settings: WatchSettings | None = None) -> None:
        self._settings = settings or WatchSettings()
        self._files: dict[str, _Followed] = {}
        self._places: dict[str, _Place] = {}
        self._names: set[str] = set()
        self._directories: dict[str, int] = {}  # watched ones and their inodes
        self._awaited: set[str] = set()  # directories that are not there yet: their parents are watched
        self._real: dict[str, str] = {}  # followed directories by their real paths, which some systems tell
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
        self._start()

        def unfollow() -> None:
            with contextlib.suppress(ValueError):
                followed.callbacks.remove(callback)
            if not followed.callbacks and self._files.get(name) is followed:
                del self._files[name]
                self._gather()

        return unfollow

    def follow_directory(
        self, directory: Path, callback: Callable[[Names], None], concerns: Callable[[str], bool]
    ) -> Callable[[], None]:
        """Call `callback` with the names that were made, changed or removed in the directory, many at a time.

        Only names that `concerns` accepts are told; None says that any may have changed. The directory need not be
        there yet. Ends when the returned function is called.
        """
        name, listener = str(directory), _Listener(concerns, callback)
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = _Place(_directory_state(name))
            self._gather()
        place.listeners.append(listener)
        self._start()

        def unfollow() -> None:
            with contextlib.suppress(ValueError):
                place.listeners.remove(listener)
            if not place.listeners and self._places.get(name) is place:
                del self._places[name]
                self._gather()

        return unfollow

    def _start(self) -> None:
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._watch()), loop.create_task(self._poll())]

    def look(self) -> None:
        """Look at all followed files now and tell what changed."""
        for name, followed in list(self._files.items()):
            now = _state(name)
            if now != followed.stamp:
                followed.stamp = now
                for callback in list(followed.callbacks):
                    self._tell(callback)

    def _look_in_directories(self, *, always: bool) -> None:
        """Tell of the directories that changed since they were told; of all of them with `always`."""
        for name, place in list(self._places.items()):
            now = _directory_state(name)
            if always or now != place.stamp:
                place.stamp = now
                for listener in list(place.listeners):
                    self._tell(partial(listener.callback, None))

    def _tell_entries(self, paths: Iterable[str]) -> None:
        found: dict[str, set[str]] = {}
        for path in paths:
            directory, name = os.path.split(path)
            found.setdefault(directory, set()).add(name)
        for directory, names in found.items():
            place = self._places.get(directory) or self._places.get(self._real.get(directory, ""))
            if place is None:
                continue
            place.stamp = _directory_state(directory)
            for listener in list(place.listeners):
                if concerned := frozenset(filter(listener.concerns, names)):
                    self._tell(partial(listener.callback, concerned))

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
        """The directories to watch, with their inodes; in the place of one that is not there what is there above it."""
        wanted = {os.path.dirname(name) for name in self._files} | self._places.keys()
        found = {directory: _inode(directory) for directory in wanted}
        self._awaited = set()
        for directory in [directory for directory, inode in found.items() if inode is None]:
            while found.setdefault(directory, _inode(directory)) is None and directory not in self._awaited:
                self._awaited.add(directory)
                directory = os.path.dirname(directory)
        return {directory: inode for directory, inode in found.items() if inode is not None}

    def _rewatch(self) -> None:
        self._changed.set()
        if self._stop_watching is not None:
            self._stop_watching.set()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._settings.blind_poll_s if self.blind else self._settings.poll_s)
            self.look()
            self._look_in_directories(always=self.blind)
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
            self._real = {os.path.realpath(name): name for name in self._places}
            asyncio.get_running_loop().call_soon(self._stands)
            async for changes in watching:
                self.look()
                self._tell_entries(path for _, path in changes)
                if any(path in self._directories or path in self._awaited for _, path in changes):
                    self._rewatch()  # a directory itself came or went; one that comes in its place is another
        except (OSError, RuntimeError):
            self.blind = True
        finally:
            self._stop_watching = None

    def _stands(self) -> None:
        """The watcher is there now: what happened before it was is found by looking, nothing falls between."""
        self.look()
        self._look_in_directories(always=True)

    def _concerns(self, change: object, path: str) -> bool:
        """Whether an event is worth a look. By name only: some systems tell other paths than were asked for."""
        directory, name = os.path.split(path)
        if name in self._names or path in self._directories or path in self._awaited:
            return True
        place = self._places.get(directory) or self._places.get(self._real.get(directory, ""))
        return place is not None and any(listener.concerns(name) for listener in place.listeners)


def _state(name: str) -> Stamp | None:
    try:
        return stamp_of(name)
    except OSError:
        return None


def _directory_state(directory: str) -> tuple[int, int] | None:
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _inode(directory: str) -> int | None:
    try:
        return os.stat(directory).st_ino
    except OSError:
        return None
