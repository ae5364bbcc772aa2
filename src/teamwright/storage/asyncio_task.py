"""Tasks whose coroutine always runs its first step, so that its clean-up runs however early the task is cancelled.

Depends on asyncio alone. A plain task that is cancelled before its first step never enters its `try`, so its clean-up
would never run. Leaves to the coroutine what a cancellation means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class StartedTask(asyncio.Task[None]):
    """A task that delivers an early cancellation after the first step of its coroutine."""

    def __init__(self, work: Coroutine[Any, Any, None], name: str) -> None:
        loop = asyncio.get_running_loop()
        self._started = False
        super().__init__(work, loop=loop, name=name)  # queues the first step
        loop.call_soon(self._mark_started)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task; see asyncio.Task.cancel."""
        if self._started or self.done():
            return super().cancel(msg)
        self.get_loop().call_soon(super().cancel, msg)  # runs after the first step
        return True

    def _mark_started(self) -> None:
        self._started = True


def start_task(work: Coroutine[Any, Any, None], name: str) -> StartedTask:
    """Return a running task for `work`, which takes its first step before any cancellation reaches it.

    Must be called with a running event loop.
    """
    return StartedTask(work, name)
