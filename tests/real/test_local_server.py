"""The program with a real, small model on a real llama.cpp server: `make real`.

The model understands nothing, so these tests look at what does not depend on its words: counts, caches, interrupts,
kills, compaction and errors. The figures of caches are the server's own.
"""

import asyncio
import json
import signal
import subprocess

import pytest

from teamwright import Budget, ModelCallEnded, Progress, Team, TeamEvent
from tests.real.local_server import (
    RUN_S,
    Server,
    answers_in,
    cached_share,
    every_wire,
    flags_for,
    needs_server,
    program,
    settings_for,
    usage_of,
)
from tests.ui.program import Program

pytestmark = [*needs_server, pytest.mark.finding("R3")]

NOTE_TOKENS = 250
"""The most tokens of a session note with short instructions, and of a prompt of two words."""

CACHED_SHARE = 0.9
"""The least share of its prompt that a new agent of a known type finds in the server's cache (goal of R3)."""


@every_wire
@pytest.mark.feature("The first request of a second session, with one tool")
def test_a_second_session_finds_what_the_first_one_read(tmp_path, server, wire, record_figures):
    flags = ("-p", "Say hi.", *flags_for(wire), "--max-turns", "1")
    first = usage_of(program(tmp_path / "one", server.url).run(*flags, timeout=RUN_S))
    second = usage_of(program(tmp_path / "two", server.url, "Use four blanks.").run(*flags, timeout=RUN_S))
    assert first["input_tokens"] + first["cache_read_input_tokens"] > 500 and first["output_tokens"] > 0
    record_figures(second)
    assert second["input_tokens"] <= NOTE_TOKENS


@every_wire
@pytest.mark.feature("The first request of a second member, with all tools")
async def test_a_second_member_finds_what_the_first_one_read(tmp_path, server, wire, record_figures):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(settings_for(server.url)))
    work = tmp_path / "work"
    work.mkdir()
    model = f"{wire}/smollm2"
    async with Team("crew", model=model, cwd=work, home=tmp_path / "home", settings_file=settings) as team:
        answered: asyncio.Queue[str] = asyncio.Queue()
        team.session.log.subscribe(
            lambda _, e: answered.put_nowait(e.member) if isinstance(e, ModelCallEnded) else None
        )
        for name in ("ada", "ben"):
            await team.spawn(name, f"You are {name}. Say hi.", budget=Budget(turns=1))
            async with asyncio.timeout(RUN_S):
                while await answered.get() != name:
                    pass
    [transcript] = (tmp_path / "home").glob("projects/*/*/agents/ben.jsonl")
    usage = answers_in(transcript)[0]["usage"]
    record_figures(usage)
    assert cached_share(usage) >= CACHED_SHARE


@pytest.mark.finding("R9")
@pytest.mark.feature("How far the prompt is read")
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_run_says_how_far_the_server_has_read_its_prompt(tmp_path, server, wire):
    long = " ".join(f"{wire}{n}" for n in range(700))  # of no other test, so that the server has to read it
    flags = ("--model", f"{wire}/smollm2", "--verbose", "--max-turns", "1", "--tools", "Read")
    done = program(tmp_path, server.url).run("-p", f"Say hi. {long}", *flags, timeout=RUN_S)
    told = [line.split(maxsplit=1)[1] for line in done.stderr.splitlines() if "reads the prompt" in line]
    print(f"{wire}: {told}")
    assert told and told[-1] == "reads the prompt 100 %", done.stderr


@pytest.mark.finding("R9")
@pytest.mark.feature("Two members with one slot")
async def test_a_server_with_one_slot_serves_two_members_one_after_the_other(tmp_path):
    single = Server(slots=1)
    try:
        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps(settings_for(single.url)))
        work = tmp_path / "work"
        work.mkdir()
        names = {"ada", "ben"}
        seen: list[TeamEvent] = []
        async with Team("crew", model="chat/smollm2", cwd=work, home=tmp_path / "home", settings_file=settings) as team:
            answered: asyncio.Queue[str] = asyncio.Queue()
            team.session.log.subscribe(
                lambda _, e: answered.put_nowait(e.member) if isinstance(e, ModelCallEnded) else seen.append(e)
            )
            for name in ("ada", "ben"):
                await team.spawn(name, f"You are {name}. Say hi.", budget=Budget(turns=1))
            async with asyncio.timeout(RUN_S):
                while names:
                    names.discard(await answered.get())
    finally:
        single.end()
    waits = {(e.member, e.what) for e in seen if isinstance(e, Progress) and e.doing == "pause"}
    print(f"one slot: {sorted(waits)} waited")
    assert len(waits) == 1 and waits <= {(name, "a free slot of its server") for name in ("ada", "ben")}


