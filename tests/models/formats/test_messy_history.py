"""A history in which everything went wrong once, with every service in turn: each format gets a request it accepts."""

import asyncio
import json

import pytest

from teamwright.models.model import Reply
from teamwright.models.tool_call_repair import parse_arguments
from teamwright.protocol.messages import encode, text_block, tool_result_block
from teamwright.testing.model_server import LoopbackModel
from tests.support.waits import WAIT_S

FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]
MARKS = [None, "think-tags", "openai-chat:custom", "openai-chat", "openai-responses", "gemini", "bedrock"]


def thought(by):
    block = {"type": "thinking", "thinking": f"thought by {by}.", "signature": f"sig {by}"}
    return block | ({"by": by} if by else {})


def use(number, name="Read", given='{"path": "x"}'):
    return {"type": "tool_use", "id": f"call_{number:016d}", "name": name, "input": parse_arguments(given)}


def messy():
    """Pairs of an answer and what was told after it."""
    answers = [[thought(by), text_block("I look."), use(at)] for at, by in enumerate(MARKS)]
    answers += [[use(20, given='{"path": x}')], [use(21, name="unnamed")], [use(22, given="[1, 2]")]]
    answers += [[text_block("Half."), thought("openai-responses")], [text_block("Half."), thought("gemini")]]
    items = [encode({"role": "user", "content": [text_block("Go.")]})]
    for blocks in answers:
        items.append(encode({"role": "assistant", "content": blocks}))
        told = [tool_result_block(b["id"], "no", is_error=True) for b in blocks if b["type"] == "tool_use"]
        items.append(encode({"role": "user", "content": told or [text_block("Continue.")]}))
    return items


def ids_of(value, key):
    """All values of a key, at any depth."""
    if isinstance(value, dict):
        return [found for name, part in value.items() for found in ([part] if name == key else ids_of(part, key))]
    return [found for part in value for found in ids_of(part, key)] if isinstance(value, list) else []


CALLS = {
    "messages": (lambda body: [b["id"] for b in blocks_of(body) if b["type"] == "tool_use"], "tool_use_id"),
    "openai-chat": (lambda body: [c["id"] for m in body["messages"] for c in m.get("tool_calls", ())], "tool_call_id"),
    "openai-responses": (
        lambda body: [i["call_id"] for i in body["input"] if i.get("type") == "function_call"],
        None,
    ),
    "gemini": (lambda body: ids_of(ids_of(body, "functionCall"), "id"), None),
    "bedrock": (lambda body: ids_of(ids_of(body, "toolUse"), "toolUseId"), None),
}


def blocks_of(body):
    return [block for message in body["messages"] for block in message["content"]]


@pytest.mark.finding("M10", "M11", "M13")
@pytest.mark.parametrize("api", FORMATS)
async def test_each_format_gets_a_request_that_it_accepts(client, speaking, api):
    speak = (lambda _, url: client(url)) if api == "messages" else speaking
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, speak(api, server.url) as caller:
        assert isinstance((await caller.ask(*messy())).last, Reply)
    [body] = server.bodies
    made = CALLS[api][0](body)
    assert len(made) == len(set(made)) == len(MARKS) + 3
    text = json.dumps(body)
    assert all(text.count(f'"{id}"') == 2 for id in made), "each call has its one result"
    assert '"by"' not in text and "think-tags" not in text, "no mark of ours goes out"
    own = {"messages": None, "openai-chat": "openai-chat:custom"}.get(api, api)
    foreign = [by for by in MARKS if by != own and f"thought by {by}." in text]
    assert not foreign, "what a service thought goes back to that service alone"
    if api == "openai-responses":
        kinds = [item.get("role", item["type"]) for item in body["input"]]
        after = [kinds[at + 1 : at + 2] for at, kind in enumerate(kinds) if kind == "reasoning"]
        assert all(kind in (["assistant"], ["function_call"]) for kind in after)
