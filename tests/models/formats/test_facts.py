"""Facts about a model: the user's settings, the server's word, the catalogue, an assumption; and where a server is."""

import asyncio
import json

import pytest

from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.settings import Settings
from teamwright.models.endpoint import clean_base_url, query_of
from teamwright.models.model import Reply, Request, price_usage
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import key_variables, resolve_model, source
from teamwright.models.request_prefix import build_prefix
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.usage import Usage
from teamwright.testing.model_server import LoopbackModel
from teamwright.views.model_catalog import listed_models, model_catalog
from tests.models.conftest import user
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("M11")
KEY = {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
ENGINES = {
    "vLLM": {"models": [{"id": "m", "max_model_len": 8_000}]},
    "llama.cpp": {
        "facts": {
            "/props": {
                "default_generation_settings": {"n_ctx": 8_000},
                "modalities": {"vision": False},
                "chat_template_caps": {"supports_tools": False},
            }
        }
    },
    "Ollama": {
        "facts": {
            "/api/show": {"capabilities": ["completion"], "parameters": 'num_ctx    8000\nstop "x"', "model_info": {}},
            "/api/ps": {"models": []},
        }
    },
    "Ollama, loaded": {
        "facts": {
            "/api/show": {"capabilities": ["completion"], "parameters": "num_ctx 9000"},
            "/api/ps": {"models": [{"name": "m:latest", "context_length": 8_000}]},
        }
    },
    "LM Studio": {
        "facts": {
            "/api/v0/models": {
                "data": [{"id": "m", "type": "llm", "loaded_context_length": 8_000, "capabilities": ["other"]}]
            }
        }
    },
}


def said(**given):
    """The models' settings of a settings file."""
    return model_settings(Settings(models=given))


def house(url, **more):
    return {"house": {"base_url": url, "api": "openai-chat", **more}}


async def opened(url, name="house/m", **given):
    async with ModelPool() as pool:
        return (await pool.open_model(name, {}, said(**{"providers": house(url)} | given))).card


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_server_of_the_users_own_is_asked_once_in_the_words_of_its_engine(engine):
    async with asyncio.timeout(WAIT_S), LoopbackModel(**ENGINES[engine]) as server:
        card = await opened(server.url)
        asked = len(server.requests)
        async with ModelPool() as pool:
            model = await pool.open_model("house/m", {}, said(providers=house(server.url)))
            prefix = build_prefix(model.card, ModelSettings(), [], [])
            for _ in range(3):
                assert isinstance([p async for p in model.stream(Request(prefix, [user()], "ada"))][-1], Reply)
    assert (card.context_tokens, source(card, "context_tokens")) == (8_000, "the server")
    assert len([r for r in server.requests if r.wire is None]) == 2 * asked, "once for each time it is opened"
    if engine != "vLLM":
        assert (card.tools, source(card, "tools")) == (False, "the server")
        assert engine == "llama.cpp" or not card.images


async def test_the_more_specific_word_wins_and_each_fact_has_its_source():
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=[{"id": "m", "max_model_len": 8_000}]) as server:
        of_model = {"house/m": {"context_tokens": 6_000, "usd_in": 0, "usd_out": 0, "images": False}}
        of_provider = house(server.url, context_tokens=7_000, max_output_tokens=900, usd_in=1, usd_out=2)
        card = await opened(server.url, providers=of_provider, models=of_model, context_tokens=5_000)
        assert (card.context_tokens, source(card, "context_tokens")) == (6_000, "settings: models")
        assert (card.max_output_tokens, source(card, "max_output_tokens")) == (900, "settings: providers")
        assert (card.usd_in, card.images, source(card, "price")) == (0, False, "settings: models")
        card = await opened(server.url, providers=of_provider, context_tokens=5_000)
        assert (card.context_tokens, card.usd_out) == (7_000, 2)
        card = await opened(server.url, context_tokens=5_000)
        assert (card.context_tokens, source(card, "context_tokens")) == (5_000, "settings: context_tokens")
        card = await opened(server.url)
        assert (card.context_tokens, source(card, "max_output_tokens")) == (8_000, "assumed")


