"""Words of services that decide what a person does: reasoning that is demanded, quotas, tools, TLS, counts."""

import asyncio
import json

import pytest

from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import AnswerEnd, Failure, ModelCard, Reply, price_usage
from teamwright.protocol.messages import encode, text_block
from teamwright.protocol.usage import Usage
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, Status
from teamwright.views.doctor import DoctorSubject, find_problems
from tests.agent.parts import Echo, an_agent
from tests.support.waits import WAIT_S

FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


def data(*events):
    return Raw([f"data: {json.dumps(event)}\n\n".encode() for event in events])


@pytest.mark.finding("M10")
async def test_reasoning_of_a_tool_loop_goes_back_to_the_service_that_demands_it(tmp_path, speaking):
    script = [Answer("", [("Echo", {"text": "x"})], thinking="Hm."), "Done."]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("openai-chat", server.url) as caller:
        agent, _ = an_agent(tmp_path, caller.model, [Echo()])
        await run_turn(agent, UserMessage((text_block("hello"),)))
        async with speaking("openai-chat", server.url, provider="another") as other:
            await other.ask(*agent.conversation.items)
    own, moved = (next(m for m in body["messages"] if m.get("tool_calls")) for body in server.bodies[1:3])
    assert own["reasoning_content"] == "Hm."
    assert "reasoning_content" not in moved, "another service has not thought it, and may refuse the key"


@pytest.mark.finding("M10")
async def test_a_service_that_refuses_calls_without_reasoning_gets_an_empty_one(speaking):
    call = {"type": "tool_use", "id": "call_0123456789abcdef", "name": "Read", "input": {}}
    item = encode({"role": "assistant", "content": [call]})
    async with speaking("openai-chat", "https://api.deepseek.com") as caller:
        sent = await caller.model._format.build_request(caller.request().prefix, [item])
    assert json.loads(sent.body)["messages"][0]["reasoning_content"] == ""


@pytest.mark.finding("M10")
@pytest.mark.parametrize(("words", "kept"), [([], 0), ([text_block("Half")], 1)])
async def test_reasoning_with_nothing_after_it_is_not_sent_back(speaking, words, kept):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "enc", "id": "rs_1", "by": "openai-responses"}
    items = [
        encode({"role": "user", "content": [text_block("a")]}),
        encode({"role": "assistant", "content": [thought, *words, thought]}),
        encode({"role": "user", "content": [text_block("b")]}),
    ]
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, speaking("openai-responses", server.url) as caller:
        await caller.ask(*items)
    assert [one.get("type") for one in server.bodies[0]["input"]].count("reasoning") == kept


@pytest.mark.finding("M9")
async def test_a_quota_of_a_day_is_not_waited_for(speaking, quick):
    violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "43s"},
    ]
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota", "details": details}
    script = [Status(429, body=json.dumps({"error": error}).encode())]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaking("gemini", server.url) as caller:
        failure = (await caller.ask()).last
    assert (len(server.bodies), failure.retry_after_s, failure.retriable) == (1, None, True)
    assert "billing" in failure.what


@pytest.mark.finding("M14")
async def test_what_an_unreadable_call_of_gemini_used_is_counted(speaking):
    usage = {"promptTokenCount": 500, "candidatesTokenCount": 20}
    broken = data({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}], "usageMetadata": usage})
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([broken, broken]) as server,
        speaking("gemini", server.url) as caller,
    ):
        reply = (await caller.ask()).last
    assert isinstance(reply, Reply)
    assert reply.end is AnswerEnd.UNPARSED
    used = reply.usage + reply.failed_usage
    assert (used.input_tokens, used.output_tokens, used.requests) == (1_000, 40, 2)


@pytest.mark.finding("M14")
@pytest.mark.parametrize("usd_in", [1.0, 0.0])
async def test_usage_that_was_not_reported_has_an_unknown_price(speaking, usd_in):
    card = ModelCard("custom/test", "test", "custom", usd_in=usd_in, usd_out=usd_in)
    chunk = {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([data(chunk)]) as server,
        speaking("openai-chat", server.url, card=card) as caller,
    ):
        reply = (await caller.ask()).last
    assert reply.usage.usd == (None if usd_in else 0.0)
    assert ("price unknown" in str(reply.usage)) == bool(usd_in)
    assert price_usage(card, Usage()).usd == 0.0, "nothing was asked"


@pytest.mark.finding("M15")
@pytest.mark.parametrize(
    ("provider", "words", "do"),
    [
        ("ollama", "registry.ollama.ai/library/phi:latest does not support tools", "made for tools"),
        (
            "vllm",
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            "--enable-auto-tool-choice",
        ),
        ("llamacpp", "tools param requires --jinja flag", "--jinja"),
    ],
)
@pytest.mark.parametrize("api", FORMATS)
async def test_a_server_without_tools_is_answered_with_what_helps(speaks, api, provider, words, do):
    script = [Status(400, words)]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        speaks(api, server.url, provider=provider) as c,
    ):
        failure = (await c.ask()).last
    assert isinstance(failure, Failure)
    assert "does not call tools" in failure.what
    assert do in " ".join(failure.do)
    assert not failure.retriable


@pytest.mark.finding("M15")
async def test_a_tls_error_on_this_machine_says_what_is_wrong_with_tls(client, quick):
    async def plain(_, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with asyncio.timeout(WAIT_S), await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        where = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with client(f"https://{where}", settings=quick(retries=0)) as caller:
            failure = (await caller.ask()).last
    assert "TLS" in failure.what
    assert failure.do[0].endswith(f"http://{where}")
    assert "start what listens" not in " ".join(failure.do)


@pytest.mark.finding("M15")
def test_doctor_finds_a_dead_server_of_the_users_own(tmp_path):
    settings = tmp_path / "s.json"
    settings.write_text(json.dumps({"providers": {"house": {"base_url": "http://127.0.0.1:1", "api": "openai-chat"}}}))
    found = find_problems(DoctorSubject(resolve_home(str(tmp_path / "home")), tmp_path, {}, "house/m", settings))
    [server] = [one for one in found if one.label == "server"]
    assert (server.verdict, "nothing answers" in server.value) == ("problem", True)
    assert "providers.house.base_url" in server.do
