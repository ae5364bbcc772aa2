"""Tasks that run their clean-up however early they are cancelled."""

import asyncio

import pytest

from teamwright.storage.asyncio_task import start_task
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("T9")


async def test_a_task_that_is_cancelled_before_its_first_step_runs_its_clean_up():
    seen: list[str] = []

    async def work() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    task = start_task(work(), "work")
    assert task.cancel() and task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.cancelled() and seen == ["began", "cleaned up"]


async def test_a_task_that_handles_its_cancellation_ends_as_it_says():
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            assert current is not None and current.cancelling() == 1
            current.uncancel()

    task = start_task(work(), "work")
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.done() and not task.cancelled() and task.exception() is None


async def test_a_task_that_was_done_at_its_first_step_is_not_cancelled():
    async def work() -> None:
        pass

    task = start_task(work(), "work")
    await task
    assert not task.cancel() and not task.cancelled()


async def test_a_later_cancellation_reaches_the_task_at_once():
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    task = start_task(work(), "work")
    await began.wait()
    assert task.cancel() and task.cancelling() == 1
    await asyncio.wait({task}, timeout=WAIT_S)
    assert task.cancelled()
