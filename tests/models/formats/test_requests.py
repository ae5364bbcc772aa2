"""The contract of a request in every API: each block of ours in its form, and back where it came from."""

import asyncio
import json

import pytest

from teamwright.models.model import ModelCard, Prefix, Reply
from teamwright.models.model_settings import ModelSettings
from teamwright.models.providers.api_format import ConversionCache, EncodedMessage
from teamwright.models.request_prefix import request_fields
from teamwright.protocol.messages import encode, image_block, text_block, tool_result_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3")

MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS = [
    {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}},
    {
        "name": "Bash",
        "description": "Runs.",
        "input_schema": {"type": "object"},
        "cache_control": {"type": "ephemeral"},
    },
]
SYSTEM = [text_block("You are Ada."), {**text_block("Be brief."), **MARK}]
SCHEMAS = [tool["input_schema"] for tool in TOOLS]
IMAGE = image_block("image/png", "iVBORw0=")


def thinking(by=None, signature="sig", **more):
    return {"type": "thinking", "thinking": "Hm.", "signature": signature, **({"by": by} if by else {}), **more}


def item(role, *blocks):
    return encode({"role": role, "content": list(blocks)})


def use(id, name, **given):
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def conversation(by=None):
    """Everything that a conversation may hold; the thinking is `by` somebody's."""
    return [
        item("user", text_block("Look."), IMAGE),
        item("assistant", thinking(by), text_block("I do."), use("a", "Read", path="ä"), use("b", "Bash")),
        item(
            "user",
            tool_result_block("a", [text_block("it is"), IMAGE]),
            tool_result_block("b", "no", is_error=True),
            text_block("Go on."),
        ),
        encode({"role": "assistant", "content": [{"type": "hologram", "depth": 3}, text_block("Done.")]}),
        encode({"role": "user", "content": "plain"}),
    ]


@pytest.fixture
def body(speaking):
    """The body that an API gets, and its request."""

    async def sent(api, *items, card=None, **fields):
        card = card or ModelCard("x/test", "test", "x")
        async with asyncio.timeout(WAIT_S), LoopbackModel() as server, speaking(api, server.url, card=card) as c:
            asked = await c.ask(*items, **fields)
        assert isinstance(asked.last, Reply), asked.last
        return server.requests[0].json, server.requests[0]

    return sent


async def test_chat_completions_get_messages(body):
    sent, request = await body("openai-chat", *conversation(), system=SYSTEM, tools=TOOLS)
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"].startswith("Bearer sk-test")
    assert not {"anthropic-version", "anthropic-beta", "x-api-key"} & set(request.headers)
    assert (sent["model"], sent["max_tokens"], sent["stream"]) == ("test", 100, True)
    assert sent["stream_options"] == {"include_usage": True}
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["Read", "Bash"]
    assert [tool["function"]["parameters"] for tool in sent["tools"]] == SCHEMAS
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}
    assert sent["messages"] == [
        {"role": "system", "content": "You are Ada.\n\nBe brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]},
        {
            "role": "assistant",
            "content": "I do.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Read", "arguments": '{"path":"ä"}'}},
                {"id": "b", "type": "function", "function": {"name": "Bash", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "it is\n(its image follows)"},
        {"role": "tool", "tool_call_id": "b", "content": "[failed] no"},
        {"role": "user", "content": [{"type": "text", "text": "Go on."}, picture]},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "plain"},
    ]


async def test_responses_get_items_and_their_own_reasoning_back(body):
    mine = conversation("openai-responses")
    mine[1] = item("assistant", thinking("openai-responses", id="rs_1"), use("a", "Read", path="ä"), use("b", "Bash"))
    sent, request = await body("openai-responses", *mine, system=SYSTEM, tools=TOOLS, thinking={"effort": "low"})
    assert request.path == "/v1/responses"
    assert (sent["model"], sent["max_output_tokens"], sent["store"]) == ("test", 100, False)
    assert (sent["instructions"], sent["reasoning"]) == ("You are Ada.\n\nBe brief.", {"effort": "low"})
    assert [(tool["type"], tool["name"], tool["parameters"]) for tool in sent["tools"]] == [
        ("function", "Read", SCHEMAS[0]),
        ("function", "Bash", SCHEMAS[1]),
    ]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0=", "detail": "auto"}
    assert sent["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "sig",
        },
        {"type": "function_call", "call_id": "a", "name": "Read", "arguments": '{"path":"ä"}'},
        {"type": "function_call", "call_id": "b", "name": "Bash", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [{"type": "input_text", "text": "it is"}, picture],
        },
        {"type": "function_call_output", "call_id": "b", "output": "[failed] no"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]},
        {"type": "message", "role": "assistant", "content": "Done."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "plain"}]},
    ]