def start_answer(made: Program, wire: str) -> subprocess.Popen[str]:
    """Start a headless run, and return once the model's answer begins."""
    flags = ("--model", f"{wire}/smollm2", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
    process = made.start("-p", "Count to a thousand.", *flags, "--tools", "Read")
    assert process.stdout is not None
    for line in process.stdout:
        if '"text_delta"' in line:
            break
    return process


def continued(made: Program, wire: str) -> dict[str, int]:
    """The usage of the first answer after the conversation continues."""
    return usage_of(made.run("-c", "-p", "Go on.", *flags_for(wire), "--max-turns", "1", timeout=RUN_S))


@every_wire
@pytest.mark.feature("An interrupt in an answer, and what the next request reads")
def test_an_interrupted_answer_leaves_a_session_that_continues(tmp_path, server, wire, record_figures):
    made = program(tmp_path, server.url)
    process = start_answer(made, wire)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=RUN_S)
    assert process.returncode == 130, err
    usage = continued(made, wire)
    record_figures(usage)
    assert cached_share(usage) > 0.5


@every_wire
@pytest.mark.feature("A kill of the session in an answer, and its resume")
def test_a_session_that_is_killed_in_an_answer_continues(tmp_path, server, wire, record_figures):
    made = program(tmp_path, server.url)
    process = start_answer(made, wire)
    process.kill()
    process.communicate(timeout=RUN_S)
    usage = continued(made, wire)
    record_figures(usage)
    assert "Count to a thousand." in json.dumps(made.transcript())
    assert cached_share(usage) > 0.5


@pytest.mark.feature("A kill of the server in an answer")
def test_a_server_that_is_killed_in_an_answer_ends_the_turn_with_an_error_that_names_it(tmp_path):
    mortal = Server(slots=1)
    try:
        made = program(tmp_path, mortal.url)
        made.settings(**settings_for(mortal.url), retries=0)
        process = start_answer(made, "chat")
        mortal.end()
        _, err = process.communicate(timeout=RUN_S)
        assert process.returncode == 1, err
        assert "chat/smollm2" in err
        assert "Traceback" not in err
    finally:
        mortal.end()


@every_wire
@pytest.mark.feature("A prompt that does not fit")
def test_a_prompt_that_does_not_fit_is_an_error_within_few_requests(tmp_path, server, wire):
    made = program(tmp_path, server.url)
    digits = "".join(f"{n:06} " for n in range(4_000))
    done = made.run("-p", f"Add these: {digits}", *flags_for(wire), "--max-turns", "3", timeout=RUN_S)
    assert done.returncode == 1, done.stdout
    assert "context-full" in done.stderr and "does not fit into the window" in done.stderr


@every_wire
@pytest.mark.feature("A compaction")
def test_a_conversation_is_compacted_by_the_model(tmp_path, force, wire):
    made = program(tmp_path, force({}).url)
    streams = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    process = made.start("-p", *streams, "--model", f"{wire}/smollm2", "--tools", "Read", stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def result_of(prompt: str) -> str:
        """What the program answers to a prompt."""
        print(
            json.dumps({"type": "user", "message": {"role": "user", "content": prompt}}), file=process.stdin, flush=True
        )
        lines = (json.loads(line) for line in process.stdout or ())
        return next(line["result"] for line in lines if line["type"] == "result")

    result_of("Say hi.")
    result_of("Say it again.")
    assert "compacted: " in result_of("/compact")
    process.communicate(timeout=RUN_S)


@every_wire
@pytest.mark.feature("`doctor --live`")
def test_doctor_looks_at_the_server(tmp_path, server, wire):
    done = program(tmp_path, server.url).run("doctor", "--live", "--model", f"{wire}/smollm2", timeout=RUN_S)
    print(done.stdout)
    assert "Traceback" not in done.stderr and "smollm2" in done.stdout
