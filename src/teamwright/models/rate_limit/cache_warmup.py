"""Equal prompts one after the other: the first goes ahead, and the others read from the cache what it wrote.

Services cache tools before all else, so prompts with the same tools for the same model are equal here: the members of
a team, whose other words differ. Holds nobody up who is alone, and nobody longer than the bound. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from teamwright.models.model import Prefix

WARM_S = 240.0
"""How long, in seconds, a service is taken to keep what it read after it was used last: five minutes, less some."""
_MAX_KNOWN = 256


class LeadingCall:
    """The call that went ahead with a prefix; `began` ends the waiting of the others."""

    __slots__ = ("_done", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._done = asyncio.Event()

    def release_followers(self) -> None:
        """Its answer began, or there will be none."""
        self._done.set()

    async def wait(self, within_s: float) -> None:
        """Until it began, `within_s` seconds at most."""
        try:
            async with asyncio.timeout(within_s):
                await self._done.wait()
        except TimeoutError:
            return


def shared_prefix_key(prefix: Prefix) -> str:
    """A name for what of a prefix other agents have too: model and tools; without tools the whole."""
    begin = prefix.head.find(b'"tools":[')  # quotes inside a text are escaped: this is the field
    if begin < 0:
        return prefix.digest
    head = b"\0".join([prefix.model.encode(), ",".join(prefix.betas).encode(), prefix.head[begin:]])
    return hashlib.sha256(head).hexdigest()


class CacheWarmup:
    """For all calls of one model. `within_s` is the longest that a call waits for another, in seconds; 0: none does."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._keys: dict[str, str] = {}
        self._warm: dict[str, float] = {}
        self._first: dict[str, LeadingCall] = {}

    def leading_call(self, prefix: Prefix) -> LeadingCall | None:
        """The call that this one should wait for; None when it may go at once."""
        key = self._key(prefix)
        if not self._within_s or time.monotonic() - self._warm.get(key, -WARM_S) < WARM_S:
            return None
        first = self._first.get(key)
        return first if first is not None and first.loop is asyncio.get_running_loop() else None

    async def follow(self, first: LeadingCall) -> None:
        """Wait for the call that went ahead."""
        await first.wait(self._within_s)

    def note_answer_began(self, prefix: Prefix) -> None:
        """An answer to a prompt with this prefix began: the service has read it."""
        key = self._key(prefix)
        self._warm.pop(key, None)
        self._warm[key] = time.monotonic()
        _drop_oldest(self._warm)
        if (first := self._first.get(key)) is not None:
            first.release_followers()

    @contextmanager
    def lead(self, prefix: Prefix) -> Generator[None]:
        """While a call is under way: whoever comes with an equal prompt, new to the service, comes after it."""
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
    """What is oldest is forgotten."""
    if len(known) > _MAX_KNOWN:
        del known[next(iter(known))]
