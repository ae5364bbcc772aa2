"""Real MCP servers, from the npm registry, under the real program: shared, killed, late, failing, ended.

They are installed once, by npm, into pytest's cache; where that cannot be done the tests say why they skip.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.programs import require
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program, told_results
from tests.ui.test_main_job import who

pytestmark = pytest.mark.slow

EVERYTHING = ("server-everything", "2026.8.31")
FILES = ("server-filesystem", "2026.8.31")
PACKAGES = [f"@modelcontextprotocol/{name}@{version}" for name, version in (EVERYTHING, FILES)]
NPM = ("npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH",
              "ERR_SOCKET_TIMEOUT", "EIDLETIMEOUT", "E503", "E504")  # fmt: skip
"""What npm says when its registry cannot be reached."""

SKIP = "--dangerously-skip-permissions"
LONG = ("mcp__everything__trigger-long-running-operation", {"duration": 3600, "steps": 1})


def add(a: int, b: int) -> tuple[str, dict[str, Any]]:
    return "mcp__everything__get-sum", {"a": a, "b": b}


def echo(text: str) -> tuple[str, dict[str, Any]]:
    return "mcp__everything__echo", {"message": text}


@pytest.fixture(scope="session")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with both servers, installed once for all who run tests here."""
    for program in ("node", "npm"):
        require(program)
    cache = getattr(request.config, "cache", None)
    place = Path(cache.mkdir("mcp-servers") if cache else tmp_path_factory.mktemp("mcp-servers"))
    made = place / "-".join((*EVERYTHING, *FILES))
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "whole").exists():
            install(made)
    return made / "node_modules" / "@modelcontextprotocol"


def install(place: Path) -> None:
    command = [*NPM, "--prefix", str(place), "--loglevel=error", "--fetch-retries=1", *PACKAGES]
    place.mkdir(exist_ok=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * WAIT_S)
    if done.returncode and any(code in done.stderr for code in NO_NETWORK):
        pytest.skip("npm does not reach its registry: servers of it cannot be met")
    assert done.returncode == 0, done.stderr
    (place / "whole").touch()


class Gate:
    """A step that an agent comes to and that the test lets it pass; its answer follows."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.here = threading.Event()
        self.open = threading.Event()

    def reached(self) -> None:
        assert self.here.wait(WAIT_S), "nobody came to the gate"


@dataclass
class Cast:
    """Plays every agent by its steps, the last one again when they are spent. `told` is each one's last request."""

    steps: dict[str, list[Answer | Gate]]
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)

    async def __call__(self, body: dict[str, Any]) -> Answer:
        name = who(body)
        self.told[name] = body
        at = self._taken[name] = self._taken.get(name, 0) + 1
        step = self.steps[name][min(at, len(self.steps[name])) - 1]
        if isinstance(step, Answer):
            return step
        step.here.set()
        await asyncio.to_thread(step.open.wait, WAIT_S)
        return step.answer

    def results(self, name: str) -> list[str]:
        return [told["text"] for told in told_results(self.told[name])]

    def offered(self, name: str = "team-lead") -> list[str]:
        return [tool["name"] for tool in self.told[name]["tools"]]


