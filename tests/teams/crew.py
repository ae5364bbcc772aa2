"""Parts for tests of a whole team in one process: a scripted model, and waits that are bounded."""

import asyncio
import json
from collections.abc import Callable

from teamwright import Team
from teamwright.models.model import Request
from teamwright.protocol.messages import message_text
from teamwright.testing import ScriptedModel
from tests.support.model_requests import is_session_note
from tests.support.waits import WAIT_S


def newest(request: Request) -> str:
    """What the newest message of a request says, tool results included."""
    content = json.loads(request.items[-1])["content"]
    parts = [b["content"] if b["type"] == "tool_result" else b.get("text", "") for b in content]
    texts = (p if isinstance(p, str) else message_text(p) for p in parts)
    return "\n".join(text for text in texts if not is_session_note(text))


def told(model: ScriptedModel, name: str) -> str:
    """All that the agent of this name was sent with its last request."""
    last = [request for request in model.requests if request.agent_name == name][-1]
    return "\n".join(item.decode() for item in last.items)


async def within(seconds: float, wait) -> None:
    async with asyncio.timeout(seconds):
        await wait


async def until(team: Team, condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            team.session.team.changed.clear()
            if condition():
                return
            await team.session.team.changed.wait()


def a_team(tmp_path, model, **more) -> Team:
    return Team("crew", model=model, cwd=tmp_path, **{"permission_mode": "bypassPermissions", **more})


class Holding(ScriptedModel):
    """Answers like its script, but the agents in `held` think until they are let go."""

    def __init__(self, script, *held: str) -> None:
        super().__init__(script)
        self.held = set(held)
        self.thinking = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(self, request):
        if request.agent_name in self.held:
            self.thinking.set()
            await self.go.wait()
        async for part in super().stream(request):
            yield part
