"""Text of weak models and failing services: thinking in tags, calls written as text, words of an answer that failed."""

import asyncio
import json

import pytest

from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import ModelCard, TextPart, ThinkingPart
from teamwright.models.stream import ThinkTags
from teamwright.protocol.messages import encode, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut
from tests.agent.parts import Echo, an_agent
from tests.support.waits import WAIT_S

FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]
TAGGED = ModelCard("custom/test", "test", "custom", usd_in=1.0, usd_out=10.0, think_tags=True)
CALL_TEXT = '<tool_call>\n{"name": "Echo", "arguments": {"text": "x"}}\n</tool_call>'


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


@pytest.mark.finding("M11")
@pytest.mark.parametrize("api", FORMATS)
async def test_thinking_in_tags_is_thinking_and_goes_back_to_no_service(speaks, api):
    script = [Answer("\n<think>\nHm, </thi no.</think>\n\nYes <think>."), Answer("Again.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaks(api, server.url, card=TAGGED) as c:
        asked = await c.ask()
        item = encode({"role": "assistant", "content": asked.last.content})
        await c.ask(encode({"role": "user", "content": "a"}), item)
    words = [block["text"] for block in asked.last.content if block["type"] == "text"]
    thoughts = [block["thinking"] for block in asked.last.content if block["type"] == "thinking"]
    assert (words, thoughts) == (["Yes <think>."], ["Hm, </thi no."])
    assert "".join(part.text for part in asked.of(TextPart)) == "Yes <think>."
    assert "".join(part.text for part in asked.of(ThinkingPart)) == "Hm, </thi no."
    assert b"Hm, " not in server.requests[-1].body


@pytest.mark.finding("M11")
@pytest.mark.parametrize(
    ("text", "words", "thought"),
    [
        ("<think>a</think>b", "b", "a"),
        ("<think></think>b", "b", ""),
        ("<think>never closed", "", "never closed"),
        ("<thi", "<thi", ""),
        ("a <think>b</think>", "a <think>b</think>", ""),
        ("", "", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_tags_are_found_however_the_text_is_cut(text, words, thought, size):
    tags = ThinkTags()
    events = [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    for at in range(0, len(text), size):
        delta = {"type": "text_delta", "text": text[at : at + size]}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    deltas = [e["delta"] for event in [*events, {"type": "message_stop"}] for e in tags.take(event) if "delta" in e]
    assert "".join(delta.get("text", "") for delta in deltas) == words
    assert "".join(delta.get("thinking", "") for delta in deltas) == thought


@pytest.mark.finding("M11")
async def test_a_call_that_came_as_text_is_asked_for_once_more_with_a_note(tmp_path, client):
    script = [Answer(CALL_TEXT), Answer("", [("Echo", {"text": "x"})]), Answer("Done.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as caller:
        tool = Echo()
        agent, events = an_agent(tmp_path, caller.model, [tool])
        end = await run_turn(agent, UserMessage((text_block("hello"),)))
    assert (end.stop, end.text, len(server.requests)) == ("done", "Done.", 3)
    assert tool.started.is_set()
    assert "You wrote a tool call as text" in server.requests[1].body.decode()
    assert not [event for event in events if "wrote a tool call" in getattr(event, "text", "")]


async def test_a_result_that_no_tool_gave_is_no_answer(tmp_path, client):
    invented = "I read it.\n<tool_response>\n{'word': 'heron'}\n</tool_response>"
    script = [Answer(invented), Answer("", [("Echo", {"text": "x"})]), Answer("Done.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as caller:
        agent, _ = an_agent(tmp_path, caller.model, [Echo()])
        end = await run_turn(agent, UserMessage((text_block("hello"),)))
    assert (end.stop, end.text, len(server.requests)) == ("done", "Done.", 3)
    assert "no result into the text" in server.requests[1].body.decode()


@pytest.mark.finding("M11")
async def test_a_model_that_writes_its_calls_as_text_again_ends_its_turn_and_the_user_is_warned(tmp_path, client):
    async with asyncio.timeout(WAIT_S), LoopbackModel([Answer(CALL_TEXT)]) as server, client(server.url) as caller:
        agent, events = an_agent(tmp_path, caller.model, [Echo()])
        end = await run_turn(agent, UserMessage((text_block("hello"),)))
    assert (end.stop, len(server.requests)) == ("done", 2)
    assert len([event for event in events if "wrote a tool call as text" in getattr(event, "text", "")]) == 1


@pytest.mark.finding("M2")
@pytest.mark.parametrize("api", FORMATS)
async def test_words_of_an_answer_that_fails_after_all_tries_are_kept_and_told_to_the_model(
    tmp_path, speaks, quick, api
):
    words = "This much had come, and a person has read it. " * 60
    script = [Cut(2_400, Answer(words)), Cut(2_400, Answer(words)), Answer("Whole.")]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        speaks(api, server.url, settings=quick(retries=1)) as caller,
    ):
        agent, _ = an_agent(tmp_path, caller.model, [Echo()])
        failed = await run_turn(agent, UserMessage((text_block("hello"),)))
        again = await run_turn(agent, UserMessage((text_block("go on"),)))
    assert (failed.stop, again.stop) == ("failed", "done")
    assert failed.text and words.startswith(failed.text)
    sent = server.requests[-1].body.decode()
    assert "This much had come" in sent
    assert "broke off, because its service failed" in sent
    roles = [json.loads(item)["role"] for item in agent.conversation.items]
    assert roles[:3] == ["user", "assistant", "user"]
