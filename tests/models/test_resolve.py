"""From a name to a model: aliases, keys, addresses, prices; and the error when there is nothing to talk to."""

import asyncio
import json
import re
import socket
import subprocess
import sys

import pytest
from msgspec.structs import replace

from teamwright.models import local_servers
from teamwright.models.local_servers import LocalModel, LocalServer, find_local_servers
from teamwright.models.model import Reply, Request
from teamwright.models.model_pool import ModelPool, list_models
from teamwright.models.model_server_queries import ask_server
from teamwright.models.model_settings import CustomProvider, ModelFacts, ModelSettings, Price
from teamwright.models.names import aliases, catalog, known_ids, prices_date, resolve_model, thinking_field
from teamwright.models.provider_table import PROVIDERS, find_base_url
from teamwright.models.request_prefix import build_prefix, request_fields
from teamwright.protocol.errors import CannotStart, ModelFailed
from teamwright.protocol.messages import text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Status
from tests.support.waits import WAIT_S

KEY = {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}
PLAIN = ModelSettings()


@pytest.fixture(autouse=True)
def nothing_runs_here(monkeypatch):
    """No test depends on what runs on the machine's usual ports; `find_local_servers` itself is tested on its own."""
    monkeypatch.setattr("teamwright.models.names.find_local_servers", lambda env: [])


def resolved(name, env=KEY, settings=PLAIN):
    return resolve_model(name, env, settings)


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        (None, "claude-sonnet-5-5"),
        ("opus", "claude-opus-5-5"),
        ("anthropic/haiku", "claude-haiku-5-5"),
        ("claude-opus-4-8", "claude-opus-4-8"),
        ("claude-next-9", "claude-next-9"),
    ],
)
def test_an_alias_an_id_and_no_name_at_all_are_anthropic_s(name, wire):
    card, endpoint = resolved(name)
    assert (card.name, card.wire, endpoint.base_url) == (f"anthropic/{wire}", wire, "https://api.anthropic.com")


def test_the_setting_names_the_model_and_a_given_name_wins():
    settings = ModelSettings(model="haiku")
    assert resolved(None, settings=settings)[0].wire == "claude-haiku-5-5"
    assert resolved("opus", settings=settings)[0].wire == "claude-opus-5-5"


def test_an_unknown_id_works_with_an_unknown_price_and_a_default_window():
    card, _ = resolved("claude-next-9")
    assert (card.usd_in, card.usd_out, card.context_tokens) == (None, None, 200_000)
    card, _ = resolved("openrouter/vendor/model-x", {"OPENROUTER_API_KEY": "k"})
    assert (card.wire, card.usd_in, card.context_tokens) == ("vendor/model-x", None, 128_000)


def test_a_local_model_costs_nothing_and_needs_no_key():
    card, endpoint = resolved("ollama/qwen3-coder:30b", {})
    assert (card.usd_in, card.usd_out, card.wire) == (0.0, 0.0, "qwen3-coder:30b")
    assert (endpoint.base_url, endpoint.credential, endpoint.is_local) == ("http://127.0.0.1:11434", "", True)


def test_the_user_s_own_prices_and_window_win():
    settings = ModelSettings(
        models={"anthropic/claude-haiku-5-5": ModelFacts(context_tokens=9000)},
        prices={"anthropic/claude-haiku-5-5": Price(7.0, 8.0)},
    )
    card, _ = resolved("haiku", settings=settings)
    assert (card.usd_in, card.usd_out, card.usd_cache_read, card.long_prompt) == (7.0, 8.0, None, None)
    assert card.context_tokens == 9000


def test_the_token_wins_over_the_key_and_goes_as_bearer():
    _, endpoint = resolved("sonnet", {**KEY, "ANTHROPIC_AUTH_TOKEN": " tok-0123456789 "})
    assert (endpoint.auth, endpoint.credential, endpoint.key_name) == (
        "bearer",
        "tok-0123456789",
        "ANTHROPIC_AUTH_TOKEN",
    )
    _, endpoint = resolved("sonnet", {**KEY, "ANTHROPIC_AUTH_TOKEN": ""})
    assert (endpoint.auth, endpoint.key_name) == ("x-api-key", "ANTHROPIC_API_KEY")


