"""Following of a database: a copy of its teams is brought up to date after each notification of its sessions.

A refresh every few seconds finds new teams, and leads that were killed. Depends on the copy and on notifications.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import session_topic
from teamwright.database.teams_copy import TeamsCopy
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.file_watcher import Names, Watcher

SPACING_S = 0.3
"""The least number of seconds between two refreshes: a team at work sends many notifications."""

AGAIN_S = 3.0
"""Seconds without a notification after which the database is read again."""


@asynccontextmanager
async def follow_copy(copy: TeamsCopy) -> AsyncGenerator[None]:
    """Keep the copy up to date while the block runs, and send what the block writes into it.

    When the database fails, the block is cancelled, and its error is raised here. Raises CannotStart (`database`).
    """
    owner, problems = asyncio.current_task(), list[TeamwrightError]()
    follower = _Follower(copy)

    async def work() -> None:
        try:
            await follower.run()
        except TeamwrightError as problem:
            problems.append(problem)
            if owner is not None:
                owner.cancel()

    await follower.connection.open()
    worker = asyncio.create_task(work(), name="follow the database")
    try:
        yield
    except asyncio.CancelledError:
        if not problems or owner is None:
            raise
        owner.uncancel()
        raise problems[0] from None
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await follower.connection.close()
        if not problems:
            await copy.send_requests()


class _Follower:
    """The refreshes of a copy."""

    def __init__(self, copy: TeamsCopy) -> None:
        self._copy = copy
        self.connection = SessionConnection(copy.database)
        self._is_changed = False
        self._due = asyncio.Event()
        """Set when the database changed, or a request was written into the copy."""
        self._followed: dict[str | Path, Callable[[], None]] = {}

    async def run(self) -> None:
        """Refresh the copy when it is due. Raises StorageError."""
        loop, again_at, spaced_until = asyncio.get_running_loop(), 0.0, 0.0
        async with Watcher() as watcher:
            while True:
                self._follow_changes(watcher)
                await self._wait_until_due(again_at)
                await asyncio.sleep(max(0.0, spaced_until - loop.time()))
                self._due.clear()
                await self._copy.send_requests()
                if self._is_changed or loop.time() >= again_at:
                    self._is_changed = False
                    await self._copy.refresh()
                    spaced_until, again_at = loop.time() + SPACING_S, loop.time() + AGAIN_S

    async def _wait_until_due(self, again_at: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with time_limit(again_at - asyncio.get_running_loop().time()):
                await self._due.wait()

    def _follow_changes(self, watcher: Watcher) -> None:
        """Follow the sessions in the copy and the requests of its teams, and no others."""
        wanted: dict[str | Path, Callable[[], Callable[[], None]]] = {
            session: partial(self.connection.subscribe, session_topic(session), self._note_change)
            for session in self._copy.sessions
        }
        wanted |= {
            directory: partial(watcher.follow_directory, directory, self._note_written, _is_whole)
            for directory in self._copy.request_directories()
        }
        for gone in self._followed.keys() - wanted.keys():
            self._followed.pop(gone)()
        for new in wanted.keys() - self._followed.keys():
            self._followed[new] = wanted[new]()

    def _note_change(self, _detail: str | None) -> None:
        self._is_changed = True
        self._due.set()

    def _note_written(self, _names: Names) -> None:
        self._due.set()


def _is_whole(name: str) -> bool:
    """Return True for the name of a file that is not being written."""
    return ".tmp." not in name