@dataclass
class ScratchRepository:
    """A program whose settings name both servers, and what runs of them: processes that have `place` in their words."""

    packages: Path
    program: Program
    place: Path

    def __post_init__(self) -> None:
        (self.place / "inside.txt").write_text("words inside\n")
        (self.place.parent / "outside.txt").write_text("words outside\n")
        self.configure()

    def entry(self, name: str, *args: str) -> dict[str, Any]:
        return {"command": "node", "args": [str(self.packages / name / "dist" / "index.js"), *args]}

    def configure(self, files: str = "", **settings: Any) -> None:
        everything = self.entry(EVERYTHING[0], "stdio", str(self.place))
        servers = {"everything": everything, "files": self.entry(FILES[0], files or str(self.place))}
        # The server of files serves the directories of the session instead of those in its arguments.
        allowed = {"additionalDirectories": [str(self.place)]}
        self.program.settings(mcpServers=servers, shutdown_timeout_s=30, permissions=allowed, **settings)

    def running(self, name: str = "") -> list[int]:
        """The numbers of the servers' processes, as the system lists them."""
        listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        mine = [row for row in rows if Path(row[1]).name == "node" and str(self.place) in row]
        return [int(row[0]) for row in mine if f"/{name}/" in row[2] or not name]

    def read(self, name: str) -> tuple[str, dict[str, Any]]:
        return "mcp__files__read_text_file", {"path": str(self.place / name)}

    def states(self) -> dict[str, dict[str, Any]]:
        [path] = self.program.home.glob("projects/*/*/mcp.json")
        return {one["name"]: one for one in json.loads(path.read_text())["servers"]}

    def warnings(self) -> list[str]:
        """What people were told."""
        [path] = self.program.home.glob("projects/*/*/events.jsonl")
        events = [json.loads(line) for line in path.read_text().splitlines()]
        return [event["text"] for event in events if event["type"] == "notice" and event["level"] == "warning"]

    @contextmanager
    def played(self, cast: Cast) -> Generator[None, None, None]:
        """The model server with this cast; no gate is left closed."""
        with LoopbackModel.in_thread(cast) as server:
            self.program.url = server.url
            try:
                yield
            finally:
                for step in (step for steps in cast.steps.values() for step in steps if isinstance(step, Gate)):
                    step.open.set()

    @contextmanager
    def begun(self, *args: str) -> Generator[subprocess.Popen[str], None, None]:
        """The program at work; it does not outlive the block."""
        process = self.program.start("-p", "go", SKIP, *args)
        try:
            yield process
        except BaseException as problem:
            process.kill()
            problem.add_note(process.communicate(timeout=WAIT_S)[1])  # it may have ended long before
            raise
        finally:
            process.kill()
            process.communicate(timeout=WAIT_S)


@pytest.fixture
def context(packages: Path, tmp_path: Path, repo: Path) -> Generator[ScratchRepository, None, None]:
    place = tmp_path / "place"
    place.mkdir()
    made = ScratchRepository(packages, Program(repo, tmp_path / "home"), place)
    yield made
    for pid in made.running():
        os.kill(pid, signal.SIGKILL)


def spawn(*names: str) -> Answer:
    return Answer(
        tools=[("Agent", {"description": "start", "prompt": f"You help, {name}.", "name": name}) for name in names]
    )


@pytest.mark.promise("H7", "F62")
def test_two_members_use_the_same_servers_at_once_which_end_with_the_run(context):
    calls = {
        "ada": [add(2, 3), echo("here is ada"), context.read("inside.txt"), context.read("../outside.txt")],
        "ben": [add(40, 2), echo("here is ben"), context.read("inside.txt"), ("mcp__everything__get-tiny-image", {})],
    }
    gates = [Gate(Answer("I have it.")) for _ in calls]
    together = [Gate(Answer(tools=own)) for own in calls.values()]
    steps = {name: [one, gate] for name, one, gate in zip(calls, together, gates, strict=True)}
    cast = Cast({"team-lead": [spawn(*calls), Answer("I wait.")], **steps})
    with context.played(cast), context.begun() as process:
        for gate in together:
            gate.reached()
        for gate in together:
            gate.open.set()
        for gate in gates:
            gate.reached()
        assert len(context.running(EVERYTHING[0])) == 1 and len(context.running(FILES[0])) == 1
        assert len(context.running()) == 2
        assert {state["pid"] for state in context.states().values()} == set(context.running())
        for gate in gates:
            gate.open.set()
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
    ada, ben = cast.results("ada"), cast.results("ben")
    assert ada[:3] == ["The sum of 2 and 3 is 5.", "Echo: here is ada", "words inside\n"]
    assert "Access denied" in ada[3] and "words outside" not in ada[3]
    assert ben[:3] == ["The sum of 40 and 2 is 42.", "Echo: here is ben", "words inside\n"]
    assert "image" in json.dumps(cast.told["ben"]["messages"][-1])
    assert context.running() == []
    assert not list(context.program.home.glob("projects/*/*/processes/*.json"))