async def test_gemini_gets_contents_and_its_signatures_on_their_parts(body):
    mine = conversation("gemini")
    mine[1] = item("assistant", text_block("I do."), thinking("gemini"), use("a", "Read", path="ä"), use("b", "Bash"))
    sent, request = await body("gemini", *mine, system=SYSTEM, tools=TOOLS, thinking={"includeThoughts": True})
    assert request.path == "/v1beta/models/test:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"].startswith("sk-test")
    assert sent["generationConfig"] == {"maxOutputTokens": 100, "thinkingConfig": {"includeThoughts": True}}
    assert sent["systemInstruction"] == {"parts": [{"text": "You are Ada.\n\nBe brief."}]}
    [tools] = sent["tools"]
    assert [tool["parametersJsonSchema"] for tool in tools["functionDeclarations"]] == SCHEMAS
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
    assert sent["contents"] == [
        {"role": "user", "parts": [{"text": "Look."}, picture]},
        {
            "role": "model",
            "parts": [
                {"text": "I do."},
                {"functionCall": {"id": "a", "name": "Read", "args": {"path": "ä"}}, "thoughtSignature": "sig"},
                {"functionCall": {"id": "b", "name": "Bash", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "a", "name": "Read", "response": {"output": "it is"}}},
                {"functionResponse": {"id": "b", "name": "Bash", "response": {"error": "no"}}},
                {"text": "Go on."},
                picture,
            ],
        },
        {"role": "model", "parts": [{"text": "Done."}]},
        {"role": "user", "parts": [{"text": "plain"}]},
    ]


async def test_converse_gets_blocks_its_reasoning_and_points_for_the_cache(body):
    card = ModelCard("x/c", "eu.anthropic.claude-sonnet-5-5-v1:0", "x")
    mine = conversation("bedrock")
    sent, request = await body("bedrock", *mine, system=SYSTEM, tools=TOOLS, card=card)
    assert request.path == "/model/eu.anthropic.claude-sonnet-5-5-v1%3A0/converse-stream"
    point = {"cachePoint": {"type": "default"}}
    assert sent["system"] == [{"text": "You are Ada."}, {"text": "Be brief."}, point]
    assert sent["toolConfig"]["tools"][-1] == point
    assert [t["toolSpec"]["inputSchema"]["json"] for t in sent["toolConfig"]["tools"][:-1]] == SCHEMAS
    assert sent["inferenceConfig"] == {"maxTokens": 100}
    picture = {"image": {"format": "png", "source": {"bytes": "iVBORw0="}}}
    assert sent["messages"] == [
        {"role": "user", "content": [{"text": "Look."}, picture]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig"}}},
                {"text": "I do."},
                {"toolUse": {"toolUseId": "a", "name": "Read", "input": {"path": "ä"}}},
                {"toolUse": {"toolUseId": "b", "name": "Bash", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "a", "content": [{"text": "it is"}, picture]}},
                {"toolResult": {"toolUseId": "b", "content": [{"text": "no"}], "status": "error"}},
                {"text": "Go on."},
                point,
            ],
        },
        {"role": "assistant", "content": [{"text": "Done."}]},
        {"role": "user", "content": [{"text": "plain"}, point]},
    ]


async def test_a_model_that_knows_no_cache_points_gets_none(body):
    sent, _ = await body("bedrock", *conversation(), system=SYSTEM, tools=TOOLS)
    assert "cachePoint" not in json.dumps(sent)


@pytest.mark.parametrize("by", [None, "openai-chat", "openai-responses", "gemini", "bedrock"])
async def test_what_another_service_thought_is_left_out(api, body, by):
    sent, _ = await body(api, *conversation(by), system=SYSTEM, tools=TOOLS)
    mine = by == api != "openai-chat"
    assert ("Hm." in json.dumps(sent) or '"sig"' in json.dumps(sent)) == mine
    if api == "gemini" and not mine:
        assert json.dumps(sent).count("skip_thought_signature_validator") == 1, "what the vendor documents for it"


async def test_users_that_follow_one_another_are_one_message_where_turns_must_alternate(body):
    items = [item("user", text_block("a")), item("user", text_block("b"))]
    items += [item("assistant", thinking()), item("user", text_block("c"))]
    sent, _ = await body("bedrock", *items)
    assert sent["messages"] == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}]
    sent, _ = await body("gemini", *items)
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "any"}, ["required", "required", "ANY", {"any": {}}]),
        ({"type": "auto"}, ["auto", "auto", "AUTO", {"auto": {}}]),
        (
            {"type": "tool", "name": "Read"},
            [
                {"type": "function", "function": {"name": "Read"}},
                {"type": "function", "name": "Read"},
                "ANY",
                {"tool": {"name": "Read"}},
            ],
        ),
    ],
)
async def test_a_choice_of_tools_is_kept(body, choice, said):
    sent = [(await body(a, tools=TOOLS, tool_choice=choice))[0] for a in ("openai-chat", "openai-responses")]
    assert [one["tool_choice"] for one in sent] == said[:2]
    google = (await body("gemini", tools=TOOLS, tool_choice=choice))[0]["toolConfig"]["functionCallingConfig"]
    assert (google["mode"], google.get("allowedFunctionNames")) == (said[2], ["Read"] if "name" in choice else None)
    assert (await body("bedrock", tools=TOOLS, tool_choice=choice))[0]["toolConfig"]["toolChoice"] == said[3]


