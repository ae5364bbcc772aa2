"""Servers leave fields out and change them: an answer is right, or an error that names what was missing."""

import asyncio
import random
import re

import pytest

from teamwright.models.model import Failure, Reply
from teamwright.protocol.messages import encode, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Raw
from tests.models.formats.field_fuzz import ANSWER, OPTIONAL, damaged, encoded, stream, without
from tests.models.formats.strict_service import violations
from tests.support.waits import WAIT_S

SEEDS = 200
KNOWN = re.compile(r"signature|unknown type [a-z]")
"""Local servers send thinking without a signature, newer services blocks of new types: both are kept as they are."""


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


def as_message(role, content):
    return {"role": role, "content": content}


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
async def test_a_damaged_answer_is_read_or_an_error_in_words_and_the_next_request_is_legal(run, speaks, user, api):
    replies = []

    def check(seed, last):
        if isinstance(last, Failure):
            assert last.what and last.slug, seed
            assert "Traceback" not in last.sentence, seed
        else:
            replies.append((seed, last))

    await run(api, (damaged(api, seed) for seed in range(SEEDS)), check)
    assert len(replies) > SEEDS // 4, "most damages are survived"
    async with asyncio.timeout(WAIT_S), LoopbackModel(keep=1) as server, speaks(api, server.url) as asking:
        for seed, reply in replies:
            calls = [block["id"] for block in reply.content if block["type"] == "tool_use"]
            if not reply.content or len(set(calls)) < len(calls):
                continue  # the conversation gives calls with one id ids of their own
            results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in calls]
            told = results or [text_block("Go on.")]
            await asking.ask(user(), *map(encode, [as_message("assistant", reply.content), as_message("user", told)]))
            found = [one for one in violations(api, server.bodies[-1]) if not KNOWN.search(one)]
            assert not found, seed