class Middle:
    """Ada is in a call that lasts an hour, and the server has it: ben was answered after it. Ben waits at a gate."""

    def __init__(self, context: ScratchRepository, tmp_path: Path, ada: list[Answer | Gate]) -> None:
        self.context = context
        self.mark = Mark(tmp_path / "mark")
        self.asks = Gate(Answer(tools=[echo("beside it")]))
        self.ben = Gate(Answer(tools=[add(2, 2)]))
        steps: dict[str, list[Answer | Gate]] = {
            "team-lead": [spawn("ada", "ben"), Answer("I wait.")],
            "ada": [Answer(tools=[LONG]), *ada],
            "ben": [self.asks, self.ben, Answer("I have it.")],
        }
        self.cast = Cast(steps)
        hook = {"type": "command", "command": f"echo $$ > {self.mark.path}"}
        context.configure(hooks={"PreToolUse": [{"matcher": LONG[0], "hooks": [hook]}]})

    @contextmanager
    def begun(self) -> Generator[subprocess.Popen[str], None, None]:
        with self.context.played(self.cast), self.context.begun() as process:
            self.asks.reached()
            ended(int(self.mark.wait()))  # the hook, the last thing before the call itself
            self.asks.open.set()
            self.ben.reached()
            assert self.cast.results("ben") == ["Echo: beside it"]
            yield process