def test_a_window_that_is_set_for_a_local_model_does_not_shrink_a_cloud_lead():
    settings = said(context_tokens=8_000)
    assert resolve_model("sonnet", KEY, settings)[0].context_tokens == 1_000_000
    assert resolve_model("ollama/qwen3", {}, settings)[0].context_tokens == 8_000
    smaller = said(models={"anthropic/claude-sonnet-5-5": {"context_tokens": 200_000}})
    assert resolve_model("sonnet", KEY, smaller)[0].context_tokens == 200_000


def test_a_price_of_0_is_a_price():
    card = resolve_model("house/m", {}, said(providers=house("http://127.0.0.1:1", usd_in=0, usd_out=0)))[0]
    assert price_usage(card, Usage(1_000_000, 1_000_000, requests=1)).usd == 0.0


def test_sampling_and_one_call_at_a_time_go_with_each_request_in_every_format():
    sampling = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
    settings = said(providers=house("http://127.0.0.1:1", parallel=False), models={"house/m": {"sampling": sampling}})
    card = resolve_model("house/m", {}, settings)[0]
    fields = json.loads(b"{" + build_prefix(card, settings, [], [TOOL]).head + b"}")
    assert {name: fields[name] for name in sampling} == sampling
    assert fields["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(
    ("api", "found"),
    [
        ("openai-chat", lambda body: body),
        ("openai-responses", lambda body: body),
        ("gemini", lambda body: body["generationConfig"]),
        ("bedrock", lambda body: body["inferenceConfig"] | body["additionalModelRequestFields"]),
        ("messages", lambda body: body),
    ],
)
async def test_sampling_parameters_have_their_place_in_each_format(speaking, client, api, found):
    sampling = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
    speak = (lambda _, url: client(url)) if api == "messages" else speaking
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, speak(api, server.url) as caller:
        await caller.ask(**sampling)
    sent = found(server.bodies[0])
    assert [sent.get("temperature"), sent.get("top_p", sent.get("topP")), sent.get("top_k", sent.get("topK"))] == [
        0.7,
        0.8,
        20,
    ]


async def test_headers_and_query_of_the_settings_go_with_every_request():
    more = {"headers": {"X-Team": "blue ${TEAM_TOKEN}"}, "query": {"api-version": "2024-10-21"}}
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        settings = said(providers=house(server.url, **more))
        model = await pool.open_model("house/m", {"TEAM_TOKEN": "tok-0123456789"}, settings)
        prefix = build_prefix(model.card, settings, [], [])
        assert isinstance([p async for p in model.stream(Request(prefix, [user()], "ada"))][-1], Reply)
    assert {r.headers["x-team"] for r in server.requests} == {"blue tok-0123456789"}
    assert {r.path.partition("?")[2] for r in server.requests} == {"api-version=2024-10-21"}
    assert "TEAM_TOKEN" in key_variables(settings), "agents' commands do not see it"
    assert "0123456789" not in repr(model.endpoint) + model.endpoint.scrub("no: blue tok-0123456789")
    with pytest.raises(CannotStart, match="TEAM_TOKEN"):
        resolve_model("house/m", {}, settings)


async def test_a_preset_has_a_host_of_the_users_own():
    settings = said(providers={"lmstudio": {"base_url": "http://10.0.0.7:1234/v1", "key_env": "LM_KEY"}})
    card, endpoint = resolve_model("lmstudio/m", {"LM_KEY": "k-0123456789"}, settings)
    assert (endpoint.base_url, endpoint.credential, card.usd_in) == ("http://10.0.0.7:1234", "k-0123456789", 0.0)
    with pytest.raises(CannotStart, match="speaks messages"):
        said(providers={"lmstudio": {"api": "openai-chat"}})


