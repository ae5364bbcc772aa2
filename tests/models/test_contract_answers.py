"""The contract of an answer: what the stream brings, put together, retried, and when it counts as whole."""

import asyncio
import json

import pytest

from teamwright.models.model import Failure, LongPrompt, ModelCard, Reply, Retrying, TextPart, ThinkingPart
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import (
    Answer,
    Cut,
    ErrorEvent,
    Raw,
    Stall,
    answer_events,
    encode_event,
    stream_bytes,
)
from tests.support.waits import WAIT_S


def raw(*events, start=True, stop="end_turn", **usage):
    """A stream with these events between a message's start and its end."""
    first = {"type": "message_start", "message": {"model": "test", "usage": {"input_tokens": 7, "output_tokens": 1}}}
    last = [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9, **usage}},
        {"type": "message_stop"},
    ]
    return Raw([encode_event(event) for event in [*([first] if start else []), *events, *last]])


def block(start, *deltas, index=0):
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


@pytest.fixture
def answered(client):
    """What comes of one scripted reply."""

    async def one(reply, **options):
        async with asyncio.timeout(WAIT_S), LoopbackModel([reply]) as server, client(server.url, **options) as c:
            return await c.ask()

    return one


async def content_of(answered, *events, stop="end_turn"):
    asked = await answered(raw(*events, stop=stop))
    assert isinstance(asked.last, Reply), asked.last
    return asked.last.content


async def test_an_answer_comes_in_parts_and_then_as_a_whole(answered):
    asked = await answered(Answer("Some text that is cut in pieces.", tools=[("Read", {"path": "ä"})], thinking="Hm."))
    assert "".join(p.text for p in asked.of(TextPart)) == "Some text that is cut in pieces."
    assert asked.of(ThinkingPart) == [ThinkingPart("Hm.")]
    assert [b["type"] for b in asked.last.content] == ["thinking", "text", "tool_use"]
    assert asked.last.content[2]["input"] == {"path": "ä"}
    assert (asked.last.stop_reason, asked.last.request_id) == ("tool_use", "req_test_1")


async def test_a_call_without_arguments_has_an_empty_object(answered):
    use = {"type": "tool_use", "id": "t", "name": "List", "input": {}}
    given = {"type": "input_json_delta", "partial_json": ""}
    assert await content_of(answered, *block(use, given), stop="tool_use") == [use]


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("partial", ['{"path": "/etc', "", '{"a": 1'])
async def test_a_call_that_was_cut_off_is_no_call(answered, stop, partial):
    whole = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    torso = {"type": "tool_use", "id": "b", "name": "Write", "input": {}}
    events = [
        *block(whole, {"type": "input_json_delta", "partial_json": '{"path":"x"}'}),
        *block(torso, {"type": "input_json_delta", "partial_json": partial}, index=1),
    ]
    assert await content_of(answered, *events, stop=stop) == [{**whole, "input": {"path": "x"}}]


async def test_arguments_that_are_no_json_are_kept_as_text_for_the_schema_to_refuse(answered):
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    content = await content_of(answered, *block(use, {"type": "input_json_delta", "partial_json": "{'a': 1}"}))
    assert content[0]["input"] == {"unparsed_arguments": "{'a': 1}"}


async def test_a_signature_is_kept_with_its_thinking(answered):
    start = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": "Hm"}, {"type": "signature_delta", "signature": "abc="}]
    assert await content_of(answered, *block(start, *deltas)) == [
        {"type": "thinking", "thinking": "Hm", "signature": "abc="}
    ]


async def test_thinking_whose_text_is_omitted_is_kept_for_its_signature(answered):
    start = {"type": "thinking", "thinking": "", "signature": ""}
    content = await content_of(answered, *block(start, {"type": "signature_delta", "signature": "abc="}))
    assert content == [{"type": "thinking", "thinking": "", "signature": "abc="}]


@pytest.mark.parametrize(
    "start",
    [
        {"type": "redacted_thinking", "data": "ZW5j"},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "x": 1}]},
        {"type": "hologram", "depth": 3, "nested": {"kept": [1, None, "ü"]}},
    ],
)
async def test_blocks_that_are_not_ours_are_returned_unchanged(answered, start):
    assert await content_of(answered, *block(start)) == [start]


async def test_a_call_of_a_server_tool_gets_its_input_and_stays_a_server_tool(answered):
    start = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    content = await content_of(answered, *block(start, {"type": "input_json_delta", "partial_json": '{"query":"x"}'}))
    assert content == [{**start, "input": {"query": "x"}}]


