"""Work on several files that nobody may break off half way: whoever cancels waits until it is done.

Knows nothing but tasks. Only for work that is bounded by itself, as by the deadlines of locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def seen_through(work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. A cancellation is raised after its end; what it raised itself is lost then."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()
        raise asyncio.CancelledError
    return task.result()
