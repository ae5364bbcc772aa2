"""Conversations that a service refuses: each call has an id of its own, and refused thinking is left out once."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from teamwright.agent.compaction import compact_now
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Failure, ModelCard, Prefix
from teamwright.models.model_pool import format_for
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.service_model import ServiceModel
from teamwright.protocol.events import Notice
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.agent.parts import Echo, Listed, an_agent, call, says
from tests.models.conftest import quick
from tests.models.formats.conftest import AUTH, address
from tests.models.formats.strict_service import violations
from tests.support.waits import WAIT_S

APIS = ("messages", "openai-responses", "gemini", "bedrock")
"""The APIs that check the thinking that goes back."""
SIGNS = {"messages": '"signature"', "openai-responses": '"encrypted_content"', "gemini": "c2ln", "bedrock": '"sig-'}
REFUSALS = {
    "messages": "messages.1.content.0: Invalid `signature` in `thinking` block",
    "openai-responses": "The encrypted content enc-1 could not be verified.",
    "gemini": "Thought signature is not valid",
    "bedrock": "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
}


def prompt(text):
    return UserMessage((text_block(text),))


@asynccontextmanager
async def agent_at(tmp_path, api, server, *, stall_s=30.0, **more):
    """An agent with the tool Echo, whose model is a service at this server."""
    endpoint = Endpoint("custom", address(api, server.url), "sk-test-0123456789", api=api, **AUTH.get(api, {}))
    card = ModelCard("custom/test", "test", "custom", usd_in=1.0, usd_out=10.0)
    toolset = {"settings": quick(retries=1, stall_s=stall_s), "api_format": format_for(card, endpoint)}
    model = ServiceModel(card, endpoint, rate_limiter=RateLimiter(backoff_s=0.001, max_backoff_s=0.01), **toolset)
    try:
        yield an_agent(tmp_path, model, [Echo()], **more)
    finally:
        await model.aclose()


def ids_in(items):
    blocks = [block for item in items for block in json.loads(item)["content"]]
    return [b["id"] for b in blocks if b["type"] == "tool_use"], [
        b["tool_use_id"] for b in blocks if b["type"] == "tool_result"
    ]


@pytest.mark.finding("3L6")
async def test_a_call_with_the_id_of_an_earlier_answer_gets_another_id(tmp_path):
    answers = [says(call("Echo", "toolu_0123456789abcdef", text=str(at))) for at in range(3)]
    agent, _ = an_agent(tmp_path, Listed(*answers, says("done")), [Echo()])
    assert (await run_turn(agent, prompt("go"))).stop == "done"
    asked, told = ids_in(agent.conversation.items)
    assert asked == told
    assert len(set(asked)) == 3
    assert asked[0] == "toolu_0123456789abcdef", "one that is new stays: some services want their own back"


@pytest.mark.finding("3L6")
async def test_ids_stay_unique_after_a_resume_and_fit_into_64_characters(tmp_path):
    long = "i" * 64
    agent, _ = an_agent(tmp_path, Listed(says(call("Echo", long, text="one")), says("done")), [Echo()])
    await run_turn(agent, prompt("go"))
    agent.conversation.close()
    again = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    model = Listed(says(call("Echo", long, text="two"), call("Echo", long, text="three")), says("done"))
    resumed, _ = an_agent(tmp_path, model, [Echo()], conversation=again)
    assert (await run_turn(resumed, prompt("more"))).stop == "done"
    asked, told = ids_in(again.items)
    assert asked == told
    assert len(set(asked)) == 3
    assert all(len(id) <= 64 for id in asked)


@pytest.mark.finding("3L6")
async def test_a_transcript_in_which_two_calls_have_one_id_is_repaired_when_the_service_refuses_it(tmp_path):
    refused = []

    def strict(body):
        if found := violations("messages", body):
            refused.append(found)
            return Status(400, "; ".join(found))
        return Answer("Well.")

    written = Conversation.start(tmp_path / "ada.jsonl", Prefix.build({"model": "m"}), {"member": "ada"})
    for at in range(2):
        same = says(call("Echo", "toolu_same", text=str(at)))
        written.append_user_message(prompt("go"))
        written.append_reply(same)
        written.append_user_message(
            UserMessage(({"type": "tool_result", "tool_use_id": "toolu_same", "content": str(at)},))
        )
        written.append_reply(says("done"))
    written.close()
    async with asyncio.timeout(WAIT_S), LoopbackModel(strict) as server:
        loaded = Conversation.load(written.path, written.prefix)
        async with agent_at(tmp_path, "messages", server, conversation=loaded) as (agent, _):
            assert (await run_turn(agent, prompt("more"))).stop == "done"
            assert (await run_turn(agent, prompt("more"))).stop == "done"
    assert len(refused) == 1


def checks_thinking(api, seen, accepts_thinking=lambda: False):
    """A service that refuses every request with thinking of an earlier answer, and all that breaks its rules."""

    def script(body):
        text = json.dumps(body)
        seen.append(text)
        if found := violations(api, body):
            return Status(400, "; ".join(found))
        if SIGNS[api] in text and not accepts_thinking():
            return Status(400, REFUSALS[api])
        return Answer("Done.") if "go on" in text else Answer("", [("Echo", {"text": "x"})], thinking="Hm.")

    return script


@pytest.mark.finding("3L7")
@pytest.mark.parametrize("api", APIS)
async def test_a_refused_conversation_is_sent_once_more_without_thinking_and_stays_so(tmp_path, api):
    seen: list[str] = []
    script = checks_thinking(api, seen)
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        async with agent_at(tmp_path, api, server) as (agent, events):
            agent.model_calls_left = 1
            assert (await run_turn(agent, prompt("start"))).stop == "limit"
            agent.model_calls_left = None
            assert (await run_turn(agent, prompt("go on"))).stop == "done"
            notices = [event for event in events if isinstance(event, Notice)]
            assert sum("without earlier thinking" in notice.text for notice in notices) == 1
            assert len(seen) == 3, "one refused request, one without thinking"
            assert (await run_turn(agent, prompt("go on"))).stop == "done"
            agent.conversation.close()
        loaded = Conversation.load(agent.conversation.path, agent.conversation.prefix)
        async with agent_at(tmp_path, api, server, conversation=loaded) as (resumed, _):
            assert (await run_turn(resumed, prompt("go on"))).stop == "done"
    assert len(seen) == 5, "no further request was refused, also not after a resume"


@pytest.mark.finding("3L7")
@pytest.mark.parametrize("api", APIS)
async def test_compaction_of_a_conversation_whose_thinking_is_refused_succeeds(tmp_path, api):
    seen: list[str] = []
    accepts = [True]
    script = checks_thinking(api, seen, lambda: accepts[0])
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, agent_at(tmp_path, api, server) as (agent, _):
        agent.model_calls_left = 1
        await run_turn(agent, prompt("start"))
        agent.model_calls_left = None
        await run_turn(agent, prompt("go on"))
        accepts[0] = False
        result = await compact_now(agent)
        assert result.done, result.why
        assert (await run_turn(agent, prompt("go on"))).stop == "done"


@pytest.mark.finding("3L7")
async def test_a_request_that_is_refused_in_both_forms_fails_with_the_first_refusal_and_changes_nothing(tmp_path):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    no = Failure("model-failed", "refused the request (HTTP 400): no such beta", refuses_request=True)
    model = Listed(says(thought, "first"), no, no, says("second"))
    agent, events = an_agent(tmp_path, model)
    await run_turn(agent, prompt("go"))
    end = await run_turn(agent, prompt("go on"))
    assert end.failure is not None
    assert end.failure.what == no.what
    assert not [event for event in events if isinstance(event, Notice)]
    assert (await run_turn(agent, prompt("go on"))).stop == "done"
    assert thought in model.seen[-1][1]["content"]


@pytest.mark.finding("3L7")
async def test_a_refused_request_without_thinking_is_not_sent_again(tmp_path):
    no = Failure("model-failed", "refused the request (HTTP 400)", refuses_request=True)
    model = Listed(no, says("never"))
    agent, _ = an_agent(tmp_path, model)
    assert (await run_turn(agent, prompt("go"))).stop == "failed"
    assert len(model.seen) == 1


@pytest.mark.finding("3L6", "3L7")
async def test_a_block_of_an_unknown_kind_that_the_service_refuses_ends_no_conversation(tmp_path):
    hologram = {"type": "hologram", "data": [1]}
    no = Failure("model-failed", "refused the request (HTTP 400): hologram", refuses_request=True)
    answers = says(hologram, "one", call("Echo", "t1", text="x")), says(hologram), no, says("two"), says("three")
    model = Listed(*answers)
    agent, _ = an_agent(tmp_path, model, [Echo()])
    assert (await run_turn(agent, prompt("go"))).stop == "done"
    assert hologram in model.seen[1][1]["content"], "a service gets its own block back unless it refuses it"
    for _ in range(2):
        assert (await run_turn(agent, prompt("go on"))).stop == "done"
    said = [message["content"] for message in model.seen[-1] if message["role"] == "assistant"]
    assert [[block["type"] for block in content] for content in said] == [["text", "tool_use"], ["text"], ["text"]]
    agent.conversation.close()
    loaded = Conversation.load(agent.conversation.path, agent.conversation.prefix)
    assert "hologram" not in str(loaded.items)
