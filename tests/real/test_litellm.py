"""LiteLLM in front of the real server: `make real LITELLM=1`.

LiteLLM calls Chat Completions of the server for the same API, and the Responses API for the other two.
"""

import json
from collections.abc import Iterator

import pytest

from tests.real.forcing_proxy import Call, ForcingProxy
from tests.real.gateway import KEY_ENV, WINDOW, Gateway, needs_gateway
from tests.real.local_server import RUN_S, every_wire, flags_for, needs_server, program, settings_for, usage_of
from tests.real.outcomes import LITELLM
from tests.ui.program import Program

pytestmark = [*needs_server, *needs_gateway]

WORD = "zinnia"


@pytest.fixture(scope="module")
def upstream(server) -> Iterator[ForcingProxy]:
    """What LiteLLM calls."""
    made = ForcingProxy(server.url, {})
    yield made
    made.close()


@pytest.fixture(scope="module")
def gateway(upstream, tmp_path_factory) -> Iterator[Gateway]:
    made = Gateway(tmp_path_factory.mktemp("gateway"), upstream.url)
    yield made
    made.end()


@pytest.fixture
def made(tmp_path, gateway) -> Program:
    """The program in front of LiteLLM."""
    started = program(tmp_path, gateway.url)
    settings = settings_for(gateway.url, key_env=KEY_ENV)
    for facts in settings["models"].values():
        facts["context_tokens"] = WINDOW
    started.settings(**settings, retries=0)
    started.env[KEY_ENV] = gateway.key
    return started


@every_wire
@pytest.mark.feature("A streamed answer, and what the next session reads", service=LITELLM)
def test_an_answer_is_streamed_and_counted(made, upstream, wire, record_figures):
    upstream.follow({})
    flags = ("-p", "Say hi.", *flags_for(wire))
    first = usage_of(made.run(*flags, timeout=RUN_S))
    second = usage_of(made.run(*flags, timeout=RUN_S))
    assert first["input_tokens"] + first["cache_read_input_tokens"] > 500 and first["output_tokens"] > 0
    record_figures(second)
    assert second["cache_read_input_tokens"] > 500


@every_wire
@pytest.mark.feature("A tool call, and the next request in the turn", service=LITELLM)
def test_a_tool_is_called_and_its_result_goes_back(made, upstream, wire, record_figures):
    word = made.cwd / "word.txt"
    word.write_text(f"The word is {WORD}.\n")
    upstream.follow({"lead": [Call("Read", {"file_path": str(word)})]})
    done = made.run("-p", "Read the file.", *flags_for(wire), timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    assert upstream.asked == ["lead", "lead"]
    lines = made.transcript()
    assert [WORD in json.dumps(line) for line in lines if '"tool_result"' in json.dumps(line)] == [True]
    _, second = [line["usage"] for line in lines if line.get("type") == "assistant"]
    record_figures(second)
    assert second["cache_read_input_tokens"] > 500


@every_wire
@pytest.mark.feature("An answer that is cut off at the limit", service=LITELLM)
def test_an_answer_that_is_cut_off_is_no_whole_answer(made, upstream, wire):
    upstream.follow({}, is_free=True)
    done = made.run("-p", "Count to a thousand.", *flags_for(wire), "--max-turns", "1", timeout=RUN_S)
    assert json.loads(done.stdout)["team"]["end"] == "length", done.stderr


@every_wire
@pytest.mark.feature("A stream that breaks off", service=LITELLM)
def test_a_stream_that_breaks_off_is_an_error_that_names_the_model(made, upstream, wire):
    upstream.follow({}, breaks_after=4)
    done = made.run("-p", "Say hi.", *flags_for(wire), timeout=RUN_S)
    assert done.returncode == 1, done.stdout
    assert f"{wire}/smollm2" in done.stderr and "refused" not in done.stderr


@every_wire
@pytest.mark.feature("A prompt that does not fit", service=LITELLM)
def test_a_prompt_that_does_not_fit_is_an_error_that_says_so(made, upstream, wire):
    upstream.follow({})
    digits = "".join(f"{n:06} " for n in range(4_000))
    done = made.run("-p", f"Add these: {digits}", *flags_for(wire), "--max-turns", "3", timeout=RUN_S)
    assert done.returncode == 1, done.stdout
    assert "context-full" in done.stderr and "does not fit into the window" in done.stderr
