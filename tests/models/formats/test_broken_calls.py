"""Calls as weak models write them, in every format: repaired, explained to the model, or refused; never a crash."""

import asyncio
import json

import pytest
from pydantic import Field

from teamwright.agent.conversation import UserMessage
from teamwright.agent.tool_input import ToolInput
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import Reply
from teamwright.models.tool_call_repair import MOST_DEPTH, describe_problem, parse_arguments
from teamwright.permissions.verdict import Access
from teamwright.protocol.messages import UNPARSED_ARGUMENTS, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, encode_event
from tests.agent.parts import Echo, Listed, an_agent, call, says
from tests.support.waits import WAIT_S

FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]
FENCE = "```"


def deep(levels):
    return '{"a":' + "[" * levels + "]" * levels + "}"


def call_stream(api, name, arguments):
    """A stream whose one call has this name and these arguments, a text or a value, in a format made of JSON."""
    if api == "messages":
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        text = arguments if isinstance(arguments, str) else None
        events = [
            {"type": "message_start", "message": {"model": "test", "usage": {}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": block | ({} if text else {"input": arguments}),
            },
            *([{"type": "content_block_delta", "index": 0, "delta": delta(text)}] if text else []),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ]
        return Raw([encode_event(event) for event in events])
    if api == "openai-chat":
        piece = {"index": 0, "id": "call_0123456789abcdef", "function": {"name": name, "arguments": arguments}}
        return data({"choices": [{"delta": {"tool_calls": [piece]}, "finish_reason": "tool_calls"}]})
    if api == "openai-responses":
        item = {"type": "function_call", "call_id": "call_0123456789abcdef", "name": name, "arguments": arguments}
        return data(
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"status": "completed"}},
        )
    part = {"functionCall": {"name": name, "args": arguments}}
    return data({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})


def delta(text):
    return {"type": "input_json_delta", "partial_json": text}


def data(*events):
    return Raw([f"data: {json.dumps(event)}\n\n".encode() for event in events])


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url: client(url) if api == "messages" else speaking(api, url)


async def two_calls(tmp_path, speaks, api, first):
    """A turn whose first answer is this one: how it ended, and the request after it as text."""
    async with asyncio.timeout(WAIT_S), LoopbackModel([first, Answer("Done.")]) as server, speaks(api, server.url) as c:
        agent, _ = an_agent(tmp_path, c.model, [Echo()])
        end = await run_turn(agent, UserMessage((text_block("hello"),)))
    return end, agent.conversation.items, server.requests[-1].body.decode()


@pytest.mark.finding("M13")
@pytest.mark.parametrize(
    "text",
    [
        '{"text": "x",}',
        '{"text": "x", "n": [1, 2,],}',
        FENCE + 'json\n{"text": "x"}\n' + FENCE,
        FENCE + '\n{"text": "x",}' + FENCE,
        json.dumps('{"text": "x"}'),
        '[{"text": "x"}]',
        '{"text": "a\nb"}',
    ],
)
def test_arguments_with_fences_trailing_commas_and_wrappings_are_read_as_they_were_meant(text):
    found = parse_arguments(text)
    assert UNPARSED_ARGUMENTS not in found
    assert found["text"] in {"x", "a\nb"}


@pytest.mark.finding("M13")
def test_a_comma_inside_a_text_is_kept():
    assert parse_arguments('{"text": "a,} b,] \\",}",}') == {"text": 'a,} b,] ",}'}


@pytest.mark.finding("M13")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"text": x}', "line 1, column 10: expecting value"),
        ('{\n"text": "x" "y": 1}', "line 2, column 13: expecting ',' delimiter"),
        ("[1, 2]", "expected one object of parameters, not a list"),
        ('"words"', "expected one object of parameters, not a text"),
        ("7", "expected one object of parameters, not a number"),
    ],
)
def test_the_model_learns_where_its_arguments_are_broken_and_what_was_expected(text, said):
    assert parse_arguments(text) == {UNPARSED_ARGUMENTS: text}
    assert said in describe_problem(text)


@pytest.mark.finding("M13")
@pytest.mark.parametrize("api", ["messages", "openai-chat", "openai-responses"])
async def test_broken_arguments_are_answered_with_the_place_and_the_parameters(tmp_path, speaks, api):
    end, _items, sent = await two_calls(tmp_path, speaks, api, call_stream(api, "Echo", '{"text": x}'))
    assert end.stop == "done"
    assert "line 1, column 10: expecting value" in sent
    assert "Echo takes text (string, required)" in sent
    assert "is not a parameter" not in sent


@pytest.mark.finding("M13")
@pytest.mark.parametrize("arguments", [["x"], "words", 7])
@pytest.mark.parametrize("api", FORMATS[:4])
async def test_arguments_that_came_as_no_object_are_an_object_in_the_history(tmp_path, speaks, api, arguments):
    end, items, _ = await two_calls(tmp_path, speaks, api, call_stream(api, "Echo", arguments))
    [use] = [b for item in items for b in json.loads(item)["content"] if b["type"] == "tool_use"]
    assert isinstance(use["input"], dict)
    assert end.stop == "done"


