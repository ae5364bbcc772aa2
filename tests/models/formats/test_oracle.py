"""The vendors' own SDKs as oracles: what our server says is what they read, and what we send is what they would."""

import asyncio
import json
from datetime import UTC, datetime
from urllib.parse import quote

import botocore.session
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.models.model import Prefix, Reply, Request
from teamwright.models.providers.api_format import OutgoingRequest
from teamwright.models.providers.bedrock import AwsKeys, sign_request
from teamwright.protocol.messages import encode, text_block, tool_result_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.examples import examples
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3")

ARGUMENTS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8"), max_size=40),
    max_size=3,
)
ANSWERS = st.builds(
    Answer,
    st.text(st.characters(codec="utf-8"), max_size=90).map(lambda text: f"a{text}"),
    st.lists(st.tuples(st.sampled_from(["Read", "Bash"]), ARGUMENTS), max_size=3),
    usage=st.fixed_dictionaries(
        {"input_tokens": st.integers(1, 9**6), "output_tokens": st.integers(1, 9**5)},
        optional={"cache_read_input_tokens": st.integers(0, 9**6)},
    ),
)
FEW = settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}}


@pytest.fixture(scope="module")
def served():
    """A server that gives the same answer again and again, until told otherwise."""
    holder = {}
    with LoopbackModel.in_thread(lambda _: holder["reply"]) as server:
        yield server, holder


def sdk(name):
    """Import a SDK: every worker collects this module, and only the one that runs it takes seconds for the import."""
    return pytest.importorskip(name, reason=f"the SDK {name} is not installed: pip install -e '.[dev]'")


@pytest.fixture(scope="module")
def gpt(served):
    with sdk("openai").OpenAI(api_key="key", base_url=f"{served[0].url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def gemini(served):
    return sdk("google.genai").Client(api_key="key", http_options={"base_url": served[0].url, "api_version": "v1beta"})


@pytest.fixture(scope="module")
def converse(served):
    keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret"}
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=20)
    session = botocore.session.Session()
    return session.create_client("bedrock-runtime", "eu-central-1", endpoint_url=served[0].url, config=config, **keys)


async def ours(speaking, api, url):
    async with asyncio.timeout(WAIT_S), speaking(api, url) as c:
        return (await c.ask()).last


def told(reply):
    """Text, calls and counts of a reply of ours."""
    assert isinstance(reply, Reply), reply
    text = "".join(b["text"] for b in reply.content if b["type"] == "text")
    calls = [(b["name"], b["input"]) for b in reply.content if b["type"] == "tool_use"]
    return (
        text,
        json.loads(json.dumps(calls)),
        (reply.usage.prompt_tokens, reply.usage.cache_read, reply.usage.output_tokens),
    )


@FEW
@given(ANSWERS)
@pytest.mark.slow
def test_chat_completions_are_read_as_their_sdk_reads_them(served, gpt, speaking, answer):
    served[1]["reply"] = answer
    message = {"role": "user", "content": "x"}
    stream = gpt.chat.completions.stream(model="test", messages=[message], stream_options={"include_usage": True})
    with stream as events:
        final = events.get_final_completion()
    said, usage = final.choices[0].message, final.usage
    calls = [[c.function.name, json.loads(c.function.arguments)] for c in said.tool_calls or ()]
    counts = (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens)
    reply = asyncio.run(ours(speaking, "openai-chat", served[0].url))
    assert told(reply) == (said.content, calls, counts)
    assert reply.stop_reason == {"stop": "end_turn", "tool_calls": "tool_use"}[final.choices[0].finish_reason]


@pytest.mark.slow
@FEW
@given(ANSWERS)
def test_responses_are_read_as_their_sdk_reads_them(served, gpt, speaking, answer):
    served[1]["reply"] = answer
    with gpt.responses.stream(model="test", input="x") as events:
        final = events.get_final_response()
    calls = [[item.name, json.loads(item.arguments)] for item in final.output if item.type == "function_call"]
    usage = final.usage
    counts = (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens)
    reply = asyncio.run(ours(speaking, "openai-responses", served[0].url))
    assert told(reply) == (final.output_text, calls, counts)
    assert final.status == "completed"


@FEW
@given(ANSWERS)
@pytest.mark.slow
def test_gemini_is_read_as_its_sdk_reads_it(served, gemini, speaking, answer):
    served[1]["reply"] = answer
    chunks = list(gemini.models.generate_content_stream(model="test", contents="x"))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    text = "".join(part.text for part in parts if part.text)
    calls = [[part.function_call.name, part.function_call.args or {}] for part in parts if part.function_call]
    usage = chunks[-1].usage_metadata
    counts = (usage.prompt_token_count, usage.cached_content_token_count or 0, usage.candidates_token_count)
    reply = asyncio.run(ours(speaking, "gemini", served[0].url))
    assert told(reply) == (text, calls, counts)
    assert chunks[-1].candidates[0].finish_reason.name == "STOP"


