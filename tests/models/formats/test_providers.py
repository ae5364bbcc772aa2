"""OpenAI, Google and Bedrock by name: addresses, keys, prices, lists; and what is said where something is missing."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from teamwright.models.endpoint import APIS, clean_base_url
from teamwright.models.model import Failure, Reply, Request
from teamwright.models.model_pool import ModelPool, list_models
from teamwright.models.model_settings import CustomProvider, ModelSettings
from teamwright.models.names import catalog, resolve_model, thinking_field
from teamwright.models.provider_table import PROVIDERS
from teamwright.models.request_prefix import build_prefix, request_fields
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.messages import encode, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.views.model_catalog import model_catalog
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("H3", "K2")
PLAIN = ModelSettings()
SIGNED = {"AWS_ACCESS_KEY_ID": "AKIA01234567", "AWS_SECRET_ACCESS_KEY": "secret-0123456789", "AWS_REGION": "eu-west-1"}


@pytest.fixture(autouse=True)
def nothing_runs_here(monkeypatch):
    monkeypatch.setattr("teamwright.models.names.find_local_servers", lambda env: [])


def refused(name, env, settings=PLAIN):
    with pytest.raises(CannotStart) as caught:
        resolve_model(name, env, settings)
    assert caught.value.slug == "no-model"
    return caught.value.render()


@pytest.mark.parametrize(
    ("name", "env", "wire", "url", "auth", "api"),
    [
        (
            "openai/gpt-6-sol",
            {"OPENAI_API_KEY": "k"},
            "gpt-6-sol",
            "https://api.openai.com/v1",
            "bearer",
            "openai-responses",
        ),
        (
            "google/gemini-3.8-flash",
            {"GEMINI_API_KEY": "k"},
            "gemini-3.8-flash",
            "https://generativelanguage.googleapis.com",
            "x-goog-api-key",
            "gemini",
        ),
        (
            "bedrock/eu.anthropic.claude:0",
            {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_DEFAULT_REGION": "eu-west-1"},
            "eu.anthropic.claude:0",
            "https://bedrock-runtime.eu-west-1.amazonaws.com",
            "bearer",
            "bedrock",
        ),
        (
            "bedrock/x",
            {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "cn-north-1"},
            "x",
            "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
            "bearer",
            "bedrock",
        ),
        ("bedrock/x", SIGNED, "x", "https://bedrock-runtime.eu-west-1.amazonaws.com", "signed", "bedrock"),
    ],
)
def test_a_vendor_is_reached_by_its_name_and_its_key(name, env, wire, url, auth, api):
    card, endpoint = resolve_model(name, env, PLAIN)
    assert (card.name, card.wire, endpoint.base_url, endpoint.auth, endpoint.api) == (name, wire, url, auth, api)
    assert endpoint.has_key


def test_variables_move_a_vendor_and_google_s_own_name_for_its_key_wins_as_in_its_sdk():
    moved = {"OPENAI_BASE_URL": "https://gate.example/openai/v1/", "OPENAI_API_KEY": "k"}
    assert resolve_model("openai/x", moved, PLAIN)[1].base_url == "https://gate.example/openai/v1"
    both = {"GOOGLE_API_KEY": "one", "GEMINI_API_KEY": "two", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1/v1beta"}
    endpoint = resolve_model("google/x", both, PLAIN)[1]
    assert (endpoint.credential, endpoint.base_url) == ("one", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("given", "api", "url"),
    [
        ("http://127.0.0.1:8000", "openai-chat", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "openai-chat", "http://127.0.0.1:8000/v1"),
        ("https://x.example/api/paas/v4", "openai-chat", "https://x.example/api/paas/v4"),
        ("https://x.openai.azure.com/openai/v1", "openai-responses", "https://x.openai.azure.com/openai/v1"),
        ("https://x.example/v1beta/", "gemini", "https://x.example"),
        ("https://x.example/v1", "messages", "https://x.example"),
    ],
)
def test_an_address_may_be_given_as_others_give_it(given, api, url):
    assert clean_base_url(given, api) == url


def test_a_provider_of_the_user_s_own_speaks_what_its_settings_say():
    own = CustomProvider("http://127.0.0.1:5/v1", api="openai-chat", key_env="MY_KEY")
    card, endpoint = resolve_model("mine/big", {"MY_KEY": "k-0123456789"}, ModelSettings(custom={"mine": own}))
    assert (card.name, endpoint.api, endpoint.auth, endpoint.key_name) == (
        "mine/big",
        "openai-chat",
        "bearer",
        "MY_KEY",
    )
    assert (card.usd_in, card.context_tokens) == (None, 128_000)


def test_an_api_that_nobody_speaks_is_refused_with_those_there_are(tmp_path, repo_settings):
    done = repo_settings({"providers": {"mine": {"base_url": "http://127.0.0.1:5", "api": "soap"}}})
    assert done.returncode == 3
    assert "api must be one of " + ", ".join(APIS) in done.stderr


@pytest.fixture
def repo_settings(tmp_path):
    def run(settings):
        (tmp_path / "s.json").write_text(json.dumps(settings))
        command = [sys.executable, "-m", "teamwright", "--settings", str(tmp_path / "s.json"), "models"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S)

    return run


def test_what_is_missing_for_bedrock_is_said_with_what_to_type(monkeypatch):
    text = refused("bedrock/x", {})
    assert "looked at   AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID, AWS_PROFILE: none set" in text
    assert "export AWS_BEARER_TOKEN_BEDROCK=…" in text
    text = refused("bedrock/x", {"AWS_BEARER_TOKEN_BEDROCK": "k"})
    assert "bedrock needs a region" in text
    assert "export AWS_REGION=" in text
    monkeypatch.setitem(sys.modules, "botocore", None)
    text = refused("bedrock/x", {"AWS_PROFILE": "work", "AWS_REGION": "eu-west-1"})
    assert "bedrock is to use AWS_PROFILE, and what reads it is not installed" in text
    assert "pip install 'teamwright[providers]'" in text
    assert resolve_model("bedrock/x", SIGNED, PLAIN)[1].has_key, "keys in the environment need nothing installed"


async def ask(pool, name, env):
    model = await pool.open_model(name, env, PLAIN)
    item = encode({"role": "user", "content": [text_block("Hi")]})
    parts = [part async for part in model.stream(Request(build_prefix(model.card, PLAIN, [], []), [item]))]
    return parts[-1]


async def test_the_keys_of_a_profile_sign_and_are_read_when_they_are_used(tmp_path, monkeypatch):
    keys = {
        "Version": 1,
        "AccessKeyId": "AKIAFROMPROCESS",
        "SecretAccessKey": "s3cret-of-a-process",
        "SessionToken": "tok",
    }
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / "config").write_text(f"[profile proc]\ncredential_process = cat {tmp_path / 'keys.json'}\n")
    (tmp_path / "credentials").write_text("[kept]\naws_access_key_id = AKIAKEPT\naws_secret_access_key = kept-secret\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    async with asyncio.timeout(WAIT_S), LoopbackModel() as server, ModelPool() as pool:
        for profile, key in (("kept", "AKIAKEPT"), ("proc", "AKIAFROMPROCESS")):
            env = {"AWS_PROFILE": profile, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.url}
            assert isinstance(await ask(pool, "bedrock/x", env), Reply)
            headers = server.requests[-1].headers
            assert f"Credential={key}/" in headers["authorization"]
        assert headers["x-amz-security-token"] == "tok"
        last = await ask(pool, "bedrock/x", env | {"AWS_PROFILE": "nobody"})
    assert isinstance(last, Failure)
    assert (last.slug, dict(last.looked_at)["key"]) == ("wrong-key", "AWS_PROFILE")
    assert len(server.requests) == 2


@pytest.mark.promise("F61")
def test_known_models_have_prices_and_windows_and_unknown_ones_do_not():
    card, _ = resolve_model("openai/gpt-6-sol", {"OPENAI_API_KEY": "k"}, PLAIN)
    assert (card.usd_in, card.usd_out, card.usd_cache_read, card.usd_cache_write) == (2, 10, 0.2, 2.5)
    assert (card.context_tokens, card.max_output_tokens, card.long_prompt.over_tokens) == (1_050_000, 128_000, 272_000)
    card, _ = resolve_model("google/gemini-9", {"GEMINI_API_KEY": "k"}, PLAIN)
    assert (card.usd_in, card.usd_out, card.context_tokens) == (None, None, 128_000)
    for models in catalog()["others"].values():
        for row in models.values():
            assert 0 < row["usd_cache_read"] < row["usd_in"] < row["usd_out"]
            assert row["max_output_tokens"] < row["context_tokens"]


def test_thinking_is_asked_of_each_vendor_in_its_own_words():
    card, _ = resolve_model("google/gemini-3.8-flash", {"GEMINI_API_KEY": "k"}, PLAIN)
    assert request_fields(card, PLAIN, [], [])["thinking"] == {"includeThoughts": True}
    card, _ = resolve_model("openai/gpt-6-sol", {"OPENAI_API_KEY": "k"}, PLAIN)
    assert "thinking" not in request_fields(card, PLAIN, [], []), "it thinks by itself"
    assert thinking_field(card, "off") == {"effort": "none"}


def test_the_catalogue_lists_the_vendors_as_untried_with_what_they_lack():
    found = model_catalog(PLAIN, {"OPENAI_API_KEY": "sk-0123456789-wxyz"})
    rows = {row.id: row for row in found.providers}
    assert {rows[name].proof for name in ("openai", "google", "bedrock")} == {"by its documentation"}
    assert (rows["openai"].key, rows["bedrock"].lacks) == ("OPENAI_API_KEY …wxyz", ("thinking",))
    assert {"openai/gpt-6-sol", "google/gemini-3.8-flash"} <= {model.name for model in found.models}
    assert all(re.match(r"https://", PROVIDERS[name].source) for name in rows)


PAGES = {
    "/v1/models": {"object": "list", "data": [{"id": "gpt-a", "object": "model"}, {"id": "gpt-b"}]},
    "/v1beta/models": {
        "models": [
            {"name": "models/gemini-a", "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        ],
        "nextPageToken": "to+ken/=",
    },
    "/v1beta/models to+ken/=": {"models": [{"name": "models/gemini-b"}]},
    "/inference-profiles": {"inferenceProfileSummaries": [{"inferenceProfileId": "eu.a"}], "nextToken": "n=1"},
    "/inference-profiles n=1": {"inferenceProfileSummaries": [{"inferenceProfileId": "eu.b"}]},
    "/foundation-models": {"modelSummaries": [{"modelId": "vendor.c"}]},
}


@pytest.fixture
def lists():
    """A server that lists models in every vendor's way, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            token = (query.get("pageToken") or query.get("nextToken") or [""])[0]
            asked.append((parts.path, {k.lower(): v for k, v in self.headers.items()}))
            body = json.dumps(PAGES[f"{parts.path} {token}".strip()]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    with contextlib.closing(server.socket):
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join(WAIT_S)


async def test_what_a_vendor_lists_is_read_page_by_page(lists):
    url, asked = lists
    env = {
        **SIGNED,
        "OPENAI_API_KEY": "k1",
        "OPENAI_BASE_URL": f"{url}/v1",
        "GEMINI_API_KEY": "k2",
        "GOOGLE_GEMINI_BASE_URL": url,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": url,
    }
    async with asyncio.timeout(WAIT_S):
        assert await list_models("openai", env) == ["gpt-a", "gpt-b"]
        assert await list_models("google", env) == ["gemini-a", "gemini-b"]
        assert await list_models("bedrock", env) == ["eu.a", "eu.b", "vendor.c"]
    shown = dict(asked)
    assert shown["/v1/models"]["authorization"] == "Bearer k1"
    assert shown["/v1beta/models"]["x-goog-api-key"] == "k2"
    assert shown["/foundation-models"]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA01234567/")


LAZY = """
import sys
from teamwright.models import model_pool
from teamwright.models import names
heavy = {name for name in sys.modules if name.startswith("teamwright.models.providers.")}
spoken = {"openai_chat", "openai_responses", "gemini", "bedrock"}
assert not {name.rpartition(".")[2] for name in heavy} & spoken, heavy
assert not {"botocore", "openai", "google.genai", "httpx2"} & set(sys.modules)
"""


def test_a_dialect_is_loaded_when_its_provider_is_named():
    run = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=WAIT_S)
    assert run.returncode == 0, run.stderr
