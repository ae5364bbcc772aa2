"""The session of an entered team, for the event loop that entered it.

`Team`, its handles, runs and event iterators reach the session only through RunningTeam, so that one check refuses
every use from another thread or loop. Depends on sessions.
"""

from __future__ import annotations

import asyncio
import sys

from teamwright.approvals.request_queue import RequestQueue
from teamwright.protocol.errors import UsageError
from teamwright.session.modes_and_grants import SessionModes
from teamwright.session.session import Session
from teamwright.session.wiring.integration import SessionIntegration
from teamwright.storage.event_log import EventLog
from teamwright.teams.team import SessionTeam


def require_asyncio() -> None:
    """Raise UsageError in a coroutine that asyncio does not run, such as one of trio."""
    try:
        task = asyncio.current_task()  # None in a coroutine of trio whose guest is an asyncio loop
    except RuntimeError:
        task = None
    if task is None:
        raise needs_asyncio_error("a team", running_library() or "another library, such as trio")


def running_library() -> str:
    """Return the asynchronous library, other than asyncio, that runs the calling code; empty for none.

    Other libraries, such as trio, tell `sniffio` their names. It is loaded then.
    """
    current = getattr(sys.modules.get("sniffio"), "current_async_library", None)
    try:
        name = str(current()) if current is not None else "asyncio"
    except RuntimeError:
        return ""
    return "" if name == "asyncio" else name


def needs_asyncio_error(what: str, library: str) -> UsageError:
    """Return the error for a use in a coroutine of another library."""
    return UsageError(
        "usage",
        f"{what} needs asyncio, and this coroutine runs in {library}",
        do=["asyncio.run(main())", 'anyio.run(main, backend="asyncio")'],
        note="nothing was started",
    )


class RunningTeam:
    """A session with its team, from entering the block on. What was read after leaving stays readable."""

    def __init__(self, name: str, session: Session) -> None:
        """Bind the session to the running event loop."""
        self.name = name
        self.left = False
        self._session = session
        self._loop = asyncio.get_running_loop()

    @property
    def session(self) -> Session:
        """The session. Raises UsageError in another thread or event loop than the one that entered the team."""
        self.require_loop()
        return self._session

    @property
    def team(self) -> SessionTeam:
        """The live team. Raises UsageError as `session`."""
        return self.session.team

    @property
    def modes(self) -> SessionModes:
        """The permission modes of the lead and the members. Raises UsageError as `session`."""
        return self.session.modes

    @property
    def integration(self) -> SessionIntegration:
        """The integration of the members' work. Raises UsageError as `session`."""
        return self.session.integration

    @property
    def log(self) -> EventLog:
        """The event log. Raises UsageError as `session`."""
        return self.session.log

    @property
    def requests(self) -> RequestQueue:
        """The pending requests. Raises UsageError as `session`."""
        return self.session.requests

    def require_entered(self) -> None:
        """Raise UsageError after the block was left, and in another thread or event loop."""
        if self.left:
            raise not_running(self.name)
        self.require_loop()

    def require_loop(self) -> None:
        """Raise UsageError in another thread or event loop than the one that entered the team."""
        try:
            running_loop = asyncio.get_running_loop()
        except RuntimeError:
            running_loop = None
        if running_loop is self._loop:
            return
        if self._loop.is_running() or (running_loop is not None and not self.left):
            raise UsageError(
                "usage",
                f'the team "{self.name}" belongs to the event loop that entered it, and this is another thread or loop',
                do=["asyncio.run_coroutine_threadsafe(…, loop) calls it from another thread"],
                note="nothing was started",
            )


def not_running(name: str) -> UsageError:
    """Return the error of a use outside the block."""
    return UsageError("usage", f'the team "{name}" is not running', do=["async with Team(…) as team: …"])
