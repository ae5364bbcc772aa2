"""What real servers sent, byte for byte: each recorded answer is read as the answer that it is."""

import asyncio
from pathlib import Path

import pytest

from teamwright.agent.model_call import is_call_as_text
from teamwright.models.endpoint import APIS
from teamwright.models.model import Failure, Reply
from teamwright.protocol.messages import encode, message_text, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Raw, Status
from teamwright.testing.recordings import load_recording
from tests.models.formats.strict_service import violations
from tests.support.waits import WAIT_S

RECORDINGS = Path(__file__).parents[1] / "recordings"


def recording(name):
    return load_recording(RECORDINGS / name)


@pytest.fixture
def ask(speaking, client):
    """The last part after a script of recordings, and the server."""

    async def one(api, *script, items=(), **options):
        make = client if api == "messages" else lambda url, **more: speaking(api, url, **more)
        async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, make(server.url, **options) as caller:
            return (await caller.ask(*items)).last, server

    return one


def calls(reply):
    return [(block["name"], block["input"]) for block in reply.content if block["type"] == "tool_use"]


async def test_a_response_of_llamacpp_whose_items_have_no_number_is_its_text(ask):
    reply, _ = await ask("openai-responses", recording("llamacpp-b11434-responses-text.sse"))
    assert reply.content == [text_block("Hello there. I'm glad you're enjoying the virtual world")]
    assert (reply.stop_reason, reply.model) == ("end_turn", "smollm2")
    assert (reply.usage.input_tokens, reply.usage.cache_read, reply.usage.output_tokens) == (28, 5, 12)


@pytest.mark.parametrize(("limit", "stop"), [(11, "end_turn"), (12, "max_tokens"), (13, "end_turn")])
async def test_an_answer_as_long_as_its_limit_was_cut_off_whatever_the_server_calls_it(speaking, limit, stop):
    script = [recording("llamacpp-b11434-responses-text.sse")]
    async with LoopbackModel(script) as server, speaking("openai-responses", server.url) as caller:
        reply = (await caller.ask(max_tokens=limit)).last
    assert (reply.usage.output_tokens, reply.stop_reason) == (12, stop)


async def test_a_response_of_llamacpp_that_breaks_off_keeps_its_text(ask, quick):
    recorded = recording("llamacpp-b11549-responses.sse")
    failure, server = await ask("openai-responses", recorded, settings=quick(retries=0))
    assert isinstance(failure, Failure)
    assert (message_text(failure.partial), len(server.bodies)) == ("*Ready!", 1)
    assert "unknown shape" not in failure.sentence


def events(*found):
    return Raw([b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encode(event)) for event in found])


def response_call(name, id, *pieces):
    """The events of one call as llama.cpp b11434 sends them: no number, and no id but the call's."""
    item = {"type": "function_call", "call_id": id, "name": name, "arguments": ""}
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}}
    for piece in pieces:
        yield {"type": "response.function_call_arguments.delta", "item_id": id, "delta": piece}
    yield {"type": "response.output_item.done", "item": {**item, "arguments": "".join(pieces)}}


async def test_calls_of_llamacpp_are_found_by_the_id_of_the_call(ask):
    one = list(response_call("Read", "fc_a", '{"path": ', '"x"}'))
    two = list(response_call("Bash", "fc_b", '{"command": ', '"ls"}'))
    between = [event for pair in zip(one, two, strict=True) for event in pair]
    end = {"type": "response.completed", "response": {"model": "smollm2", "status": "completed"}}
    for order in ([*one, *two], between):
        reply, _ = await ask("openai-responses", events(*order, end))
        assert calls(reply) == [("Read", {"path": "x"}), ("Bash", {"command": "ls"})]
        assert reply.stop_reason == "tool_use"


async def test_arguments_for_a_call_that_was_never_named_are_an_error_that_says_so(ask, quick):
    piece = {"type": "response.function_call_arguments.delta", "item_id": "fc_a", "delta": "{}"}
    end = {"type": "response.completed", "response": {"status": "completed"}}
    failure, _ = await ask("openai-responses", events(piece, end), settings=quick(retries=0))
    assert "a call without a name" in failure.sentence


