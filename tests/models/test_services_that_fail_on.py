"""Services that fail for ever, are silent, or go on after the end of an answer: what a call takes, and how long."""

import asyncio

import pytest

from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import Failure, ModelCard, Reply, Retrying, is_same_model
from teamwright.protocol.events import Notice
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Raw, Stall, Status
from tests.agent.parts import Echo, an_agent
from tests.agent.test_refused_conversations import agent_at, prompt
from tests.agent.wire_faults import PATHS, events
from tests.support.waits import WAIT_S


@pytest.mark.finding("3L15")
@pytest.mark.parametrize("status", [529, 503, 429])
async def test_a_service_that_fails_for_ever_is_given_up_by_all_agents_and_not_tried_again_later(client, quick, status):
    settings = quick(retries=10_000, backoff_s=0.01, limit_most_s=0.5)
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel([Status(status)]) as server,
        client(server.url, settings=settings) as c,
    ):
        asked = await asyncio.gather(*(c.ask() for _ in range(4)))
        sent = len(server.requests)
        later = await c.ask()
        assert len(server.requests) <= sent + 1, "a call after that is tried once at most"
    for one in [*asked, later]:
        assert isinstance(one.last, Failure)
        assert one.last.retry_after_s is None, "no agent tries again by itself"


@pytest.mark.finding("3L15")
async def test_a_service_that_answers_again_is_tried_as_often_as_before(client, quick):
    settings = quick(retries=5, limit_most_s=30.0)
    script = [Status(529), Answer("One."), Status(529), Status(529), Answer("Two.")]
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, client(server.url, settings=settings) as c:
        for _ in range(2):
            assert isinstance((await c.ask()).last, Reply)
        assert c.model._failing_since is None


@pytest.mark.finding("3L14")
async def test_silence_is_waited_for_until_its_sum_is_reached(client, quick, monkeypatch):
    monkeypatch.setattr("teamwright.models.service_model.STALL_QUIET_S", 0.5)
    settings = quick(retries=100, stall_s=0.2)
    async with asyncio.timeout(WAIT_S), LoopbackModel([Stall(1, pings=False)]) as server:
        async with client(server.url, settings=settings) as c:
            asked = await c.ask()
        assert len(server.requests) == 3
    assert isinstance(asked.last, Failure)
    assert len(asked.of(Retrying)) == 2


@pytest.mark.finding("3L14")
@pytest.mark.parametrize("api", PATHS)
async def test_a_call_after_the_end_of_an_answer_never_runs(tmp_path, api):
    tool = Echo()
    late = Raw([*events(api, Answer("The answer.")), *events(api, Answer("More.", [("Echo", {"text": "late"})]))])
    async with asyncio.timeout(WAIT_S), LoopbackModel([late]) as server, agent_at(tmp_path, api, server) as (agent, _):
        agent.toolbox.set_tools([tool])
        end = await run_turn(agent, prompt("go"))
    assert (end.stop, end.text, end.tool_calls) == ("done", "The answer.", 0)
    assert not tool.started.is_set()


@pytest.mark.finding("3L14")
async def test_a_call_without_a_name_beside_text_is_reported_to_the_model(tmp_path):
    async with asyncio.timeout(WAIT_S):
        nameless = Raw(events("openai-chat", Answer("I call.", [("", {"text": "x"})])))
        async with (
            LoopbackModel([nameless, "Well."]) as server,
            agent_at(tmp_path, "openai-chat", server) as (agent, _),
        ):
            end = await run_turn(agent, prompt("go"))
    assert (end.stop, end.text, end.tool_calls) == ("done", "Well.", 1)
    assert b"There is no tool" in agent.conversation.items[-2]


class Replaced:
    """A model whose gateway answers with another one."""

    card = ModelCard("house/large", "large-4", "house", usd_in=5.0, usd_out=25.0)

    async def stream(self, request):
        yield Reply([text_block("Yes.")], "end_turn", Usage(10, 5, requests=1), "tiny-1")

    async def aclose(self):
        pass


@pytest.mark.finding("3L14")
async def test_another_model_in_the_answer_is_mentioned_once(tmp_path):
    agent, seen = an_agent(tmp_path, Replaced())
    for _ in range(3):
        await run_turn(agent, UserMessage((text_block("go"),)))
    [notice] = [event for event in seen if isinstance(event, Notice)]
    assert "tiny-1" in notice.text
    assert "large-4" in notice.text


@pytest.mark.finding("3L14")
@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("gpt-5", "gpt-5-2026-01-01", True),
        ("eu.anthropic.claude-opus-4", "claude-opus-4", True),
        ("anthropic/claude-opus-4:free", "anthropic/claude-opus-4", True),
        ("models/gemini-3", "gemini-3", True),
        ("m", "", True),
        ("eu.anthropic.claude-3-sonnet-20240229-v1:0", "claude-3-sonnet", True),
        ("mistral-large-latest", "mistral-large-2411", True),
        ("claude-opus-4-0", "claude-opus-4-20250514", True),
        ("gemini-2.5-pro", "models/gemini-2.5-pro-preview-05-06", True),
        ("accounts/fireworks/models/qwen2.5-coder", "qwen2.5-coder", True),
        ("command-r-plus", "command-r-plus-08-2024", True),
        ("claude-opus-4", "claude-haiku-4", False),
        ("claude-opus-4", "claude-opus-4-1-20250805", False),
        ("gpt-5", "gpt-5-mini", False),
        ("gpt-4", "gpt-4o-2024-08-06", False),
        ("gpt-4.1", "gpt-4", False),
        ("m", "mega", False),
        ("llama3:70b", "llama3:8b", False),
        ("gpt-5", "gpt-4o", False),
    ],
)
def test_a_vendor_a_region_a_date_or_an_edition_does_not_make_another_model(asked, answered, same):
    assert is_same_model(asked, answered) is same