def ended(pid: int) -> None:
    """Until the process is no more."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        assert select.select([descriptor], [], [], WAIT_S)[0], f"{pid} does not end"
        os.close(descriptor)


@pytest.mark.promise("H7", "F62")
def test_a_server_that_is_killed_in_the_middle_fails_the_call_underway_and_comes_back_with_the_next(context, tmp_path):
    lost, last = Gate(Answer(tools=[add(1, 1)])), Gate(Answer("I have it."))
    middle = Middle(context, tmp_path, [lost, last])
    with middle.begun() as process:
        [before] = context.running(EVERYTHING[0])
        os.kill(before, signal.SIGKILL)
        lost.reached()
        [said] = middle.cast.results("ada")
        assert said.startswith('The server "everything" ended (signal 9)'), said
        assert "The server is started again by your next call." in said
        assert told_results(middle.cast.told["ada"])[0]["is_error"]
        lost.open.set()
        last.reached()
        assert middle.cast.results("ada")[1] == "The sum of 1 and 1 is 2."
        [after] = context.running(EVERYTHING[0])
        assert after != before and context.states()["everything"]["pid"] == after
        middle.ben.open.set()
        last.open.set()
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
    assert middle.cast.results("ben") == ["Echo: beside it", "The sum of 2 and 2 is 4."]
    [told] = [text for text in context.warnings() if "everything" in text]
    assert told.startswith('the MCP server "everything" ended (signal 9)')
    assert context.running() == []


@pytest.mark.promise("H7", "F21", "F62")
def test_a_signal_in_the_middle_of_a_call_leaves_no_server(context, tmp_path):
    with Middle(context, tmp_path, []).begun() as process:
        assert len(context.running()) == 2
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 143, err
    assert context.running() == []


@pytest.mark.promise("H7", "F21", "F62", "P3")
def test_a_killed_program_s_server_at_work_is_ended_by_the_resume_and_the_call_is_not_made_again(context, tmp_path):
    middle = Middle(context, tmp_path, [])
    with middle.begun() as process:
        [left] = context.running(EVERYTHING[0])
        process.kill()
        process.communicate(timeout=WAIT_S)
        assert context.running(EVERYTHING[0]) == [left]
    context.configure()
    here = Gate(Answer("I have it."))
    cast = Cast({"team-lead": [Answer("I wait.")], "ada": [Answer(tools=[add(1, 1)]), here], "ben": [Answer("Well.")]})
    with context.played(cast), context.begun("-c") as process:
        here.reached()
        [again] = context.running(EVERYTHING[0])
        assert again != left
        here.open.set()
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
    [cut, done] = cast.results("ada")
    assert "was interrupted before it ended" in cut and done == "The sum of 1 and 1 is 2."
    assert context.running() == []


@pytest.mark.promise("H7")
def test_a_server_that_is_late_is_reached_by_name_and_one_that_fails_is_told_once_with_its_last_words(context):
    context.configure(files=str(context.place / "nowhere"), mcp={"wait_s": 0.001})
    by_name = [
        ("McpCall", {"server": "everything", "tool": "get-sum", "arguments": {"a": 3, "b": 4}}),
        ("McpCall", {"server": "files"}),
    ]
    cast = Cast({"team-lead": [Answer(tools=by_name), Answer("Done.")]})
    with context.played(cast):
        done = context.program.run("-p", "go", SKIP)
    assert done.returncode == 0, done.stderr
    assert not [name for name in cast.offered() if name.startswith("mcp__")] and "McpCall" in cast.offered()
    [total, failed] = cast.results("team-lead")
    assert total == "The sum of 3 and 4 is 7."
    why = 'server "files" ended (exit code 1); its last output: '
    assert why in failed and "None of the specified directories are accessible" in failed
    [told] = [text for text in context.warnings() if "files" in text]
    assert why in told and context.running() == []
    context.configure()
    cast = Cast({"team-lead": [Answer(tools=[context.read("inside.txt")]), Answer("Done.")]})
    with context.played(cast):
        done = context.program.run("-p", "go", SKIP)
    assert done.returncode == 0, done.stderr
    assert "mcp__everything__get-sum" in cast.offered(), "what it listed is known from the disk"
    assert cast.results("team-lead") == ["words inside\n"] and context.running() == []


LOOPBACK = """
const net = require("node:net"), listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) { return listen.call(this, {port, host: "127.0.0.1"}, ...rest) };
"""
"""The server behind an address listens to the whole network by itself; here it listens to this machine alone."""


@contextmanager
def behind_an_address(context: ScratchRepository, port: int) -> Generator[None, None, None]:
    (context.place / "loopback.cjs").write_text(LOOPBACK)
    script = context.entry(EVERYTHING[0])["args"]
    command = ["node", "--require", str(context.place / "loopback.cjs"), *script, "streamableHttp"]
    env = os.environ | {"PORT": str(port)}
    log = context.place / "http.log"  # a pipe that nobody reads would stop it
    with log.open("w") as out, subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.PIPE, text=True) as one:
        try:
            assert one.stderr is not None
            assert any("listening on port" in line for line in one.stderr), log.read_text()
            yield
        finally:
            one.kill()


@pytest.mark.promise("H7")
def test_a_server_behind_an_address_that_was_started_anew_is_greeted_again_by_the_call_after_the_next(context):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context.program.settings(mcpServers={"web": {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"}})

    def say(text: str) -> Answer:
        return Answer(tools=[("mcp__web__echo", {"message": text})])

    gate = Gate(say("lost"))
    cast = Cast({"team-lead": [say("first"), gate, say("again"), Answer("Done.")]})
    with context.played(cast), contextlib.ExitStack() as before:
        before.enter_context(behind_an_address(context, port))
        with context.begun() as process:
            gate.reached()
            before.close()
            with behind_an_address(context, port):
                gate.open.set()
                _, err = process.communicate(timeout=WAIT_S)
                assert process.returncode == 0, err
    [first, lost, again] = cast.results("team-lead")
    assert (first, again) == ("Echo: first", "Echo: again")
    assert lost.startswith('The server "web" has forgotten the session.'), lost
    assert "The server is started again by your next call." in lost