@pytest.mark.finding("M12")
@pytest.mark.parametrize("name", [None, 7, ["Echo"], {"a": 1}, ""])
@pytest.mark.parametrize("api", FORMATS[:4])
async def test_a_call_whose_name_is_no_text_is_a_mistake_of_the_model_and_no_crash(tmp_path, speaks, api, name):
    end, items, sent = await two_calls(tmp_path, speaks, api, call_stream(api, name, {"text": "x"}))
    assert end.stop == "done"
    uses = [b for item in items for b in json.loads(item)["content"] if b["type"] == "tool_use"]
    assert all(isinstance(use["name"], str) and use["name"] for use in uses)
    assert "There is no tool" in sent or "no complete tool call" in sent


@pytest.mark.finding("M12")
async def test_a_name_that_services_refuse_in_a_history_is_changed_and_the_nearest_tool_is_named(tmp_path, speaks):
    _, items, sent = await two_calls(tmp_path, speaks, "messages", call_stream("messages", "f.Echo", {"text": "x"}))
    assert '"name":"f_Echo"' in b"".join(items).decode()
    assert "There is no tool 'f_Echo'" in sent


@pytest.mark.finding("M12", "M7")
@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize("api", ["messages", "openai-chat", "openai-responses"])
async def test_deep_arguments_are_refused_with_the_reason(tmp_path, speaks, api, levels):
    end, _, sent = await two_calls(tmp_path, speaks, api, call_stream(api, "Echo", deep(levels)))
    assert end.stop == "done"
    assert f"more than {MOST_DEPTH} levels" in sent


@pytest.mark.finding("M12", "M7")
@pytest.mark.parametrize("levels", [400, 100_000])
@pytest.mark.parametrize("api", ["messages", "openai-chat", "openai-responses", "gemini"])
async def test_deep_arguments_that_came_as_a_value_crash_nothing(tmp_path, speaks, quick, client, api, levels):
    marked = call_stream(api, "Echo", {"mark": 1})
    stream = Raw([chunk.replace(b'{"mark": 1}', deep(levels).encode()) for chunk in marked.chunks])
    stream = Raw([chunk.replace(b'{"mark":1}', deep(levels).encode()) for chunk in stream.chunks])
    end, _, sent = await two_calls(tmp_path, speaks, api, stream)
    assert end.stop == "done", "the model is told, or asked once more"
    assert f"more than {MOST_DEPTH} levels" in sent or levels == 100_000


@pytest.mark.finding("M12")
@pytest.mark.parametrize(
    ("variable", "value", "said", "do"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "SOCKS", "pip install socksio"),
        ("HTTPS_PROXY", "foo://127.0.0.1:9", "proxy", "correct or unset"),
        ("SSL_CERT_FILE", "/does/not/exist.pem", "certificates", "SSL_CERT_FILE"),
    ],
)
async def test_a_proxy_or_a_certificate_that_cannot_be_used_is_named(monkeypatch, client, variable, value, said, do):
    for name in ("ALL_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    async with asyncio.timeout(WAIT_S), client("https://model.invalid") as caller:
        failure = (await caller.ask()).last
    assert not isinstance(failure, Reply)
    assert (failure.slug, failure.retriable) == ("no-network", False)
    assert said in failure.what
    assert do in " ".join(failure.do)


HUGE = "1" + "0" * 5_000
NO_NUMBERS = [f'{{"n": {HUGE}}}', f'{{"n": -{HUGE}}}', '{"n": NaN}', '{"n": [{"m": -Infinity}]}', '{"n": 1e999}']


@pytest.mark.finding("3L8")
@pytest.mark.parametrize("text", NO_NUMBERS, ids=["huge", "huge and negative", "NaN", "infinite, inside", "1e999"])
def test_a_number_that_json_does_not_have_is_explained_and_never_raised(text):
    assert parse_arguments(text) == {UNPARSED_ARGUMENTS: text}
    assert describe_problem(text) == "a number in it is NaN, infinite or too long"


@pytest.mark.finding("3L8")
@pytest.mark.parametrize("api", FORMATS[:-1])
async def test_a_call_with_an_integer_of_5000_digits_is_a_tool_error(tmp_path, speaking, client, api):
    value = "HUGE" if api == "gemini" else f'{{"text": {HUGE}}}'
    stream = call_stream(api, "Echo", {"text": value} if api == "gemini" else value)
    reply = Raw([chunk.replace(b'"HUGE"', HUGE.encode()) for chunk in stream.chunks])
    speak = (lambda _, url: client(url)) if api == "messages" else speaking
    async with asyncio.timeout(WAIT_S), LoopbackModel([reply, "Well."]) as server, speak(api, server.url) as c:
        agent, _ = an_agent(tmp_path, c.model, [Echo()])
        end = await run_turn(agent, UserMessage((text_block("go"),)))
    assert (end.stop, end.text) == ("done", "Well.")
    [result] = json.loads(agent.conversation.items[-2])["content"]
    assert result["is_error"]
    assert "too long" in result["content"]


@pytest.mark.finding("3L8")
async def test_a_text_with_100000_levels_where_a_list_is_expected_is_a_tool_error(tmp_path):
    class Rows(ToolInput):
        rows: list[str] = Field(description="Rows.")

    class Table(Echo):
        name = "Table"
        input_type = Rows

        def access(self, call, ctx):
            return Access()

    bad = says(call("Table", rows="[" * 100_000 + "]" * 100_000))
    agent, _ = an_agent(tmp_path, Listed(bad, says("done")), [Table()])
    assert (await run_turn(agent, UserMessage((text_block("go"),)))).stop == "done"
    [result] = json.loads(agent.conversation.items[-2])["content"]
    assert result["is_error"]
