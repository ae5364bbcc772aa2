"""Parts for tests of sub-agents through the real program: a server on which the lead and each sub-agent has a part.

Who asks is told by the first words of its conversation. A sub-agent may be held until the test lets it go.
"""

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import first_text
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import Program, told_results

NOTICE = re.compile(r"<task-notification[^>]*>.*?</task-notification>", re.S)
ENDED = re.compile(r"<task-id>(\w+)</task-id>.*?<status>(\w+)</status>", re.S)


def agent(prompt: str, **more: Any) -> Answer:
    """A call of Agent."""
    return Answer("I start.", tools=[("Agent", {"description": f"job {prompt[:12]}", "prompt": prompt} | more)])


def call(tool: str, **given: Any) -> Answer:
    return Answer(tools=[(tool, given)])


def first_words(body: dict[str, Any]) -> str:
    return first_text(body)


def notices(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Ids and states of all notices that a request tells, oldest first."""
    words = "\n".join(
        block.get("text", "")
        for message in body["messages"]
        if message["role"] == "user"
        for block in message["content"]
    )
    found = []
    for note in NOTICE.findall(words):
        found += ENDED.findall(note)[:1]
    return found


@dataclass
class Held:
    """A sub-agent is asked, says that it was (`reached`), and answers when it is let go (`go`)."""

    answer: Answer | str = "held answer"
    reached: threading.Event = field(default_factory=threading.Event)
    _gate: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    async def wait(self) -> Answer | str:
        self._loop = asyncio.get_running_loop()
        self.reached.set()
        await self._gate.wait()
        return self.answer

    def come(self) -> None:
        """Wait until it is asked."""
        assert self.reached.wait(WAIT_S), "it was never asked"

    def go(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._gate.set)


Part = Answer | str | Held | Callable[[dict[str, Any]], Any]


class Play:
    """Parts by the first words of a conversation; what no part names is the lead's. A spent part says `done`."""

    def __init__(self, lead: Iterable[Part], **parts: Iterable[Part]) -> None:
        self.parts = {name: list(part) for name, part in parts.items()}
        self.lead = list(lead)
        self.server: LoopbackModel | None = None
        self.came = threading.Condition()
        self.count: dict[str, int] = {}

    async def __call__(self, body: dict[str, Any]) -> Answer | str:
        name = self.who(body)
        with self.came:
            self.count[name] = self.count.get(name, 0) + 1
            self.came.notify_all()
        part = self.lead if name == "lead" else self.parts[name]
        reply: Any = part.pop(0) if part else f"{name} is done."
        if callable(reply):
            reply = reply(body)
        if inspect.isawaitable(reply):
            reply = await reply
        return await reply.wait() if isinstance(reply, Held) else reply

    def who(self, body: dict[str, Any]) -> str:
        said = first_words(body)
        """The agent's own job comes first; the jobs of others may stand behind it, in the list of members."""
        jobs = {name: said.find(f"JOB {name}") for name in self.parts}
        return min((name for name in jobs if jobs[name] >= 0), key=lambda name: jobs[name], default="lead")

    def comes_back(self, times: int, name: str = "lead") -> None:
        """Wait until it was asked so often."""
        with self.came:
            assert self.came.wait_for(lambda: self.count.get(name, 0) >= times, WAIT_S), f"{name} did not come back"

    @staticmethod
    def written(files: "Files", text: str) -> None:
        """Wait until a transcript of the session has the text."""
        places = [files.transcript, *files.directory.glob("agents/*.jsonl")]
        wait_until(lambda: any(text in place.read_text() for place in places), repr(text))

    def asked(self, name: str = "lead") -> list[dict[str, Any]]:
        assert self.server is not None
        return [body for body in self.server.bodies if self.who(body) == name]

    def results(self, name: str = "lead") -> list[str]:
        return [one["text"] for one in told_results(self.asked(name)[-1])]

    def notices(self, name: str = "lead") -> list[tuple[str, str]]:
        return notices(self.asked(name)[-1])

    @contextmanager
    def on(self, repo: Path, home: Path) -> Generator[Program, None, None]:
        with LoopbackModel.in_thread(self) as self.server:
            yield Program(repo, home, self.server.url)


class Files:
    """What a session left on disk."""

    def __init__(self, home: Path) -> None:
        [path] = home.glob("projects/*/*.jsonl")
        self.transcript, self.directory = path, path.with_suffix("")
        self.id = path.stem

    def facts(self) -> list[dict[str, Any]]:
        """agents.jsonl."""
        return [json.loads(line) for line in (self.directory / "agents.jsonl").read_text().splitlines()]

    def states(self) -> list[str]:
        """States of sub-agents in the event log, oldest first."""
        lines = (self.directory / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return [one["state"] for one in events if one["type"] == "subagent_changed"]

    def output(self, id: str) -> str:
        return (self.directory / "output" / f"{id}.output").read_text()

    def of_agent(self, id: str) -> list[dict[str, Any]]:
        """The transcript of a sub-agent."""
        return [json.loads(line) for line in (self.directory / "agents" / f"{id}.jsonl").read_text().splitlines()]

    def agent_ids(self) -> list[str]:
        return sorted({fact["id"] for fact in self.facts()})