def test_the_environment_may_move_anthropic_and_a_gateway_gets_the_version_that_all_know():
    _, official = resolved("sonnet")
    _, moved = resolved("sonnet", {**KEY, "ANTHROPIC_BASE_URL": "https://gate.example/anthropic/v1/"})
    assert moved.base_url == "https://gate.example/anthropic"
    assert (official.version, moved.version) == ("2026-10-21", "2023-06-01")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999"),
        ("http://gpu.example:80/", "http://gpu.example:80"),
        ("https://gpu.example/ollama", "https://gpu.example:11434/ollama"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_the_host_of_ollama_may_lack_scheme_and_port(host, url):
    assert find_base_url(PROVIDERS["ollama"], {"OLLAMA_HOST": host}) == url


def test_an_ollama_on_another_machine_is_not_local():
    assert not resolved("ollama/q", {"OLLAMA_HOST": "gpu.example"})[1].is_local


@pytest.mark.finding("M11")
def test_a_custom_provider_comes_from_the_settings_and_a_preset_may_be_moved_by_them():
    own = CustomProvider("http://127.0.0.1:5/v1", key_env="MY_KEY", bearer=False, caching=True)
    settings = ModelSettings(custom={"mine": own, "anthropic": own})
    card, endpoint = resolved("mine/big", {"MY_KEY": "k-0123456789"}, settings)
    assert (card.name, card.caching, endpoint.auth) == ("mine/big", True, "x-api-key")
    assert endpoint.base_url == "http://127.0.0.1:5"
    moved = resolved("sonnet", {**KEY, "MY_KEY": "k-0123456789"}, settings)[1]
    assert (moved.base_url, moved.api, moved.credential) == ("http://127.0.0.1:5", "messages", "k-0123456789")
    there = {**KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:6"}
    assert resolved("sonnet", there, settings)[1].base_url == "http://127.0.0.1:6", "a variable is nearer"
    with pytest.raises(CannotStart) as caught:
        resolved("mine/big", {}, settings)
    assert caught.value.do[0] == "export MY_KEY=…"


@pytest.mark.parametrize("name", ["nobody/model", "openai/", "ollama/"])
def test_a_provider_that_is_not_known_is_named_with_those_that_are(name):
    with pytest.raises(CannotStart) as caught:
        resolved(name)
    assert caught.value.slug == "unknown-model"
    assert "ollama" in dict(caught.value.looked_at)["providers"]


def no_model(env, name=None):
    with pytest.raises(CannotStart) as caught:
        resolved(name, env)
    assert caught.value.slug == "no-model"
    return caught.value.render()


def test_without_a_key_the_error_says_what_was_looked_at_and_what_to_do():
    assert no_model({}).splitlines() == [
        "teamwright: no model to talk to",
        '  looked at   ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENROUTER_API_KEY, "model" in the settings: none set',
        "  do one of   export ANTHROPIC_API_KEY=…",
        "              OLLAMA_CONTEXT_LENGTH=65536 ollama serve, then teamwright --model ollama/MODEL",
        "              teamwright demo                                   (needs no model)",
        "  [no-model]",
    ]


def test_the_error_lists_local_servers_and_logins_but_uses_neither(monkeypatch, tmp_path):
    server = LocalServer("ollama", "Ollama", "127.0.0.1:11434", (LocalModel("qwen3-coder:30b", 32768), LocalModel("b")))
    monkeypatch.setattr("teamwright.models.names.find_local_servers", lambda env: [server])
    (tmp_path / ".claude").mkdir()
    lines = no_model({"HOME": str(tmp_path)}).splitlines()
    assert lines[2] == "  found       Ollama on 127.0.0.1:11434: qwen3-coder:30b (window 32k), b"
    assert "works in Claude Code only" in lines[3]
    assert "              teamwright --model ollama/qwen3-coder:30b" in lines
    assert len(lines) <= 12


@pytest.mark.promise("H3")
def test_with_only_an_openai_key_the_ways_are_told_and_the_first_can_be_pasted():
    text = no_model({"OPENAI_API_KEY": "sk-proj-SECRET-SECRET"})
    assert "OpenRouter" in text and "gateway" in text and "Ollama" in text
    assert "  do one of   teamwright --model openai/gpt-6.1-sol   (teamwright models openai lists them)\n" in text
    assert "SECRET" not in text
    card, endpoint = resolved("openai/gpt-6.1-sol", {"OPENAI_API_KEY": "sk-proj-SECRET-SECRET"})
    assert (card.name, endpoint.credential) == ("openai/gpt-6.1-sol", "sk-proj-SECRET-SECRET")


@pytest.mark.promise("H3")
def test_of_many_keys_that_choose_nothing_two_are_told_of_and_the_error_stays_short():
    names = ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "OPENROUTER_API_KEY")
    lines = no_model(dict.fromkeys(names, "SECRET-SECRET")).splitlines()
    assert len(lines) <= 12
    assert sum("name a model to use it" in line for line in lines) == 2


def test_with_only_an_openrouter_key_a_model_has_to_be_named():
    text = no_model({"OPENROUTER_API_KEY": "sk-or-SECRET-SECRET"})
    assert "teamwright --model openrouter/MODEL" in text
    assert "SECRET" not in text


def test_a_named_model_without_its_key_says_which_key():
    text = no_model(KEY, "openrouter/x/y")
    assert "OPENROUTER_API_KEY: none set" in text
    assert "export OPENROUTER_API_KEY=…" in text


def test_the_catalogue_has_a_date_sources_and_nothing_half_known():
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", prices_date())
    for source in catalog()["sources"]:
        assert source["page_of"] and source["for"]
        assert source.get("url", "").startswith("https://") or source["package"]
    assert set(aliases()) >= {"sonnet", "opus", "haiku"}
    assert set(aliases().values()) <= set(known_ids())
    for row in catalog()["models"].values():
        assert 0 < row["usd_cache_read"] < row["usd_in"] < row["usd_cache_write"] < row["usd_out"]
        assert row["max_output_tokens"] < row["context_tokens"]


def test_every_preset_says_where_its_api_is_described_and_what_it_lacks():
    for provider in PROVIDERS.values():
        assert provider.source.startswith("https://")
        assert provider.checked_on and provider.evidence in ("tried", "by its documentation")
        assert set(provider.missing_features) <= {"caching", "thinking", "images"}
    assert PROVIDERS["anthropic"].missing_features == ()


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("sonnet", {"type": "adaptive", "display": "summarized"}, {"type": "between_tools"}),
        ("opus", {"type": "adaptive", "display": "summarized"}, None),
        ("haiku", {"type": "adaptive", "display": "summarized"}, {"type": "disabled"}),
        ("claude-haiku-4-5-20251001", None, None),
        ("claude-next-9", None, None),
    ],
)
def test_thinking_is_asked_for_where_the_model_documents_it(name, on, off):
    card, _ = resolved(name)
    assert (thinking_field(card, "adaptive"), thinking_field(card, "off")) == (on, off)
    assert ("thinking" in request_fields(card, PLAIN, [], [])) == (on is not None)


