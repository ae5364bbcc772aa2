"""A rate limiter for each credential, and a warm-up of the service's cache for each model.

All users of a key share its rate limit, so all members wait together. After "too many requests" and "overloaded" all
calls pause, with jitter, and fewer may run at once; each success raises the limit a little. Waiting costs nothing: a
pause is a timer, queued calls are woken by finished ones. Only a call that waits for another process's permit polls.
Usable from several event loops.

Of several calls with equal prefixes the first goes ahead, so that the others read from the cache. Services cache tools
before the rest, so prompts with the same tools for the same model are equal here: those of the members of a team, whose
other texts differ. A call without an equal one never waits, and no call waits longer than the limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from teamwright.models.model import Prefix
from teamwright.models.rate_limit_store import ANY_PERMIT, FileRateLimitStore, MemoryRateLimitStore, RateLimitStore
from teamwright.models.rate_state import (
    RateLimitTerms,
    RateState,
    ServiceRefusal,
    apply_refusal,
    apply_success,
    merge_states,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.time_limit import time_limit

POLL_S = 0.05
"""Seconds between two polls for another process's permit, and a random addition up to as much."""


class RateLimiter:
    """A rate limiter that all adapters with the same credential share.

    `max_running` requests run at once at most. Pauses that it chooses start at `backoff_s` and double up to
    `max_backoff_s` seconds. `store` stores the state: without one it is this object's alone.
    """

    def __init__(
        self,
        *,
        max_running: int = 32,
        backoff_s: float = 0.5,
        max_backoff_s: float = 60.0,
        store: RateLimitStore | None = None,
    ) -> None:
        self._terms = RateLimitTerms(max_running, backoff_s, max_backoff_s)
        self.place = "a free place among those who may call"
        """Names, for the user, the place that a call waits for while as many run as may run at once."""
        self._store = store or MemoryRateLimitStore()
        self.running_count = 0
        """The number of running calls."""
        self._queue: deque[asyncio.Future[None]] = deque()
        self._followers: list[Callable[[], None]] = []
        self._mutex = threading.RLock()
        self._machines = 1

    @property
    def _capped(self) -> bool:
        """True when fewer calls may run at once than without a setting or a server's word: processes share them."""
        return self._terms.max_running < RateLimitTerms().max_running

    def change_max_running(self, most: int) -> None:
        """Let at most so many calls run at once from now on."""
        if most != self._terms.max_running:
            self._terms = replace(self._terms, max_running=most)
            self._wake()

    @property
    def limit(self) -> int:
        """The number of calls that may run at once now."""
        return self._most(self._state())

    @property
    def paused_s(self) -> float:
        """The remaining seconds of the shared pause; 0 without one."""
        return max(0.0, self._state().paused_until - time.monotonic())

    @property
    def wait_reason(self) -> str:
        """The reason why a call would wait now, in words; empty when it may start immediately."""
        state = self._state()
        if state.paused_until > time.monotonic():
            return "the rate limit"
        return "" if self.running_count < self._most(state) else self.place

    def share_among(self, machines: int) -> None:
        """Run only this machine's share of the calls that may run at once after a refusal, of so many machines."""
        self._machines = max(1, machines)

    def _most(self, state: RateState) -> int:
        """Return how many calls may run at once on this machine. Each machine has room for one."""
        most = state.max_running(self._terms)
        return max(1, most // self._machines) if state.is_limited else most

    def _state(self) -> RateState:
        with self._mutex:
            state = self._store.read()
        return state.at_time(time.monotonic()) if state.epoch else state

    def try_permit(self) -> CallPermit | None:
        """Return a permit to call at once, to be passed to `permit` without an await in between; None: it must wait."""
        state = self._state()
        with self._mutex:
            if state.paused_until > time.monotonic() or self._queue or self.running_count >= self._most(state):
                return None
            place = self._take_permit(state)
            if place is None:
                self._store.release_permit(ANY_PERMIT)  # no call waits yet
                return None
            self.running_count += 1
        return CallPermit(state.epoch, place)

    @asynccontextmanager
    async def permit(self, held: CallPermit | None = None) -> AsyncGenerator[CallPermit, None]:
        """Yield a permit to call: `held`, or one that it waits for, first come first served and not during a pause."""
        permit = held or await self._enter()
        try:
            yield permit
        finally:
            self._leave(permit.place)

    async def _enter(self) -> CallPermit:
        try:
            return await self._wait_for_permit()
        except asyncio.CancelledError:
            with self._mutex:
                self._store.release_permit(ANY_PERMIT)  # calls that still wait here set the mark again
            self._wake()  # it may have been woken: then the next call takes its place
            raise

    async def _wait_for_permit(self) -> CallPermit:
        called = False
        while True:
            state = self._state()
            pause = state.paused_until - time.monotonic()
            if pause > 0:
                # The random addition prevents all calls from returning at the same moment.
                await asyncio.sleep(pause * (1 + random.random() * 0.1))
                continue
            outcome = self._take(state, called=called)
            if isinstance(outcome, int):
                if state.is_limited:
                    self._wake()  # other processes may have released more permits than one
                return CallPermit(state.epoch, outcome)
            try:
                # No event reports that another process released its permit, so poll.
                async with time_limit(POLL_S * (1 + random.random()) if outcome.waits_for_others else None):
                    await outcome.future
            except TimeoutError:
                pass
            finally:
                self._forget(outcome.future)
            called = True

    def _take(self, state: RateState, *, called: bool) -> int | _Waiting:
        """Take a permit, or return the reason to wait; a call that was woken (`called`) goes before all others."""
        with self._mutex:
            room = self.running_count < self._most(state) and (called or not self._queue)
            place = self._take_permit(state) if room else None
            if place is not None:
                self.running_count += 1
                return place
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._queue.appendleft if called else self._queue.append)(future)
            return _Waiting(future, waits_for_others=room)

    def _take_permit(self, state: RateState) -> int | None:
        """Take a permit of all processes while calls are limited; otherwise none is needed."""
        return self._store.take_permit(self._most(state)) if state.is_limited or self._capped else ANY_PERMIT

    def _forget(self, place: asyncio.Future[None]) -> None:
        with self._mutex:
            if place in self._queue:
                self._queue.remove(place)

    def _leave(self, place: int) -> None:
        with self._mutex:
            self.running_count -= 1
            if place != ANY_PERMIT:
                self._store.release_permit(place)
        self._wake()

    def _wake(self) -> None:
        """Wake as many calls as there are permits."""
        if not self._queue:
            return
        with self._mutex:
            open_places = (place for place in tuple(self._queue) if not place.get_loop().is_closed())
            called = list(islice(open_places, max(0, self.limit - self.running_count)))
            for place in called:
                self._queue.remove(place)
        for place in called:
            place.get_loop().call_soon_threadsafe(_set_done, place)

    def note_throttled(self, permit: CallPermit, retry_after_s: float | None = None) -> float:
        """Pause all calls after "too many requests"; return the seconds of the pause.

        Several refusals of concurrent calls are one event: the first one lowers the limit, the others only lengthen the
        pause if the service asked for more.
        """
        now = time.monotonic()
        refusal = ServiceRefusal(permit.epoch, self.running_count, now, retry_after_s, random.random() * 0.25)
        with self._mutex:
            self._store.change(lambda state: apply_refusal(state.at_time(now), self._terms, refusal))
        self._report_change()
        return self.paused_s

    def note_success(self, permit: CallPermit) -> None:
        """Record a successful request: the limit rises a little."""
        state = self._state()
        if state.is_limited or state.level:
            with self._mutex:
                now = time.monotonic()
                self._store.change(lambda state: apply_success(state.at_time(now), self._terms, epoch=permit.epoch))
            self._wake()
            self._report_change()

    def follow(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change by a call of this process, in the thread of the call. Return what ends this."""
        self._followers.append(on_change)
        return lambda: self._followers.remove(on_change)

    def merge(self, there: RateState) -> RateState:
        """Take over what another machine knows of the credential, in this machine's time. Return the merged state."""
        with self._mutex:
            now = time.monotonic()
            merged = self._store.change(lambda state: merge_states(state.at_time(now), there.at_time(now)))
        self._wake()
        return merged

    def _report_change(self) -> None:
        for on_change in tuple(self._followers):
            on_change()


class CallPermit:
    """The permit of one request. `epoch` distinguishes a known refusal from a new one, `place` is the store's."""

    __slots__ = ("epoch", "place")

    def __init__(self, epoch: int, place: int) -> None:
        self.epoch = epoch
        self.place = place


class _Waiting(NamedTuple):
    """A place in the queue; `waits_for_others`: this process has room, but other processes have all permits."""

    future: asyncio.Future[None]
    waits_for_others: bool


def _set_done(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


def rate_limiter_for(fingerprint: str, page: Path | None = None, most: int | None = None) -> RateLimiter:
    """Return the rate limiter of a credential, one in the process, which lets `most` requests run at once from now on.

    With a `page` it is shared with all processes that name the same file; where that is impossible, it is this
    process's alone.
    """
    key = (fingerprint, str(page or ""))
    if key not in _RATE_LIMITERS:
        _RATE_LIMITERS[key] = RateLimiter(store=_open_store(page))
    _RATE_LIMITERS[key].change_max_running(most or RateLimitTerms().max_running)
    return _RATE_LIMITERS[key]


def _open_store(page: Path | None) -> RateLimitStore:
    try:
        return MemoryRateLimitStore() if page is None else FileRateLimitStore(page)
    except StorageError:
        return MemoryRateLimitStore()


_RATE_LIMITERS: dict[tuple[str, str], RateLimiter] = {}

WARM_S = 240.0
"""Seconds that a service is assumed to cache a prompt after its last use: five minutes, less a margin."""

_MAX_KNOWN = 256
"""The most prefixes that are remembered."""


class CacheWarmup:
    """The warm-up of all calls of one model. `within_s`: seconds that a call waits for another at most; 0 disables
    it.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._keys: dict[str, str] = {}
        self._warm: dict[str, float] = {}
        self._first: dict[str, LeadingCall] = {}

    def leading_call(self, prefix: Prefix) -> LeadingCall | None:
        """Return the call that this one should wait for; None when it may start immediately."""
        key = self._key(prefix)
        if not self._within_s or time.monotonic() - self._warm.get(key, -WARM_S) < WARM_S:
            return None
        first = self._first.get(key)
        return first if first is not None and first.loop is asyncio.get_running_loop() else None

    async def follow(self, first: LeadingCall) -> None:
        """Wait for the leading call."""
        await first.wait(self._within_s)

    def note_answer_began(self, prefix: Prefix) -> None:
        """Note that an answer to a prompt with this prefix began: the service has read it."""
        key = self._key(prefix)
        self._warm.pop(key, None)
        self._warm[key] = time.monotonic()
        _drop_oldest(self._warm)
        if (first := self._first.get(key)) is not None:
            first.release_followers()

    @contextmanager
    def lead(self, prefix: Prefix) -> Generator[None]:
        """Make later calls with an equal prompt wait during a call, if the prompt is new to the service."""
        key = self._key(prefix)
        first: LeadingCall | None = None
        if self._within_s and key not in self._first:
            first = self._first[key] = LeadingCall()
        try:
            yield
        finally:
            if first is not None:
                del self._first[key]
                first.release_followers()

    def _key(self, prefix: Prefix) -> str:
        key = self._keys.get(prefix.digest)
        if key is None:
            key = self._keys[prefix.digest] = shared_prefix_key(prefix)
            _drop_oldest(self._keys)
        return key


class LeadingCall:
    """The first call with a prefix; `release_followers` ends the wait of the others."""

    __slots__ = ("_done", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._done = asyncio.Event()

    def release_followers(self) -> None:
        """Release the waiting calls: its answer began, or it failed."""
        self._done.set()

    async def wait(self, within_s: float) -> None:
        """Wait until its answer began or failed, `within_s` seconds at most."""
        try:
            async with time_limit(within_s):
                await self._done.wait()
        except TimeoutError:
            return


def shared_prefix_key(prefix: Prefix) -> str:
    """Return a key of the part of a prefix that other agents share: model and tools; without tools all of it."""
    if not prefix.end:
        return prefix.digest
    head = b"\0".join([prefix.model.encode(), ",".join(prefix.betas).encode(), prefix.end])
    return hashlib.sha256(head).hexdigest()


def _drop_oldest(known: dict[str, Any]) -> None:
    """Remove the oldest entries."""
    if len(known) > _MAX_KNOWN:
        del known[next(iter(known))]
