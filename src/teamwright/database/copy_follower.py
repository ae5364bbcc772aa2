"""Following of a database: a copy of its teams is brought up to date after each notification of its sessions.

A refresh every few seconds finds new teams, and leads that were killed. Depends on the copy and on notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import session_topic
from teamwright.database.teams_copy import TeamsCopy
from teamwright.protocol.errors import TeamwrightError

FOLLOW_S = 0.3
"""Seconds between two checks for requests that were written into the copy, and for notifications."""

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
        self._followed: dict[str, Callable[[], None]] = {}

    async def run(self) -> None:
        """Refresh the copy when it is due. Raises StorageError."""
        again_at = 0.0
        while True:
            self._follow_sessions()
            await asyncio.sleep(FOLLOW_S)
            await self._copy.send_requests()
            now = asyncio.get_running_loop().time()
            if self._is_changed or now >= again_at:
                self._is_changed, again_at = False, now + AGAIN_S
                await self._copy.refresh()

    def _follow_sessions(self) -> None:
        """Follow the sessions in the copy, and no others."""
        for session in self._followed.keys() - {*self._copy.sessions}:
            self._followed.pop(session)()
        for session in {*self._copy.sessions} - self._followed.keys():
            self._followed[session] = self.connection.subscribe(session_topic(session), self._note_change)

    def _note_change(self, _detail: str | None) -> None:
        self._is_changed = True
