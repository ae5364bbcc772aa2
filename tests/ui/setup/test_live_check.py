"""`doctor --live` against servers of every kind: each thing told apart, by its own word, with the right exit code."""

import json
import os
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, CutPrompt, Raw, Stall, Status
from teamwright.testing.recordings import load_recording
from teamwright.views.model_live_check import LABELS
from tests.support.live_check_service import purpose, sound
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, KEY, Program, error_of

pytestmark = [pytest.mark.promise("K13"), pytest.mark.slow_after(4)]

CALL = ("report", {"word": "ready", "count": 7})
READY = Answer("Ready.", tools=[CALL])
READ = {"input_tokens": 40, "cache_read_input_tokens": 1500, "output_tokens": 30}
FULL = load_recording(Path(__file__).parents[2] / "models" / "recordings" / "llamacpp-b11434-context-size.400.json")


def states(told: dict) -> dict[str, str]:
    return {check["label"]: check["state"] for check in told["checks"]}


def value(told: dict, label: str) -> str:
    return next(check["value"] for check in told["checks"] if check["label"] == label)


@contextmanager
def checked(tmp_path, repo, script, *args, provider="", **settings):
    """What the program tells as JSON, its exit code, and the server that was asked."""
    with LoopbackModel.in_thread(script) as server:
        if provider == "mine":
            settings["providers"] = {"mine": {"base_url": server.url, "key_env": "MINE_KEY"}}
        variables = {"ollama": {"OLLAMA_HOST": server.url, "ANTHROPIC_API_KEY": ""}, "mine": {"MINE_KEY": KEY}}
        program = Program(repo, tmp_path / "home", server.url if not provider else "", env=variables.get(provider, {}))
        program.settings(**settings)
        done = program.run("doctor", "--live", "--yes", "--json", *args, timeout=WAIT_S)
        assert KEY not in done.stdout + done.stderr
        assert done.stderr == "", done.stderr
        yield json.loads(done.stdout), done.returncode, server


def test_a_sound_service_passes_with_five_small_requests(tmp_path, repo):
    with checked(tmp_path, repo, sound) as (told, code, server):
        assert (code, told["ok"], told["model"]) == (0, True, "anthropic/claude-sonnet-5-5")
    assert states(told) == dict.fromkeys(LABELS, "ok") | {"rate limits": "not seen", "whole prompt": "not offered"}
    assert [purpose(body) for body in server.bodies] == ["calls", "results", "schema", "limit", "error"]
    assert "1,500 of 1,540 tokens" in value(told, "cache")
    assert 0 < told["usage"]["usd"] <= told["ceiling"]["usd"] <= 0.0201
    assert str(repo) not in b"".join(request.body for request in server.requests).decode(), "nothing of the user's"


@pytest.mark.parametrize(
    ("reply", "label", "known", "word"),
    [
        (Status(401, f"no {KEY}"), "key", {"reached": "ok"}, "does not accept ANTHROPIC_API_KEY"),
        (Status(404), "model", {"reached": "ok", "key": "ok"}, "does not have the model"),
        (Status(429, retry_after=1), "answer", {"key": "not tried"}, "is limiting requests (HTTP 429)"),
        (Status(529), "answer", {"key": "not tried"}, "overloaded"),
        (Raw([b'{"type": "message"}'], content_type="application/json"), "answer", {}, "is not an answer of"),
        (Raw([b"event: message_start\ndata: {]\n\n"]), "answer", {}, "stopped short"),
        (Stall(2), "answer", {}, "began no answer within 1 s"),
        (Stall(0, pings=False), "answer", {}, "began no answer within 1 s"),
    ],
)
@pytest.mark.slow_after(1)
def test_what_is_broken_fails_in_its_own_line_and_nothing_behind_it_is_tried(tmp_path, repo, reply, label, known, word):
    with checked(tmp_path, repo, [reply], stall_s=1) as (told, code, server):
        assert code == 1
    found = states(told)
    assert [name for name, state in found.items() if state == "failed"] == [label]
    assert word in value(told, label)
    assert found | known == found
    assert (found["tool call"], found["cache"], found["window"]) == ("not tried",) * 3
    assert len(server.bodies) == 1, "nothing is tried again"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (Answer("Ready. I would call it now."), "called no tool"),
        (Answer(tools=[("report_it", {})]), 'it called "report_it"'),
        (Answer(tools=[("report", {"count": "many"})]), "do not fit the schema"),
        (
            Answer(blocks=[{"type": "tool_use", "id": "t", "name": "report", "input": {"unparsed_arguments": "{"}}]),
            "are not JSON",
        ),
    ],
)
@pytest.mark.slow_after(1)
def test_a_model_that_cannot_call_tools_is_told_so(tmp_path, repo, answer, word):
    usage = Answer(answer.text, answer.tools, usage=READ, blocks=answer.blocks)
    with checked(tmp_path, repo, [usage]) as (told, code, _):
        assert (code, states(told)["tool call"], states(told)["answer"]) == (1, "failed", "ok")
    assert word in value(told, "tool call")