def test_a_prefix_has_its_fields_in_order_and_one_breakpoint_each_on_system_and_tools():
    card, _ = resolved("sonnet")
    system, tools = [text_block("a"), text_block("b")], [{"name": "X"}, {"name": "Y"}]
    prefix = build_prefix(card, ModelSettings(betas=("b1",)), system, tools)
    fields = json.loads(b"{" + prefix.head + b"}")
    assert list(fields) == ["model", "max_tokens", "system", "tools", "thinking"]
    assert [("cache_control" in part) for part in [*fields["system"], *fields["tools"]]] == [False, True, False, True]
    assert (prefix.betas, prefix.head.count(b"cache_control")) == (("b1",), 2)
    assert "cache_control" not in system[-1] and "cache_control" not in tools[-1]
    card, _ = resolved("ollama/x", {})
    assert b"cache_control" not in build_prefix(card, PLAIN, system, tools).head


def test_the_output_that_is_asked_for_is_bounded_by_model_and_settings():
    card, _ = resolved("sonnet")
    assert request_fields(card, PLAIN, [], [])["max_tokens"] == 32_000
    assert request_fields(card, ModelSettings(max_output_tokens=500_000), [], [])["max_tokens"] == 128_000
    assert request_fields(resolved("ollama/x", {})[0], PLAIN, [], [])["max_tokens"] == 8_192


LISTED = {"id": "qwen:7b", "max_model_len": 40_000}


def at(server):
    return {"OLLAMA_HOST": server.url}


def only_ollama(monkeypatch):
    monkeypatch.setattr(local_servers, "PROVIDERS", {"ollama": PROVIDERS["ollama"]})


def test_a_local_server_is_found_with_its_models_and_strange_names_are_left_out(monkeypatch):
    only_ollama(monkeypatch)
    with LoopbackModel.in_thread(models=[LISTED, "gpt-oss:20b", "x; rm -rf ~", "\x1b[31m", {"id": 3}]) as server:
        [found] = find_local_servers(at(server), within_s=WAIT_S)
    assert found.models == (LocalModel("qwen:7b", 40_000), LocalModel("gpt-oss:20b"), LocalModel("3"))
    assert str(found).startswith("Ollama on 127.0.0.1:")


def test_a_port_that_says_nothing_costs_the_budget_and_no_more(monkeypatch):
    only_ollama(monkeypatch)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert find_local_servers({"OLLAMA_HOST": f"127.0.0.1:{silent.getsockname()[1]}"}) == []


def test_a_server_on_another_machine_is_never_asked(monkeypatch):
    only_ollama(monkeypatch)
    monkeypatch.setattr(local_servers, "_get_json", lambda *a: pytest.fail("asked"))
    assert find_local_servers({"OLLAMA_HOST": "gpu.example"}) == []