async def test_a_server_gets_no_more_requests_at_once_than_its_limit():
    running, most = 0, 0

    async def answer(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return "Yes."

    async with asyncio.timeout(WAIT_S), LoopbackModel(answer) as server, ModelPool() as pool:
        settings = said(providers=house(server.url, requests=2))
        model = await pool.open_model("house/m", {}, settings)
        prefix = build_prefix(model.card, settings, [], [])

        async def ask(number):
            request = Request(prefix, [user(f"{number}")], f"a{number}")
            return [part async for part in model.stream(request)][-1]

        answers = await asyncio.gather(*map(ask, range(7)))
    assert all(isinstance(answer, Reply) for answer in answers)
    assert most == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"providers": {"house": {"base_url": "http://h", "heders": {}}}}, "did you mean headers"),
        ({"providers": {"house": {}}}, "base_url is missing"),
        ({"models": {"house/m": {"context_tokens": -1}}}, "context_tokens must be a whole number above 0"),
        ({"models": {"house/m": {"usd_in": 1}}}, "belong together"),
        ({"models": {"house/m": {"sampling": {"stop": ["x"]}}}}, "sampling must be an object"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(given, words):
    with pytest.raises(CannotStart, match=words):
        said(**given)


async def test_the_lists_of_models_tell_the_sources():
    settings = said(models={"ollama/qwen3": {"context_tokens": 40_000}})
    rows = {row.name: row for row in model_catalog(settings, KEY).models}
    assert rows["ollama/qwen3"].sources["context_tokens"] == "settings: models"
    assert rows["claude-sonnet-5-5"].sources == dict.fromkeys(
        ["context_tokens", "max_output_tokens", "price"], "the catalogue"
    )
    listed = [{"id": "m", "max_model_len": 8_000}]
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=listed) as server:
        [row] = await listed_models("house", said(providers=house(server.url)), {})
    assert (row.context_tokens, row.sources["context_tokens"]) == (8_000, "the server")


@pytest.mark.finding("M15")
@pytest.mark.parametrize(
    ("given", "api", "url"),
    [
        ("http://h:8000/v1/chat/completions", "openai-chat", "http://h:8000/v1"),
        ("http://h:8000/v1/responses/", "openai-responses", "http://h:8000/v1"),
        ("http://h:8000/v1/models", "openai-chat", "http://h:8000/v1"),
        ("http://h:8000/v1?key=x", "openai-chat", "http://h:8000/v1"),
        ("https://h/anthropic/v1/messages", "messages", "https://h/anthropic"),
        ("https://h/v1/messages?beta=true", "messages", "https://h"),
        ("https://g.example/v1", "gemini", "https://g.example"),
        ("https://g.example/v1beta/models/x:streamGenerateContent?alt=sse", "gemini", "https://g.example"),
        ("https://b.example/model/x/converse-stream", "bedrock", "https://b.example"),
        ("https://r.openai.azure.com", "openai-responses", "https://r.openai.azure.com/openai/v1"),
        ("https://r.openai.azure.com/openai/v1/", "openai-chat", "https://r.openai.azure.com/openai/v1"),
        (
            "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "openai-chat",
            "https://r.openai.azure.com/openai/deployments/d",
        ),
    ],
)
def test_an_address_that_was_pasted_with_its_path_is_the_address_of_the_service(given, api, url):
    assert clean_base_url(given, api) == url


@pytest.mark.finding("M15")
def test_azure_is_called_in_both_documented_forms():
    old = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
    env = {"AZURE_OPENAI_API_KEY": "k-0123456789"}
    providers = {"azure": {"base_url": old, "api": "openai-chat", "key_env": "AZURE_OPENAI_API_KEY"}}
    endpoint = resolve_model("azure/d", env, said(providers=providers))[1]
    assert query_of(old) == "api-version=2024-10-21"
    assert endpoint.url("/chat/completions") == old
    assert ("api-key", "k-0123456789") in endpoint.headers()
    providers["azure"] |= {"base_url": "https://r.openai.azure.com", "bearer": True}
    endpoint = resolve_model("azure/d", env, said(providers=providers))[1]
    assert endpoint.url("/chat/completions") == "https://r.openai.azure.com/openai/v1/chat/completions"
    assert ("authorization", "Bearer k-0123456789") in endpoint.headers()
