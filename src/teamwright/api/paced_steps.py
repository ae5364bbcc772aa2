"""Coroutines that take turns, so that many of them together hold the event loop no longer than one.

Entering a team computes for some tens of milliseconds. Ten teams that are entered at once would do that in one pass of
the event loop, and a web server in the same loop would answer no request before the end. Depends on asyncio alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

_turns: WeakValueDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakValueDictionary()
"""The lock of each event loop; its holder takes the next step. It lives as long as a coroutine uses it, because a lock
keeps its event loop alive.
"""


class PacedSteps(Generic[T]):
    """Await a coroutine so that each of its steps, from one await to the next, has its own pass of the event loop.

    No other PacedSteps takes a step in that pass. Results, errors and cancellations are those of the coroutine.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        lock = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            holds = False
            try:
                yield from lock.acquire().__await__()
                holds = True
                yield  # everything that is ready runs first
            except BaseException as problem:  # a cancellation belongs to what the coroutine awaits
                step = partial(self._work.throw, problem)
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            finally:
                if holds:
                    lock.release()
            try:
                step = partial(self._work.send, (yield awaited))
            except BaseException as problem:
                step = partial(self._work.throw, problem)