def test_a_local_server_is_asked_for_the_window_of_a_model():
    with LoopbackModel.in_thread(models=[LISTED]) as server:
        _, endpoint = resolved("vllm/qwen:7b", {})
        here = replace(endpoint, base_url=server.url)
        assert ask_server(here, "qwen:7b", within_s=WAIT_S).window == 40_000
        assert ask_server(here, "other", within_s=WAIT_S).window is None


async def test_a_pool_gives_the_same_adapter_for_the_same_model_and_key():
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        env = {**KEY, "ANTHROPIC_BASE_URL": server.url}
        one, two = await asyncio.gather(*(pool.open_model(n, env, PLAIN) for n in ("sonnet", "claude-sonnet-5-5")))
        other = await pool.open_model("sonnet", {**env, "ANTHROPIC_API_KEY": "sk-ant-another-key"}, PLAIN)
        haiku = await pool.open_model("haiku", env, PLAIN)
        assert one is two
        assert len({id(one), id(other), id(haiku)}) == 3
        assert one._rate_limiter is haiku._rate_limiter
        assert one._rate_limiter is not other._rate_limiter


async def test_a_pool_takes_the_window_that_a_local_server_tells():
    models = [{"id": "q", "max_model_len": 65_536}]
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=models) as server, ModelPool() as pool:
        own = ModelSettings(context_tokens=5000)
        port = server.url.rpartition(":")[2]
        env = {"OLLAMA_HOST": f"127.0.0.1:{port}"}
        assert (await pool.open_model("ollama/other", env, own)).card.context_tokens == 5000
        assert (await pool.open_model("ollama/q", env, PLAIN)).card.context_tokens == 32_768
        assert not server.bodies, "no model is called"


async def test_the_models_of_a_provider_are_listed():
    async with asyncio.timeout(WAIT_S), LoopbackModel(models=["a", "b"]) as server:
        assert await list_models("anthropic", {**KEY, "ANTHROPIC_BASE_URL": server.url}) == ["a", "b"]
    assert server.requests[0].headers["x-api-key"] == KEY["ANTHROPIC_API_KEY"]


async def test_a_list_that_cannot_be_had_says_why():
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server:
        with pytest.raises(CannotStart, match="does not speak"):
            await list_models("mine", {}, ModelSettings(custom={"mine": CustomProvider(server.url, api="bedrock")}))
        with pytest.raises(CannotStart, match="not a provider"):
            await list_models("nobody", {})
        with pytest.raises(CannotStart, match="no key"):
            await list_models("openrouter", {})
    with pytest.raises(CannotStart) as caught:
        await list_models("anthropic", {**KEY, "ANTHROPIC_BASE_URL": server.url})
    assert caught.value.slug == "no-network"
    assert not isinstance(caught.value, ModelFailed)


COMMAND = """
import asyncio, os
from teamwright.models.model import Reply, Request
from teamwright.models.model_pool import ModelPool
from teamwright.models.request_prefix import build_prefix
from teamwright.models.model_settings import ModelSettings
from teamwright.protocol.messages import encode, text_block

async def main():
    async with ModelPool() as pool:
        model = await pool.open_model(None, os.environ, ModelSettings())
        prefix = build_prefix(model.card, ModelSettings(), [text_block("Be brief.")], [])
        item = encode({"role": "user", "content": [text_block("Hi")]})
        async for part in model.stream(Request(prefix, [item])):
            if isinstance(part, Reply):
                print(part.content[0]["text"], part.usage)

asyncio.run(main())
"""


@pytest.mark.slow
def test_another_process_reaches_the_server_by_its_environment():
    script = [Status(529), "Hello from the loopback."]
    with LoopbackModel.in_thread(script) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, **KEY, "PATH": ""}
        run = subprocess.run([sys.executable, "-c", COMMAND], env=env, capture_output=True, text=True, timeout=WAIT_S)
    assert run.stdout.startswith("Hello from the loopback."), run.stderr
    assert server.bodies[-1]["model"] == "claude-sonnet-5-5"


async def test_a_pool_s_model_answers(user):
    async with asyncio.timeout(WAIT_S), LoopbackModel(["Yes."]) as server, ModelPool() as pool:
        env = {**KEY, "ANTHROPIC_BASE_URL": server.url}
        model = await pool.open_model("haiku", env, PLAIN)
        prefix = build_prefix(model.card, PLAIN, [text_block("s")], [])
        parts = [part async for part in model.stream(Request(prefix, [user()]))]
    assert isinstance(parts[-1], Reply)
    assert parts[-1].usage.usd
