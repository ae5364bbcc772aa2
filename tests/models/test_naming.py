"""Names of models as people write them: forms of another product, names without a provider, a misspelt setting."""

import json

import pytest

from teamwright.models.local_servers import LocalModel, LocalServer
from teamwright.models.model_settings import CustomProvider, ModelSettings
from teamwright.models.names import resolve_model
from teamwright.protocol.errors import CannotStart
from tests.ui.program import Program

pytestmark = pytest.mark.finding("M6")
KEY = {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}
PLAIN = ModelSettings()


@pytest.fixture(autouse=True)
def nothing_runs_here(monkeypatch):
    monkeypatch.setattr("teamwright.models.names.find_local_servers", lambda env: [])


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("opus[1m]", "claude-opus-5-5"),
        ("sonnet[1m]", "claude-sonnet-5-5"),
        ("claude-opus-4-8[1m]", "claude-opus-4-8"),
        ("anthropic/sonnet[1M]", "claude-sonnet-5-5"),
        ("opusplan", "claude-opus-5-5"),
        ("default", "claude-sonnet-5-5"),
    ],
)
def test_a_form_of_the_other_product_never_goes_to_the_service_unchanged(name, wire):
    assert resolve_model(name, KEY, PLAIN)[0].wire == wire
    assert resolve_model(None, KEY, ModelSettings(model=name))[0].wire == wire


@pytest.mark.parametrize("env", [KEY, {}])
@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("gpt-5", "teamwright --model openai/gpt-5"),
        ("o4-mini", "teamwright --model openai/o4-mini"),
        ("gemini-3-pro", "teamwright --model google/gemini-3-pro"),
        ("qwen3-coder:30b", "teamwright --model ollama/qwen3-coder:30b"),
        ("gpt-oss", "teamwright --model ollama/gpt-oss"),
        ("eu.anthropic.claude-x", "teamwright --model bedrock/eu.anthropic.claude-x"),
        ("sonet", "did you mean sonnet?"),
        ("anything", '"providers"'),
    ],
)
def test_a_name_without_a_provider_is_answered_with_the_providers_it_may_mean(env, name, way):
    with pytest.raises(CannotStart) as caught:
        resolve_model(name, env, PLAIN)
    assert caught.value.slug == "unknown-model"
    assert any(way in one for one in caught.value.do)
    assert '"base_url"' in caught.value.render()


def test_what_runs_here_and_the_users_own_providers_are_named(monkeypatch):
    running = [LocalServer("ollama", "Ollama", "127.0.0.1:11434", (LocalModel("qwen3-coder:30b"),))]
    monkeypatch.setattr("teamwright.models.names.find_local_servers", lambda env: running)
    settings = ModelSettings(custom={"house": CustomProvider("http://h", "openai-chat")})
    with pytest.raises(CannotStart) as caught:
        resolve_model("qwen3-coder", KEY, settings)
    assert "teamwright --model ollama/qwen3-coder:30b" in caught.value.do
    assert "teamwright --model house/qwen3-coder" in caught.value.do


def test_a_gateway_may_have_models_of_any_name():
    env = {**KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    assert resolve_model("gpt-5", env, PLAIN)[0].wire == "gpt-5"


def test_a_misspelt_setting_is_named_where_no_model_is(tmp_path):
    given = tmp_path / "s.json"
    given.write_text(json.dumps({"modle": "haiku"}))
    program = Program(tmp_path, tmp_path / "home", env={"ANTHROPIC_API_KEY": ""})
    done = program.run("-p", "Hello", "--settings", str(given))
    assert done.returncode == 3
    assert "modle is not a setting; did you mean model?" in done.stderr.partition("no model to talk to")[2]
