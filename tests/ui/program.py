"""The installed program as a user starts it: a process of its own, a home of its own, a key that is none."""

import json
import os
import select
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import preloaded
from tests.support.model_requests import is_session_note
from tests.support.preloaded import COMMAND
from tests.support.transcripts import lines_of
from tests.support.waits import WAIT_S

KEY = "sk-test-7Qm2xLw9Tz4Rk8Vn"


@dataclass
class Program:
    """Where it is started, and with what. `url` is the model server's address, or empty."""

    cwd: Path
    home: Path
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    """What starts the program: `["unshare", …]`."""

    @property
    def environment(self) -> dict[str, str]:
        kept = os.environ | {"TEAMWRIGHT_HOME": str(self.home), "ANTHROPIC_API_KEY": KEY}
        return kept | ({"ANTHROPIC_BASE_URL": self.url} if self.url else {}) | self.env

    def run(self, *args: str, stdin: str | Any = subprocess.DEVNULL, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run it to its end. `stdin` is a text for a pipe, or a file."""
        source: dict[str, Any] = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin}
        options = {"cwd": self.cwd, "env": self.environment, "text": True, "timeout": WAIT_S, **source, **more}
        return preloaded.run([*self.before, *COMMAND, *args], **options)

    def start(self, *args: str, **more: Any) -> subprocess.Popen[str]:
        """Start it; the caller ends it."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        options |= {"cwd": self.cwd, "env": self.environment, **more}
        return preloaded.popen([*self.before, *COMMAND, *args], **options)

    def settings(self, **values: Any) -> None:
        """Write the user's settings."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "settings.json").write_text(json.dumps(values))

    def transcript(self) -> list[dict[str, Any]]:
        """The lines of the lead's transcript: there is one session."""
        [path] = self.home.glob("projects/*/*.jsonl")
        return lines_of(path)


class Mark:
    """A pipe that a command of an agent writes to, so that a test knows how far it is."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def wait(self, most_s: float = WAIT_S) -> str:
        """What was written, within so many seconds."""
        assert select.select([self._fd], [], [], most_s)[0], f"nobody wrote to {self.path}"
        return os.read(self._fd, 4096).decode().strip()


def told_results(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool results that a request tells the model, oldest first, each with its `text`."""
    found = []
    for message in body["messages"]:
        for block in message["content"] if message["role"] == "user" else []:
            if block["type"] == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
                found.append({**block, "text": text})
    return found


def words_of(body: dict[str, Any]) -> str:
    """Everything that the user's side of a request says in plain text, without the session note."""
    blocks = [b for m in body["messages"] if m["role"] == "user" for b in m["content"]]
    return "\n".join(b["text"] for b in blocks if b["type"] == "text" and not is_session_note(b["text"]))


def error_of(done: subprocess.CompletedProcess[str]) -> tuple[str, list[str]]:
    """The slug and the lines of the error on stderr, after checking that it has the one form of all errors."""
    assert "Traceback" not in done.stderr
    assert KEY not in done.stderr + done.stdout
    lines = done.stderr.splitlines()
    last = max((n for n, line in enumerate(lines) if line.startswith("  [")), default=None)
    assert last is not None, done.stderr
    first = max(n for n, line in enumerate(lines[:last]) if line.startswith("teamwright: "))
    error = lines[first : last + 1]
    assert len(error) <= 12
    assert all(line.startswith("  ") for line in error[1:])
    return error[-1].strip().partition("]")[0].removeprefix("["), error
