"""A service that refuses the schema of one tool: the tool is found, left out with a notice, and the work continues."""

import asyncio
from pathlib import Path

import pytest

from teamwright.agent.conversation import UserMessage
from teamwright.agent.refused_tools import MAX_TRIES
from teamwright.agent.turn_loop import run_turn
from teamwright.models.endpoint import Endpoint, Signing
from teamwright.models.model import BudgetRefusal, ModelCard
from teamwright.models.model_pool import format_for
from teamwright.models.model_settings import ModelSettings
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.request_prefix import build_prefix
from teamwright.models.service_model import ServiceModel
from teamwright.protocol.events import Notice
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from teamwright.testing.recordings import load_recording
from tests.agent.parts import Echo, Free, an_agent
from tests.support.waits import WAIT_S

REFUSAL = load_recording(
    Path(__file__).parents[1] / "models" / "recordings" / "llamacpp-b11434-mcp-true-schema.400.json"
)
WIRES = {
    "messages": {},
    "openai-chat": {"auth": "bearer"},
    "openai-responses": {"auth": "bearer"},
    "gemini": {"auth": "x-goog-api-key"},
    "bedrock": {"auth": "signed", "signing": Signing("eu-central-1", "AKIATESTACCESSKEY")},
}


class Foreign(Echo):
    """A tool of an MCP server."""

    def __init__(self, name):
        super().__init__()
        self.name, self.origin = f"mcp__kv__{name}", 'the MCP server "kv"'


def refusing(*names, words=(), refusal=REFUSAL):
    """A service that refuses requests that have one of these tools, or one of these words."""

    def reply(body):
        text = str(body)
        return refusal if any(name in text for name in (*(f"mcp__kv__{n}" for n in names), *words)) else Answer("Done.")

    return reply


def agent_prefix(agent):
    return build_prefix(agent.model.card, ModelSettings(), [text_block("You are Ada.")], agent.toolbox.schemas)


async def turn(tmp_path, api, script, tools, between=lambda agent: None, meter=None):
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        url = f"{server.url}/v1" if api.startswith("openai") else server.url
        endpoint = Endpoint("custom", url, "sk-test-0123456789", key_name="KEY", api=api, **WIRES[api])
        card = ModelCard("custom/test", "test", "custom", usd_in=1.0, usd_out=1.0)
        settings = ModelSettings(retries=1, backoff_s=0.001)
        model = ServiceModel(
            card, endpoint, rate_limiter=RateLimiter(), settings=settings, api_format=format_for(card, endpoint)
        )
        agent, events = an_agent(tmp_path, model, tools)
        agent.meter = meter or agent.meter
        agent.conversation.replace_prefix(agent_prefix(agent))
        ends = [await run_turn(agent, UserMessage((text_block("hello"),)))]
        between(agent)
        ends.append(await run_turn(agent, UserMessage((text_block("go on"),))))
        await model.aclose()
    return ends, [event.text for event in events if isinstance(event, Notice)], server


@pytest.mark.parametrize("api", WIRES)
async def test_the_tool_whose_schema_is_refused_is_left_out_with_a_notice_that_names_it_and_its_server(tmp_path, api):
    tools = [Echo(), *(Foreign(f"tool{number}") for number in range(9))]
    ends, notices, server = await turn(tmp_path, api, refusing("tool6"), tools)
    assert [(end.stop, end.text) for end in ends] == [("done", "Done."), ("done", "Done.")]
    assert notices == ['custom/test refuses the schema of mcp__kv__tool6 of the MCP server "kv": the tool is left out']
    last = server.requests[-1].body.decode()
    assert "mcp__kv__tool6" not in last and "mcp__kv__tool5" in last and '"Echo"' in last
    assert len(server.bodies) < 13, "the first request, a search in halves, and two answers"
    assert ends[0].usage.requests > 3, "what the search used is counted"


async def test_a_refusal_of_a_schema_with_status_500_is_no_reason_to_try_again(tmp_path):
    grammar = (
        b'{"error":{"code":500,"message":"JSON schema conversion failed: Unrecognized schema","type":"server_error"}}'
    )
    script = refusing("tool1", refusal=Status(500, body=grammar))
    ends, [notice], server = await turn(tmp_path, "openai-chat", script, [Foreign("tool0"), Foreign("tool1")])
    assert ends[-1].stop == "done" and "mcp__kv__tool1" in notice
    assert len(server.bodies) == 6, "one request, a search, two answers"


async def test_a_new_prefix_that_has_the_tool_again_costs_no_second_search(tmp_path):
    tools = [Foreign(f"tool{number}") for number in range(4)]
    whole = []

    def again(agent):
        """As after a compaction."""
        whole.append(len(agent.toolbox.schemas))
        agent.conversation.replace_prefix(agent_prefix(agent))

    ends, notices, server = await turn(tmp_path, "openai-chat", refusing("tool2"), tools, between=again)
    assert [end.stop for end in ends] == ["done", "done"] and whole == [4]
    assert len(notices) == 1
    last_two = [body.decode() for body in (server.requests[-2].body, server.requests[-1].body)]
    assert ["mcp__kv__tool2" in body for body in last_two] == [True, False]


async def test_several_refused_tools_are_all_found(tmp_path):
    tools = [Foreign(f"tool{number}") for number in range(8)]
    ends, notices, server = await turn(tmp_path, "openai-chat", refusing("tool1", "tool4", "tool5"), tools)
    assert ends[-1].stop == "done"
    assert [notice.split()[5] for notice in notices] == ["mcp__kv__tool1", "mcp__kv__tool4", "mcp__kv__tool5"]
    assert len(server.bodies) <= MAX_TRIES + 3


async def test_a_refusal_for_another_reason_costs_one_try_once(tmp_path):
    tools = [Echo(), *(Foreign(f"tool{number}") for number in range(9))]
    ends, notices, server = await turn(tmp_path, "openai-chat", refusing(words=["You are Ada."]), tools)
    assert [end.stop for end in ends] == ["failed", "failed"]
    assert not notices and len(server.bodies) == 3
    assert "schema must be an object" in ends[0].failure.sentence


async def test_a_cap_that_is_used_up_ends_the_search(tmp_path):
    charged = []

    class Capped(Free):
        async def charge(self, usage):
            charged.append(usage.tokens)
            return BudgetRefusal("money", "") if len(charged) == 3 else None

    tools = [Foreign(f"tool{number}") for number in range(9)]
    ends, notices, server = await turn(tmp_path, "openai-chat", refusing("tool6"), tools, meter=Capped())
    assert (ends[0].stop, ends[0].limit) == ("limit", "money") and not notices
    assert len(server.bodies) == 5, "a refused request, three tries, and the request of the second turn"
    assert charged == sorted(charged) and charged[2] > 0, "what the tries used so far"


async def test_without_tools_of_other_makers_nothing_is_tried(tmp_path):
    ends, _, server = await turn(tmp_path, "openai-chat", refusing(words=["Echo"]), [Echo()])
    assert [end.stop for end in ends] == ["failed", "failed"]
    assert len(server.bodies) == 2
