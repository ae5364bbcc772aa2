"""Watching: events as a program reads them, from the log's file when it is late, live when it is not.

A reader never holds up the team, and an iterator that is in use counts as somebody who may answer requests.
Knows the log and the queue of requests; knows no team.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from teamwright.approvals.request_queue import RequestQueue
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import RequestOpened, TeamEvent
from teamwright.storage.event_log import EventLog

T = TypeVar("T")


class EventIterator(AsyncIterator[T], Generic[T]):
    """An iterator over events. `show` makes what the reader gets of a numbered event; `last` says which ends it.

    Waiting may be cancelled (`asyncio.timeout` around `anext`): the next call goes on where this one was.
    """

    def __init__(
        self,
        log: EventLog,
        requests: RequestQueue,
        after: int,
        show: Callable[[int, TeamEvent], T],
        last: Callable[[int, TeamEvent], bool],
    ) -> None:
        self.over = False
        self._log = log
        self._requests = requests
        self._after = after
        self._show = show
        self._last = last
        self._source: AsyncGenerator[tuple[int, TeamEvent], None] | None = None

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    if not TYPE_CHECKING:  # a type checker says it by itself

        def __iter__(self) -> object:
            """Whoever forgot the `async` of the loop."""
            raise UsageError("usage", "events are waited for", do=["async for event in run.events(): …"])

    async def __anext__(self) -> T:
        if self.over:
            raise StopAsyncIteration
        if self._source is None:
            self._source = self._log.follow(self._after)
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
            # Read from the file: whoever reads late may answer as well as anybody.
            event = replace(event, responder=self._requests.answer)
        if self._last(number, event):
            await self.aclose()
        return self._show(number, event)

    async def aclose(self) -> None:
        """Read no further. Leaving the loop and forgetting the iterator does the same."""
        self.over = True
        source, self._source = self._source, None
        if source is not None:
            with suppress(RuntimeError):  # somebody else waits in it
                await source.aclose()


class EventReaders:
    """Who reads the events of a team, and whether any of them may answer requests."""

    def __init__(self) -> None:
        self._answering: WeakSet[EventIterator[Any]] = WeakSet()

    def add(self, events: EventIterator[T]) -> EventIterator[T]:
        """Count this reader as somebody who may answer, until it is over or forgotten."""
        self._answering.add(events)
        return events

    def may_answer(self) -> bool:
        """Whether somebody who may answer is reading now."""
        return any(not events.over for events in self._answering)


def numbered(number: int, event: TeamEvent) -> tuple[int, TeamEvent]:
    """The event with its number in the log."""
    return number, event


def no_last_event(_number: int, _event: TeamEvent) -> bool:
    """No event is the last one."""
    return False
