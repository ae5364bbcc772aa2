"""The demo as a user starts it: a process of its own, watched from outside.

`TEAMWRIGHT_UNDER_TEST` names the program of another environment, e.g. one that a wheel was installed into.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support import preloaded
from tests.support.waits import WAIT_S
from tests.ui.histories import History, baited, git, invented, snapshot

INSTALLED = os.environ.get("TEAMWRIGHT_UNDER_TEST", "")
PROGRAM = [INSTALLED] if INSTALLED else [sys.executable, "-P", "-m", "teamwright"]
RECEIPT = re.compile(r"\[(c\d+)\]")

WATCHER = """
import os, sys

_fd = os.open(os.environ["WATCHED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _watch(event, args):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        if event == "socket.getaddrinfo" or getattr(args[0], "family", None) != 1:
            os.write(_fd, f"network {event} {args[1:]!r}\\n".encode())
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        os.write(_fd, f"process {os.fsdecode(args[0])}\\n".encode())
    elif event in ("os.fork", "os.forkpty", "os.system"):
        os.write(_fd, f"process {event}\\n".encode())


sys.addaudithook(_watch)
"""
"""What notes each network address and each process of a Python program, itself included."""


@dataclass
class Stage:
    """Where demos run: a home and a directory for temporary files. `watching`: connections and starts are noted."""

    root: Path
    watching: bool = False
    env: dict[str, str] = field(default_factory=lambda: {"PYTHONDONTWRITEBYTECODE": "1"})

    def __post_init__(self) -> None:
        for name in ("home", "tmp", "watch"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "watch" / "sitecustomize.py").write_text(WATCHER)

    @property
    def environment(self) -> dict[str, str]:
        """A user's: no key, nothing set but what every shell sets."""
        path = [str(self.root / "watch"), *filter(None, [os.environ.get("PYTHONPATH")])]
        watch = {"PYTHONPATH": os.pathsep.join(path), "WATCHED": str(self.root / "watched")}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TEAMWRIGHT_HOME": str(self.root / "home" / ".teamwright"),
            "TMPDIR": str(self.root / "tmp"),
            "LC_ALL": "C.UTF-8",
            **(watch if self.watching else {}),
            **self.env,
        }

    def run(self, *args: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
        """`teamwright ARGS` to its end, off a terminal."""
        options = {"stdin": subprocess.DEVNULL, "env": self.environment, "timeout": WAIT_S, "cwd": cwd, **more}
        return preloaded.run([*PROGRAM, *args], text=True, **options)

    def start(self, *args: str, cwd: Path) -> subprocess.Popen[str]:
        """`teamwright ARGS` off a terminal; the caller ends it."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return preloaded.popen([*PROGRAM, *args], cwd=cwd, env=self.environment, text=True, **pipes)

    @property
    def watched(self) -> list[str]:
        """The lines that were noted: one for each connection and each start."""
        path = self.root / "watched"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def leftovers(self) -> list[str]:
        """Temporary files, and processes that were started with this stage's environment."""
        mark = f"TMPDIR={self.root / 'tmp'}".encode()
        found = [str(path) for path in (self.root / "tmp").iterdir()]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except (OSError, ProcessLookupError):
                continue
        return found


@dataclass
class Shown:
    """One demo that ran to its end, and the trees before and after."""

    kind: str
    place: Path
    history: History | None
    stage: Stage
    done: subprocess.CompletedProcess[str]
    before: dict[str, Any]
    after: dict[str, Any]
    canary: Path

    @property
    def lines(self) -> list[str]:
        return self.done.stdout.split("\n")

    @property
    def report(self) -> list[str]:
        """The lines of the report."""
        start = next(number for number, line in enumerate(self.lines) if line.startswith("── report"))
        end = next(number for number, line in enumerate(self.lines) if line.startswith("4 agents · 6 tasks"))
        return self.lines[start:end]

    @cached_property
    def team(self) -> str:
        return next(
            re.findall(r"^receipt   teamwright log (\S+) --call", line)[0] for line in self.lines if "log" in line
        )

    @property
    def receipts(self) -> list[str]:
        return list(dict.fromkeys(RECEIPT.findall("\n".join(self.report))))

    def call(self, number: str) -> dict[str, Any]:
        """A tool call as `teamwright log` tells it."""
        done = self.stage.run("log", self.team, "--call", number, "--json", cwd=self.place)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        done = self.stage.run("log", self.team, "--json", cwd=self.place)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def commands(self) -> list[dict[str, Any]]:
        """The inputs of all commands of the run."""
        return [e["input"] for e in self.events if e["type"] == "tool_called" and e["tool"] == "Bash"]


def set_up(kind: str, root: Path) -> tuple[Path, History | None]:
    """A place of this kind, baited where it is a repository."""
    place, history = root / "shown", None
    if kind in {"python and go", "javascript and rust"}:
        history = invented(kind, 31, commits=60)
        history.write(place)
    elif kind == "shallow":
        full = invented("python and go", 32, commits=30).write(root / "full")
        git(root, "clone", "-q", "--depth", "2", full.as_uri(), str(place))
    else:
        place.mkdir()
        if kind == "empty":
            git(place, "init", "-q", ".")
    if kind == "outside":
        (place / "notes.txt").write_text("nothing to do with git\n")
    else:
        baited(place, root / "canary")
    return place, history


def shown(kind: str, root: Path) -> Shown:
    """Play the demo in such a place, standing in it."""
    place, history = set_up(kind, root)
    stage = Stage(root / "stage", watching=True)
    before = snapshot(place)
    done = stage.run("demo", "--pace", "0", cwd=place)
    return Shown(kind, place, history, stage, done, before, snapshot(place), root / "canary")