async def test_an_answer_goes_back_to_the_responses_wire_with_the_type_of_each_item(ask):
    """llama.cpp answers "Cannot determine type of 'item'" to an answer without `"type": "message"`."""
    items = [
        encode({"role": "user", "content": [text_block("Hello")]}),
        encode({"role": "assistant", "content": [text_block("Yes.")]}),
        encode({"role": "user", "content": [text_block("Go on.")]}),
    ]
    _, server = await ask("openai-responses", "Done.", items=items)
    [body] = server.bodies
    assert [(item["type"], item["role"]) for item in body["input"]] == [
        ("message", "user"),
        ("message", "assistant"),
        ("message", "user"),
    ]
    assert not violations("openai-responses", body)
    refused, _ = await ask("openai-responses", recording("llamacpp-responses-assistant-item.400.json"))
    assert "Cannot determine type of 'item'" in refused.sentence


async def test_two_calls_of_llamacpp_on_the_messages_wire_are_both_read(ask):
    reply, _ = await ask("messages", recording("llamacpp-b11434-messages-two-calls.sse"))
    assert isinstance(reply, Reply)
    subject = {"subject": "Read notes", "description": "Read notes.md and report its word"}
    assert calls(reply) == [("TaskCreate", subject), ("ListAgents", {})]


async def test_calls_of_llamacpp_on_chat_completions_are_read_and_one_that_was_cut_is_left_out(ask):
    reply, _ = await ask("openai-chat", recording("llamacpp-b11434-chat-call.sse"))
    assert calls(reply) == [("Read", {"path": "no-args-json-object"}), ("Read", {"path": "path.json"})]
    assert (reply.stop_reason, reply.usage.cache_read, reply.usage.output_tokens) == ("max_tokens", 217, 60)


async def test_a_call_that_llamacpp_left_in_the_text_is_known_as_one(ask):
    reply, _ = await ask("openai-chat", recording("llamacpp-b11434-chat-call-as-text.sse"))
    assert reply.stop_reason == "end_turn" and is_call_as_text(reply.content)


OTHERS = {
    "messages": "openai-chat",
    "openai-chat": "messages",
    "openai-responses": "openai-chat",
    "gemini": "openai-chat",
}


@pytest.mark.parametrize("api", OTHERS)
async def test_a_path_that_llamacpp_does_not_have_is_no_unknown_model(ask, api):
    failure, server = await ask(api, recording("llamacpp-path-missing.404.json"), own=True)
    assert (failure.slug, len(server.bodies)) == ("no-network", 1)
    assert f"does not speak {APIS[api].title}" in failure.what
    assert f'"api": "{OTHERS[api]}"' in " ".join(failure.do), "the other wire to choose"


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({"detail": "Not Found"}, "no-network"),
        ({"error": {"message": "Invalid URL (POST /v1/responses)", "type": "invalid_request_error"}}, "no-network"),
        ({"error": "Unexpected endpoint or method. (POST /v1/messages)"}, "no-network"),
        ({"error": {"code": "404", "message": "Resource not found"}}, "no-network"),
        ({"error": {"message": "The model `x` does not exist.", "type": "NotFoundError"}}, "unknown-model"),
        ({"error": 'model "x" not found, try pulling it first'}, "unknown-model"),
        ({"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, "unknown-model"),
        ({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}, "unknown-model"),
        (
            {"error": {"message": "models/x is not found for API version v1beta", "status": "NOT_FOUND"}},
            "unknown-model",
        ),
    ],
)
async def test_the_words_of_a_404_say_whether_the_path_or_the_model_is_unknown(ask, body, slug):
    failure, _ = await ask("openai-chat", Status(404, body=encode(body)))
    assert failure.slug == slug


WINDOWS = [
    (recording("llamacpp-b11434-context-size.400.json"), 4_096),
    (Status(400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"), 8_192),
    (Status(400, "prompt is too long"), 200_000),
]


@pytest.mark.parametrize("api", OTHERS)
@pytest.mark.parametrize(("refusal", "window"), WINDOWS)
async def test_a_window_that_a_refusal_names_is_known_from_then_on(speaking, client, api, refusal, window):
    make = client if api == "messages" else lambda url: speaking(api, url)
    async with asyncio.timeout(WAIT_S), LoopbackModel([refusal]) as server, make(server.url) as caller:
        failure = (await caller.ask()).last
        assert failure.slug == "context-full"
        assert caller.model.card.context_tokens == window
