"""A server on this machine: what it tells of its window and its models, and what the person is told to type."""

import asyncio
import json

import pytest

from teamwright.models.local_servers import find_local_servers, widen_command
from teamwright.models.model import Failure, Reply, Request, Retrying
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_server_queries import ServerFacts
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import resolve_model
from teamwright.models.request_prefix import build_prefix
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, CutPrompt, Status
from tests.models.conftest import quick, user
from tests.support.waits import WAIT_S

NAME = "ollama/qwen3-coder:30b"


async def asked(model, *items, system="", asker="ada"):
    prefix = build_prefix(model.card, quick(), [text_block(system)] if system else [], [])
    return [part async for part in model.stream(Request(prefix, items or [user()], asker))][-1]


@pytest.fixture
def told(monkeypatch):
    """What a server says of its window; it may be changed, and is counted."""
    said = {"window": None, "asked": 0}

    def ask_server(endpoint, wire, *, within_s=0.3):
        said["asked"] += 1
        return ServerFacts(said["window"])

    monkeypatch.setattr("teamwright.models.model_server_queries.ask_server", ask_server)
    return said


@pytest.mark.promise("K2")
async def test_a_window_that_is_known_only_once_the_model_is_loaded_is_learned_from_the_first_answer(told):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
        assert model.card.context_tokens == 32_768
        told["window"] = 65_536
        assert isinstance(await asked(model), Reply)
        assert model.card.context_tokens == 65_536
        asks = told["asked"]
        await asked(model)
        assert told["asked"] == asks


async def test_a_server_that_never_tells_is_asked_a_few_times_only(told):
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
        for _ in range(8):
            await asked(model)
    assert told["asked"] == 4


async def test_a_window_by_the_users_own_word_is_kept(told):
    told["window"] = 4096
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick(context_tokens=50_000))
        await asked(model)
    assert model.card.context_tokens == 50_000
    assert told["asked"] == 1, "once, for what the user did not say"


@pytest.mark.promise("K3")
async def test_the_first_prompt_that_was_cut_is_found_out_and_not_answered(told):
    small = LoopbackModel([CutPrompt(4096)])
    async with asyncio.timeout(WAIT_S), small as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
        told["window"] = 4096
        failure = await asked(model, system="word " * 4000)
    assert isinstance(failure, Failure)
    assert failure.slug == "window-too-small"
    assert "stop the one that runs first" in failure.do[0]


@pytest.mark.promise("K3")
async def test_what_cannot_fit_is_not_sent_until_the_server_has_a_larger_window(told):
    told["window"] = 4096
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
        failure = await asked(model, system="word " * 4000)
        assert isinstance(failure, Failure)
        assert (failure.slug, server.bodies) == ("window-too-small", [])
        assert failure.do[0].startswith("OLLAMA_CONTEXT_LENGTH=65536 ollama serve")
        told["window"] = 65_536  # started anew
        assert isinstance(await asked(model, system="word " * 4000), Reply)
    assert model.card.context_tokens == 65_536


def test_an_answer_has_an_eighth_or_a_quarter_of_a_small_window():
    for window, most in ((8_192, 1_024), (32_768, 8_192), (200_000, 8_192)):
        card, _ = resolve_model(NAME, {}, ModelSettings(context_tokens=window))
        assert json.loads(b"{" + build_prefix(card, ModelSettings(), [], []).head + b"}")["max_tokens"] == most


@pytest.mark.promise("K3")
async def test_a_model_that_is_not_there_is_answered_with_those_that_are():
    listed = ["qwen3-coder:30b", "gpt-oss:20b"]
    async with asyncio.timeout(WAIT_S), LoopbackModel([Status(404)], models=listed) as server, ModelPool() as pool:
        model = await pool.open_model("ollama/qwen3-coder", {"OLLAMA_HOST": server.url}, quick())
        failure = await asked(model)
    assert ("it has", "qwen3-coder:30b, gpt-oss:20b") in failure.looked_at
    assert failure.do == ("did you mean ollama/qwen3-coder:30b?", "ollama pull qwen3-coder")


