"""Comparison of protected paths before and after a command, where mounts do not protect them.

A changed file is restored, a created one is moved into the session's directory, and both are reported. Used for paths
that did not exist before, for git configurations, and for all protected paths under Landlock. Files are read, so the
sizes are bounded. Other commands may run in that time and put a link in the place of a directory, so each file is
reached without links. A command cannot replace a writable directory itself, only what is in it. If such a directory is
gone, or another one is in its place, someone else did that, and nothing is restored there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.git.unsafe_config import program_settings
from teamwright.sandbox.policy import is_inside
from teamwright.storage.directory_identity import DirectoryIdentity, directory_identity
from teamwright.storage.paths import make_private

_MAX_FILES = 500
_MAX_BYTES = 262_144
_SHOWN = 3


class _SavedFile(Struct, frozen=True):
    """The content of a file or the target of a link, with its mode."""

    content: bytes
    mode: int


class ChangeableGitConfigs(Struct, frozen=True):
    """Git configurations that a command may change. Of settings that name programs it may set those in `keys`.

    A key that ends in a dot is a section. All keys are in lower case. `mounted` are configurations on a mount, which
    ends when another program replaces the file.
    """

    files: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    mounted: frozenset[str] = frozenset()

    def new_settings(self, file: str, before: _SavedFile | None, after: _SavedFile | None) -> list[str]:
        """Return the names of new settings that may run programs and that the command did not name."""
        if after is None:
            return ["unreadable"] if before is not None and os.path.lexists(file) else []
        if stat.S_ISLNK(after.mode):
            return [] if before == after else ["a link"]
        known = program_settings(before.content) if before is not None else frozenset[tuple[str, bytes]]()
        new = {name for name, _ in program_settings(after.content) - known}
        return sorted(name for name in new if not self._is_named(name.lower()))

    def _is_named(self, name: str) -> bool:
        return name in self.keys or any(key.endswith(".") and name.startswith(key) for key in self.keys)


NO_GIT_CONFIGS = ChangeableGitConfigs()


class ProtectedFiles(Struct, frozen=True):
    """The state of protected paths before a command. `missing` did not exist; `saved` are the files of the others."""

    missing: tuple[str, ...]
    directories: tuple[str, ...]
    saved: dict[str, _SavedFile]
    unsaved: frozenset[str] = frozenset()
    """Files that were there and cannot be restored: large and special ones."""
    git_configs: ChangeableGitConfigs = NO_GIT_CONFIGS
    configs: dict[str, _SavedFile | None] = {}
    """Git configurations that the command may change, but for settings that name programs. None: a missing file."""
    places: dict[str, DirectoryIdentity] = {}
    """The outermost writable directories, as they were."""
    closed: frozenset[str] = frozenset()
    """Paths inside of protected directories that are not compared: what the command cannot reach at all, and the
    runtime's own files. Other programs write there in the meantime."""

    @classmethod
    def take(
        cls,
        missing: Iterable[str],
        there: Iterable[str] = (),
        git_configs: ChangeableGitConfigs = NO_GIT_CONFIGS,
        writable: Iterable[str] = (),
        closed: Iterable[str] = (),
    ) -> ProtectedFiles:
        """Record the state of paths: those that must not be created, those that exist, and git configurations.

        `writable` are the directories in which the command may change files, `closed` what is not compared.
        """
        closed = frozenset(closed)
        there = sorted(path for path in there if not any(is_inside(path, one) for one in closed))
        files = [file for path in there for file in _files_below(path, closed)]
        saved = {file: found for file in files if (found := _read(file)) is not None}
        directories = tuple(path for path in there if os.path.isdir(path) and not os.path.islink(path))
        configs = {file: _read(file) for file in sorted(git_configs.files | git_configs.mounted)}
        unsaved = frozenset(files) - frozenset(saved)
        places = {path: found for path in _outermost(writable) if (found := directory_identity(path)) is not None}
        return cls(tuple(sorted(missing)), directories, saved, unsaved, git_configs, configs, places, closed)

    def created_only(self) -> ProtectedFiles:
        """Return the part that undoes what was created: files, and settings of git that name programs."""
        configs = {file: before for file, before in self.configs.items() if file in self.git_configs.files}
        return ProtectedFiles(self.missing, (), {}, git_configs=self.git_configs, configs=configs, places=self.places)

    def _is_in_place(self, path: str) -> bool:
        """Return True when the writable directory that contains the path is still the one that it was."""
        above = next((place for place in self.places if path.startswith(f"{place.rstrip('/')}/")), None)
        return above is None or directory_identity(above) == self.places[above]

    def restore(self, quarantine: Path) -> list[str]:
        """Undo the changes since then; return the paths that were changed. Created files go to `quarantine`."""
        # The paths were real ones: a link above one of them is new, and must not lead this process elsewhere. A file
        # there is new too: `.git` as a file names another git directory.
        changed = [
            found
            for path in filter(self._is_in_place, (*self.missing, *self.directories, *self.saved))
            if (found := _replaced_above(path)) and _move_away(found, quarantine)
        ]
        for path in filter(self._is_in_place, self.missing):
            if os.path.lexists(path) and _move_away(path, quarantine):
                changed.append(path)
        for directory in filter(self._is_in_place, self.directories):
            for file in _files_below(directory, self.closed):
                if (
                    file not in self.saved
                    and file not in self.unsaved
                    and os.path.lexists(file)
                    and _move_away(file, quarantine)
                ):
                    changed.append(file)
        for file, before in self.saved.items():
            if self._is_in_place(file) and _read(file) != before:
                _write_back(file, before, quarantine)
                changed.append(file)
        return [*changed, *self._restore_configs(quarantine)]

    def _restore_configs(self, quarantine: Path) -> Iterator[str]:
        """Restore the git configurations with a new setting that names a program; yield them with its name."""
        for file, before in self.configs.items():
            names = self.git_configs.new_settings(file, before, _read(file)) if self._is_in_place(file) else []
            if names and before is not None:
                _write_back(file, before, quarantine)
            if names and (before is not None or _move_away(file, quarantine)):
                yield f"{file} ({', '.join(names[:_SHOWN])})"


