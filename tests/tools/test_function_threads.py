"""Threads of Python functions: slow ones hold up nothing but each other, and a function may have a timeout."""

import asyncio
import contextvars
import threading

import pytest

from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.protocol.errors import UsageError
from teamwright.protocol.messages import text_block
from teamwright.tools.python_tool import MAX_THREADS, python_tool
from tests.agent.parts import Listed, an_agent, call, says
from tests.support.waits import WAIT_S


async def result_of(tmp_path, function):
    agent, _ = an_agent(
        tmp_path, Listed(says(call(f"python__{function.__name__}")), says("done")), [python_tool(function)]
    )
    await run_turn(agent, UserMessage((text_block("go"),)))
    return agent.conversation.items[-2].decode()


@pytest.mark.finding("3L2")
async def test_blocked_functions_do_not_take_the_threads_of_the_library(tmp_path):
    release, started = threading.Event(), threading.Semaphore(0)

    def block() -> str:
        """Block."""
        started.release()
        release.wait(WAIT_S)
        return "free"

    blocked = []
    try:
        async with asyncio.timeout(WAIT_S):
            for number in range(MAX_THREADS + 2):
                home = tmp_path / str(number)
                home.mkdir()
                blocked.append(asyncio.create_task(result_of(home, block)))
            for _ in range(MAX_THREADS):
                await asyncio.to_thread(started.acquire)
            assert not started.acquire(blocking=False), "no more than the stated number run at once"
            assert await asyncio.to_thread(str, 1) == "1"
            release.set()
            assert all("free" in text for text in await asyncio.gather(*blocked))
    finally:
        release.set()
        await asyncio.gather(*blocked, return_exceptions=True)


@pytest.mark.finding("3L2")
async def test_a_function_that_takes_longer_than_its_timeout_is_an_error_for_the_model(tmp_path):
    release = threading.Event()

    def slow() -> str:
        """Wait."""
        release.wait(WAIT_S)
        return "late"

    slow.timeout_s = 0.1
    try:
        async with asyncio.timeout(WAIT_S):
            text = await result_of(tmp_path, slow)
    finally:
        release.set()
    assert "did not return within 0.1 s. It may still be running." in text


@pytest.mark.finding("3L2")
async def test_a_coroutine_function_is_cancelled_at_its_timeout(tmp_path):
    ended = asyncio.Event()

    async def slow() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "late"

    slow.timeout_s = 0.1
    async with asyncio.timeout(WAIT_S):
        assert "did not return within 0.1 s." in await result_of(tmp_path, slow)
        await ended.wait()


async def test_a_function_that_raises_timeout_error_itself_and_one_with_a_context_work_as_before(tmp_path):
    name = contextvars.ContextVar("name", default="nobody")
    name.set("ada")

    def fails() -> str:
        """Fail."""
        raise TimeoutError(f"the database of {name.get()}")

    assert "raised TimeoutError: the database of ada" in await result_of(tmp_path, fails)


@pytest.mark.parametrize("timeout", [0, -1, "30", True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    def tool() -> str:
        """Do."""
        return ""

    tool.timeout_s = timeout
    with pytest.raises(UsageError, match="timeout_s"):
        python_tool(tool)
