"""The real command line with members in processes of their own: who lives is counted, whoever dies was killed here.

`House` has the program, the server on which everybody has a part, and the processes; each test plays in every place.
"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S, wait_until
from tests.teams.backends.rig import private_server
from tests.teams.member_processes.started_members import Marked
from tests.ui.program import Program
from tests.ui.subagents.play import Part, Play

DETACHED, TMUX = "detached", "tmux"
BACKENDS = (DETACHED, TMUX)
BYPASS = "--dangerously-skip-permissions"


@dataclass
class House:
    """One session of the real program. `backend` is where its members live."""

    program: Program
    play: Play
    marked: Marked
    backend: str
    environ: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    lead: subprocess.Popen[str] | None = None
    closable: bool = True
    """Whether the session's end can reach the place: else a pane whose program ended stays, for a person to read."""

    def set(self, grace_s: float = 60, **more: Any) -> None:
        """The user's settings."""
        members = {"backend": self.backend, "orphan_timeout_s": grace_s}
        self.program.settings(members=members, cancel_grace_s=10, **more)

    def start(self, prompt: str = "work", *args: str) -> subprocess.Popen[str]:
        """The lead's first life."""
        self.lead = self.program.start("-p", prompt, BYPASS, *args)
        return self.lead

    def kill_lead(self) -> None:
        assert self.lead is not None
        self.lead.kill()
        self.lead.communicate(timeout=WAIT_S)

    def resume(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.program.run("resume", self.session, "-p", BYPASS, *args, **more)

    def end(self) -> tuple[int, str, str]:
        """How the lead's first life ends by itself."""
        assert self.lead is not None
        out, err = self.lead.communicate(timeout=WAIT_S)
        return self.lead.returncode, out, err

    # ── what is on disk ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def transcript(self) -> Path:
        [path] = self.program.home.glob("projects/*/*.jsonl")
        return path

    @property
    def session(self) -> str:
        return self.transcript.stem

    def events(self) -> list[dict[str, Any]]:
        """Those of the session's log."""
        lines = (self.transcript.with_suffix("") / "events.jsonl").read_text().splitlines()
        return [one for line in lines if (one := json.loads(line))["type"] != "snapshot"]

    def of(self, kind: str, member: str = "") -> list[dict[str, Any]]:
        return [one for one in self.events() if one["type"] == kind and member in ("", one.get("member"))]

    def told(self, name: str) -> str:
        """What the member was told, from its transcript."""
        return (self.transcript.with_suffix("") / f"agents/{name}.jsonl").read_text()

    def told_lead(self) -> str:
        return self.transcript.read_text()

    def team(self) -> Path:
        [config] = self.program.home.glob("teams/*/config.json")
        return config.parent

    def roster(self) -> list[str]:
        return [one["name"] for one in json.loads((self.team() / "config.json").read_text())["members"]][1:]

    def tasks(self) -> list[tuple[str, str]]:
        """Status and owner of each task, by number."""
        files = sorted(self.program.home.glob("tasks/*/[0-9]*.json"), key=lambda path: int(path.stem))
        read = [json.loads(path.read_text()) for path in files]
        return [(task["status"], task.get("owner") or "") for task in read]

    def once(self) -> None:
        """Nothing that a member's process told stands twice in the session's log, nor was it booked twice."""
        origins = [one["origin"] for one in self.events() if one.get("origin")]
        assert len(origins) == len(set(origins))
        calls = [one["use"] for one in self.of("tool_called")]
        assert len(calls) == len(set(calls))


def until(condition: Callable[[], Any], why: str = "") -> Any:
    """Wait for what no event tells a test: a line in a file of another process, which may not be there yet."""

    def holds() -> Any:
        with suppress(OSError, ValueError):
            return condition()

    return wait_until(holds, why or "it")


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
    if number == signal.SIGKILL:
        assert await_end(pid)


@contextmanager
def house(
    repo: Path, home: Path, backend: str, marked: Marked, lead: Iterable[Part], **parts: Iterable[Part]
) -> Generator[House]:
    """The program in the repository, and the parts that everybody plays."""
    play = Play(lead, **parts)
    with play.on(repo, home) as program:
        made = House(program, play, marked, backend)
        made.set()
        if backend != TMUX:
            yield from _ended(made)
            return
        with private_server() as rig:
            program.env |= {key: rig.environ[key] for key in ("TMUX", "TMUX_PANE")}
            yield from _ended(made)
            left = rig.panes()
            assert not made.closable or set(left) == {rig.lead}, f"panes are left: {left}"


def _ended(made: House) -> Generator[House]:
    try:
        yield made
        if made.lead is not None:
            assert made.lead.poll() is not None, "the lead still runs"
        made.marked.gone(within_s=WAIT_S)
    finally:
        if made.lead is not None:
            made.lead.kill()
            made.lead.communicate(timeout=WAIT_S)
        made.marked.end_all()