async def test_citations_are_gathered(answered):
    start = {"type": "text", "text": "", "citations": None}
    deltas = [
        {"type": "text_delta", "text": "So it is."},
        {"type": "citations_delta", "citation": {"cited_text": "a"}},
        {"type": "citations_delta", "citation": {"cited_text": "b"}},
    ]
    content = await content_of(answered, *block(start, *deltas))
    assert content[0]["citations"] == [{"cited_text": "a"}, {"cited_text": "b"}]


async def test_empty_text_is_dropped(answered):
    events = [*block({"type": "text", "text": ""}), *block({"type": "text", "text": "Yes"}, index=1)]
    assert await content_of(answered, *events) == [{"type": "text", "text": "Yes"}]


async def test_unknown_events_and_deltas_change_nothing(answered):
    events = [
        {"type": "weather", "sun": True},
        *block({"type": "text", "text": "Yes"}, {"type": "glow_delta", "glow": "?"}),
    ]
    assert await content_of(answered, *events) == [{"type": "text", "text": "Yes"}]


async def test_content_of_a_block_that_did_not_begin_is_an_error_and_no_shorter_answer(answered):
    began = block({"type": "text", "text": "Yes"})
    lost = {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "nowhere"}}
    asked = await answered(raw(*began, lost, stop="end_turn"))
    assert "block 9 that did not begin" in asked.last.sentence


async def test_blocks_that_all_have_one_number_are_all_kept(answered):
    events = [
        {**event, "index": 0}
        for text in ("One.", "Two.")
        for event in block({"type": "text", "text": ""}, {"type": "text_delta", "text": text})
    ]
    assert await content_of(answered, *events) == [{"type": "text", "text": text} for text in ("One.", "Two.")]


async def test_the_separators_of_unicode_and_halves_of_a_pair_come_through(answered):
    halves = [{"type": "text_delta", "text": half} for half in ("a\u2028b ", "\ud83d", "\ude00")]
    lines = [f"data: {json.dumps(event)}\n\n".encode() for event in block({"type": "text", "text": ""}, *halves)]
    separated = 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\u2028"}}\n\n'
    end = [encode_event(e) for e in ({"type": "message_stop"},)]
    asked = await answered(Raw([*lines, separated.encode(), *end]))
    assert asked.last.content == [{"type": "text", "text": "a\u2028b \U0001f600\u2028"}]


@pytest.mark.parametrize("reason", ["refusal", "model_context_window_exceeded", "stop_sequence", "a_new_reason"])
async def test_the_service_s_own_stop_reason_is_given_out(answered, reason):
    asked = await answered(Answer("No.", stop_reason=reason))
    assert (asked.last.stop_reason, asked.last.content) == (reason, [{"type": "text", "text": "No."}])


