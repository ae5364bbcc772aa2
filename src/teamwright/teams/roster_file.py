"""The roster of one team on files: config.json, changed under its lock and renamed into place.

Depends on `storage` and the team's other files. Other products rewrite the file without a lock: an empty or truncated
file is read again, and restored in the lead's process.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.events import FileMark
from teamwright.protocol.indented_json import IndentedJson
from teamwright.protocol.roster import TeamConfig, parse_config
from teamwright.storage.atomic import keep_damaged_copy, storage_error, write_atomic, write_new
from teamwright.storage.file_lock import lock_for
from teamwright.storage.file_watcher import file_mark
from teamwright.storage.paths import Home, make_private
from teamwright.teams.roster import OnRestored
from teamwright.teams.roster_rebuild import rebuilt_roster
from teamwright.teams.team_file import TeamFile, is_lead_alive, read_team_file

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher

_READ_RETRIES = 3
_RETRY_S = 0.002
_LONG_RETRY_S = 0.025
BRIEF_PATIENCE_S = 0.25
"""Seconds that a damaged file is read again where no process restores it: another program may be writing it."""
_RESTORED_AFTER_S = 1.0
"""Seconds before the lead's process restores a damaged file."""
_LEAD_PATIENCE_S = 3.0
"""Seconds that other processes wait for the lead's to restore it."""
_MTIME_SLACK_NS = 12_000_000
"""File clocks tick at 1 to 10 ms: a younger file may change again without a new mtime."""


class RosterFile:
    """config.json of the team in one directory: the roster as a document (see RosterDocument).

    `on_restored` is given in the lead's process, which restores a file that stays damaged. `fsync`: writes survive
    power loss.
    """

    def __init__(
        self, home: Home, directory: str, on_restored: OnRestored | None = None, *, fsync: bool = False
    ) -> None:
        self.home = home
        self.directory = directory
        self.path = home.config(directory)
        self._fsync = fsync
        self._on_restored = on_restored
        self._cached: _CachedRoster | None = None
        self._encoder = IndentedJson()

    @property
    def place(self) -> str:
        """See Document: the path of the file."""
        return str(self.path)

    @property
    def exists(self) -> bool:
        """See RosterDocument."""
        return self.path.exists()

    def mark(self) -> FileMark | None:
        """See Document."""
        return file_mark(self.home.shared, self.path)

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See Document."""
        return watcher.follow(self.path, on_change)

    async def read(self, *, patience_s: float | None = None) -> TeamConfig:
        """Return the roster as it is on disk.

        Raises TeamwrightError (`unknown-team`) when there is no file, StorageError (`damaged-file`) when it stays
        unreadable for `patience_s`: by default 0.3 s, 1 s before the lead's process restores the file, and 3 s in other
        processes while a lead lives.
        """
        return await self._retry_while_damaged(self._read_once, patience_s)

    def create(self, config: TeamConfig) -> bool:
        """Write the first roster of a team. False, without a change, when there is one. Raises StorageError."""
        try:
            make_private(self.path.parent)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return write_new(self.path, config.encode())

    async def change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        """Read the roster under its lock, change it, write it when it differs. Returns what is on disk then.

        `change` is plain code and may refuse by raising; then nothing is written. Raises what `read` raises,
        LockTimeout, LockLost.
        """
        return await self._retry_while_damaged(lambda: self._change(change))

    async def restore(self, config: TeamConfig) -> Path | None:
        """Write this roster when the file is damaged. Returns the copy of the damaged bytes, None when it is undamaged.

        Raises LockTimeout, LockLost, StorageError, TeamwrightError (`unknown-team`).
        """
        if not self.path.exists():
            raise self._missing_error()
        async with lock_for(self.path, self.home.guard(self.path)).hold() as held:
            try:
                self._read()
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            else:
                return None
            held.check()
            copy = keep_damaged_copy(self.path)
            write_atomic(self.path, config.encode(self._encoder), fsync=self._fsync)
            self._cached = None
        return copy

    async def _read_once(self) -> TeamConfig:
        return self._read()

    async def _retry_while_damaged(
        self, work: Callable[[], Awaitable[TeamConfig]], patience_s: float | None = None
    ) -> TeamConfig:
        """Repeat the work while the file is damaged, and once it is restored; no wait happens under its lock."""
        began = time.monotonic()
        while patience_s is None or time.monotonic() - began < patience_s:
            try:
                return await work()
            except StorageError as problem:
                if problem.slug != "damaged-file":
                    raise
            patience_s = self._patience_s() if patience_s is None else patience_s
            await asyncio.sleep(_LONG_RETRY_S)
        await self._restore()
        return await work()

    def _patience_s(self) -> float:
        """Return the seconds for which a damaged file is read again."""
        if self._on_restored is not None:
            return _RESTORED_AFTER_S
        file = self._team_file()
        return _LEAD_PATIENCE_S if file is not None and is_lead_alive(file.lead) else BRIEF_PATIENCE_S

    async def _restore(self) -> None:
        """Restore the file in the lead's process: from memory, or from the team's other files."""
        if self._on_restored is None:
            return
        source, config = "memory", self._cached.config if self._cached is not None else None
        if config is None and (file := self._team_file()) is not None:
            source, config = "team.json and the transcripts", rebuilt_roster(self.home, self.directory, file)
        copy = await self.restore(config) if config is not None else None
        if copy is not None:
            self._on_restored(self.place, str(copy), source)

    def _team_file(self) -> TeamFile | None:
        with suppress(StorageError):
            return read_team_file(self.home.team_file(self.directory))
        return None

    async def _change(self, change: Callable[[TeamConfig], TeamConfig]) -> TeamConfig:
        if not self.path.exists():  # locking a removed team must not create it again
            raise self._missing_error()
        async with lock_for(self.path, self.home.guard(self.path)).hold() as held:
            before = self._read()
            after = change(before)
            if after != before:
                held.check()
                raw = after.encode(self._encoder)
                write_atomic(self.path, raw, fsync=self._fsync)
                self._cached = _CachedRoster(None, raw, after)
        return after

    def _read(self) -> TeamConfig:
        patience = _READ_RETRIES
        while True:
            try:
                return self._load()
            except StorageError as problem:
                if problem.slug != "damaged-file" or not patience:
                    raise
            patience -= 1
            time.sleep(_RETRY_S)

    def _load(self) -> TeamConfig:
        seen = self._cached
        try:
            if seen is not None and seen.mark == _stat_mark(os.stat(self.path)):
                return seen.config
            with open(self.path, "rb") as file:
                stat = os.fstat(file.fileno())
                raw = file.read()
        except FileNotFoundError:
            raise self._missing_error() from None
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        config = seen.config if seen is not None and seen.raw == raw else parse_config(raw)
        self._cached = _CachedRoster(
            _stat_mark(stat) if time.time_ns() - stat.st_mtime_ns > _MTIME_SLACK_NS else None, raw, config
        )
        return config

    def _missing_error(self) -> TeamwrightError:
        return TeamwrightError("unknown-team", f"there is no team in {self.path.parent}")


class _CachedRoster(NamedTuple):
    """The file as read or written last. `mark` is None while the file may change without another mtime."""

    mark: tuple[int, int, int] | None
    raw: bytes
    config: TeamConfig


def _stat_mark(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
