"""The vendor's own SDK as oracle: the same bytes, the same message."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.models.model import Reply, Retrying
from teamwright.models.model_settings import ModelSettings
from teamwright.models.provider_table import PROVIDERS
from teamwright.models.service_error import (
    STATUS_BY_TYPE,
    ServiceAnswer,
    ServiceError,
    is_worth_retrying,
    retry_after_s,
)
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, Status, answer_events, encode_event
from tests.support.examples import examples
from tests.support.waits import WAIT_S

TOOLS = st.lists(
    st.tuples(
        st.sampled_from(["Read", "Bash"]),
        st.dictionaries(
            st.text(max_size=6),
            st.recursive(
                st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
                lambda v: st.lists(v, max_size=3),
                max_leaves=4,
            ),
            max_size=3,
        ),
    ),
    max_size=3,
)
USAGE = st.fixed_dictionaries(
    {"input_tokens": st.integers(0, 9**6), "output_tokens": st.integers(1, 9**5)},
    optional={"cache_read_input_tokens": st.integers(0, 9**6), "cache_creation_input_tokens": st.integers(0, 9**6)},
)
VISIBLE = st.text(max_size=120).map(lambda t: t and f"a{t}")
"""Text that is not blank: blank text is dropped by us and kept by the SDK."""
REASONS = st.sampled_from([None, "end_turn", "stop_sequence", "refusal", "tool_use"])
ANSWERS = st.builds(Answer, VISIBLE, TOOLS, REASONS, USAGE, st.text(max_size=60))


@pytest.fixture(scope="module")
def served():
    """A server that gives the same bytes again and again, until told otherwise."""
    holder = {}
    with LoopbackModel.in_thread(lambda _: holder["reply"]) as server:
        yield server, holder


@pytest.fixture(scope="module")
def anthropic():
    """The SDK: every worker collects this module, and only the one that runs the tests takes seconds for the import."""
    return pytest.importorskip("anthropic", reason="the SDK anthropic is not installed: pip install -e '.[dev]'")


@pytest.fixture(scope="module")
def sdk(anthropic, served):
    with anthropic.Anthropic(api_key="key", base_url=served[0].url, max_retries=0) as client:
        yield client


def theirs(sdk):
    message = {"role": "user", "content": "x"}
    with sdk.messages.stream(model="test", max_tokens=9, messages=[message]) as stream:
        final = stream.get_final_message()
    return final.to_dict(mode="json", exclude_unset=True)


async def ours(client, url):
    async with asyncio.timeout(WAIT_S), client(url) as c:
        return (await c.ask()).last


def same(sdk_message, reply):
    assert isinstance(reply, Reply), reply
    assert json.loads(json.dumps(reply.content)) == sdk_message["content"]
    assert reply.stop_reason == sdk_message["stop_reason"]
    usage = sdk_message["usage"]
    assert reply.usage.as_json() == {
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        **{key: usage[key] for key in reply.usage.as_json() if key in usage},
    }
    assert reply.model == sdk_message["model"]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=ANSWERS, data=st.data())
@pytest.mark.slow
def test_the_same_bytes_give_the_same_message(client, served, sdk, answer, data):
    server, holder = served
    wire = b"".join(map(encode_event, answer_events(answer)))
    wire = wire.replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n"])))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=5)))
    holder["reply"] = Raw([wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)])
    same(theirs(sdk), asyncio.run(ours(client, server.url)))


FIXED = {
    "redacted thinking": [{"type": "redacted_thinking", "data": "ZW5j"}],
    "server tool": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "e"}],
        },
    ],
    "a block that nobody knows": [{"type": "hologram", "depth": 3, "nested": {"kept": [1, "ü"]}}],
}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("blocks", FIXED.values(), ids=FIXED)
def test_blocks_that_are_not_ours_come_out_as_from_the_sdk(client, served, sdk, blocks):
    server, holder = served
    holder["reply"] = Answer("Text.", blocks=blocks, usage={"input_tokens": 3})
    same(theirs(sdk), asyncio.run(ours(client, server.url)))


def test_citations_come_out_as_from_the_sdk(client, served, sdk):
    server, holder = served
    cited = {
        "type": "char_location",
        "cited_text": "a",
        "document_index": 0,
        "document_title": "d",
        "start_char_index": 0,
        "end_char_index": 1,
    }
    events = [
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "test",
                "content": [],
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "So."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": cited}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    holder["reply"] = Raw([encode_event(event) for event in events])
    same(theirs(sdk), asyncio.run(ours(client, server.url)))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("word", [None, "true", "false"])
@pytest.mark.slow_after(2)
def test_we_try_again_where_the_sdk_does(anthropic, served, status, word):
    server, holder = served
    holder["reply"] = Status(
        status, headers={"x-should-retry": word, "retry-after-ms": "1"} if word else {"retry-after-ms": "1"}
    )
    before = len(server.requests)
    refused = pytest.raises(anthropic.APIStatusError)
    with anthropic.Anthropic(api_key="key", base_url=server.url, max_retries=1) as sdk, refused:
        theirs(sdk)
    again = len(server.requests) - before == 2
    answered = ServiceAnswer(status=status, should_retry={"true": True, "false": False}.get(word or ""))
    assert is_worth_retrying(ServiceError("http", "", answered)) == again


@pytest.mark.parametrize("type_", STATUS_BY_TYPE)
@pytest.mark.slow_after(12)
def test_an_error_inside_the_stream_is_an_error_for_both(anthropic, client, served, sdk, type_):
    server, holder = served
    error = {"type": "error", "error": {"type": type_, "message": "no"}}
    holder["reply"] = Raw([encode_event(error)])
    with pytest.raises(anthropic.APIError):
        theirs(sdk)

    async def parts():
        settings = ModelSettings(retries=1, backoff_s=0.001)
        async with asyncio.timeout(WAIT_S), client(server.url, settings=settings) as c:
            return await c.ask()

    asked = asyncio.run(parts())
    assert not isinstance(asked.last, Reply)
    assert bool(asked.of(Retrying)) == is_worth_retrying(ServiceError("http", "", ServiceAnswer(STATUS_BY_TYPE[type_])))


def test_the_request_has_the_headers_and_the_path_of_the_sdk(client, served, sdk):
    server, holder = served
    holder["reply"] = Answer("x")
    theirs(sdk)
    asyncio.run(ours(client, server.url))
    their, our = server.requests[-2:]
    assert (their.method, their.path) == (our.method, our.path)
    for name in ("content-type", "anthropic-version"):
        assert name in their.headers and name in our.headers
    assert our.headers["content-type"] == their.headers["content-type"]
    body = {key: their.json[key] for key in ("model", "stream")}
    assert {key: our.json[key] for key in body} == body


def test_the_newest_version_of_the_api_is_the_sdk_s(served, sdk):
    server, holder = served
    holder["reply"] = Answer("x")
    theirs(sdk)
    assert server.requests[-1].headers["anthropic-version"] == PROVIDERS["anthropic"].version


def test_a_wait_in_milliseconds_is_the_more_exact_word():
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