async def test_an_answer_goes_back_as_it_came(api, speaking):
    """Two rounds: what the service thought and called is in the second request, with its own ids and proofs."""
    answer = Answer("Let me look.", tools=[("Read", {"path": "x"}), ("Bash", {})], thinking="Hm.")
    async with asyncio.timeout(WAIT_S), LoopbackModel([answer, "Done."]) as server, speaking(api, server.url) as c:
        first = (await c.ask()).last
        calls = [b["id"] for b in first.content if b["type"] == "tool_use"]
        told = item("user", *(tool_result_block(id, "ok") for id in calls))
        again = (await c.ask(item("user", text_block("Hi")), item("assistant", *first.content), told)).last
    assert isinstance(again, Reply)
    text = json.dumps(server.bodies[1])
    assert all(text.count(id) == 2 for id in calls), "once where it is called, once where it is answered"
    proof = {"openai-responses": "enc-1", "gemini": "c2ln0001", "bedrock": "sig-1"}.get(api)
    assert proof is None or proof in text


def test_a_message_is_converted_once_however_often_it_is_sent():
    asked = []

    def pieces(message):
        asked.append(message.blocks[0]["text"])
        return [EncodedMessage(message.role, b"x" * 10)]

    converted = ConversionCache(lambda head: b"", pieces)
    items = [item("user", text_block(str(number))) for number in range(50)]
    for end in range(1, 51):
        assert len(converted.pieces(items[:end])) == end
    assert len(asked) == 50


def test_what_was_converted_is_bounded(monkeypatch):
    monkeypatch.setattr("teamwright.models.providers.api_format.MAX_CONVERTED_BYTES", 100)
    converted = ConversionCache(lambda head: b"", lambda message: [EncodedMessage("user", b"x" * 30)])
    for number in range(50):
        converted.pieces([item("user", text_block(str(number)))])
    assert len(converted._converted_items) == 3
    for number in range(200):
        converted.head(Prefix.build({"model": "m", "max_tokens": number}))
    assert len(converted._heads) == 64


async def test_a_try_is_signed_anew(speaking):
    script = [Status(500), "Yes."]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("bedrock", server.url) as c:
        await c.ask()
    for request in server.requests:
        assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIATESTACCESSKEY/")
        assert "/eu-central-1/bedrock/aws4_request" in request.headers["authorization"]
        assert request.headers["x-amz-date"]


LEVEL = {"effort": "high"}


@pytest.mark.promise("F43", "row F1")
@pytest.mark.parametrize(
    ("api", "fields", "place", "said"),
    [
        ("openai-chat", {}, "reasoning_effort", "high"),
        ("openai-responses", {}, "reasoning", {"effort": "high"}),
        ("openai-responses", {"thinking": {"effort": "low"}}, "reasoning", {"effort": "high"}),
        ("bedrock", {}, "outputConfig", {"effort": "high"}),
    ],
)
async def test_an_effort_is_asked_for_in_the_words_of_the_api(body, api, fields, place, said):
    sent, _ = await body(api, *conversation(), output_config=LEVEL, **fields)
    assert sent[place] == said
    sent, _ = await body(api, *conversation())
    assert place not in sent


@pytest.mark.promise("F43", "row F1")
async def test_gemini_is_asked_for_a_level_of_thinking(body):
    sent, _ = await body("gemini", *conversation(), output_config=LEVEL, thinking={"includeThoughts": True})
    assert sent["generationConfig"]["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "high"}


@pytest.mark.promise("F43", "row F1")
def test_the_messages_api_has_it_in_the_prefix_and_a_budget_on_top_of_the_answer():
    five, settings = ModelCard("a/m", "m", "a", 200_000, 64_000, efforts=("high",), budget_from=1_024), ModelSettings()
    level = request_fields(five, settings, [], [], effort="high")
    assert (level["output_config"], "thinking" in level, level["max_tokens"]) == (LEVEL, False, 32_000)
    budget = request_fields(five, settings, [], [], effort=8_000)
    assert (budget["thinking"], budget["max_tokens"]) == ({"type": "enabled", "budget_tokens": 8_000}, 40_000)
    assert request_fields(five, settings, [], [], effort=60_000)["max_tokens"] == 64_000
    assert "output_config" not in request_fields(five, settings, [], []) | budget
