"""Chat Completions as servers really speak it: ids that are missing, repeated or counted, arguments in odd shapes."""

import asyncio
import json

import pytest

from teamwright.models.model import Reply, Retrying
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3")


def chunk(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return f"data: {json.dumps({'model': 'test', 'choices': [choice], **more})}\n\n".encode()


def piece(name=None, arguments=None, **more):
    about = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk({"tool_calls": [{**more, "function": about}]})


@pytest.fixture
def content(speaking):
    """The blocks of an answer of these chunks, and the whole of it."""

    async def one(*chunks, finish="tool_calls"):
        script = [Raw([*chunks, chunk(finish=finish), b"data: [DONE]\n\n"])]
        async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("openai-chat", server.url) as c:
            asked = await c.ask()
        assert isinstance(asked.last, Reply), asked.last
        return asked.last.content, asked.last

    return one


def calls_of(blocks):
    return [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]


BOTH = [("Read", {"path": "x"}), ("Bash", {"command": "ls"})]
READ, BASH = '{"path": "x"}', '{"command": "ls"}'


@pytest.mark.parametrize(
    "chunks",
    [
        [piece("Read", READ, index=0, id="one-0123456789"), piece("Bash", BASH, index=0, id="two-0123456789")],
        [piece("Read", READ, id="one-0123456789"), piece("Bash", BASH, id="two-0123456789")],
        [piece("Read", READ), piece("Bash", BASH)],
        [piece("Read", READ, index=0), piece("Bash", BASH, index=1)],
        [piece("Read", READ, index=0), piece("Bash", BASH, index=0)],
        [piece("Read", {"path": "x"}, index=0), piece("Bash", {"command": "ls"}, index=1)],
        [piece("Read", READ[:5]), piece(None, READ[5:]), piece("Bash", BASH[:5]), piece(None, BASH[5:])],
        [
            piece("Read", READ[:5], index=0, id="one-0123456789"),
            piece("Read", READ[5:], index=0, id="one-0123456789"),
            piece("Bash", BASH, index=1, id="two-0123456789"),
        ],
        [
            piece("Read", "", index=0, id="a-0123456789"),
            piece("Bash", "", index=1, id="b-0123456789"),
            piece(None, READ, index=0),
            piece(None, BASH, index=1),
        ],
        [piece(None, READ[:5], index=0, id="late-0123456789"), piece("Read", READ[5:], index=0), piece("Bash", BASH)],
        [
            chunk(
                {
                    "tool_calls": [
                        {"function": {"name": "Read", "arguments": READ}},
                        {"function": {"name": "Bash", "arguments": BASH}},
                    ]
                }
            )
        ],
    ],
    ids=[
        "one number for both",
        "no numbers",
        "neither numbers nor ids",
        "no ids",
        "one number and no ids",
        "objects for arguments",
        "no numbers, in pieces",
        "id and name in every piece",
        "pieces in turn",
        "the name comes late",
        "both in one piece",
    ],
)
async def test_two_calls_are_two_calls_however_they_come(content, chunks):
    blocks, reply = await content(*chunks)
    assert calls_of(blocks) == BOTH
    ids = [b["id"] for b in blocks]
    assert len(set(ids)) == 2
    assert all(id.isascii() and 6 <= len(id) <= 64 for id in ids)
    assert reply.stop_reason == "tool_use"


@pytest.mark.parametrize("id", ["", None, 7, "functions.Read:0", "a" * 80, "ä-ö", "call\n1"])
async def test_an_id_that_not_all_services_take_gets_another(content, id):
    [block], _ = await content(piece("Read", READ, index=0, id=id))
    assert block["id"].startswith("call_")
    assert len(block["id"]) == 29


async def test_arguments_that_are_no_json_are_kept_for_the_schema_to_refuse(content):
    [block], _ = await content(piece("Read", "{'path': 'x'}", index=0))
    assert block["input"] == {"unparsed_arguments": "{'path': 'x'}"}


@pytest.mark.parametrize("arguments", ["", None])
async def test_a_call_without_arguments_has_an_empty_object(content, arguments):
    [block], _ = await content(piece("List", arguments, index=0))
    assert block["input"] == {}


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "tool_use"), ("tool_calls", "tool_use"), ("function_call", "tool_use")]
)
async def test_behind_calls_every_end_is_for_the_calls(content, finish, stop):
    blocks, reply = await content(piece("Read", READ, index=0), finish=finish)
    assert (reply.stop_reason, calls_of(blocks)) == (stop, BOTH[:1])


async def test_an_end_for_calls_that_are_not_there_is_a_plain_end(content):
    blocks, reply = await content(chunk({"content": "Yes."}), finish="tool_calls")
    assert (reply.stop_reason, blocks) == ("end_turn", [text_block("Yes.")])


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_thinking_is_heard_under_both_of_its_names(content, key):
    blocks, _ = await content(chunk({key: "Hm"}), chunk({key: "m."}), chunk({"content": "Yes."}), finish="stop")
    assert [(b["type"], b.get("thinking", b.get("text"))) for b in blocks] == [("thinking", "Hmm."), ("text", "Yes.")]


async def test_a_refusal_is_its_words_and_its_reason(content):
    blocks, reply = await content(chunk({"refusal": "I will not."}), finish="stop")
    assert (reply.stop_reason, blocks) == ("refusal", [text_block("I will not.")])


async def test_an_old_function_call_and_a_message_that_is_no_delta_are_heard(content):
    blocks, _ = await content(chunk({"function_call": {"name": "Read", "arguments": READ}}), finish="function_call")
    assert calls_of(blocks) == BOTH[:1]
    choice = {"index": 0, "message": {"content": [{"type": "text", "text": "Whole."}]}, "finish_reason": None}
    blocks, _ = await content(f"data: {json.dumps({'choices': [choice]})}\n\n".encode(), finish="stop")
    assert blocks == [text_block("Whole.")]


async def test_counts_that_come_with_the_end_or_not_at_all_do_not_hold_it_up(content, speaking):
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}
    end = chunk({"content": "x"}, "stop", usage=usage)
    script = [Raw([end], close=False)]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("openai-chat", server.url) as c:
        reply = (await c.ask()).last
    assert (reply.usage.input_tokens, reply.usage.cache_read, reply.usage.output_tokens) == (4, 5, 4)
    blocks, reply = await content(chunk({"content": "x"}), finish="stop")
    assert (blocks, reply.usage.tokens) == ([text_block("x")], 0)


async def test_an_error_in_the_middle_is_no_answer(speaking):
    broken = Raw([chunk({"content": "x"}), b'data: {"error": {"message": "busy", "code": 429}}\n\n'])
    script = [broken, Answer("Yes.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("openai-chat", server.url) as c:
        asked = await c.ask()
    assert len(asked.of(Retrying)) == 1
    assert "429" in asked.of(Retrying)[0].reason
    assert asked.last.content == [text_block("Yes.")]


@pytest.mark.parametrize(
    "event", [b"[]", b'{"choices": [7]}', b'{"choices": null}', b"null", b'{"choices":[{"delta":[]}]}']
)
async def test_events_of_no_shape_change_nothing(content, event):
    blocks, _ = await content(b"data: " + event + b"\n\n", chunk({"content": "Yes."}), finish="stop")
    assert blocks == [text_block("Yes.")]
