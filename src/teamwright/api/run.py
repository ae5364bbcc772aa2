"""Runs: one prompt until its result, to await, watch or cancel. `Team.run` creates one; `run` opens a separate session.

Cancelling the task that awaits a run ends the run; ending an event iterator does not. Depends on a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Unpack

from teamwright.api.argument_checks import require_number, require_prompt
from teamwright.api.event_stream import EventIterator, EventReaders
from teamwright.api.options import TeamOptions, to_session_options
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import RunEnded, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.session.open import open_session
from teamwright.session.options import Options
from teamwright.session.result import Result
from teamwright.session.session import Session


class Run:
    """A run of a team: `await` it for its Result, or read `events()` first."""

    def __init__(
        self, session: Session, work: Callable[[], Awaitable[Result]], readers: EventReaders, before: Run | None = None
    ) -> None:
        """Start the work. When `before`, a cancelled run, has not ended yet, the work starts after it."""
        self._session = session
        self._readers = readers
        self._after = session.log.last_number
        self._end: int | None = None
        self._reason = ""
        self._work = asyncio.ensure_future(_begin(work, before._task if before is not None else None))
        self._task = asyncio.ensure_future(self._finish())

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        state = "over" if self.done else "cancelled" if self.cancelled else "running"
        return f"<Run of {self._session.team.name!r}, {state}>"

    if not TYPE_CHECKING:  # a type checker reports this mistake

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError; for an attribute of Result the error says to await the run."""
            if name in Result.__struct_fields__ or hasattr(Result, name):
                raise AttributeError(f"a Run has no {name!r}: `result = await run` gives the Result, which has")
            raise AttributeError(f"a Run has no {name!r}")

        def __aiter__(self) -> AsyncIterator[TeamEvent]:
            raise UsageError("usage", "a run is not iterated", do=["async for event in run.events(): …"])

    @property
    def done(self) -> bool:
        """True after the run ended."""
        return self._task.done()

    @property
    def cancelled(self) -> bool:
        """True after `cancel`, even before the run ended. The team accepts another run, which waits for this one."""
        return bool(self._reason)

    def cancel(self, reason: str = "") -> None:
        """Cancel the run and keep the team: the result's `stop` is `cancelled`. Does nothing after the run ended."""
        if not self._work.done():
            self._reason = self._reason or reason or "by the program"
            self._work.cancel()

    def events(self, after: int | None = None, *, answers: bool = True) -> AsyncIterator[TeamEvent]:
        """Iterate over events from the start of the run (or after that number of the log) to the end of the run.

        May be called several times, also after the run ended. A slow reader reads from the file and never blocks the
        team. With `answers=False` the reader only watches, and no request waits for it. Raises UsageError for an
        `after` that is not a number.
        """
        start = self._after if after is None else min(require_number("after", after), self._session.log.last_number)
        iterator: EventIterator[TeamEvent] = EventIterator(
            self._session.log, self._session.requests, start, _plain, self._is_last
        )
        iterator.over = self._end is not None and start >= self._end
        return self._readers.add(iterator) if answers else iterator

    async def stop(self) -> None:
        """Cancel the run because the team's block is left, and wait for its end."""
        self.cancel("the team was left")
        await asyncio.wait({self._task})

    def _is_last(self, number: int, event: TeamEvent) -> bool:
        return isinstance(event, RunEnded) and number > self._after

    async def _wait(self) -> Result:
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self.cancel("the call that waited for it was cancelled")
            await asyncio.wait({self._task})
            raise

    async def _finish(self) -> Result:
        try:
            return await self._work
        except asyncio.CancelledError:
            if not self._work.cancelled():
                self._work.cancel()
                raise
            what = f"the run was cancelled: {self._reason}"
            stopped = TeamwrightError("interrupted", what, do=[self._session.resume_command])
            return await self._session.result("cancelled", self._session.lead.last_end.text, error=stopped)
        except Exception as problem:
            usage = self._session.agent_factory.budget_tracker.total
            detail = f"{type(problem).__name__}: {problem}"
            self._session.log.emit(RunEnded(member=LEAD, stop="failed", text="", usage=usage, detail=detail))
            raise
        finally:
            self._end = self._session.log.last_number


async def _begin(work: Callable[[], Awaitable[Result]], before: asyncio.Future[Result] | None) -> Result:
    """Wait for the run `before`, then do the work.

    The work starts one step later, so a task that is created right after the run sees all of its events.
    """
    await asyncio.sleep(0)
    if before is not None:
        await asyncio.wait({before})
    return await work()


def _plain(_number: int, event: TeamEvent) -> TeamEvent:
    return event


async def run_once(prompt: str, options: Options) -> Result:
    """Run one prompt in a new session, and end the session."""
    async with open_session(options) as session:
        return await session.end_members(await session.run([text_block(prompt)]))


def run(prompt: str, **options: Unpack[TeamOptions]) -> Result:
    """Run one prompt in a new session and return its result. The lead may create a team.

    Raises CannotStart when the session cannot start, and UsageError inside a running event loop (a notebook, a web
    server), for an empty prompt and for an invalid option.
    """
    session_options = to_session_options(options)
    require_prompt(prompt)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_once(prompt, session_options))
    raise UsageError(
        "usage",
        "run() does not work inside a running event loop, as in a notebook or a web server",
        do=['async with Team("…") as team: result = await team.run("…")'],
        note="nothing was started",
    )
