"""A conversation that goes from one service to another takes its words and calls along, and nobody's proofs."""

import asyncio
import itertools
import json

import pytest

from teamwright.models.model import Reply
from teamwright.models.providers import anthropic_messages as messages
from teamwright.protocol.messages import encode, text_block, tool_result_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3")
ALL = ("messages", "openai-chat", "openai-responses", "gemini", "bedrock")
PROOFS = ("sig-", "enc-", "c2ln", "Hm.", '"by"')


@pytest.fixture
def any_api(client, speaking):
    """An adapter in each API, the Messages API too."""
    return lambda api, url: client(url) if api == "messages" else speaking(api, url)


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(ALL, 2)])
@pytest.mark.slow_after(4)
async def test_a_conversation_goes_on_with_another_service_and_back(any_api, one, other):
    answer = Answer("I look.", tools=[("Read", {"path": "x"})], thinking="Hm.")
    history = [encode({"role": "user", "content": [text_block("Hi")]})]
    script = [answer, answer, answer, "Done."]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        any_api(one, server.url) as first,
        any_api(other, server.url) as second,
    ):
        for speaker in (first, second, first, second):
            reply = (await speaker.ask(*history)).last
            assert isinstance(reply, Reply), reply
            calls = [b["id"] for b in reply.content if b["type"] == "tool_use"]
            history.append(encode({"role": "assistant", "content": reply.content}))
            told = [tool_result_block(id, "there") for id in calls] or [text_block("Well?")]
            history.append(encode({"role": "user", "content": told}))
    said = [json.dumps(body) for body in server.bodies]
    assert [text.count("I look.") for text in said] == [0, 1, 2, 3]
    assert not any(proof in said[1] for proof in PROOFS), "nothing of the first one's thoughts"
    ids = [b["id"] for item in history for b in json.loads(item)["content"] if b["type"] == "tool_use"]
    assert len(set(ids)) == 3
    assert all(said[3].count(id) == 2 for id in ids)


async def test_what_speaks_of_such_a_key_is_sent_as_it_is(client):
    text = 'The key "by":"openai-chat" marks it.'
    item = encode({"role": "user", "content": [tool_result_block("t", '{"by":"x"}'), text_block(text)]})
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        await c.ask(item)
    [message] = server.bodies[0]["messages"]
    message["content"][-1].pop("cache_control")
    assert encode(message) == item


async def test_an_answer_of_thoughts_alone_leaves_a_message_that_the_api_takes(client):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "", "by": "openai-chat"}
    items = [
        encode({"role": "user", "content": [text_block("Hi")]}),
        encode({"role": "assistant", "content": [thought]}),
        encode({"role": "user", "content": [text_block("Well?")]}),
    ]
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        await c.ask(*items)
    assert server.bodies[0]["messages"][1]["content"] == [text_block("(no words)")]


async def test_each_message_is_looked_at_once_and_what_is_known_is_bounded(client, monkeypatch):
    monkeypatch.setattr(messages, "KNOWN_MESSAGES", 10)
    items = [encode({"role": "user", "content": [text_block(f"{number} {'x' * 100}")]}) for number in range(30)]
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, client(server.url) as c:
        for end in range(1, 31):
            await c.ask(*items[:end])
        assert len(c.model._format._own) < 12
    [sent] = server.bodies[-1]["messages"]
    assert len(sent["content"]) == 30