@pytest.mark.promise("K3")
async def test_a_server_without_a_model_is_one_all_the_same():
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=[]) as server:
        server._model_list = lambda: None  # as Ollama writes an empty list
        (found,) = await asyncio.to_thread(find_local_servers, {"OLLAMA_HOST": server.url}, within_s=WAIT_S)
        with pytest.raises(CannotStart) as caught:
            await asyncio.to_thread(resolve_model, None, {"OLLAMA_HOST": server.url}, ModelSettings())
    assert str(found).endswith(": no models")
    assert "ollama pull MODEL, then teamwright --model ollama/MODEL" in caught.value.do


async def test_a_server_that_never_could_run_the_model_is_not_asked_ten_times():
    poor = LoopbackModel([Status(500, "model requires more memory")])
    async with asyncio.timeout(WAIT_S), poor as server, ModelPool() as pool:
        failure = await asked(await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick()))
    assert ("it said", "model requires more memory") in failure.looked_at
    assert len(server.bodies) == 3


async def test_one_that_still_loads_or_that_has_answered_before_is_waited_for():
    for script in ([Status(503)] * 5 + [Answer("Yes.")], [Answer("Yes.")] + [Status(500)] * 5 + [Answer("Yes.")]):
        async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server, ModelPool() as pool:
            model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
            await asked(model)
            assert isinstance(await asked(model), Reply)


@pytest.mark.promise("K3")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ollama", ('"ollama" names no model', "teamwright models ollama")),
        ("olama/qwen3-coder:30b", ('"olama" is not a provider', "did you mean ollama/qwen3-coder:30b?")),
    ],
)
def test_half_a_name_is_answered_with_the_whole_one(name, words):
    with pytest.raises(CannotStart) as caught:
        resolve_model(name, {}, ModelSettings())
    for word in words:
        assert word in str(caught.value.what) + " ".join(caught.value.do)


@pytest.mark.promise("K3")
async def test_a_name_without_its_provider_is_answered_with_the_server_that_has_it():
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=["qwen3-coder:30b"]) as server:
        with pytest.raises(CannotStart) as caught:
            await asyncio.to_thread(resolve_model, "qwen3-coder", {"OLLAMA_HOST": server.url}, ModelSettings())
    assert caught.value.do[0] == "teamwright --model ollama/qwen3-coder:30b"


def test_a_window_is_asked_for_that_the_conversation_fits_into_twice():
    assert widen_command("ollama", "m", 4_700).startswith("OLLAMA_CONTEXT_LENGTH=65536 ollama serve")
    assert widen_command("llamacpp", "m", 50_000).startswith("llama-server -m FILE.gguf --jinja -c 131072")
    assert widen_command("house", "m", 10).startswith("give the server a window of 65,536 tokens")


async def test_the_first_new_try_is_told_with_what_the_server_said():
    poor = LoopbackModel([Status(500, "model requires more memory")])
    async with asyncio.timeout(WAIT_S), poor as server, ModelPool() as pool:
        model = await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick())
        request = Request(build_prefix(model.card, quick(), [], []), [user()], "ada")
        reasons = [part.reason async for part in model.stream(request) if isinstance(part, Retrying)]
    assert reasons == [
        "ollama could not answer (HTTP 500): model requires more memory",
        "ollama could not answer (HTTP 500)",
    ]


@pytest.mark.promise("K3")
async def test_a_server_that_is_too_old_for_the_messages_api_is_answered_with_the_other_way():
    old = LoopbackModel([Status(404, body=b'{"detail":"Not Found"}')])
    async with asyncio.timeout(WAIT_S), old as server, ModelPool() as pool:
        failure = await asked(await pool.open_model(NAME, {"OLLAMA_HOST": server.url}, quick()))
    assert "does not speak the Messages API" in failure.what
    assert any("openai-chat" in way for way in failure.do)
