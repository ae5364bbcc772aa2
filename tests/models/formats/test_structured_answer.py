"""An answer that must fit a schema: each wire bounds it in its own way, and words are the last way."""

import asyncio
import json
from typing import TypedDict

import pytest

from teamwright import Team
from teamwright.models.structured_answer import ANSWER_TOOL
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.models.formats.strict_service import violations
from tests.support.waits import WAIT_S

FORMATS = ["messages", "openai-chat", "openai-responses", "gemini", "bedrock"]


class Count(TypedDict):
    count: int


@pytest.fixture
def speaks(speaking, client):
    return lambda api, url, **more: client(url, **more) if api == "messages" else speaking(api, url, **more)


@pytest.fixture
def run(speaks, tmp_path):
    """The result of a run that must end with this type, and the server."""

    async def one(api, script, output_type=Count):
        async with (
            asyncio.timeout(WAIT_S),
            LoopbackModel(script) as server,
            speaks(api, server.url) as caller,
            Team("crew", model=caller.model, cwd=tmp_path, env={}, output_type=output_type) as team,
        ):
            return await team.run("Count."), server

    return one


def bound(api, body):
    """The schema by which a request bounds its answer."""
    match api:
        case "messages":
            assert body["tool_choice"] == {"type": "tool", "name": ANSWER_TOOL}
            [tool] = body["tools"]
            return tool["input_schema"]
        case "bedrock":
            assert body["toolConfig"]["toolChoice"] == {"tool": {"name": ANSWER_TOOL}}
            return body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]
        case "openai-chat":
            assert body["response_format"]["type"] == "json_schema" and "tools" not in body
            return body["response_format"]["json_schema"]["schema"]
        case "openai-responses":
            assert body["text"]["format"]["type"] == "json_schema" and "tools" not in body
            return body["text"]["format"]["schema"]
    assert body["generationConfig"]["responseMimeType"] == "application/json" and "tools" not in body
    return body["generationConfig"]["responseJsonSchema"]


def good(api, value):
    """The answer of a service that keeps the bound."""
    return Answer("", [(ANSWER_TOOL, value)]) if api in ("messages", "bedrock") else Answer(json.dumps(value))


@pytest.mark.parametrize("api", FORMATS)
async def test_the_second_request_is_bounded_by_the_service(run, api):
    result, server = await run(api, ["There are three.", good(api, {"count": 3})])
    assert (result.exit_code, result.output, result.text) == (0, {"count": 3}, '{"count": 3}')
    _, second = server.bodies
    schema = bound(api, second)
    assert (schema["type"], schema["required"]) == ("object", ["count"])
    assert "it is not JSON" in json.dumps(second), "the words say why, too"
    assert not violations(api, second)
    assert result.usage.requests == 2


@pytest.mark.parametrize("api", FORMATS)
async def test_a_value_that_is_no_object_is_put_into_one_and_taken_out(run, api):
    result, server = await run(api, ["Three.", good(api, {"value": [1, 2]})], list[int])
    assert (result.exit_code, result.output) == (0, [1, 2])
    assert bound(api, server.bodies[1])["properties"]["value"]["type"] == "array"


@pytest.mark.parametrize("api", FORMATS)
async def test_words_are_the_last_way_for_a_service_that_refuses_the_bound(run, api):
    result, server = await run(api, ["Three.", Status(400, "response_format is not supported"), '{"count": 3}'])
    assert (result.exit_code, result.output) == (0, {"count": 3})
    third = json.dumps(server.bodies[2])
    assert "it is not JSON" in third and "responseJsonSchema" not in third and ANSWER_TOOL not in third


@pytest.mark.parametrize("api", FORMATS)
async def test_a_service_that_ignores_the_bound_is_read_all_the_same(run, api):
    result, server = await run(api, ["Three.", '{"count": 3}'])
    assert (result.exit_code, result.output, len(server.bodies)) == (0, {"count": 3}, 2)


@pytest.mark.parametrize("is_local", [True, False])
async def test_a_server_of_the_user_gets_the_bound_on_the_responses_wire_as_llamacpp_reads_it_too(speaking, is_local):
    schema = {"type": "object", "properties": {}}
    output = {"format": {"type": "json_schema", "schema": schema}}
    async with LoopbackModel(["{}"]) as server, speaking("openai-responses", server.url, is_local=is_local) as caller:
        await caller.ask(output_config=output)
    [body] = server.bodies
    assert body["text"]["format"]["schema"] == schema
    assert ("response_format" in body) == is_local
