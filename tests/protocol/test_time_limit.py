"""A limit on time ends a block with TimeoutError, also in the cleanup of a task that was cancelled."""

import asyncio

import pytest

from teamwright.protocol import time_limit as module
from teamwright.protocol.time_limit import time_limit


@pytest.mark.finding("3V1")
@pytest.mark.parametrize("limit", [time_limit, module._limit], ids=["of this Python", "of Python 3.11.2"])
async def test_a_limit_in_the_cleanup_of_a_cancelled_task_is_no_second_cancellation(limit):
    seen: list[str] = []
    begun = asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            try:
                async with limit(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                seen.append("limit")

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert seen == ["limit"] and task.cancelled()
