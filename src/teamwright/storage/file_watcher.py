"""A watcher of files and directories that other programs change: one for each process, with slow polling as a fallback.

Depends on `directory_notifier`, started with the first followed file. A callback reports only that inode, size or mtime
of a file changed, or which entries of a directory did.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from msgspec import Struct, field

from teamwright.protocol.events import FileMark
from teamwright.storage.json_array import FileStamp, file_stamp

Names = frozenset[str] | None
"""Entries of a directory that changed; None: any of them may have changed."""


class WatchSettings(Struct, frozen=True):
    """Settings of a process's watcher."""

    step_ms: int = 30
    """Milliseconds during which changes are collected before the callbacks."""
    poll_s: float = 2.0
    """Seconds between two checks of all followed files, even without a report of the system."""
    blind_poll_s: float = 0.5
    """The same interval when the notifier cannot start (too many watches, a network file system)."""


class _FollowedFile(Struct):
    """A file, the state at the last callback, and its callbacks."""

    stamp: FileStamp | None
    callbacks: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class _Listener(Struct, frozen=True):
    """A callback for a directory's entries, and the names that concern it."""

    concerns: Callable[[str], bool]
    callback: Callable[[Names], None]


class _FollowedDirectory(Struct):
    """A directory whose entries are followed, and its state at the last callback."""

    stamp: tuple[int, int] | None
    listeners: list[_Listener] = field(default_factory=list[_Listener])


class _Notifier(Protocol):
    """A reporter of directory changes."""

    def add(self, directory: str) -> None: ...

    def remove(self, directory: str) -> None: ...

    async def close(self) -> None: ...


GATHER_S = 0.03
"""Seconds for which changes are collected before files are read once."""


