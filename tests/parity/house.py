"""Parts for tests that play one scene twice: with members in the lead's process, and in processes of their own.

Every agent's part is told by the first words of its conversation, `JOB <name>`; whoever no part names is the lead. One
loopback server answers all processes.
"""

import asyncio
import contextlib
import inspect
import json
import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teamwright import Member, RequestClosed, RequestOpened, Team
from teamwright.backends.terminal_adapter import DETACHED
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.usage import Usage
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import is_session_note
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, KEY, told_results
from tests.ui.subagents.play import first_words

IN_PROCESS, PROCESS = "in-process", "process"
BACKENDS = (IN_PROCESS, PROCESS)


def call(tool: str, **given: Any) -> Answer:
    return Answer(tools=[(tool, given)])


def write(path: str, content: str = "x") -> Answer:
    return call("Write", file_path=path, content=content)


@dataclass
class Hold:
    """Somebody is asked, and answers when the test lets it."""

    answer: Any = "held answer"
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    let: asyncio.Event = field(default_factory=asyncio.Event)

    async def come(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.reached.wait()

    def go(self, answer: Any = None) -> None:
        self.answer = self.answer if answer is None else answer
        self.let.set()


class Parts:
    """What each says, in order; who has nothing left is done. Asked from any process."""

    def __init__(self, parts: dict[str, Iterable[Any]]) -> None:
        self.parts = {name: list(part) for name, part in parts.items()}
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self.came = asyncio.Event()

    async def __call__(self, body: dict[str, Any]) -> Any:
        name = self.who(body)
        self.bodies.append((name, body))
        self.came.set()
        part = self.parts.get(name, [])
        reply = part.pop(0) if part else f"{name} is done."
        if callable(reply):
            reply = reply(body)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, Hold):
            reply.reached.set()
            await reply.let.wait()
            reply = reply.answer
        return reply

    def who(self, body: dict[str, Any]) -> str:
        said = first_words(body)
        # The agent's own job comes first; a note on the roster may name the jobs of others after it.
        places = {name: said.find(f"JOB {name}") for name in self.parts if f"JOB {name}" in said}
        return min(places, key=lambda name: places[name], default="lead")

    def of(self, name: str) -> list[dict[str, Any]]:
        return [body for who, body in self.bodies if who == name]


class House:
    """A team, the server behind it, and where its members live."""

    def __init__(self, team: Team, parts: Parts, backend: str, root: Path) -> None:
        self.team, self.parts, self.backend = team, parts, backend
        self.work, self.home = root / "work", root / "home"
        self.events: list[TeamEvent] = []
        self.requests: list[RequestOpened] = []
        self.team_mode = ""
        self.usage = Usage()
        self.env: dict[str, str] = {}
        self.opened: asyncio.Queue[RequestOpened] = asyncio.Queue()

    @property
    def away(self) -> bool:
        return self.backend == PROCESS

    async def spawn(self, name: str, more: str = "", **how: Any) -> Member:
        return await self.team.spawn(name, f"JOB {name} {more}".strip(), **how)

    async def until(self, condition: Callable[[], Any], why: str = "") -> Any:
        """Wait until it holds: looked at whenever something changed for the team."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                return await self._until(condition)
        raise AssertionError(f"it never came: {why or inspect.getsource(condition).strip()}")

    async def _until(self, condition: Callable[[], Any]) -> Any:
        changed = self.team.session.team.changed
        while True:
            changed.clear()
            if got := condition():
                return got
            await changed.wait()

    async def quiet(self) -> None:
        """Until nobody works and nobody is about to."""
        await self.until(self.team.session.team.is_quiet, "quiet")

    async def quiet_of(self, name: str) -> None:
        """Until this member rests, and what it was rung for is done."""
        team = self.team.session.team
        await self.until(
            lambda: (teammate := team.find(name)) and teammate.is_resting and not teammate.wake_target.wake_pending,
            f"{name} rests",
        )

    async def asked(self, name: str, times: int) -> dict[str, Any]:
        """The N-th request of this agent, once it has come."""
        try:
            async with asyncio.timeout(WAIT_S):
                while len(self.parts.of(name)) < times:
                    self.parts.came.clear()
                    await self.parts.came.wait()
        except TimeoutError:
            raise AssertionError(f"{name} was asked {len(self.parts.of(name))} times, not {times}") from None
        return self.parts.of(name)[times - 1]

    async def request(self) -> RequestOpened:
        """The next request that is opened, in the lead's queue."""
        async with asyncio.timeout(WAIT_S):
            return await self.opened.get()

    def results(self, name: str) -> list[str]:
        """What the calls of this agent gave, oldest first."""
        return [one["text"] for one in told_results(self.parts.of(name)[-1])]

    def said_to(self, name: str) -> str:
        """All that this agent was told, in its newest request."""
        blocks = [b for m in self.parts.of(name)[-1]["messages"] if m["role"] == "user" for b in m["content"]]
        return "\n".join(b["text"] for b in blocks if b["type"] == "text" and not is_session_note(b["text"]))

    def closed(self) -> list[tuple[str, str, str]]:
        return [(e.member, e.verdict, e.by) for e in self.events if isinstance(e, RequestClosed)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run our program beside the team, to its end."""
        return subprocess.run(
            [*COMMAND, *args], capture_output=True, text=True, timeout=WAIT_S, cwd=self.work, env=self.env
        )

    def mail(self, name: str) -> list[dict[str, Any]]:
        path = self.home / f"teams/crew/inboxes/{name}.json"
        return json.loads(path.read_text()) if path.exists() else []

    def roster(self) -> dict[str, dict[str, Any]]:
        config = json.loads((self.home / "teams/crew/config.json").read_text())
        return {member["name"]: member for member in config["members"]}


@asynccontextmanager
async def house(
    root: Path, backend: str, parts: dict[str, Iterable[Any]], *, settings: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[House]:
    """A team `crew` in `root/work`, whose members live where `backend` says; closed with whoever is left."""
    (root / "work").mkdir(exist_ok=True)
    # No call waits for the answer of another one, which a scene may hold for long.
    given = options.pop("settings_file", None)
    settings = settings if given is None else json.loads(given.read_text())
    path = root / "given.json"
    path.write_text(json.dumps({"cache_warmup_s": None} | (settings or {})))
    played = Parts(parts)
    async with LoopbackModel(played) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY, **options.pop("env", {})}
        options = {"backend": DETACHED if backend == PROCESS else IN_PROCESS, **options}
        options = {
            "model": "sonnet",
            "settings_file": path,
            "cwd": root / "work",
            "home": root / "home",
            "env": env,
            **options,
        }
        async with Team("crew", **options) as team:
            made = House(team, played, backend, root)
            made.env = {**env, "TEAMWRIGHT_HOME": str(root / "home")}
            team.session.log.subscribe(lambda _n, event: _note(made, event), live=False)
            feed = team.events()
            reading = asyncio.create_task(_read(made, feed))
            try:
                yield made
                made.team_mode, made.usage = team.mode, team.usage
            finally:
                reading.cancel()
    for log in made.home.glob("projects/*/*/members/*.log"):
        assert "Traceback" not in log.read_text(), log.read_text()[-4000:]


def _note(made: House, event: TeamEvent) -> None:
    made.events.append(event)
    made.team.session.team.changed.set()  # `until` may wait for this event, and not each event changes the team
    if isinstance(event, RequestOpened):
        made.requests.append(event)


async def _read(made: House, feed: Any) -> None:
    async for _, event in feed:
        if isinstance(event, RequestOpened):
            made.opened.put_nowait(event)
