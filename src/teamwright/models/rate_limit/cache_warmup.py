"""Cache warm-up: of several calls with equal prefixes the first goes ahead, so that the others read from the cache.

Services cache tools before the rest, so prompts with the same tools for the same model are equal here: those of the
members of a team, whose other texts differ. A call without an equal one never waits, and no call waits longer than the
limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from teamwright.models.model import Prefix
from teamwright.protocol.time_limit import time_limit

WARM_S = 240.0
"""Seconds that a service is assumed to cache a prompt after its last use: five minutes, less a margin."""
_MAX_KNOWN = 256


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
        key, first = self._key(prefix), None
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


def _drop_oldest(known: dict[str, Any]) -> None:
    """Remove the oldest entries."""
    if len(known) > _MAX_KNOWN:
        del known[next(iter(known))]
