"""Equal prompts: the first goes ahead, the others read what it left in the service's cache."""

import asyncio

import pytest
from msgspec.structs import replace

from teamwright.models.model import AlivePart, Reply
from teamwright.models.service_model import WARMUP_WAIT
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H10")


class Gate:
    """A server that keeps its first answer back until it is told."""

    def __init__(self):
        self.go, self.came = asyncio.Event(), asyncio.Event()
        self.asked = 0

    async def __call__(self, _body):
        self.asked += 1
        self.came.set()
        if self.asked == 1:
            await self.go.wait()
        return Answer("Done.")


class Listener:
    """One call; `waits` is set when it lets another go ahead."""

    def __init__(self, client, **request):
        self.client, self.request = client, request
        self.waits = asyncio.Event()
        self.said = []

    async def ask(self):
        async for part in self.client.model.stream(self.client.request(**self.request)):
            self.said.append(part)
            if part == AlivePart(WARMUP_WAIT):
                self.waits.set()
        return self.said[-1]

    @property
    def waited(self):
        return AlivePart(WARMUP_WAIT) in self.said


async def test_the_first_of_several_equal_prompts_goes_ahead_and_the_others_follow_its_answer(client, quick):
    gate = Gate()
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(gate) as server,
        client(server.url, settings=quick(cache_warmup_s=15)) as c,
    ):
        calls = [Listener(c) for _ in range(5)]
        tasks = [asyncio.create_task(call.ask()) for call in calls]
        for call in calls[1:]:
            await call.waits.wait()
        assert gate.asked <= 1
        gate.go.set()
        assert all(isinstance(last, Reply) for last in await asyncio.gather(*tasks))
        assert gate.asked == 5
        later = [Listener(c) for _ in range(3)]
        await asyncio.gather(*(call.ask() for call in later))
        assert not any(call.waited for call in later), "the service knows the prompt now"


async def test_another_prompt_and_a_lone_one_wait_for_nobody(client, quick):
    gate = Gate()
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(gate) as server,
        client(server.url, settings=quick(cache_warmup_s=15)) as c,
    ):
        first = Listener(c)
        task = asyncio.create_task(first.ask())
        await gate.came.wait()
        other = Listener(c, system="Another prompt.")
        assert isinstance(await other.ask(), Reply)
        gate.go.set()
        await task
        assert not first.waited and not other.waited


async def test_nobody_waits_longer_than_the_bound(client, quick):
    gate = Gate()
    settings = quick(cache_warmup_s=0.05)
    async with asyncio.timeout(WAIT_S), LoopbackModel(gate) as server, client(server.url, settings=settings) as c:
        first, second = Listener(c), Listener(c)
        task = asyncio.create_task(first.ask())
        await gate.came.wait()
        assert isinstance(await second.ask(), Reply), "the first has not been answered yet"
        assert second.waited
        gate.go.set()
        await task


async def test_when_the_first_is_refused_the_others_do_not_wait_for_it(client, quick):
    script = [Status(400), Answer("one"), Answer("two")]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        client(server.url, settings=quick(cache_warmup_s=15)) as c,
    ):
        calls = [Listener(c) for _ in range(3)]
        lasts = await asyncio.gather(*(call.ask() for call in calls))
    assert sum(isinstance(last, Reply) for last in lasts) == 2


@pytest.mark.parametrize("why", ["it is switched off", "the service has no cache"])
async def test_it_can_be_switched_off_and_needs_a_cache(client, quick, why):
    gate = Gate()
    off = why == "it is switched off"
    async with asyncio.timeout(WAIT_S), LoopbackModel(gate) as server:
        plain = client(server.url).card
        card = plain if off else replace(plain, caching=False)
        async with client(server.url, card=card, settings=quick(cache_warmup_s=0.0 if off else 15)) as c:
            first, second = Listener(c), Listener(c)
            task = asyncio.create_task(first.ask())
            await gate.came.wait()
            assert isinstance(await second.ask(), Reply), "the first has not been answered yet"
            gate.go.set()
            await task
            assert not first.waited and not second.waited


async def test_members_of_a_team_are_equal_when_their_tools_are(client, quick):
    """Their other words have their names in them; services read tools before them."""
    tools = [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}]
    names = ("ada", "ben", "cyd")
    gate = Gate()
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(gate) as server,
        client(server.url, settings=quick(cache_warmup_s=15)) as c,
    ):
        calls = [Listener(c, system=[text_block(f"You are {name}.")], tools=tools) for name in names]
        tasks = [asyncio.create_task(call.ask()) for call in calls]
        for call in calls[1:]:
            await call.waits.wait()
        gate.go.set()
        assert all(isinstance(last, Reply) for last in await asyncio.gather(*tasks))
    assert not calls[0].waited