@FEW
@given(ANSWERS)
def test_converse_is_read_as_its_sdk_reads_it(served, converse, speaking, answer):
    served[1]["reply"] = answer
    message = {"role": "user", "content": [{"text": "x"}]}
    text, calls, usage, stop = "", {}, {}, ""
    for event in converse.converse_stream(modelId="test", messages=[message])["stream"]:
        [(kind, said)] = event.items()
        if kind == "contentBlockStart":
            calls[said["contentBlockIndex"]] = [said["start"]["toolUse"]["name"], ""]
        elif kind == "contentBlockDelta":
            text += said["delta"].get("text", "")
            if "toolUse" in said["delta"]:
                calls[said["contentBlockIndex"]][1] += said["delta"]["toolUse"]["input"]
        elif kind == "metadata":
            usage = said["usage"]
        elif kind == "messageStop":
            stop = said["stopReason"]
    counts = (
        usage["inputTokens"] + usage["cacheReadInputTokens"],
        usage["cacheReadInputTokens"],
        usage["outputTokens"],
    )
    reply = asyncio.run(ours(speaking, "bedrock", served[0].url))
    assert told(reply) == (text, [[name, json.loads(given)] for name, given in calls.values()], counts)
    assert reply.stop_reason == stop


PATHS = st.text(
    st.characters(codec="ascii", categories=["L", "N"], include_characters=":.-_~ +=&"), min_size=1, max_size=30
)


@given(PATHS, st.binary(max_size=50), st.text("abcXYZ012/+=", max_size=20))
def test_a_signature_is_the_one_that_the_sdk_makes(model, body, token):
    url = f"https://bedrock-runtime.eu-central-1.amazonaws.com/model/m{quote(model, safe='')}/converse-stream"
    moment = datetime(2026, 11, 21, 12, 36, 5, tzinfo=UTC)
    mine = dict(
        sign_request(OutgoingRequest(url, [], body), AwsKeys("AKID", "secret/+x", token), "eu-central-1", at=moment)
    )
    names = ("x-amz-date", "x-amz-security-token")
    request = AWSRequest("POST", url, {name: mine[name] for name in names if name in mine}, body)
    request.context["timestamp"] = mine["x-amz-date"]
    oracle = SigV4Auth(Credentials("AKID", "secret/+x", token or None), "bedrock", "eu-central-1")
    signature = oracle.signature(oracle.string_to_sign(request, oracle.canonical_request(request)), request)
    assert mine["authorization"].endswith(f"Signature={signature}")


def conversation():
    return [
        encode({"role": "user", "content": [text_block("Hi")]}),
        encode(
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "x"}}]}
        ),
        encode({"role": "user", "content": [tool_result_block("c1", "there")]}),
    ]


async def test_a_request_is_what_the_sdk_of_bedrock_would_send(served, converse, speaking):
    """Its own model of the service refuses what it does not know: our body, given to it, comes out the same."""
    served[1]["reply"] = Answer("x")
    async with asyncio.timeout(WAIT_S), speaking("bedrock", served[0].url) as c:
        prefix = Prefix.build({"model": "test", "max_tokens": 9, "system": [text_block("Be.")], "tools": [TOOL]})
        assert isinstance([part async for part in c.model.stream(Request(prefix, conversation()))][-1], Reply)
    mine = served[0].requests[-1].json
    await asyncio.to_thread(lambda: list(converse.converse_stream(modelId="test", **mine)["stream"]))
    assert served[0].requests[-1].json == mine
    assert served[0].requests[-1].path == served[0].requests[-2].path


async def test_a_request_is_what_the_sdk_of_gemini_takes(served, gemini, speaking):
    served[1]["reply"] = Answer("x")
    async with asyncio.timeout(WAIT_S), speaking("gemini", served[0].url) as c:
        prefix = Prefix.build({"model": "test", "max_tokens": 9, "system": [text_block("Be.")], "tools": [TOOL]})
        assert isinstance([part async for part in c.model.stream(Request(prefix, conversation()))][-1], Reply)
    mine = served[0].requests[-1]
    types = sdk("google.genai.types")
    contents = [types.Content.model_validate(content) for content in mine.json["contents"]]
    config = types.GenerateContentConfig(
        system_instruction=types.Content.model_validate(mine.json["systemInstruction"]),
        tools=[types.Tool.model_validate(tool) for tool in mine.json["tools"]],
        max_output_tokens=9,
    )

    def ask():
        return list(gemini.models.generate_content_stream(model="test", contents=contents, config=config))

    await asyncio.to_thread(ask)
    theirs = served[0].requests[-1]
    assert theirs.path == mine.path
    assert plain(theirs.json["contents"]) == plain(mine.json["contents"])
    spelt = json.dumps(theirs.json["tools"]).replace("parameters_json_schema", "parametersJsonSchema")
    assert json.loads(spelt) == mine.json["tools"], "Google's JSON takes both spellings; the documented one is ours"
    assert theirs.json["generationConfig"] == mine.json["generationConfig"]


def plain(contents):
    """Contents without their signatures: bytes, which two sides may spell differently in base64."""
    return [
        {**content, "parts": [{k: v for k, v in part.items() if k != "thoughtSignature"} for part in content["parts"]]}
        for content in contents
    ]


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses"])
async def test_a_request_is_what_the_sdk_of_openai_would_send(served, gpt, speaking, api):
    served[1]["reply"] = Answer("x")
    async with asyncio.timeout(WAIT_S), speaking(api, served[0].url) as c:
        prefix = Prefix.build({"model": "test", "max_tokens": 9, "system": [text_block("Be.")], "tools": [TOOL]})
        assert isinstance([part async for part in c.model.stream(Request(prefix, conversation()))][-1], Reply)
    mine = served[0].requests[-1].json
    create = gpt.chat.completions.create if api == "openai-chat" else gpt.responses.create
    await asyncio.to_thread(lambda: list(create(**mine)))
    assert served[0].requests[-1].json == mine
