"""A tool call that the service cannot parse: two quick requests, a note to the model, an error that names the model."""

import asyncio
import json
from pathlib import Path

import pytest

from teamwright import Budget, Team
from teamwright.agent.conversation import UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import ENDS, AnswerEnd, Retrying
from teamwright.models.service_error import is_unparsed_call, parse_event_error, parse_http_error
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, ErrorEvent, Status
from teamwright.testing.recordings import load_recording
from tests.agent.parts import Echo, an_agent
from tests.support.waits import WAIT_S

RECORDINGS = Path(__file__).parents[1] / "recordings"
PEG = "The model produced output that does not match the expected peg-native format"
NOTE = ENDS[AnswerEnd.UNPARSED].note
RECORDED = [
    ("messages", "llamacpp-b11434-messages-unparsed.sse"),
    ("openai-chat", "llamacpp-b11434-chat-wrong-type.sse"),
    ("openai-chat", "llamacpp-b11434-chat-unclosed.sse"),
]
FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]
REFUSALS = [
    *((api, load_recording(RECORDINGS / name)) for api, name in RECORDED),
    *((api, Status(500, PEG)) for api in FORMATS),
    *(
        (api, ErrorEvent("server_error", PEG, 1, Answer("I will read it, and then say what it says.")))
        for api in FORMATS
    ),
]


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


@pytest.fixture
def turn(speaks, tmp_path):
    """One turn against a script: its end, the events, the server and the agent."""

    async def run(api, *script):
        async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, speaks(api, server.url) as caller:
            agent, events = an_agent(tmp_path, caller.model, [Echo()])
            return await run_turn(agent, UserMessage((text_block("hello"),))), events, server, agent

    return run


@pytest.mark.parametrize(("api", "refusal"), REFUSALS)
async def test_after_two_tries_the_model_reads_a_note_and_its_next_answer_counts(turn, api, refusal):
    ended, _, server, agent = await turn(api, refusal, refusal, "Done.")
    assert (ended.stop, ended.text, len(server.bodies)) == ("done", "Done.", 3)
    assert NOTE in server.requests[2].body.decode()
    assert NOTE not in server.requests[1].body.decode()
    assert b"tool_use" not in b"".join(agent.conversation.items), "no call is left without a result"


@pytest.mark.parametrize(("api", "refusal"), REFUSALS)
async def test_after_the_note_a_second_failure_ends_the_turn_and_names_the_model(turn, api, refusal):
    ended, _, server, _ = await turn(api, refusal)
    assert (ended.stop, ended.failure.slug, len(server.bodies)) == ("failed", "no-answer", 4)
    assert ended.failure.what.startswith("custom/test wrote a tool call that its service could not parse 2 times")
    assert "made for tools" in ended.failure.do[0]


@pytest.mark.parametrize(("api", "refusal"), REFUSALS)
async def test_each_failed_try_counts_also_where_the_service_says_nothing_of_its_usage(turn, api, refusal):
    ended, _, server, _ = await turn(api, refusal)
    sent = sum(len(request.body) for request in server.requests)
    assert ended.usage.requests == 4
    assert ended.usage.prompt_tokens > sent // 16, "about a quarter of the bytes, less the frame of a request"


async def test_tries_that_fail_use_up_a_cap_on_tokens(tmp_path, speaks):
    script = [Status(500, PEG)]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        speaks("openai-chat", server.url) as caller,
        Team("crew", model=caller.model, cwd=tmp_path, env={}, budget=Budget(tokens=8_000)) as team,
    ):
        result = await team.run("Go.")
    assert (result.stop, result.limit, result.exit_code) == ("limit", "tokens", 4)
    assert 0 < len(server.bodies) < 4


async def test_the_tries_follow_each_other_at_once(speaks, quick):
    """A pause does not help: the service works, and a small model writes something else at once."""
    settings = quick(backoff_s=WAIT_S * 10, backoff_most_s=WAIT_S * 10)
    script = [Status(500, PEG), "Done."]
    async with (
        asyncio.timeout(WAIT_S),
        LoopbackModel(script) as server,
        speaks("openai-chat", server.url, settings=settings) as caller,
    ):
        asked = await caller.ask()
    [retry] = asked.of(Retrying)
    assert (retry.wait_s, retry.is_unavailable) == (0.0, False)
    assert "custom/test wrote a tool call that custom cannot parse" in retry.reason
    assert asked.last.content == [text_block("Done.")]


@pytest.mark.parametrize(
    ("body", "unparsed"),
    [
        ({"error": "error parsing tool call: raw='{\"a\": ', err=unexpected end of JSON input"}, True),
        ({"error": {"code": 500, "message": "Failed to parse input at pos 395: <|tool_call_start|>[x]"}}, True),
        ({"error": {"code": "tool_use_failed", "message": "Failed to call a function. Please adjust …"}}, True),
        ({"message": "Model produced invalid sequence as part of ToolUse."}, True),
        ({"error": {"code": 500, "message": "Internal error", "type": "server_error"}}, False),
        (json.loads((RECORDINGS / "llamacpp-b11434-mcp-true-schema.400.json").read_bytes()), False),
        (json.loads((RECORDINGS / "llamacpp-b11434-context-size.400.json").read_bytes()), False),
    ],
)
def test_the_words_of_several_servers_are_known(body, unparsed):
    data = json.dumps(body).encode()
    assert is_unparsed_call(parse_http_error(500, {}, data)) == unparsed
    assert is_unparsed_call(parse_event_error(data, "")) == unparsed
