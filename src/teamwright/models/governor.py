"""One governor per credential: whoever shares a key shares its rate limit, so all members wait together.

On "too many requests" and "overloaded" everybody pauses, with jitter, and fewer may call at once; each success
lets a little more through. Waiting costs nothing: sleepers have a timer, queued ones are woken by who leaves.
Usable from several event loops. Knows no HTTP.
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


class Turn:
    """One request's leave to go. `epoch` tells a throttling that was already known from news."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch


class Governor:
    """Shared by all adapters with the same credential.

    `most` requests run at once at most. Pauses that we choose start at `backoff_s` and double up to
    `backoff_most_s` seconds.
    """

    def __init__(self, *, most: int = 32, backoff_s: float = 0.5, backoff_most_s: float = 60.0) -> None:
        self._most = most
        self._limit = float(most)
        self._backoff_s = backoff_s
        self._backoff_most_s = backoff_most_s
        self._running = 0
        self._epoch = 0
        self._level = 0
        self._paused_until = 0.0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._mutex = threading.Lock()

    @property
    def limit(self) -> int:
        """How many may call at once now."""
        return int(self._limit)

    @property
    def running(self) -> int:
        """How many are calling."""
        return self._running

    @property
    def paused_s(self) -> float:
        """How long everybody still waits, in seconds; 0 when nobody has to."""
        return max(0.0, self._paused_until - time.monotonic())

    @property
    def waits_for(self) -> str:
        """On what a call would wait now, in words; empty when it may go at once."""
        if self.paused_s > 0:
            return "the rate limit"
        return "" if self._running < self.limit else "a free place among those who may call"

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[Turn, None]:
        """A place among those who may call. Waits for the pause and for a place, first come first served."""
        await self._enter()
        turn = Turn(self._epoch)
        try:
            yield turn
        finally:
            self._leave()

    async def _enter(self) -> None:
        try:
            await self._wait_for_place()
        except asyncio.CancelledError:
            self._wake()  # it may have been called up: then the next one takes its place
            raise

    async def _wait_for_place(self) -> None:
        called = False
        while True:
            pause = self.paused_s
            if pause > 0:
                # A little apart, so that they do not come back as one wave.
                await asyncio.sleep(pause * (1 + random.random() * 0.1))
                continue
            with self._mutex:
                if self._running < self.limit and (called or not self._queue):
                    self._running += 1
                    return
                place = asyncio.get_running_loop().create_future()
                (self._queue.appendleft if called else self._queue.append)(place)
            try:
                await place
            finally:
                self._forget(place)
            called = True

    def _forget(self, place: asyncio.Future[None]) -> None:
        with self._mutex:
            if place in self._queue:
                self._queue.remove(place)

    def _leave(self) -> None:
        with self._mutex:
            self._running -= 1
        self._wake()

    def _wake(self) -> None:
        """Call up as many as there are places."""
        with self._mutex:
            open_places = (place for place in tuple(self._queue) if not place.get_loop().is_closed())
            called = list(islice(open_places, max(0, self.limit - self._running)))
            for place in called:
                self._queue.remove(place)
        for place in called:
            place.get_loop().call_soon_threadsafe(_call_up, place)

    def throttled(self, turn: Turn, retry_after_s: float | None = None) -> float:
        """The service said: too many. Everybody pauses; returns for how long, in seconds.

        Several who were under way together are one event: the first one shrinks the number, the others only
        lengthen the pause if the service asked for more.
        """
        with self._mutex:
            if turn.epoch == self._epoch:
                self._epoch += 1
                self._limit = max(1.0, min(self._limit, float(max(self._running, 1))) / 2)
                self._level += 1
            own = min(self._backoff_most_s, self._backoff_s * 2 ** min(self._level - 1, 20))
            pause = (retry_after_s if retry_after_s is not None else own) * (1 + random.random() * 0.25)
            self._paused_until = max(self._paused_until, time.monotonic() + pause)
        return self.paused_s

    def succeeded(self, turn: Turn) -> None:
        """A request went well: a little more may be let through."""
        with self._mutex:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)
            if turn.epoch == self._epoch:
                self._level = 0
        self._wake()


def _call_up(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


_GOVERNORS: dict[str, Governor] = {}


def governor_for(fingerprint: str) -> Governor:
    """The governor of a credential, one in the process."""
    return _GOVERNORS.setdefault(fingerprint, Governor())