def test_an_answer_that_was_cut_before_its_call_says_nothing_about_calls(tmp_path, repo):
    with checked(tmp_path, repo, [Answer("Ready", stop_reason="max_tokens", usage=READ)]) as (told, code, _):
        assert (code, states(told)["tool call"], states(told)["tool result"]) == (0, "not seen", "not tried")


def test_numbers_that_come_as_text_are_read_as_everywhere(tmp_path, repo):
    with checked(tmp_path, repo, [Answer(tools=[("report", {"word": "ready", "count": "7"})], usage=READ)]) as (
        told,
        code,
        _,
    ):
        assert (code, states(told)["tool call"], states(told)["first token"]) == (0, "ok", "not seen")


@pytest.mark.parametrize(
    ("first", "state"),
    [({"cache_creation_input_tokens": 1500}, "failed"), ({"input_tokens": 5000}, "failed"), ({}, "not seen")],
)
@pytest.mark.slow_after(1)
def test_a_cache_that_keeps_nothing_fails_if_it_was_written_or_if_the_prompt_was_long(tmp_path, repo, first, state):
    usage = {"input_tokens": 40, "output_tokens": 30} | first
    with checked(tmp_path, repo, [Answer("Ready.", tools=[CALL], usage=usage)]) as (told, code, _):
        assert (code, states(told)["cache"]) == (int(state == "failed"), state)


@pytest.mark.slow
def test_a_service_without_a_cache_of_ours_has_none_that_could_fail(tmp_path, repo):
    with checked(tmp_path, repo, [READY], "--model", "mine/x", provider="mine") as (told, code, _):
        assert (code, states(told)["cache"]) == (0, "not offered")


def test_a_local_server_is_asked_for_its_window_and_whether_it_reads_the_whole_prompt(tmp_path, repo):
    name = ("--model", "ollama/qwen")
    with checked(tmp_path, repo, [READY], *name, provider="ollama") as (told, code, server):
        assert (code, told["ceiling"]["usd"]) == (0, 0.0)
    assert (states(told)["whole prompt"], states(told)["window"]) == ("ok", "not seen")
    assert (states(told)["key"], value(told, "key")) == ("ok", "none was asked for")
    assert [purpose(body) for body in server.bodies] == ["calls", "results", "long", "long", "schema", "limit", "error"]
    assert "/api/ps" in {request.path for request in server.requests}
    with checked(tmp_path, repo, [CutPrompt(4096, READY)], *name, provider="ollama") as (told, code, _):
        assert (code, states(told)["whole prompt"], states(told)["answer"]) == (1, "failed", "ok")
    assert "4,096 read" in value(told, "whole prompt")
    assert "OLLAMA_CONTEXT_LENGTH=" in next(c["do"] for c in told["checks"] if c["label"] == "whole prompt")


@pytest.mark.parametrize("window", [4_096, 8_192, 16_384])
@pytest.mark.slow_after(1)
def test_a_check_of_a_small_window_fits_into_it(tmp_path, repo, window):
    """The tokenizers of small models make a token of three bytes of such text."""

    def reply(body):
        size = len(json.dumps(body)) // 3
        fits = size + body["max_tokens"] < window
        return Answer("Ready.", tools=[CALL], usage={"input_tokens": size}) if fits else FULL

    facts = {"/props": {"default_generation_settings": {"n_ctx": window}}}
    with LoopbackModel.in_thread(reply, facts=facts) as server:
        program = Program(repo, tmp_path / "home", env={"MINE_KEY": KEY})
        program.settings(providers={"mine": {"base_url": server.url, "api": "openai-chat", "key_env": "MINE_KEY"}})
        done = program.run("doctor", "--live", "--yes", "--json", "--model", "mine/x")
    told = json.loads(done.stdout)
    assert (done.returncode, states(told)["whole prompt"], len(server.bodies)) == (0, "ok", 7), value(
        told, "whole prompt"
    )


def test_a_prompt_that_does_not_fit_all_the_same_needs_a_window_and_no_compaction(tmp_path, repo):
    with checked(tmp_path, repo, [FULL], "--model", "mine/x", provider="mine") as (told, code, _):
        [answer] = [check for check in told["checks"] if check["label"] == "answer"]
        assert (code, answer["state"]) == (1, "failed")
    assert "window" in answer["do"] and "compact" not in answer["do"]


def test_tokens_that_a_server_read_from_its_own_cache_are_named(tmp_path, repo):
    def reply(body):
        size = len(json.dumps(body)) // 4
        return Answer("Ready.", tools=[CALL], usage={"input_tokens": 40, "cache_read_input_tokens": size - 40})

    with checked(tmp_path, repo, reply, "--model", "mine/x", provider="mine") as (told, code, _):
        assert (code, states(told)["cache"]) == (0, "ok")
    assert "the server reads from its own" in value(told, "cache")


