"""Servers leave fields out and change them: an answer is right, or an error that names what was missing."""

import asyncio
import random

import pytest

from teamwright.models.model import Reply
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Raw
from tests.models.formats.field_fuzz import ANSWER, OPTIONAL, encoded, stream, without
from tests.models.formats.wire_fuzz import WireFuzz
from tests.support.waits import WAIT_S

SEEDS = 200


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


@pytest.fixture
def run(speaks, quick):
    """Ask once for each stream, and check each last part."""

    async def all_of(api, streams, check):
        settings = quick(retries=1)
        script = iter(())
        async with (
            asyncio.timeout(WAIT_S),
            LoopbackModel(lambda _: next(script), keep=4) as server,
            speaks(api, server.url, settings=settings) as asking,
        ):
            for number, data in enumerate(streams):
                script = iter([Raw([data])] * 2)  # a third request of one question would fail
                check(number, (await asking.ask()).last)

    return all_of


def problem(reply):
    """What is wrong with the answer; empty for the right one."""
    if not isinstance(reply, Reply):
        return reply.sentence
    text = {kind: "".join(b[kind] for b in reply.content if b["type"] == kind) for kind in ("text", "thinking")}
    calls = [(b["name"], b["input"]) for b in reply.content if b["type"] == "tool_use"]
    whole = (ANSWER.text, ANSWER.thinking, list(ANSWER.tools), "tool_use")
    found = (text["text"], text["thinking"], calls, reply.stop_reason)
    return "" if found == whole else f"{found}"


@pytest.mark.parametrize("api", OPTIONAL)
async def test_an_answer_without_what_a_server_may_leave_out_is_the_same_answer(run, api):
    names, events = OPTIONAL[api], stream(api)
    streams = [without(events, {name}) for name in names]
    streams += [without(events, {name}, random.Random(seed)) for name in names for seed in range(3)]
    for seed in range(40):
        draw = random.Random(seed)
        streams.append(without(events, set(draw.sample(names, draw.randint(2, len(names)))), draw))
    streams.append(without(events, set(names)))

    def check(number, last):
        assert not problem(last), number

    await run(api, map(encoded, streams), check)


@pytest.mark.parametrize("api", OPTIONAL)
async def test_a_damaged_answer_is_read_or_an_error_that_names_what_is_missing_and_the_next_request_is_legal(api):
    async with WireFuzz(api) as fuzz:
        faults = {seed: fault for seed in range(SEEDS) if (fault := await fuzz.fault_of(seed))}
        assert not faults
        assert fuzz.ends["answer"] > SEEDS // 4, "most damages are survived"
