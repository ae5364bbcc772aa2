"""The live check on each API: a sound service, failing ones, and ones that would use more than the ceiling."""

import asyncio
import json
import re

import pytest

from teamwright.models.model_settings import CustomProvider, ModelFacts, ModelSettings
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Cut, ErrorEvent, Raw, Stall, Status
from teamwright.testing.wire_formats.answer_facts import AnswerRequest
from teamwright.testing.wire_formats.wire_format import format_for_path
from teamwright.views.live_check_plan import plan_live_check
from teamwright.views.model_live_check import LABELS, perform_live_check
from tests.models.formats.field_fuzz import PATHS
from tests.support.live_check_service import CALLS, purpose, sound
from tests.support.waits import WAIT_S

APIS = ("messages", "openai-chat", "openai-responses", "gemini")
KEY = "sk-test-7Qm2xLw9Tz4Rk8Vn"
PRICE = ModelFacts(usd_in=3.0, usd_out=15.0, usd_cache_read=0.3, usd_cache_write=3.75)


async def check(api, script, *, facts=PRICE, **settings):
    """The plan and the result of a check of a service whose prices are known, and the server that was asked."""
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        base = server.url + ("/v1" if api.startswith("openai") else "")
        provider = CustomProvider(base_url=base, api=api, key_env="MINE_KEY", caching=True, facts=facts)
        made = ModelSettings(custom={"mine": provider}, **settings)
        env = {"MINE_KEY": KEY}
        plan = plan_live_check("mine/x", env, made)
        return plan, await perform_live_check(plan, "mine/x", env, made), server


def states(trial):
    return {one.label: one.state for one in trial.checks}


def told(trial, label):
    return next(one.value for one in trial.checks if one.label == label)


def most_of(body):
    """The longest answer that a request asks for."""
    [most] = re.findall(
        r'"(?:max_tokens|max_output_tokens|maxOutputTokens|max_completion_tokens)": ?(\d+)', json.dumps(body)
    )
    return int(most)


@pytest.mark.parametrize("api", APIS)
async def test_every_check_is_made_on_every_api(api):
    _, trial, server = await check(api, sound)
    others = {"rate limits": "not seen", "window": "not seen", "whole prompt": "not offered"}
    assert states(trial) == dict.fromkeys(LABELS, "ok") | others
    assert [purpose(body) for body in server.bodies] == ["calls", "results", "schema", "limit", "error"]


@pytest.mark.parametrize("api", APIS)
async def test_the_ceiling_is_two_cents_at_three_dollars_and_is_what_the_requests_ask_for(api):
    plan, trial, server = await check(api, sound)
    assert plan.ceiling.usd <= 0.02005 and not plan.needs_consent
    asked = sum(map(most_of, server.bodies))
    assert asked == plan.ceiling.output_tokens
    assert sum(len(request.body) for request in server.requests) / 4.5 < plan.ceiling.prompt_tokens
    assert 0 < trial.usage.usd < plan.ceiling.usd


@pytest.mark.parametrize(
    ("reply", "label", "word"),
    [
        (Status(401), "key", "does not accept MINE_KEY"),
        (Status(404), "model", "does not have the model x"),
        (Status(404, body=b'{"detail": "Not Found"}'), "reached", "does not speak"),
        (Status(429, retry_after=1), "answer", "is limiting requests"),
        (Status(500), "answer", "HTTP 500"),
        (Cut(300), "answer", "stopped short"),
        (ErrorEvent(after_events=1), "answer", ""),
        (Raw([b"<html>"], content_type="text/html"), "answer", "not an event stream"),
    ],
)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.slow_after(8)
async def test_a_service_that_fails_is_asked_once(api, reply, label, word):
    _, trial, server = await check(api, [reply])
    assert [name for name, state in states(trial).items() if state == "failed"] == [label]
    assert word in told(trial, label)
    assert states(trial)["tool call"] == states(trial)["schema"] == "not tried"
    assert len(server.bodies) == 1
    assert KEY not in str(trial.checks)


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_counts_more_than_was_asked_for_gets_no_further_request(api):
    def reply(body):
        usage = {"input_tokens": 4_000, "output_tokens": 500}
        return Answer("Ready.", CALLS, usage=usage) if purpose(body) == "calls" else sound(body)

    plan, trial, server = await check(api, reply)
    spent = trial.usage.usd
    assert spent > plan.ceiling.usd * 0.9
    left = plan.ceiling.usd - spent
    costs = {one.purpose: one.most.usd for one in plan.planned}
    for body in server.bodies[1:]:
        left -= costs[purpose(body)]
    assert left > -1e-9, "the rest of the ceiling pays for the longest answer of each request that followed"
    assert states(trial)["tool result"] == "not tried"
    assert "ceiling" in told(trial, "tool result")