async def test_a_paused_turn_is_continued_and_comes_out_as_one_answer(client):
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    script = [Answer("Looking.", blocks=[search], stop_reason="pause_turn"), Answer("Found.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as c:
        asked = await c.ask()
    assert [b["type"] for b in asked.last.content] == ["text", "server_tool_use", "text"]
    assert asked.last.stop_reason == "end_turn"
    assert asked.last.usage.requests == 2
    assert server.bodies[1]["messages"][-1] == {"role": "assistant", "content": asked.last.content[:2]}


async def test_a_turn_that_is_paused_for_ever_is_given_out_as_it_is(client):
    script = [Answer("Still looking.", stop_reason="pause_turn")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as c:
        asked = await c.ask()
    assert asked.last.stop_reason == "pause_turn"
    assert 1 < len(server.requests) < 20


async def test_counts_are_totals_so_far_and_an_absent_one_leaves_the_earlier(answered):
    start = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": {"model": "test", "usage": start}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 8, "input_tokens": None}},
    ]
    asked = await answered(raw(*events, start=False, output_tokens=12))
    usage = asked.last.usage
    counts = (usage.input_tokens, usage.cache_read, usage.cache_write, usage.output_tokens, usage.requests)
    assert counts == (5, 100, 20, 12, 1)


@pytest.mark.promise("K5", "F61")
@pytest.mark.parametrize("odd", [-5_000, float("nan"), float("inf"), float("-inf"), 10**400, "7", [1], {}, True])
async def test_a_count_that_is_none_neither_breaks_the_answer_nor_gives_anything_back(answered, odd):
    asked = await answered(raw(output_tokens=odd, cache_read_input_tokens=odd))
    usage = asked.last.usage
    assert usage.input_tokens == 7 and usage.output_tokens in (0, 1) and usage.cache_read in (0, 1)


@pytest.mark.promise("F61")
async def test_usage_carries_its_price_and_a_long_prompt_has_the_long_price(answered):
    long = LongPrompt(100, 10.0, 20.0, 1.0, 30.0)
    prices = {"usd_in": 2.0, "usd_out": 4.0, "usd_cache_read": 0.5, "usd_cache_write": 3.0, "long_prompt": long}
    card = ModelCard("custom/test", "test", "custom", **prices)
    counts = {
        "input_tokens": 10,
        "output_tokens": 100,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 10,
    }
    short = await answered(Answer("x", usage=counts), card=card)
    assert short.last.usage.usd == pytest.approx((10 * 2 + 100 * 4 + 80 * 0.5 + 10 * 3) / 1e6)
    more = await answered(Answer("x", usage={**counts, "input_tokens": 11}), card=card)
    assert more.last.usage.usd == pytest.approx((11 * 10 + 100 * 20 + 80 * 1 + 10 * 30) / 1e6)
    unknown = await answered(Answer("x"), card=ModelCard("custom/test", "test", "custom"))
    assert unknown.last.usage.usd is None


async def test_a_stream_is_whole_only_with_its_last_event(client):
    events = list(answer_events(Answer("All of it.")))
    script = [Raw([encode_event(e) for e in events[:-1]]), Answer("Again.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as c:
        asked = await c.ask()
    assert len(asked.of(Retrying)) == 1
    assert asked.last.content == [{"type": "text", "text": "Again."}]


async def test_an_answer_is_whole_although_the_stream_is_left_open(answered):
    asked = await answered(Raw([stream_bytes(Answer("Done."))], close=False))
    assert asked.last.content == [{"type": "text", "text": "Done."}]


@pytest.mark.parametrize(
    "fault",
    [Cut(700), ErrorEvent(after_events=5), ErrorEvent("api_error", "broken", 1), Raw([b"data: {not json\n\n"])],
    ids=["cut", "overloaded in the middle", "error at the start", "no json"],
)
async def test_nothing_of_a_broken_answer_counts(client, fault):
    script = [fault, Answer("Whole.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url) as c:
        asked = await c.ask()
    kinds = [type(part) for part in asked.parts]
    assert kinds.count(Retrying) == 1
    after = asked.parts[kinds.index(Retrying) + 1 :]
    assert "".join(p.text for p in after if isinstance(p, TextPart)) == "Whole."
    assert asked.last.content == [{"type": "text", "text": "Whole."}]


@pytest.mark.promise("F40")
@pytest.mark.parametrize("pings", [True, False], ids=["nothing but pings", "nothing at all"])
@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.slow_after(1)
async def test_a_stream_without_progress_is_given_up_and_tried_again(client, quick, pings, after):
    script = [Stall(after, Answer("Never whole, and never will be."), pings=pings), Answer("At last.")]
    settings = quick(stall_s=1.5, read_timeout_s=5 if pings else 1.0)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        client(server.url, settings=settings) as c,
    ):
        asked = await c.ask()
        assert await asyncio.to_thread(server.client_left.wait, WAIT_S)
    assert [part.attempt for part in asked.of(Retrying)] == [1]
    assert asked.last.content == [{"type": "text", "text": "At last."}]


@pytest.mark.promise("F40")
async def test_a_slow_answer_that_goes_on_is_not_a_stalled_one(client, quick):
    async def slowly(_):
        await asyncio.sleep(0.3)
        return Answer("Slow.")

    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(slowly) as server,
        client(server.url, settings=quick(stall_s=10, read_timeout_s=0.05)) as c,
    ):
        asked = await c.ask()
    assert not asked.of(Retrying)


@pytest.mark.promise("F40")
async def test_what_had_come_is_kept_when_an_answer_fails_for_good(client, quick):
    fault = ErrorEvent("invalid_request_error", "no", 4, Answer("This much was there already, then no more."))
    async with asyncio.timeout(WAIT_S), LoopbackModel([fault]) as server, client(server.url) as c:
        asked = await c.ask()
    assert isinstance(asked.last, Failure)
    assert asked.last.partial[0]["text"].startswith("This much")


async def test_an_event_of_an_unknown_shape_is_a_failure_and_no_crash(answered):
    asked = await answered(Raw([b'data: {"type":"content_block_start","index":"x","content_block":3}\n\n']))
    assert isinstance(asked.last, Failure)
    assert asked.last.slug == "model-failed"
