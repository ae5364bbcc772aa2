"""The contract of an answer in every API: put together, counted, retried, given up, cancelled, as in our own."""

import asyncio
import json

import pytest

from teamwright.models.model import AlivePart, Failure, ModelCard, Reply, Retrying, TextPart, ThinkingPart
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut, ErrorEvent, Raw, Stall, Status
from teamwright.testing.wire_formats.answer_facts import AnswerRequest
from teamwright.testing.wire_formats.wire_format import format_for_path
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3")
WORDS = 'Some text that is cut in pieces: ä \u2028 \U0001f600 }]} "quoted".'
TOOLS = [("Read", {"path": "ä", "deep": {"a": [1, None]}}), ("Bash", {"command": "ls"}), ("List", {})]


@pytest.fixture
def answered(speaking):
    """What comes of one scripted reply."""

    async def one(api, *script, **options):
        async with (
            asyncio.timeout(WAIT_S),
            LoopbackModel(list(script)) as server,
            speaking(api, server.url, **options) as c,
        ):
            asked = await c.ask()
            return asked, server

    return one


async def test_an_answer_comes_in_parts_and_then_as_a_whole(api, answered):
    asked, _ = await answered(api, Answer(WORDS, tools=TOOLS, thinking="Hm, let me think about this a while."))
    assert isinstance(asked.last, Reply), asked.last
    assert "".join(p.text for p in asked.of(TextPart)) == WORDS
    assert "".join(p.text for p in asked.of(ThinkingPart)) == "Hm, let me think about this a while."
    content = asked.last.content
    assert [b["type"] for b in content if b["type"] != "thinking"] == ["text", "tool_use", "tool_use", "tool_use"]
    assert [b["text"] for b in content if b["type"] == "text"] == [WORDS]
    calls = [b for b in content if b["type"] == "tool_use"]
    assert [(b["name"], b["input"]) for b in calls] == TOOLS
    assert len({b["id"] for b in calls}) == 3
    assert {b["by"].partition(":")[0] for b in content if b["type"] == "thinking"} == {api}
    assert (asked.last.stop_reason, asked.last.request_id, asked.last.model) == ("tool_use", "req_test_1", "test")


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "refusal", "a_new_reason"])
async def test_why_it_ended_is_said_in_the_words_of_the_messages_api(api, answered, reason):
    asked, _ = await answered(api, Answer("No.", stop_reason=reason))
    assert (asked.last.stop_reason, asked.last.content) == (reason, [{"type": "text", "text": "No."}])


@pytest.mark.promise("F61")
async def test_what_the_cache_held_is_counted_and_priced_apart(api, answered):
    given = {"input_tokens": 100, "output_tokens": 40, "cache_read_input_tokens": 5000}
    writes = 0 if api == "gemini" else 700  # that one tells of no writes
    card = ModelCard("x/test", "test", "x", usd_in=2.0, usd_out=10.0, usd_cache_read=0.2, usd_cache_write=2.5)
    asked, _ = await answered(api, Answer("x", usage={**given, "cache_creation_input_tokens": writes}), card=card)
    usage = asked.last.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read, usage.cache_write) == (100, 40, 5000, writes)
    assert usage.usd == pytest.approx((100 * 2 + 40 * 10 + 5000 * 0.2 + writes * 2.5) / 1e6)


async def test_the_price_of_a_model_that_nobody_knows_is_unknown(api, answered):
    asked, _ = await answered(api, Answer("x"), card=ModelCard("x/test", "test", "x"))
    assert asked.last.usage.usd is None
    assert asked.last.usage.tokens


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "bedrock"])
async def test_a_call_that_was_cut_off_is_no_call(api, answered):
    """Gemini sends calls whole: there it cannot happen."""
    answer = Answer("Begun.", tools=[("Write", {"path": "/etc/x", "text": "long " * 40})], stop_reason="max_tokens")
    chunks = sent(api, answer)
    args = [chunk for chunk in chunks[:-1] if b"arguments" in chunk or b'"toolUse": {"input"' in chunk]
    kept = [chunk for chunk in chunks if chunk not in args[2:]]
    assert len(args) > 3
    asked, _ = await answered(api, Raw(kept))
    assert asked.last.stop_reason == "max_tokens"
    assert asked.last.content == [{"type": "text", "text": "Begun."}]


