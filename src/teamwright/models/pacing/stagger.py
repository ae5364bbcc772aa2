"""Equal prompts one after the other: the first goes ahead, and the others read from the cache what it wrote.

Holds nobody up who is alone, and nobody longer than the bound. Knows prefixes by their digest; knows no HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager

WARM_S = 240.0
"""How long, in seconds, a service is taken to keep a prefix after it was used last: five minutes, less some."""


class First:
    """The call that went ahead with a prefix; `began` ends the waiting of the others."""

    __slots__ = ("_done", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._done = asyncio.Event()

    def began(self) -> None:
        """Its answer began, or there will be none."""
        self._done.set()

    async def wait(self, within_s: float) -> None:
        """Until it began, `within_s` seconds at most."""
        try:
            async with asyncio.timeout(within_s):
                await self._done.wait()
        except TimeoutError:
            return


class Stagger:
    """For all calls of one model. `within_s` is the longest that a call waits for another, in seconds; 0: none does."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._warm: dict[str, float] = {}
        self._first: dict[str, First] = {}

    def ahead_of(self, digest: str) -> First | None:
        """The call that this one should wait for; None when it may go at once."""
        if not self._within_s or time.monotonic() - self._warm.get(digest, -WARM_S) < WARM_S:
            return None
        first = self._first.get(digest)
        return first if first is not None and first.loop is asyncio.get_running_loop() else None

    async def follow(self, first: First) -> None:
        """Wait for the call that went ahead."""
        await first.wait(self._within_s)

    def began(self, digest: str) -> None:
        """An answer to a prompt with this prefix began: the service has read it."""
        self._warm.pop(digest, None)
        self._warm[digest] = time.monotonic()
        if len(self._warm) > 64:
            del self._warm[next(iter(self._warm))]
        if (first := self._first.get(digest)) is not None:
            first.began()

    @contextmanager
    def calling(self, digest: str) -> Generator[None]:
        """While a call is under way: whoever comes with the same prefix, new to the service, comes after it."""
        first = None
        if self._within_s and digest not in self._first:
            first = self._first[digest] = First()
        try:
            yield
        finally:
            if first is not None:
                del self._first[digest]
                first.began()
