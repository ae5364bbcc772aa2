"""`doctor` about a model on this machine: does its server answer, does it have the model, is the window enough."""

import json
import socket

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.slow_server import props
from tests.ui.program import Program


def model_findings(tmp_path, repo, name, **env):
    program = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": "", **env})
    done = program.run("doctor", "--json", "--model", name)
    found = json.loads(done.stdout)["findings"]
    return done.returncode, {one["label"]: one for one in found if one["section"] == "model"}


@pytest.mark.promise("K3")
def test_a_named_server_that_does_not_run_is_to_be_repaired_with_the_command_that_starts_it(tmp_path, repo):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{held.getsockname()[1]}"
        code, found = model_findings(tmp_path, repo, "ollama/qwen3-coder:30b", OLLAMA_HOST=where)
    server = found["server"]
    assert (code, server["verdict"]) == (1, "problem")
    assert server["value"].startswith(f"nothing answers at {where}: ")
    assert server["do"] == "OLLAMA_CONTEXT_LENGTH=65536 ollama serve"


@pytest.mark.promise("K3")
@pytest.mark.parametrize(("listed", "has"), [(["gpt-oss:20b"], "it has gpt-oss:20b"), ([], "it has no models")])
def test_a_model_that_its_server_does_not_have_is_to_be_repaired_with_the_command_that_gets_it(
    tmp_path, repo, listed, has
):
    with LoopbackModel.in_thread(models=listed) as server:
        code, found = model_findings(tmp_path, repo, "ollama/qwen3-coder:30b", OLLAMA_HOST=server.url)
    assert (code, found["server"]["verdict"]) == (1, "problem")
    assert has in found["server"]["value"]
    assert found["server"]["do"] == "ollama pull qwen3-coder:30b"


@pytest.mark.promise("K2")
def test_a_server_that_has_the_model_is_in_order_and_the_latest_of_a_name_is_the_name(tmp_path, repo):
    with LoopbackModel.in_thread(models=["llama3.2:latest"]) as server:
        code, found = model_findings(tmp_path, repo, "ollama/llama3.2", OLLAMA_HOST=server.url)
    assert (code, found["server"]["value"]) == (0, "answers, and has the model")
    assert "until the server reports one" in found["window"]["value"]


@pytest.mark.promise("K3")
def test_a_server_without_a_model_is_found_with_the_command_that_gets_one(tmp_path, repo):
    with LoopbackModel.in_thread(models=[]) as server:
        program = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": server.url})
        shown = program.run("doctor").stdout
    assert "no models" in shown
    assert "→ ollama pull MODEL" in shown


@pytest.mark.finding("R9")
@pytest.mark.parametrize(
    ("slots", "requests", "value", "verdict"),
    [
        (1, None, "1 (the server): a team may have 4 agents (limits.members), and the others wait", "note"),
        (4, None, "4 (the server)", "ok"),
        (8, 2, "2 (settings: providers): a team may have 4 agents (limits.members), and the others wait", "note"),
    ],
)
def test_the_slots_of_a_server_are_compared_with_the_largest_team(tmp_path, repo, slots, requests, value, verdict):
    with LoopbackModel.in_thread(models=["small"], facts=props(slots)) as server:
        own = {"base_url": f"{server.url}/v1", "api": "openai-chat"} | ({"requests": requests} if requests else {})
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "settings.json").write_text(
            json.dumps({"providers": {"house": own}, "limits": {"members": 3}})
        )
        _, found = model_findings(tmp_path, repo, "house/small")
    assert (found["slots"]["value"], found["slots"]["verdict"]) == (value, verdict)
    advice = "llama-server -m FILE.gguf --jinja --parallel 4 -c 262144 --cache-ram 8192"
    assert found["slots"]["do"].partition("   ")[0] == (advice if verdict == "note" else "")


@pytest.mark.finding("R9")
def test_a_server_that_does_not_report_its_slots_gets_the_setting_named(tmp_path, repo):
    with LoopbackModel.in_thread(models=["small"]) as server:
        _, found = model_findings(tmp_path, repo, "ollama/small", OLLAMA_HOST=server.url)
    assert found["slots"]["value"] == "not reported; a team may have 9 agents (limits.members)"
    assert found["slots"]["do"].startswith("OLLAMA_NUM_PARALLEL=9 OLLAMA_CONTEXT_LENGTH=65536 ollama serve")
    assert '"providers": {"ollama": {"requests": N}}' in found["slots"]["do"]


@pytest.mark.promise("K3")
@pytest.mark.slow
def test_a_window_that_is_compacted_again_and_again_is_told_once_with_what_widens_it(tmp_path, repo):
    for number in range(12):
        (repo / f"long{number}.txt").write_text("a line of words\n" * 600)

    def script(body):
        if "answer with the summary alone" in json.dumps(body["messages"][-1]):
            return "Reading on."
        number = len(server.bodies)
        return Answer(tools=[("Read", {"file_path": str(repo / f"long{number}.txt")})]) if number < 12 else "Done."

    with LoopbackModel.in_thread(script) as server:
        settings = tmp_path / "small.json"
        settings.write_text(json.dumps({"context_tokens": 16_000}))
        env = {"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": server.url}
        program = Program(repo, tmp_path / "home", env=env)
        done = program.run("-p", "Read it.", "--verbose", "--model", "ollama/small", "--settings", str(settings))
    assert done.stderr.count("continues from a summary") > 1
    assert done.stderr.count("a window of 16,000 tokens is little") == 1
    assert "OLLAMA_CONTEXT_LENGTH=65536 ollama serve" in done.stderr


@pytest.mark.slow_after(1)
@pytest.mark.promise("K3")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('I read it.\n<tool_call>\n{"name": "Read", "arguments": {"file_path": "a"}}\n</tool_call>', 1),
        ('I read it.\n<tool_call>\n{"name": "Read", "argu', 1),
        ('[TOOL_CALLS][{"name": "Read"}]', 1),
        ('```json\n{"name": "Read", "parameters": {"file_path": "a"}}\n```', 1),
        ("A model marks its calls with `<tool_call>`.", 0),
        ('{"name": "teamwright", "version": "0.1.0"}', 0),
    ],
)
def test_a_call_that_came_as_text_is_told_with_what_the_server_lacks(tmp_path, repo, text, told):
    with LoopbackModel.in_thread([text]) as server:
        env = {"ANTHROPIC_API_KEY": "", "OLLAMA_HOST": server.url}
        done = Program(repo, tmp_path / "home", env=env).run("-p", "Read it.", "--verbose", "--model", "ollama/small")
    assert done.returncode == 0
    assert done.stderr.count("nothing was called") == told
    assert ("teamwright doctor --live --model ollama/small" in done.stderr) == bool(told)