def sent(api, answer):
    """The bytes of an answer, event by event, as the server would send them."""
    path = {"openai-chat": "/chat/completions", "openai-responses": "/responses", "bedrock": "/converse-stream"}
    return list(format_for_path(path.get(api, ":streamGenerateContent")).events(answer, AnswerRequest(10, 1, "test")))


async def test_an_answer_is_whole_although_the_stream_is_left_open(api, answered):
    asked, _ = await answered(api, Raw(sent(api, Answer("Done.")), close=False))
    assert asked.last.content == [{"type": "text", "text": "Done."}]
    assert asked.last.usage.output_tokens


@pytest.mark.parametrize(
    "fault",
    [
        Cut(300, Answer("long " * 200)),
        ErrorEvent(after_events=2, answer=Answer("long " * 99)),
        Raw([b"data: {not json\n\n"]),
    ],
    ids=["cut", "overloaded in the middle", "no json"],
)
async def test_nothing_of_a_broken_answer_counts(api, answered, fault):
    asked, _ = await answered(api, fault, Answer("Whole."))
    kinds = [type(part) for part in asked.parts]
    assert kinds.count(Retrying) == 1, asked.last
    after = asked.parts[kinds.index(Retrying) + 1 :]
    assert "".join(p.text for p in after if isinstance(p, TextPart)) == "Whole."
    assert asked.last.content == [{"type": "text", "text": "Whole."}]


async def test_bytes_that_come_one_by_one_are_the_same_answer(api, answered):
    answer = Answer(WORDS, tools=TOOLS[:1])
    whole, _ = await answered(api, answer)
    single, _ = await answered(api, Raw([bytes([byte]) for byte in b"".join(sent(api, answer))]))
    assert [b for b in single.last.content if b["type"] == "text"] == [{"type": "text", "text": WORDS}]
    assert [b.get("input") for b in single.last.content] == [b.get("input") for b in whole.last.content]


@pytest.mark.promise("F40")
@pytest.mark.parametrize("pings", [True, False], ids=["signs of life", "nothing at all"])
@pytest.mark.finding("M9")
@pytest.mark.slow_after(1)
async def test_a_stream_without_progress_is_given_up_and_tried_again(api, speaking, quick, pings):
    script = [Stall(1, Answer("Never whole, and never will be."), pings=pings), Answer("At last.")]
    settings = quick(stall_s=0.4, read_timeout_s=5 if pings else 0.2)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        speaking(api, server.url, settings=settings) as c,
    ):
        asked = await c.ask()
        assert await asyncio.to_thread(server.client_left.wait, WAIT_S)
    assert [part.attempt for part in asked.of(Retrying)] == [1]
    assert asked.last.content == [{"type": "text", "text": "At last."}]


@pytest.mark.slow_after(1)
async def test_a_model_that_thinks_without_a_sign_is_waited_for(api, speaking, quick):
    async def thinking(_):
        await asyncio.sleep(0.4)
        return Answer("Thought.")

    settings = quick(read_timeout_s=0.05)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(thinking) as server,
        speaking(api, server.url, settings=settings) as c,
    ):
        asked = await c.ask()
    assert not asked.of(Retrying)
    assert asked.last.content == [{"type": "text", "text": "Thought."}]


async def test_cancelling_closes_the_connection(api, speaking):
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Stall(6, Answer("x" * 500))]) as server,
        speaking(api, server.url) as c,
    ):
        begun = asyncio.Event()

        async def listen():
            async for _ in c.model.stream(c.request()):
                begun.set()

        task = asyncio.create_task(listen())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_left.wait, WAIT_S)
        assert c.rate_limiter.running_count == 0


@pytest.mark.promise("F60")
@pytest.mark.slow_after(2)
async def test_a_limit_holds_up_everybody_with_the_key_for_as_long_as_the_service_asks(api, speaking):
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Status(429, retry_after=0.3), "First.", "Second."]) as server,
        speaking(api, server.url) as one,
        speaking(api, server.url, rate_limiter=one.rate_limiter) as two,
    ):
        parts = one.model.stream(one.request())
        assert isinstance(await anext(parts), Retrying)
        other = asyncio.create_task(two.ask())
        mine = [part async for part in parts]
        waited = await other
    assert isinstance(mine[-1], Reply)
    assert isinstance(waited.last, Reply)
    assert any(isinstance(part, AlivePart) and part.waits_for for part in waited.parts)
    assert len(server.requests) == 3