def test_nobody_there_fails_to_be_reached(tmp_path, repo):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        done = Program(repo, tmp_path / "home", url).run("doctor", "--live", "--yes")
    assert done.returncode == 1
    assert "✗ reached" in done.stdout
    assert "could not be reached" in done.stdout
    assert "1 failed" in done.stdout


def test_without_a_model_it_cannot_start(tmp_path, repo):
    done = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": ""}).run("doctor", "--live", "--yes")
    assert (done.returncode, error_of(done)[0]) == (3, "no-model")


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--live", "--model", "claude-fable-5-1"], "may cost more than 0.05 USD, and no user is present"),
        (["--live", "--model", "claude-unheard-of"], "its price is not known, and no user is present"),
        (["--report", "x.txt"], "--report needs --live"),
        (["--live", "--yes", "--model", "scripted:x.toml"], "no service to try"),
        (["--yes"], "--yes needs --live"),
    ],
)
def test_calls_that_make_no_sense_are_refused_and_nothing_is_sent(tmp_path, repo, args, word):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run("doctor", *args)
        assert (done.returncode, error_of(done)[0]) == (2, "usage")
        assert word in done.stderr
        assert server.requests == []


def test_a_check_that_costs_little_says_its_ceiling_and_does_not_ask(tmp_path, repo):
    with LoopbackModel.in_thread(sound) as server:
        done = Program(repo, tmp_path / "home", server.url).run("doctor", "--live")
        assert (done.returncode, len(server.bodies)) == (0, 5), done.stderr
    assert "at most 0.020 USD" in done.stdout.partition("✓")[0], "before the first result"
    assert "at most 5 requests" in done.stdout


def test_a_report_can_be_sent(tmp_path, repo):
    body = json.dumps({"error": {"message": f"no {KEY} in {repo} at {os.uname().nodename}"}}).encode()

    def reply(body_):
        return Status(400, body=body) if purpose(body_) == "schema" else sound(body_)

    with LoopbackModel.in_thread(reply) as server:
        program = Program(repo, tmp_path / "home", server.url, env={"HOME": str(repo.parent)})
        done = program.run("doctor", "--live", "--report", "report.txt")
        assert done.returncode == 1
        assert program.run("doctor", "--live", "--yes", "--report", "report.json").returncode == 1
        asked = len(server.requests)
        again = program.run("doctor", "--live", "--report", "report.txt")
        assert (again.returncode, len(server.requests)) == (2, asked), "nothing is sent when the report has no place"
        assert "is there already" in again.stderr
    text, as_json = (repo / "report.txt").read_text(), json.loads((repo / "report.json").read_text())
    assert "schema       failed" in text and "tool call    ok" in text
    assert states(as_json)["schema"] == "failed"
    address = server.url.removeprefix("http://")
    for private in (
        KEY,
        KEY[-4:],
        str(repo),
        str(repo.parent),
        address,
        address.partition(":")[0],
        os.uname().nodename,
    ):
        assert private not in text + json.dumps(as_json)
    assert (repo / "report.txt").stat().st_mode & 0o777 == 0o600


def test_no_report_is_left_where_nothing_was_tried(tmp_path, repo):
    done = Program(repo, tmp_path / "home").run("doctor", "--live", "--model", "claude-fable-5-1", "--report", "x.txt")
    assert done.returncode == 2
    assert not (repo / "x.txt").exists()


@pytest.mark.slow
def test_a_person_sees_model_address_and_ceiling_and_is_asked_before_much_money_is_spent(tmp_path, repo):
    with LoopbackModel.in_thread(sound) as server:
        program = Program(repo, tmp_path / "home", server.url)
        options = {"cwd": str(repo), "env": program.environment, "encoding": "utf-8", "timeout": WAIT_S}
        for answer in ("n", "y"):
            args = [*COMMAND[1:], "doctor", "--live", "--model", "claude-fable-5-1"]
            shell = pexpect.spawn(sys.executable, args, dimensions=(40, 100), **options)
            shell.expect_exact("anthropic/claude-fable-5-1")
            shell.expect_exact(server.url.removeprefix("http://"))
            shell.expect_exact(f"…{KEY[-4:]}")
            shell.expect(r"at most 0\.\d+ USD")
            shell.expect_exact("Send them")
            assert server.requests == []
            shell.sendline(answer)
            shell.expect_exact("Nothing was sent." if answer == "n" else "Nothing failed.")
            shell.expect(pexpect.EOF)
            shell.close()
            assert shell.exitstatus == 0
        assert len(server.bodies) == 5
    assert os.path.isdir(repo)
