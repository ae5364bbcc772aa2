"""A limit on the time of a block, which also holds in a task that was cancelled before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager


@asynccontextmanager
async def _limit(seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
    """Do as `asyncio.timeout`, which up to Python 3.11.2 cancels the cleanup of a cancelled task at its limit."""
    task = asyncio.current_task()
    cancelled = 0 if task is None else task.cancelling()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield limit
    except asyncio.CancelledError:
        if task is not None and limit.expired() and task.cancelling() <= cancelled:
            raise TimeoutError from None
        raise


time_limit: Callable[[float | None], AbstractAsyncContextManager[asyncio.Timeout]] = (
    asyncio.timeout if sys.version_info >= (3, 11, 3) else _limit
)
"""Ends the block after these seconds with TimeoutError; None: no limit."""