@pytest.mark.promise("F60")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again(api, answered, status):
    asked, server = await answered(api, Status(status), Status(status), Answer("There."))
    assert isinstance(asked.last, Reply)
    assert [part.attempt for part in asked.of(Retrying)] == [1, 2]
    assert len(server.requests) == 3


REFUSED = [
    ("openai-chat", Status(401), "wrong-key"),
    ("openai-responses", Status(404), "unknown-model"),
    ("openai-chat", Status(400, "This model's maximum context length is 8192 tokens."), "context-full"),
    ("openai-responses", Status(400, "Too long.", type="context_length_exceeded"), "context-full"),
    ("openai-responses", Status(429, "You exceeded your current quota.", type="insufficient_quota"), "model-failed"),
    ("openai-responses", ErrorEvent("context_length_exceeded", "Too long.", 1), "context-full"),
    ("gemini", Status(403), "no-access"),
    ("gemini", Status(404), "unknown-model"),
    (
        "gemini",
        Status(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        "context-full",
    ),
    (
        "gemini",
        Status(
            400,
            body=json.dumps(
                {
                    "error": {
                        "code": 400,
                        "message": "API key not valid.",
                        "status": "INVALID_ARGUMENT",
                        "details": [{"@type": "x/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
                    }
                }
            ).encode(),
        ),
        "wrong-key",
    ),
    ("bedrock", Status(403, headers={"x-amzn-errortype": "AccessDeniedException:http://x"}), "no-access"),
    ("bedrock", Status(403, headers={"x-amzn-errortype": "UnrecognizedClientException:http://x"}), "wrong-key"),
    (
        "bedrock",
        Status(400, "The provided model identifier is invalid.", headers={"x-amzn-errortype": "ValidationException"}),
        "unknown-model",
    ),
    ("bedrock", Status(400, "Input is too long for requested model."), "context-full"),
    ("bedrock", ErrorEvent("validationException", "Input is too long for requested model.", 1), "context-full"),
]


@pytest.mark.parametrize(("api", "fault", "slug"), REFUSED)
async def test_what_cannot_pass_is_told_once_and_with_its_kind(answered, api, fault, slug):
    asked, server = await answered(api, fault)
    assert isinstance(asked.last, Failure)
    assert asked.last.slug == slug, asked.last
    assert len(server.requests) == 1
    assert dict(asked.last.looked_at)["request"] == "req_test_1"


async def test_google_says_how_long_to_wait_in_its_body(answered):
    row = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.3s"}
    error = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [row]}
    asked, _ = await answered("gemini", Status(429, body=json.dumps({"error": error}).encode()), Answer("There."))
    [retrying] = asked.of(Retrying)
    assert 0.2 < retrying.wait_s < 0.5


async def test_an_error_in_a_list_is_read(answered):
    error = [{"error": {"code": 404, "message": "no such model", "status": "NOT_FOUND"}}]
    asked, _ = await answered("gemini", Status(404, body=json.dumps(error).encode()))
    assert (asked.last.slug, dict(asked.last.looked_at)["it said"]) == ("unknown-model", "no such model")


@pytest.mark.promise("F66")
@pytest.mark.parametrize(
    "echo",
    [
        lambda key: Status(401, f"Incorrect API key provided: {key}."),
        lambda key: ErrorEvent("invalid_request_error", f"your key {key}", 1),
        lambda key: Raw([f'{{"error":"{key}"}}'.encode()], {}, "application/json"),
    ],
)
async def test_no_failure_holds_the_key(api, answered, quick, key, echo):
    asked, server = await answered(api, echo(key), settings=quick(retries=1))
    assert isinstance(asked.last, Failure)
    assert "SECRET" not in repr(asked.parts)
    if api == "bedrock":
        assert all("SECRET" not in value for value in server.requests[0].headers.values()), "it signs and stays here"


async def test_a_service_of_another_kind_is_told_by_what_is_missing(api, speaking):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, speaking(api, server.url + "/nowhere?x=") as c:
        asked = await c.ask()
    assert asked.last.slug == "no-network"
    assert "does not speak" in asked.last.what
    assert "POST /" in asked.last.do[0]
