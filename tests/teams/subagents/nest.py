"""Parts for tests of sub-agents that start sub-agents: each plays what stands under its job's first word."""

import asyncio
import json
from collections.abc import Awaitable
from typing import TypeVar

from teamwright import Team
from teamwright.models.model import Reply
from teamwright.protocol.ids import LEAD
from teamwright.protocol.usage import Usage
from teamwright.testing import Call, ScriptedModel
from tests.support.model_requests import is_session_note
from tests.support.waits import WAIT_S
from tests.teams.crew import newest
from tests.teams.subagents.crowd import start

T = TypeVar("T")

LOOK = Call("Glob", {"pattern": "*"})
CAPS = {"turns": {"max_turns": 4}, "tokens": {"budget_tokens": 38_000}}
"""Caps under which an agent has room for four answers of this use."""
USES = Usage(9_000, 0, requests=1, usd=0.0)


class Nest(ScriptedModel):
    """Plays by first word of the job (`one`, `two`, …); `lead` is the lead's. Who is through says `<who>: <newest>`.

    Who is in `stalls` never gets to its n-th answer; whoever is in `holds` thinks before its first answer until its
    event is set. Each call uses `uses`.
    """

    def __init__(self, **plays: object) -> None:
        super().__init__(self._said)
        self.plays = {who: list(play) for who, play in plays.items()}
        self.holds: dict[str, asyncio.Event] = {}
        self.thinking: set[str] = set()
        self.stalls: dict[str, int] = {}
        self.stalled = asyncio.Event()
        self.uses = Usage(10, 1, requests=1, usd=0.0)

    @staticmethod
    def who(request) -> str:
        if request.agent_name == LEAD:
            return "lead"
        texts = (block["text"] for block in json.loads(request.items[0])["content"])
        return next(text for text in texts if not is_session_note(text)).split()[0]

    def _said(self, request):
        who = self.who(request)
        play = self.plays.get(who, [])
        return play.pop(0) if play else f"{who}: {newest(request)[:4000]}"

    async def stream(self, request):
        who = self.who(request)
        self.thinking.add(who)
        if who in self.holds:
            await self.holds[who].wait()
        if self.stalls.get(who) == len(self.of(who)) + 1:
            self.stalled.set()
            await asyncio.Event().wait()
        async for part in super().stream(request):
            if isinstance(part, Reply):
                part = Reply(part.content, part.stop_reason, self.uses, part.model)
            yield part

    def of(self, who: str) -> list:
        """The requests of one of them, oldest first."""
        return [request for request in self.requests if self.who(request) == who]

    def tools(self, who: str) -> dict[str, dict]:
        """What it was offered, by name."""
        head = json.loads(b"{" + self.of(who)[0].prefix.head + b"}")
        return {tool["name"]: tool["input_schema"]["properties"] for tool in head["tools"]}

    def told(self, who: str) -> str:
        """All that it was sent with its newest request."""
        return b"\n".join(self.of(who)[-1].items).decode()


def deep(tmp_path, model, depth: int = 2, *, resume: bool = False, **more) -> Team:
    file = tmp_path / "given.json"
    limits = {"spawns": 200, "spawns_per_minute": 200, "agents": 40, "depth": depth}
    file.write_text(json.dumps(more.pop("settings", {}) | {"limits": limits}))
    (tmp_path / "work").mkdir(exist_ok=True)
    kept = {"permission_mode": "bypassPermissions", "settings_file": file} | more
    return (Team.resume if resume else Team)("crew", model=model, cwd=tmp_path / "work", **kept)


async def soon(work: Awaitable[T]) -> T:
    """What comes of it, in time."""
    async with asyncio.timeout(WAIT_S):
        return await work


def runs_of(team: Team) -> dict:
    """The runs by first word of their jobs."""
    return {run.description.split()[1]: run for run in team.session.agents.runs.values()}


__all__ = ["Nest", "deep", "runs_of", "soon", "start"]
