"""Following a team or a log from another process: changes of files and the end of the lead's process wake it.

Missing files are waited for. Depends on views, logs and leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from teamwright.processes.pid_watch import WatchedProcess
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import RunEnded, SessionOpened, TeamEvent
from teamwright.protocol.ids import inbox_stem
from teamwright.storage.event_log import LogTail, last_number
from teamwright.storage.file_lease import lease_holder, lease_path
from teamwright.storage.file_watcher import GATHER_S, Watcher
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.views.status import StatusReader, StatusView

APART_S = 0.5
"""Minimum seconds between two views of a watched team."""


class FileWatch(Struct):
    """A watch that wakes when one of its files changed or its process ended."""

    watcher: Watcher
    is_local: bool = True
    """False for files of a database's copy, whose processes run anywhere: the lease file shows their end."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _files: dict[Path, Callable[[], None]] = field(default_factory=dict[Path, Callable[[], None]])
    _exits: dict[int, Callable[[], None]] = field(default_factory=dict[int, Callable[[], None]])

    def files(self, paths: Iterable[Path]) -> bool:
        """Follow these files too. Return True when one of them is new, because it must be read again."""
        new = [path for path in dict.fromkeys(paths) if path not in self._files]
        for path in new:
            self._files[path] = self.watcher.follow(path, self._changed.set)
        return bool(new)

    def process(self, pid: int) -> bool:
        """Wake when this process has ended, and follow no other; 0 is no process.

        Return True for a new process: check it again, because it may have ended before it was followed.
        """
        if pid in self._exits or not pid or not self.is_local:
            return False
        self.close()

        watched_process = WatchedProcess.open(pid)
        if watched_process is None:
            self._changed.set()  # the process has exited already
            return True

        def gone() -> None:
            if (forget := self._exits.pop(pid, None)) is not None:
                forget()
            self._changed.set()

        stop = watched_process.on_end(gone)

        def forget() -> None:
            stop()
            watched_process.close()

        self._exits[pid] = forget
        return True

    async def wait(self, not_before: float = 0.0) -> None:
        """Wait for a change, and until `not_before` (of the loop's time). A burst of changes wakes once."""
        await self._changed.wait()
        await asyncio.sleep(max(GATHER_S, not_before - asyncio.get_running_loop().time()))
        self._changed.clear()

    def close(self) -> None:
        """Stop following the process."""
        for stop in self._exits.values():
            stop()
        self._exits.clear()


@asynccontextmanager
async def _waking(*, is_local: bool) -> AsyncGenerator[FileWatch, None]:
    async with Watcher() as watcher:
        wake = FileWatch(watcher, is_local)
        try:
            yield wake
        finally:
            wake.close()


class WatchedTeam(Struct, frozen=True):
    """The team now (None: deleted), and the reason why the watch ended; empty while it continues."""

    view: StatusView | None
    over: str = ""


async def watch_status(home: Home, view: StatusView, *, is_local: bool = True) -> AsyncGenerator[WatchedTeam, None]:
    """Yield the team after each change, until it is deleted or has no lead. `is_local` as for FileWatch."""
    reader = StatusReader(home, view.directory)
    uuid = _uuid(home, view.directory)
    async with _waking(is_local=is_local) as wake:
        stores = FileStores(home)
        wake.files([stores.roster(view.directory).path, stores.state(view.directory).path])
        while True:
            now = reader.read()
            if not FileStores(home).roster(view.directory).exists or _uuid(home, view.directory) != uuid:
                yield WatchedTeam(None, f'the team "{view.name}" was deleted')
                return
            if wake.files(_files_of(home, now)) | wake.process(now.lead_pid):
                now = reader.read()
            over = "" if now.live else _why_over(now)
            yield WatchedTeam(now, over)
            if over:
                return
            await wake.wait(asyncio.get_running_loop().time() + APART_S)


def _files_of(home: Home, view: StatusView) -> list[Path]:
    stores = FileStores(home)
    found = [stores.inbox_paths(view.directory, inbox_stem(name))[0] for name in ("team-lead", *_names(view))]
    if view.log:
        found += [Path(view.log), lease_path(Path(view.log).parent)]
    return [*found, *(stores.task_directory(view.directory) / f"{task.id}.json" for task in view.tasks if task.open)]


def _names(view: StatusView) -> list[str]:
    return [member.name for member in view.members if member.name != "lead"]


def _uuid(home: Home, directory: str) -> str:
    with suppress(TeamwrightError):
        file = FileStores(home).read_state(directory)
        return file.uuid if file is not None else ""
    return ""


def _why_over(view: StatusView) -> str:
    if not view.lead_pid and view.state == "foreign":
        return "another product's team: the state of its lead is not known"
    how = f"the run has ended: {view.ended}" if view.ended and view.in_order else "the lead has left"
    return how if view.in_order else "the lead's process is gone"


class WriterGone(Struct, frozen=True):
    """The end of the process that wrote the log, with the reason."""

    why: str


async def follow_log(
    path: Path, after: int | None = None, *, is_local: bool = True
) -> AsyncGenerator[tuple[int, TeamEvent] | WriterGone, None]:
    """Yield the events after number `after` as they come, and WriterGone whenever the writing process has exited.

    None begins with the next event. The iteration does not end, because another process may resume the session in the
    same log. `is_local` as for FileWatch.
    """
    tail = LogTail.after_event(path, last_number(path) if after is None else after)
    lease = lease_path(path.parent)
    ended = ""
    driven = False
    async with _waking(is_local=is_local) as wake:
        wake.files([path, lease])
        while True:
            before = lease_holder(lease)
            for item in _read_on(tail):
                ended = _ended(item[1], ended)
                driven = driven or isinstance(item[1], SessionOpened)
                yield item
            pid = lease_holder(lease)
            if pid != before:  # its last events may have been written after the log was read
                driven = driven or bool(before)
                continue
            if driven and not pid:
                why = "the session was left" if tail.closed else "its process ended without closing it"
                yield WriterGone(f"{why}; the last run ended: {ended}" if ended else why)
            driven = bool(pid)
            if not wake.process(pid):
                await wake.wait()


def _read_on(tail: LogTail) -> Iterator[tuple[int, TeamEvent]]:
    while batch := tail.read():
        yield from batch


def _ended(event: TeamEvent, known: str) -> str:
    """Return how the newest run ended; empty while one may continue."""
    if isinstance(event, RunEnded):
        return event.stop
    return "" if isinstance(event, SessionOpened) else known
