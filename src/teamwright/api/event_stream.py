"""Event iterators of the API. An iterator that is behind reads from the log file; otherwise it receives live events.

A slow reader never blocks the team. An iterator in use counts as a reader that may answer requests. Depends on the
event log and the request queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from teamwright.approvals.request_queue import RequestQueue
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import RequestOpened, TeamEvent
from teamwright.storage.event_log import EventLog

T = TypeVar("T")


class EventIterator(AsyncIterator[T], Generic[T]):
    """An iterator over events. `show` converts a numbered event for the reader; `last` returns True for the final
    event.

    Waiting may be cancelled (`asyncio.timeout` around `anext`): the next call continues with the same event.
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

    if not TYPE_CHECKING:  # a type checker reports this mistake

        def __iter__(self) -> object:
            """Raise UsageError: the loop needs `async for`."""
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
            # An event from the file has no responder; a late reader may answer too.
            event = replace(event, responder=self._requests.answer)
        if self._last(number, event):
            await self.aclose()
        return self._show(number, event)

    async def aclose(self) -> None:
        """Stop reading. Leaving the loop and dropping the iterator has the same effect."""
        self.over = True
        source, self._source = self._source, None
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
