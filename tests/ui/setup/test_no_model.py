"""A new user without a model: every line of the error, and what `models` says when it is asked the wrong thing."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import KEY, Program, error_of

WINDOWED = {"id": "qwen3-coder:30b", "max_model_len": 32_768}
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENROUTER_API_KEY")
NOBODY = "127.0.0.1:9"
"""Where no server is: port 9 throws away what it gets, where anybody has it at all."""


def new_user(tmp_path, repo, **env: str) -> Program:
    return Program(repo, tmp_path / "state", env={"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": NOBODY, **env})


@pytest.mark.promise("K3")
def test_the_error_says_what_was_looked_at_what_was_found_and_what_to_type(tmp_path, repo, own_home):
    (own_home / ".claude").mkdir()
    with LoopbackModel.in_thread(models=[WINDOWED, "gpt-oss:20b"]) as server:
        program = new_user(tmp_path, repo, OLLAMA_HOST=server.url)
        program.settings(stall_s=30)
        (repo / ".teamwright").mkdir()
        (repo / ".teamwright" / "settings.json").write_text("{}")
        done = program.run("-p", "Hello")
        assert server.bodies == [], "a server that answers is named, never used"
    where = server.url.removeprefix("http://")
    slug, lines = error_of(done)
    assert (done.returncode, slug, done.stdout) == (3, "no-model", "")
    assert lines == [
        "teamwright: no model to talk to",
        f'  looked at   {", ".join(KEYS)}, "model" in 2 settings files: none set',
        f"  found       Ollama on {where}: qwen3-coder:30b (window 32k), gpt-oss:20b",
        "              a Claude Code login, perhaps: it works in Claude Code only, other programs may not use it",
        "  do one of   export ANTHROPIC_API_KEY=…",
        "              teamwright --model ollama/qwen3-coder:30b",
        "              teamwright demo                                   (needs no model)",
        "  [no-model]",
    ]


@pytest.mark.promise("K3")
@pytest.mark.slow
def test_what_the_error_tells_to_type_works(tmp_path, repo):
    with LoopbackModel.in_thread(models=["small"]) as server:
        program = new_user(tmp_path, repo, OLLAMA_HOST=server.url)
        _, lines = error_of(program.run("-p", "Hello"))
        command = next(line.split() for line in lines if "--model ollama/" in line)
        assert command[0] == "teamwright"
        done = program.run(*command[1:], "-p", "Hello")
    assert (done.returncode, done.stdout) == (0, "Hello.\n")


@pytest.mark.promise("K3")
@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("OPENAI_API_KEY", "teamwright --model openai/gpt-"),
        ("GEMINI_API_KEY", "teamwright --model google/gemini-"),
        ("AWS_BEARER_TOKEN_BEDROCK", "teamwright --model bedrock/"),
    ],
)
@pytest.mark.slow_after(1)
def test_the_key_of_another_vendor_alone_is_found_and_answered_with_its_own_command(tmp_path, repo, key, command):
    done = new_user(tmp_path, repo, **{key: KEY}).run("-p", "Hello")
    slug, lines = error_of(done)
    assert (done.returncode, slug) == (3, "no-model")
    assert any(line.strip().startswith(("found", key)) and key in line for line in lines)
    assert any(command in line for line in lines)
    looked = next(line for line in lines if line.startswith("  looked at"))
    assert key not in looked, "it is set: it was not looked at in vain"


@pytest.mark.slow
@pytest.mark.promise("K3")
def test_every_command_that_needs_a_model_says_the_same_and_the_others_work(tmp_path, repo):
    program = new_user(tmp_path, repo)
    for args in (["-p", "Hello"], ["doctor", "--live", "--yes"]):
        done = program.run(*args)
        assert (done.returncode, error_of(done)[0]) == (3, "no-model")
    for args in (["models"], ["sessions"], ["teams"], ["trust", "--show"], ["completion", "bash"]):
        assert program.run(*args).returncode == 0


@pytest.mark.promise("K2")
@pytest.mark.slow
def test_what_a_provider_lists_comes_with_alias_window_and_price(tmp_path, repo):
    listed = ["claude-haiku-5-5", "claude-of-tomorrow"]
    with LoopbackModel.in_thread(models=listed) as server:
        program = Program(repo, tmp_path / "state", server.url)
        shown = program.run("models", "anthropic")
        rows = json.loads(program.run("models", "anthropic", "--json").stdout)
    known, unknown = (line.split() for line in shown.stdout.splitlines()[1:])
    assert known == ["anthropic/claude-haiku-5-5", "haiku", "1,000k", "0.1", "0.5", "catalogue"]
    assert unknown == ["anthropic/claude-of-tomorrow", "unknown", "unknown", "unknown"]
    assert [row["name"] for row in rows] == [f"anthropic/{name}" for name in listed]
    assert (rows[0]["alias"], rows[1]["context_tokens"], rows[1]["usd_in"]) == ("haiku", None, None)


@pytest.mark.promise("K2")
def test_a_local_server_tells_the_windows_of_its_models(tmp_path, repo):
    with LoopbackModel.in_thread(models=[WINDOWED]) as server:
        done = new_user(tmp_path, repo, OLLAMA_HOST=server.url).run("models", "ollama")
    assert done.stdout.splitlines()[1].split() == ["ollama/qwen3-coder:30b", "32k", "0", "0", "server"]


@pytest.mark.slow_after(2)
@pytest.mark.promise("K2")
@pytest.mark.parametrize(
    ("args", "code", "slug", "word"),
    [
        (["antropic"], 3, "unknown-model", "did you mean anthropic?"),
        (["\x1b[31mred"], 3, "unknown-model", "no model was called"),
        ([""], 3, "unknown-model", "teamwright models"),
        (["openai"], 3, "no-model", "export OPENAI_API_KEY=…"),
        (["ollama"], 3, "no-network", "start ollama"),
        (["ollama", "more"], 2, "usage", "unexpected extra argument"),
    ],
)
def test_models_answers_bad_input_in_the_form_of_all_errors(tmp_path, repo, args, code, slug, word):
    done = new_user(tmp_path, repo).run("models", *args)
    assert (done.returncode, error_of(done)[0], done.stdout) == (code, slug, "")
    assert word in done.stderr
