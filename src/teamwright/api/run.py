"""Runs: one prompt until its result, to await, watch or cancel; and the iterators of their events.

`Team.run` creates a run; `run` opens a separate session. Cancelling the task that awaits a run ends the run; ending an
event iterator does not. An iterator that is behind reads from the log file; otherwise it receives live events, and
counts as a reader that may answer requests. A slow reader never blocks the team. Depends on a session and its log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload
from weakref import WeakSet

from msgspec.structs import replace

from teamwright.api.options import OptionsWithoutOutput, TeamOptions, require_number, require_prompt, to_session_options
from teamwright.api.running_team import RunningTeam, needs_asyncio_error, running_library
from teamwright.api.team_start import naming_home
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import RequestOpened, RunEnded, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.protocol.program_log import log_failure
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.result import OutputT, Result, Stop
from teamwright.session.session import Session

T = TypeVar("T")


class EventIterator(AsyncIterator[T], Generic[T]):
    """An iterator over events. `show` converts a numbered event for the reader; `last` returns True for the final
    event.

    Waiting may be cancelled (`asyncio.timeout` around `anext`): the next call continues with the same event.
    """

    def __init__(
        self,
        running: RunningTeam,
        after: int,
        show: Callable[[int, TeamEvent], T],
        last: Callable[[int, TeamEvent], bool],
    ) -> None:
        self.over = False
        self._running = running
        self._after = after
        self._show = show
        self._last = last
        self._source: AsyncGenerator[tuple[int, TeamEvent], None] | None = None

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    if not TYPE_CHECKING:  # a type checker reports this mistake

        def __iter__(self) -> object:
            """Raise UsageError: the loop needs `async for`."""
            raise UsageError("usage", "events are waited for", do=["async for event in run.events(): …"])

    async def __anext__(self) -> T:
        if self.over:
            raise StopAsyncIteration
        log = self._running.log
        if self._source is None:
            self._source = log.follow(self._after)
        try:
            number, event = await anext(self._source)
        except StopAsyncIteration:
            self.over = True
            raise
        except asyncio.CancelledError:
            self._source = None
            raise
        self._after = max(self._after, number)
        if isinstance(event, RequestOpened) and event.responder is None:
            # An event from the file has no responder; a late reader may answer too.
            event = replace(event, responder=self._running.requests.answer)
        if self._last(number, event):
            await self.aclose()
        return self._show(number, event)

    async def aclose(self) -> None:
        """Stop reading. Leaving the loop and dropping the iterator has the same effect."""
        self.over = True
        source = self._source
        self._source = None
        if source is not None:
            with suppress(RuntimeError):  # another task waits for the generator
                await source.aclose()


class EventReaders:
    """The iterators that read the events of a team and may answer requests."""

    def __init__(self) -> None:
        self._answering: WeakSet[EventIterator[Any]] = WeakSet()

    def add(self, events: EventIterator[T]) -> EventIterator[T]:
        """Register a reader that may answer requests, until it ends or is garbage-collected."""
        self._answering.add(events)
        return events

    def may_answer(self) -> bool:
        """Return True while a reader that may answer is active."""
        return any(not events.over for events in self._answering)


def numbered(number: int, event: TeamEvent) -> tuple[int, TeamEvent]:
    """Return the event with its number in the log."""
    return number, event


def no_last_event(_number: int, _event: TeamEvent) -> bool:
    """Return False: no event ends the iterator."""
    return False


class Run(Generic[OutputT]):
    """A run of a team: `await` it for its Result, or read `events()` first.

    For a type checker `Run[Report]` is a run with `output_type=Report`. A run belongs to the event loop of its team.
    """

    def __init__(
        self,
        running: RunningTeam,
        work: Callable[[], Awaitable[Result]],
        readers: EventReaders,
        before: Run[Any] | None = None,
        *,
        outlives_wait: bool = False,
    ) -> None:
        """Start the work. When `before`, a cancelled run, has not ended yet, the work starts after it.

        `outlives_wait`: the cancellation of a task that awaits the run leaves the run to the team's block.
        """
        self._running = running
        self._readers = readers
        self._after = running.log.last_number
        self._end: int | None = None
        self._reason = ""
        self._stop: Stop = "cancelled"
        self._outlives_wait = outlives_wait
        self._work = asyncio.ensure_future(_begin(work, before._task if before is not None else None))
        self._task = asyncio.ensure_future(self._finish())

    @property
    def _session(self) -> Session:
        return self._running.session

    def __await__(self) -> Generator[Any, None, Result[OutputT]]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        state = "over" if self._task.done() else "cancelled" if self._reason else "running"
        return f"<Run of {self._running.name!r}, {state}>"

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
        self._running.require_loop()
        return self._task.done()

    @property
    def cancelled(self) -> bool:
        """True after `cancel`, even before the run ended. The team accepts another run, which waits for this one."""
        self._running.require_loop()
        return bool(self._reason)

    def cancel(self, reason: str = "") -> None:
        """Cancel the run and keep the team: the result's `stop` is `cancelled`. Does nothing after the run ended."""
        self._running.require_loop()
        if not self._work.done():
            self._reason = self._reason or reason or "by the program"
            self._work.cancel()

    def events(self, after: int | None = None, *, answers: bool = True) -> AsyncIterator[TeamEvent]:
        """Iterate over events from the start of the run (or after that number of the log) to the end of the run.

        May be called several times, also after the run ended. A slow reader reads from the file and never blocks the
        team. With `answers=False` the reader only watches, and no request waits for it. Raises UsageError for an
        `after` that is not a number.
        """
        last = self._running.log.last_number
        start = self._after if after is None else min(require_number("after", after), last)
        iterator: EventIterator[TeamEvent] = EventIterator(self._running, start, _plain, self._is_last)
        iterator.over = self._end is not None and start >= self._end
        return self._readers.add(iterator) if answers else iterator

    async def stop(self, stop: Stop = "cancelled", reason: str = "the team was left") -> None:
        """End the run with this ending, because the team's block is left or suspended, and wait for its end."""
        if not self._reason:
            self._stop = stop
        self.cancel(reason)
        await asyncio.wait({self._task})

    def _is_last(self, number: int, event: TeamEvent) -> bool:
        return isinstance(event, RunEnded) and number > self._after

    async def _wait(self) -> Result[OutputT]:
        self._running.require_loop()
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._outlives_wait:
                raise
            self.cancel("the call that waited for it was cancelled")
            await asyncio.wait({self._task})
            raise

    async def _finish(self) -> Result[OutputT]:
        try:
            return await self._work
        except asyncio.CancelledError:
            if not self._work.cancelled():
                self._work.cancel()
                raise
            what = f"the run was {self._stop}: {self._reason}"
            stopped = TeamwrightError("interrupted", what, do=[self._session.resume_command])
            return await self._session.result(self._stop, self._session.lead.last_end.text, error=stopped)
        except Exception as problem:
            if not isinstance(problem, TeamwrightError):
                log_failure("the run failed", problem)
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
    with naming_home(options.home):
        async with open_session(options) as session:
            return await session.end_members(await session.run([text_block(prompt)]))


@overload
def run(prompt: str, *, output_type: type[T], **options: Unpack[OptionsWithoutOutput]) -> Result[T]: ...


@overload
def run(prompt: str, **options: Unpack[OptionsWithoutOutput]) -> Result[None]: ...


@overload
def run(prompt: str, **options: Unpack[TeamOptions]) -> Result[Any]: ...


def run(prompt: str, **options: Unpack[TeamOptions]) -> Result[Any]:
    """Run one prompt in a new session and return its result. The lead may create a team.

    For a type checker the result of `output_type=Report` is a `Result[Report]`.

    Raises CannotStart when the session cannot start, and UsageError inside a running event loop (a notebook, a web
    server, trio), for an empty prompt and for an invalid option.
    """
    session_options = to_session_options(options)
    require_prompt(prompt)
    if library := running_library():
        raise needs_asyncio_error("run()", library)  # it would block that loop
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
