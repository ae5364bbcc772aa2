"""The rate_limiter: together into the pause, fewer after it, more with each success, and nobody forgotten."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.models import service_model
from teamwright.models.model import AlivePart, Failure, Reply, Retrying
from teamwright.models.rate_limit import RateLimiter, rate_limiter_for
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.examples import examples
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("F60")


def quick(most=8):
    return RateLimiter(max_running=most, backoff_s=0.001, max_backoff_s=0.005)


async def test_no_more_call_at_once_than_may():
    rate_limiter, most_seen = quick(3), 0

    async def call():
        nonlocal most_seen
        async with rate_limiter.permit():
            most_seen = max(most_seen, rate_limiter.running_count)
            await asyncio.sleep(0)

    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*(call() for _ in range(20)))
    assert (most_seen, rate_limiter.running_count) == (3, 0)


async def test_those_who_were_throttled_together_count_as_one():
    rate_limiter = quick(8)
    async with asyncio.timeout(WAIT_S), AsyncExitStack() as stack:
        turns = [await stack.enter_async_context(rate_limiter.permit()) for _ in range(8)]
        for turn in turns:
            rate_limiter.note_throttled(turn)
        assert rate_limiter.limit == 4


async def test_the_number_shrinks_by_half_and_grows_by_steps():
    rate_limiter = RateLimiter(max_running=16, backoff_s=0.0)
    turns = [rate_limiter.permit() for _ in range(16)]
    async with asyncio.timeout(WAIT_S):
        entered = [await turn.__aenter__() for turn in turns]
        rate_limiter.note_throttled(entered[0], 0.0)
        assert rate_limiter.limit == 8
        for turn in turns:
            await turn.__aexit__(None, None, None)
        for _ in range(8):
            async with rate_limiter.permit() as turn:
                rate_limiter.note_success(turn)
        assert rate_limiter.limit == 8  # eight successes are one more, less rounding
        async with rate_limiter.permit() as turn:
            rate_limiter.note_success(turn)
        assert rate_limiter.limit == 9
        for _ in range(500):
            async with rate_limiter.permit() as turn:
                rate_limiter.note_success(turn)
        assert rate_limiter.limit == 16


async def test_a_pause_holds_for_everybody_who_shares_the_governor():
    rate_limiter = quick()
    async with asyncio.timeout(WAIT_S):
        async with rate_limiter.permit() as turn:
            wait = rate_limiter.note_throttled(turn, 0.2)
        assert 0.1 < wait < 0.3
        before = asyncio.get_running_loop().time()
        async with rate_limiter.permit():
            assert asyncio.get_running_loop().time() - before >= 0.1
        assert rate_limiter.paused_s == 0


async def test_pauses_double_until_a_success_and_never_pass_the_longest():
    rate_limiter = RateLimiter(backoff_s=0.001, max_backoff_s=0.004)
    waits = []
    async with asyncio.timeout(WAIT_S):
        for _ in range(5):
            async with rate_limiter.permit() as turn:
                waits.append(rate_limiter.note_throttled(turn))
        assert waits[0] < 0.0013
        assert all(wait <= 0.004 * 1.25 for wait in waits)
        assert waits[-1] > waits[0]


async def test_one_who_gives_up_waiting_leaves_the_place_to_the_next():
    rate_limiter = quick(1)
    async with asyncio.timeout(WAIT_S):
        async with rate_limiter.permit():
            waiting = [asyncio.create_task(enter_and_leave(rate_limiter)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        waiting[1].cancel()  # it has just been called up
        results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, asyncio.CancelledError, type(None)]
    assert rate_limiter.running_count == 0


async def enter_and_leave(rate_limiter, spins=0):
    async with rate_limiter.permit():
        for _ in range(spins):
            await asyncio.sleep(0)


STEPS = st.lists(st.tuples(st.sampled_from(["call", "cancel", "throttle", "fail"]), st.integers(0, 5)), max_size=25)


@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.integers(1, 3))
def test_whatever_happens_nobody_waits_for_ever(steps, most):
    async def play():
        rate_limiter = RateLimiter(max_running=most, backoff_s=0.0001, max_backoff_s=0.0002)
        tasks = []

        async def call(kind, spins):
            async with rate_limiter.permit() as turn:
                for _ in range(spins):
                    await asyncio.sleep(0)
                if kind == "throttle":
                    rate_limiter.note_throttled(turn)
                elif kind == "fail":
                    raise ValueError
                else:
                    rate_limiter.note_success(turn)

        for kind, number in steps:
            if kind == "cancel" and tasks:
                tasks[number % len(tasks)].cancel()
            else:
                tasks.append(asyncio.create_task(call(kind, number)))
            await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*tasks, return_exceptions=True)
            assert rate_limiter.running_count == 0
            async with rate_limiter.permit():
                assert rate_limiter.running_count == 1

    asyncio.run(play())


def test_two_event_loops_share_one_governor():
    rate_limiter = quick(1)

    async def calls():
        await asyncio.gather(*(enter_and_leave(rate_limiter, 3) for _ in range(20)))

    async def both():
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(asyncio.to_thread(asyncio.run, calls()) for _ in range(3)))

    asyncio.run(both())
    assert rate_limiter.running_count == 0


def test_a_credential_has_one_governor_in_the_process():
    assert rate_limiter_for("a") is rate_limiter_for("a")
    assert rate_limiter_for("a") is not rate_limiter_for("b")


async def test_a_storm_of_refusals_kills_nobody(client):
    """Eight agents on one key; the server lets two through at a time and refuses the others."""
    busy, refused = 0, asyncio.Event()

    async def script(_):
        nonlocal busy
        if busy >= 2:
            refused.set()
            return Status(429)
        busy += 1
        await refused.wait()
        busy -= 1
        return Answer("Done.")

    rate_limiter = quick(8)
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        agents = [client(server.url, rate_limiter=rate_limiter) for _ in range(8)]
        asked = await asyncio.gather(*(agent.ask() for agent in agents for _ in range(2)))
        for agent in agents:
            await agent.model.aclose()
    assert all(isinstance(one.last, Reply) for one in asked)
    assert any(one.of(Retrying) for one in asked)
    assert rate_limiter.limit < 8


async def test_a_refusal_of_one_makes_the_others_wait(client, quick):
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Status(429, retry_after=0.3), Answer("x")]) as server,
        client(server.url, settings=quick(retries=0)) as a,
    ):
        assert isinstance((await a.ask()).last, Failure)
        assert a.rate_limiter.paused_s > 0.1
        assert isinstance((await a.ask()).last, Reply)
        assert a.rate_limiter.paused_s == 0


@pytest.mark.promise("D7")
async def test_who_waits_for_a_rate_limit_says_so_and_when_it_goes_on(client):
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Status(429, retry_after=0.05), Answer("x")]) as server,
        client(server.url) as one,
    ):
        asked = await one.ask()
    assert isinstance(asked.last, Reply)
    assert [part.waits_for for part in asked.of(AlivePart)] == ["the rate limit", ""]
    assert one.rate_limiter.wait_reason == ""


async def test_an_answer_that_grows_where_nothing_can_be_shown_gives_signs_of_life(client, monkeypatch):
    monkeypatch.setattr(service_model, "ALIVE_EVERY_S", 0.0)
    call = Answer(tools=[("Write", {"path": "x", "content": "y" * 500})])
    async with asyncio.timeout(WAIT_S), LoopbackModel([call]) as server, client(server.url) as one:
        asked = await one.ask()
    assert asked.of(AlivePart) and asked.last.content[0]["name"] == "Write"
