"""Watching a team or a log from another process: woken by files and by the end of the lead's process, never asking.

What is not there yet is waited for. Knows views, logs and leases; prints nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path

from teamwright.processes.pid_watch import WatchedProcess
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import RunEnded, SessionOpened, TeamEvent
from teamwright.protocol.ids import inbox_stem
from teamwright.protocol.values import dataclass
from teamwright.session.lookup.saved_sessions import LEASE
from teamwright.storage.event_log_reader import LogTail, last_number
from teamwright.storage.lease import lease_holder
from teamwright.storage.paths import Home
from teamwright.storage.watcher import Watcher
from teamwright.teams.team_file import read_team_file
from teamwright.views.status import StatusReader, StatusView

GATHER_S = 0.03
"""How long changes are gathered before the files are read once for all of them."""

APART_S = 0.5
"""Between two views of a team that is watched: people and programs follow no faster."""


@dataclass(slots=True)
class FileWatch:
    """Wakes when one of the files changed or one of the processes ended."""

    watcher: Watcher
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _files: dict[Path, Callable[[], None]] = field(default_factory=dict[Path, Callable[[], None]])
    _exits: dict[int, Callable[[], None]] = field(default_factory=dict[int, Callable[[], None]])

    def files(self, paths: Iterable[Path]) -> bool:
        """Follow these files too. Whether any of them is new: what it said meanwhile is to be read again."""
        new = [path for path in dict.fromkeys(paths) if path not in self._files]
        for path in new:
            self._files[path] = self.watcher.follow(path, self._changed.set)
        return bool(new)

    def process(self, pid: int) -> bool:
        """Wake when this process has ended, and follow no other; 0 is none.

        Whether it is a new one: then ask once more whether it is there, it may have ended before it was followed.
        """
        if pid in self._exits or not pid:
            return False
        self.close()

        life = WatchedProcess.open(pid)
        if life is None:
            self._changed.set()  # gone already
            return True

        def gone() -> None:
            if (forget := self._exits.pop(pid, None)) is not None:
                forget()
            self._changed.set()

        stop = life.on_end(gone)

        def forget() -> None:
            stop()
            life.close()

        self._exits[pid] = forget
        return True

    async def wait(self, not_before: float = 0.0) -> None:
        """Until something changed, and until `not_before` (of the loop's time); a burst of changes wakes once."""
        await self._changed.wait()
        await asyncio.sleep(max(GATHER_S, not_before - asyncio.get_running_loop().time()))
        self._changed.clear()

    def close(self) -> None:
        """Follow no process any more."""
        for stop in self._exits.values():
            stop()
        self._exits.clear()


@asynccontextmanager
async def _waking() -> AsyncGenerator[FileWatch, None]:
    async with Watcher() as watcher:
        wake = FileWatch(watcher)
        try:
            yield wake
        finally:
            wake.close()


@dataclass(frozen=True, slots=True)
class WatchedTeam:
    """The team as it is now (None: it is no more), and why the watching is over; empty while it goes on."""

    view: StatusView | None
    over: str = ""


async def watch_status(home: Home, view: StatusView) -> AsyncGenerator[WatchedTeam, None]:
    """The team after each change, until it is deleted or nobody leads it any more."""
    reader = StatusReader(home, view.directory)
    uuid = _uuid(home, view.directory)
    async with _waking() as wake:
        wake.files([home.config(view.directory), home.team_file(view.directory)])
        while True:
            now = reader.read()
            if not home.config(view.directory).exists() or _uuid(home, view.directory) != uuid:
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
    found = [home.inbox(view.directory, inbox_stem(name)) for name in ("team-lead", *_names(view))]
    if view.log:
        found += [Path(view.log), Path(view.log).parent / LEASE]
    return [*found, *(home.tasks(view.directory) / f"{task.id}.json" for task in view.tasks if task.open)]


def _names(view: StatusView) -> list[str]:
    return [member.name for member in view.members if member.name != "lead"]


def _uuid(home: Home, directory: str) -> str:
    with suppress(TeamwrightError):
        file = read_team_file(home.team_file(directory))
        return file.uuid if file is not None else ""
    return ""


def _why_over(view: StatusView) -> str:
    if not view.lead_pid and view.state == "foreign":
        return "another product's team: the state of its lead is not known"
    how = f"the run has ended: {view.ended}" if view.ended and view.in_order else "the lead has left"
    return how if view.in_order else "the lead's process is gone"


@dataclass(frozen=True, slots=True)
class WriterGone:
    """Nobody writes the log any more, for now: how it came to that."""

    why: str


async def follow_log(path: Path, after: int | None = None) -> AsyncGenerator[tuple[int, TeamEvent] | WriterGone, None]:
    """The events behind number `after` as they come, and Quiet each time when the process that wrote them is gone.

    None begins with what comes from now on.

    Does not end: the session may go on in another process, in the same log.
    """
    tail = LogTail.after_event(path, last_number(path) if after is None else after)
    lease = path.parent / LEASE
    ended, driven = "", False
    async with _waking() as wake:
        wake.files([path, lease])
        while True:
            before = lease_holder(lease)
            for item in _read_on(tail):
                ended = _ended(item[1], ended)
                driven = driven or isinstance(item[1], SessionOpened)
                yield item
            pid = lease_holder(lease)
            if pid != before:  # what it wrote before it let go may have come behind our look at the log
                driven = driven or bool(before)
                continue
            if driven and not pid:
                why = "the session was left" if tail.closed else "its process is gone and said no goodbye"
                yield WriterGone(f"{why}; the last run ended: {ended}" if ended else why)
            driven = bool(pid)
            if not wake.process(pid):
                await wake.wait()


def _read_on(tail: LogTail) -> Iterator[tuple[int, TeamEvent]]:
    while batch := tail.read():
        yield from batch


def _ended(event: TeamEvent, known: str) -> str:
    """How the newest run ended; empty while one may go on."""
    if isinstance(event, RunEnded):
        return event.stop
    return "" if isinstance(event, SessionOpened) else known
