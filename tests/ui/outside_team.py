"""A team at work behind the real program: ada waits in a command until she is let go, ben is idle, the lead waits."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.notices import request_ids
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program
from tests.ui.test_main_job import all_told, texts_of, who

TEAM = "Release Team"


@dataclass
class Crew:
    """Plays everybody, from the request alone. `objects` are those who object to a shutdown."""

    up: Path
    go: Path
    objects: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    in_passing: Callable[[str], object] | None = None
    """The reply to a side question."""
    told: dict[str, str] = field(default_factory=dict)

    def __call__(self, body: dict) -> object:
        if self.in_passing is not None and "in passing" in texts_of(body["messages"][-1]):
            return self.in_passing(texts_of(body["messages"][-1]))
        name = who(body)
        self.told[name] = all_told(body)
        return self.lead(body) if name == "team-lead" else self.member(name, body)

    def lead(self, body: dict) -> Answer:
        calls = [b["name"] for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if "name" in b]
        if "TeamCreate" not in calls:
            return Answer(tools=[("TeamCreate", {"team_name": TEAM, "description": "a release"})])
        if "TaskCreate" not in calls:
            return Answer(tools=[("TaskCreate", {"subject": "the job", "description": "do it", "for": ["ada"]})])
        if "Agent" not in calls:
            start = [{"description": f"start {n}", "prompt": f"You help, {n}.", "name": n} for n in ("ada", "ben")]
            return Answer(tools=[("Agent", one | {"subagent_type": "general-purpose"}) for one in start])
        return Answer(f"The lead heard: {texts_of(body['messages'][-1])}")

    def member(self, name: str, body: dict) -> Answer:
        last = body["messages"][-1]
        told = texts_of(last)
        if "shutdown_request" in told and name not in self.silent:
            return self.leave(name, told)
        if last["content"][0]["type"] == "tool_result" and not told:
            return Answer(f"{name} is done.")
        if 'teammate_id="task-list"' in told and name == "ada":
            wait = f"echo up > {self.up}; read word < {self.go}; echo $word"
            return Answer(tools=[("Bash", {"command": wait, "description": "wait"})])
        return Answer(f"{name} heard: {told}")

    def leave(self, name: str, told: str) -> Answer:
        request_id = request_ids(told)[-1]
        answer = {"type": "shutdown_response", "request_id": request_id, "approve": name not in self.objects}
        reason = {"reason": "not before lunch"} if name in self.objects else {}
        return Answer(tools=[("SendMessage", {"to": "lead", "message": answer | reason})])


@dataclass
class Running:
    """The program that leads the team, and another one in whose terminal commands are given."""

    program: Program
    process: subprocess.Popen[str]
    crew: Crew
    home: Path
    go: int

    @property
    def directory(self) -> Path:
        return self.home / "teams" / "release-team"

    def run(self, *args: str, **more) -> subprocess.CompletedProcess[str]:
        return self.program.run(*args, **more)

    def events(self) -> list[dict]:
        [log] = self.home.glob("projects/*/*/events.jsonl")
        return [json.loads(line) for line in log.read_text().splitlines()]

    def let_go(self) -> None:
        os.write(self.go, b"on\n")

    def until(self, said: str) -> None:
        """Until the program said this on stderr, where it tells what happens, a line an event."""
        for line in self.process.stderr:
            if said in line:
                return
        raise AssertionError(f"it never said {said!r}")

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, err


@contextmanager
def team_at_work(tmp_path: Path, repo: Path, home: Path | None = None, **crew) -> Generator[Running]:
    """The team, once ada is in her command and ben is idle. Everything is ended at the end."""
    up, go = Mark(tmp_path / "up"), tmp_path / "go"
    os.mkfifo(go)
    fd = os.open(go, os.O_RDWR | os.O_NONBLOCK)
    players = Crew(up.path, go, **crew)
    home = home or tmp_path / "home"
    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, home, server.url)
        process = program.start("-p", "go", "--dangerously-skip-permissions", "--verbose")
        try:
            assert up.wait() == "up"
            running = Running(program, process, players, home, fd)
            running.until("ben          idle")
            yield running
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()
            os.close(fd)
