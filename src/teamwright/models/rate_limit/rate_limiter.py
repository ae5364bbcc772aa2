"""One governor per credential: whoever shares a key shares its rate limit, so all members wait together.

On "too many requests" and "overloaded" everybody pauses, with jitter, and fewer may call at once; each success
lets a little more through. Waiting costs nothing: sleepers have a timer, queued ones are woken by who leaves; only
who waits for a place that another process has looks again by itself. Usable from several event loops. Below:
`pacing` (the arithmetic, and the page that processes share). Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from teamwright.models.rate_limit.rate_limit_store import (
    ANY_PERMIT,
    FileRateLimitStore,
    MemoryRateLimitStore,
    RateLimitStore,
)
from teamwright.models.rate_limit.rate_state import (
    RateLimitTerms,
    RateState,
    ServiceRefusal,
    apply_refusal,
    apply_success,
)
from teamwright.protocol.errors import StorageError

POLL_S = 0.05
"""How soon, in seconds, one who waits for another process's place looks again, and up to as much later by chance."""


class CallPermit:
    """One request's leave to go. `epoch` tells a throttling that was already known from news."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class _Waiting(NamedTuple):
    """A place in the queue; `outside`: there is room here, but other processes have all the places."""

    future: asyncio.Future[None]
    waits_for_others: bool


class RateLimiter:
    """Shared by all adapters with the same credential.

    `most` requests run at once at most. Pauses that we choose start at `backoff_s` and double up to
    `backoff_most_s` seconds. `board` is where the state is kept: without one it is this object's alone.
    """

    def __init__(
        self,
        *,
        max_running: int = 32,
        backoff_s: float = 0.5,
        max_backoff_s: float = 60.0,
        board: RateLimitStore | None = None,
    ) -> None:
        self._terms = RateLimitTerms(max_running, backoff_s, max_backoff_s)
        self._capped = max_running < RateLimitTerms().max_running
        self._store = board or MemoryRateLimitStore()
        self._running = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._mutex = threading.RLock()

    @property
    def limit(self) -> int:
        """How many may call at once now."""
        return self._state().max_running(self._terms)

    @property
    def running_count(self) -> int:
        """How many are calling."""
        return self._running

    @property
    def paused_s(self) -> float:
        """How long everybody still waits, in seconds; 0 when nobody has to."""
        return max(0.0, self._state().paused_until - time.monotonic())

    @property
    def wait_reason(self) -> str:
        """On what a call would wait now, in words; empty when it may go at once."""
        state = self._state()
        if state.paused_until > time.monotonic():
            return "the rate limit"
        return "" if self._running < state.max_running(self._terms) else "a free place among those who may call"

    def _state(self) -> RateState:
        with self._mutex:
            state = self._store.read()
        return state.at_time(time.monotonic()) if state.epoch else state

    @asynccontextmanager
    async def permit(self) -> AsyncGenerator[CallPermit, None]:
        """A place among those who may call. Waits for the pause and for a place, first come first served."""
        turn, place = await self._enter()
        try:
            yield turn
        finally:
            self._leave(place)

    async def _enter(self) -> tuple[CallPermit, int]:
        try:
            return await self._wait_for_permit()
        except asyncio.CancelledError:
            with self._mutex:
                self._store.release_permit(ANY_PERMIT)  # who waits here still says so again
            self._wake()  # it may have been called up: then the next one takes its place
            raise

    async def _wait_for_permit(self) -> tuple[CallPermit, int]:
        called = False
        while True:
            state = self._state()
            pause = state.paused_until - time.monotonic()
            if pause > 0:
                # A little apart, so that they do not come back as one wave.
                await asyncio.sleep(pause * (1 + random.random() * 0.1))
                continue
            taken = self._take(state, called=called)
            if isinstance(taken, int):
                if state.is_limited:
                    self._wake()  # other processes may have left more places than one
                return CallPermit(state.epoch), taken
            try:
                # Nobody here will say when another process leaves its place.
                async with asyncio.timeout(POLL_S * (1 + random.random()) if taken.waits_for_others else None):
                    await taken.future
            except TimeoutError:
                pass
            finally:
                self._forget(taken.future)
            called = True

    def _take(self, state: RateState, *, called: bool) -> int | _Waiting:
        """A place, or what to wait for; who was `called` up goes before all others."""
        with self._mutex:
            room = self._running < state.max_running(self._terms) and (called or not self._queue)
            place = self._take_permit(state) if room else None
            if place is not None:
                self._running += 1
                return place
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._queue.appendleft if called else self._queue.append)(future)
            return _Waiting(future, waits_for_others=room)

    def _take_permit(self, state: RateState) -> int | None:
        """While few may call, processes share the places; else nobody asks."""
        return (
            self._store.take_permit(state.max_running(self._terms)) if state.is_limited or self._capped else ANY_PERMIT
        )

    def _forget(self, place: asyncio.Future[None]) -> None:
        with self._mutex:
            if place in self._queue:
                self._queue.remove(place)

    def _leave(self, place: int) -> None:
        with self._mutex:
            self._running -= 1
            if place != ANY_PERMIT:
                self._store.release_permit(place)
        self._wake()

    def _wake(self) -> None:
        """Call up as many as there are places."""
        if not self._queue:
            return
        with self._mutex:
            open_places = (place for place in tuple(self._queue) if not place.get_loop().is_closed())
            called = list(islice(open_places, max(0, self.limit - self._running)))
            for place in called:
                self._queue.remove(place)
        for place in called:
            place.get_loop().call_soon_threadsafe(_call_up, place)

    def note_throttled(self, turn: CallPermit, retry_after_s: float | None = None) -> float:
        """The service said: too many. Everybody pauses; returns for how long, in seconds.

        Several who were under way together are one event: the first one shrinks the number, the others only
        lengthen the pause if the service asked for more.
        """
        now = time.monotonic()
        refusal = ServiceRefusal(turn.epoch, self._running, now, retry_after_s, random.random() * 0.25)
        with self._mutex:
            self._store.change(lambda state: apply_refusal(state.at_time(now), self._terms, refusal))
        return self.paused_s

    def note_success(self, turn: CallPermit) -> None:
        """A request went well: a little more may be let through."""
        state = self._state()
        if state.is_limited or state.level:
            with self._mutex:
                now = time.monotonic()
                self._store.change(lambda state: apply_success(state.at_time(now), self._terms, epoch=turn.epoch))
            self._wake()


def _call_up(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


_RATE_LIMITERS: dict[tuple[str, str, int | None], RateLimiter] = {}


def rate_limiter_for(fingerprint: str, page: Path | None = None, most: int | None = None) -> RateLimiter:
    """The governor of a credential, one in the process, which lets `most` requests run at once.

    With a `page` it is shared with all processes that name the same file; where that cannot be, it is this one's alone.
    """
    key = (fingerprint, str(page or ""), most)
    if key not in _RATE_LIMITERS:
        _RATE_LIMITERS[key] = RateLimiter(max_running=most or RateLimitTerms().max_running, board=_open_store(page))
    return _RATE_LIMITERS[key]


def _open_store(page: Path | None) -> RateLimitStore:
    try:
        return MemoryRateLimitStore() if page is None else FileRateLimitStore(page)
    except StorageError:
        return MemoryRateLimitStore()