def _outermost(directories: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(set(directories)):
        if not any(path.startswith(f"{one.rstrip('/')}/") for one in found):
            found.append(path)
    return found


def _files_below(path: str, closed: frozenset[str]) -> list[str]:
    if os.path.islink(path) or not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for place, directories, files in os.walk(path):
        directories[:] = [name for name in directories if os.path.join(place, name) not in closed]
        files = [name for name in files if os.path.join(place, name) not in closed]
        found += [os.path.join(place, name) for name in files]
        found += [os.path.join(place, name) for name in directories if os.path.islink(os.path.join(place, name))]
        if len(found) >= _MAX_FILES:
            break
    return found[:_MAX_FILES]


def _replaced_above(path: str) -> str:
    """Return the topmost path above this one that is a link or a file; empty when all are directories or missing."""
    parents = map(str, reversed(Path(path).parents))
    return next(
        (one for one in parents if os.path.lexists(one) and (os.path.islink(one) or not os.path.isdir(one))), ""
    )


def _read(path: str) -> _SavedFile | None:
    """Return the state of a file or link; None for what cannot be restored: a large or a special file."""
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return _SavedFile(os.fsencode(os.readlink(path)), info.st_mode)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_BYTES:
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode) or not is_at(descriptor, path):
                return None
            return _SavedFile(file.read(_MAX_BYTES), info.st_mode)
    except OSError:
        return None


def is_at(descriptor: int, path: str) -> bool:
    """Return True when an open file or directory has this path, and no link led to it. True where that is unknown."""
    return not sys.platform.startswith("linux") or os.readlink(f"/proc/self/fd/{descriptor}") == path


@contextlib.contextmanager
def _fixed_path(path: str) -> Generator[str]:
    """Yield a path of the same entry that no link above it can lead elsewhere. Raises OSError if one does already."""
    if not sys.platform.startswith("linux"):
        yield path
        return
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not is_at(descriptor, directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _write_back(path: str, before: _SavedFile, quarantine: Path) -> None:
    if os.path.lexists(path):
        _move_away(path, quarantine)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with _fixed_path(path) as fixed:
            if stat.S_ISLNK(before.mode):
                os.symlink(os.fsdecode(before.content), fixed)
                return
            descriptor = os.open(fixed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(before.content)
                os.fchmod(file.fileno(), stat.S_IMODE(before.mode))


def _move_away(path: str, quarantine: Path) -> bool:
    try:
        make_private(quarantine)
        with _fixed_path(path) as fixed:
            shutil.move(fixed, quarantine / f"{os.path.basename(path)}.{time.time_ns()}")
    except OSError:
        return False
    return True