class Watcher:
    """A watcher: `async with Watcher() as watcher:`, then `follow`; leaving the block ends all of it."""

    def __init__(self, settings: WatchSettings | None = None) -> None:
        self._settings = settings or WatchSettings()
        self._files: dict[str, _FollowedFile] = {}
        self._followed_directories: dict[str, _FollowedDirectory] = {}
        self._uses: Counter[str] = Counter()  # directories and the number of followed files, or listeners, in them
        self._directories: dict[str, int] = {}  # watched ones and their inodes
        self._missing_directories: set[str] = set()  # missing directories: their parents are watched
        self._notifier: _Notifier | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_polling = False
        """True when the notifier could not start, so that only polling is left."""

    async def __aenter__(self) -> Watcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._notifier is not None:
            await self._notifier.close()
            self._notifier = None

    def follow(self, path: Path, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each later change of the file, until the returned function is called.

        The file, and its directory, may be missing at first.
        """
        name = str(path)
        followed = self._files.get(name)
        if followed is None:
            followed = self._files[name] = _FollowedFile(file_stamp(name))
            self._add_wanted(os.path.dirname(name))
        followed.callbacks.append(callback)

        def unfollow() -> None:
            with contextlib.suppress(ValueError):
                followed.callbacks.remove(callback)
            if not followed.callbacks and self._files.get(name) is followed:
                del self._files[name]
                self._remove_wanted(os.path.dirname(name))

        return unfollow

    def follow_directory(
        self, directory: Path, callback: Callable[[Names], None], concerns: Callable[[str], bool]
    ) -> Callable[[], None]:
        """Call `callback` with the names that were created, changed or removed in the directory, many at a time.

        Only names that `concerns` accepts are reported; None means that any may have changed. The directory may be
        missing at first. Ends when the returned function is called.
        """
        name = str(directory)
        listener = _Listener(concerns, callback)
        place = self._followed_directories.get(name)
        if place is None:
            place = self._followed_directories[name] = _FollowedDirectory(_directory_state(name))
            self._add_wanted(name)
        place.listeners.append(listener)

        def unfollow() -> None:
            with contextlib.suppress(ValueError):
                place.listeners.remove(listener)
            if not place.listeners and self._followed_directories.get(name) is place:
                del self._followed_directories[name]
                self._remove_wanted(name)

        return unfollow

    def _add_wanted(self, directory: str) -> None:
        """Watch one more directory; costs nothing when it is watched already."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll())
        self._uses[directory] += 1
        if self._uses[directory] == 1:
            self._rewatch()

    def _remove_wanted(self, directory: str) -> None:
        self._uses[directory] -= 1
        if not self._uses[directory]:
            del self._uses[directory]
            self._rewatch()

    def check_now(self) -> None:
        """Check all followed files now and call the callbacks of changed ones."""
        self._check_files(list(self._files))

    def _check_files(self, names: Iterable[str]) -> None:
        """Check the files of these names that are followed."""
        for name in names:
            followed = self._files.get(name)
            if followed is not None and (now := _state(name)) != followed.stamp:
                followed.stamp = now
                for callback in list(followed.callbacks):
                    self._call(callback)

    def _check_directories(self, *, always: bool) -> None:
        """Call the callbacks of directories that changed since the last call; of all directories with `always`."""
        for name, place in list(self._followed_directories.items()):
            now = _directory_state(name)
            if always or now != place.stamp:
                place.stamp = now
                for listener in list(place.listeners):
                    self._call(partial(listener.callback, None))

    def _report_entries(self, paths: Iterable[str]) -> None:
        found: dict[str, set[str]] = {}
        for path in paths:
            directory, name = os.path.split(path)
            found.setdefault(directory, set()).add(name)
        for directory, names in found.items():
            place = self._followed_directories.get(directory)
            if place is None:
                continue
            place.stamp = _directory_state(directory)
            for listener in list(place.listeners):
                if concerned := frozenset(filter(listener.concerns, names)):
                    self._call(partial(listener.callback, concerned))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as problem:  # a listener that fails does not end the watching for the others
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a callback of the file watcher failed", "exception": problem}
            )

    def _directories_to_watch(self) -> dict[str, int]:
        """Return the directories to watch, with their inodes; for a missing one its nearest existing parent."""
        found = {directory: _inode(directory) for directory in self._uses}
        self._missing_directories = set()
        for directory in [directory for directory, inode in found.items() if inode is None]:
            while found.setdefault(directory, _inode(directory)) is None and directory not in self._missing_directories:
                self._missing_directories.add(directory)
                directory = os.path.dirname(directory)
        return {directory: inode for directory, inode in found.items() if inode is not None}

    def _rewatch(self) -> None:
        """Watch the wanted directories. A directory that replaced another one of the same path is a new one."""
        directories = self._directories_to_watch()
        before = self._directories
        added = False
        self._directories = {name: inode for name, inode in before.items() if directories.get(name) == inode}
        try:
            if self._notifier is None:
                self._notifier = self._start()
            for name in before.keys() - self._directories.keys():
                self._notifier.remove(name)
            for name in directories.keys() - self._directories.keys():
                with contextlib.suppress(FileNotFoundError):
                    self._notifier.add(name)
                    self._directories[name] = directories[name]
                    added = True
            self.is_polling = False
        except (OSError, ImportError):
            self.is_polling = True
        if added:
            asyncio.get_running_loop().call_soon(self._take_changes, None)  # report changes from before the watch began

    def _start(self) -> _Notifier:
        from teamwright.storage.directory_notifier import InotifyNotifier, WatchfilesNotifier, is_inotify_available

        if is_inotify_available():
            return InotifyNotifier(self._take_changes, self._settings.step_ms / 1000)
        return WatchfilesNotifier(self._take_changes, self._fall_back_to_polling)

    def _fall_back_to_polling(self) -> None:
        self.is_polling = True

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._settings.blind_poll_s if self.is_polling else self._settings.poll_s)
            self.check_now()
            self._check_directories(always=self.is_polling)
            if self._directories_to_watch() != self._directories:
                self._rewatch()

    def _take_changes(self, paths: set[str] | None) -> None:
        """Handle changes of these paths; None: any may have changed."""
        if paths is None:
            self.check_now()
            self._check_directories(always=True)
            return
        self._check_files(paths)
        self._report_entries(paths)
        if replaced_directories := [
            path for path in paths if path in self._directories or path in self._missing_directories
        ]:
            for path in replaced_directories:
                self._directories[path] = 0  # it appeared or disappeared: a replacement may have the same inode
            self._rewatch()


def _state(name: str) -> FileStamp | None:
    try:
        return file_stamp(name)
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


def file_mark(root: Path, path: Path) -> FileMark | None:
    """Return the mark of the file as it is now, by its path under the state root; None when it is missing."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return FileMark(name=str(path.relative_to(root)), size=stat.st_size, mtime_ns=stat.st_mtime_ns)