def endless(api):
    """A stream whose text never ends, in few large pieces."""
    wire = format_for_path(PATHS[api])
    whole = list(wire.events(Answer("word " * 4_000), AnswerRequest(10, 1, "x")))
    return Raw(whole[:-3], close=False)


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_that_does_not_end_is_cut(api):
    _, trial, server = await check(api, lambda body: endless(api) if purpose(body) == "limit" else sound(body))
    assert states(trial)["answer limit"] == "failed"
    assert "wrote on after the 32 tokens" in told(trial, "answer limit")
    assert server.client_left.is_set() or len(server.bodies) == 5
    assert purpose(server.bodies[-1]) == "error", "the checks behind it are made"


@pytest.mark.parametrize("purpose_", ["results", "schema", "limit"])
@pytest.mark.parametrize("reply", [Status(529), Status(500), Cut(40), ErrorEvent(), Stall(1, pings=False)])
@pytest.mark.slow_after(5)
async def test_no_request_is_sent_twice(purpose_, reply):
    _, trial, server = await check("messages", lambda b: reply if purpose(b) == purpose_ else sound(b), stall_s=0.3)
    seen = [purpose(body) for body in server.bodies]
    assert len(seen) == len(set(seen))
    label = {"results": "tool result", "schema": "schema", "limit": "answer limit"}[purpose_]
    assert states(trial)[label] == "failed"


async def test_a_call_that_the_server_cannot_parse_and_a_paused_answer_are_asked_for_once():
    unparsed = Status(500, body=b'{"error": {"message": "Failed to parse tool call arguments as JSON"}}')
    for reply in (unparsed, Answer("I pause.", stop_reason="pause_turn")):
        _, _, server = await check("messages", [reply])
        first = [body for body in server.bodies if purpose(body) == "calls"]
        assert len(first) == 1


async def test_a_server_that_closes_the_connection_is_asked_once():
    asked = 0

    async def serve(reader, writer):
        nonlocal asked
        asked += (await reader.readuntil(b"\r\n\r\n")).startswith(b"POST /v1/messages ")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        facts = ModelSettings(custom={"mine": CustomProvider(base_url=url, key_env="MINE_KEY", facts=PRICE)})
        plan = plan_live_check("mine/x", {"MINE_KEY": KEY}, facts)
        async with asyncio.timeout(WAIT_S):
            trial = await perform_live_check(plan, "mine/x", {"MINE_KEY": KEY}, facts)
    assert states(trial)["answer"] == "failed"
    assert asked == 1


async def test_where_the_price_is_not_known_tokens_are_the_ceiling():
    def reply(body):
        usage = {"input_tokens": 30_000, "output_tokens": 30}
        return Answer("Ready.", CALLS, usage=usage) if purpose(body) == "calls" else sound(body)

    plan, trial, server = await check("messages", reply, facts=ModelFacts())
    assert plan.ceiling.usd is None and plan.needs_consent
    assert len(server.bodies) == 1 and trial.usage.tokens > plan.ceiling.tokens * 0.9
    assert {states(trial)[label] for label in ("tool result", "schema", "answer limit")} == {"not tried"}


async def test_the_headers_about_rate_limits_are_seen():
    wire = format_for_path(PATHS["messages"])
    sent = b"".join(wire.events(Answer("Ready.", CALLS), AnswerRequest(10, 1, "x")))
    headers = {"anthropic-ratelimit-requests-remaining": "49", "x-other": "1"}
    _, trial, _ = await check("messages", [Raw([sent], headers)])
    assert (states(trial)["rate limits"], told(trial, "rate limits")) == (
        "ok",
        "anthropic-ratelimit-requests-remaining 49",
    )


async def test_a_service_that_refuses_a_schema_fails_in_that_line_alone():
    _, trial, _ = await check(
        "openai-chat", lambda b: Status(400, "response_format is not supported") if purpose(b) == "schema" else sound(b)
    )
    assert [name for name, state in states(trial).items() if state == "failed"] == ["schema"]
    assert "response_format is not supported" in told(trial, "schema")


async def test_a_server_that_answers_for_a_model_that_does_not_exist_is_noticed():
    _, trial, _ = await check("openai-chat", lambda b: "Hello." if purpose(b) == "error" else sound(b))
    assert states(trial)["error"] == "not seen"
