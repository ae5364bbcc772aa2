"""Parts for tests of many: a child process with few descriptors, a model that keeps nothing, and what is counted.

Children are started as `python -m tests.scale.<name> SPEC` and print one JSON object: memory, descriptors and counters
are theirs alone.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

from teamwright import Budget, Team
from teamwright.models.model import ModelCard, Part, Reply, Request, TextPart
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block, message_text, text_block
from teamwright.protocol.usage import Usage
from teamwright.session.session import Session
from tests.support.model_requests import is_session_note
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parents[2]
LIMITS = {"limits": {"members": 1_000, "spawns": 10_000, "spawns_per_minute": 10_000}, "compact_at": None}
CARD = ModelCard("scale", "scale", "scale", usd_in=0.0, usd_out=0.0)

Call = tuple[str, dict[str, Any]]


def child(name: str, spec: dict[str, Any], *, descriptors: int = 1_024) -> dict[str, Any]:
    """What the child prints at its end. It may open so many descriptors."""
    limited = f'ulimit -n {descriptors} && exec "$@"'
    command = ["sh", "-c", limited, "sh", sys.executable, "-m", f"tests.scale.{name}", json.dumps(spec)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * WAIT_S)
    assert done.returncode == 0, done.stderr[-4_000:]
    return json.loads(done.stdout)


class Plays:
    """A model that makes each answer from the newest message of the request, and keeps nothing of either."""

    card = CARD

    def __init__(self, answer: Callable[[str, Request], str | Sequence[Call]]) -> None:
        self._answer = answer
        self._calls = 0
        self.asked: dict[str, int] = {}

    async def aclose(self) -> None:
        """Nothing is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """One answer, after a turn of the event loop: as a network would, it lets others run."""
        await asyncio.sleep(0)
        self.asked[request.agent_name] = self.asked.get(request.agent_name, 0) + 1
        answer = self._answer(newest(request), request)
        if isinstance(answer, str):
            yield TextPart(answer)
            yield Reply([text_block(answer)], "end_turn", Usage(10, 10, requests=1), CARD.wire)
        else:
            blocks = [self._block(*call) for call in answer]
            yield Reply(blocks, "tool_use", Usage(10, 10, requests=1), CARD.wire)

    def _block(self, tool: str, given: dict[str, Any]) -> Block:
        self._calls += 1
        return {"type": "tool_use", "id": f"toolu_{self._calls:08d}", "name": tool, "input": given}


def newest(request: Request) -> str:
    """What the newest message of a request says, tool results included."""
    content = json.loads(request.items[-1])["content"]
    parts = [b["content"] if b["type"] == "tool_result" else b.get("text", "") for b in content]
    texts = (part if isinstance(part, str) else message_text(part) for part in parts)
    return "\n".join(text for text in texts if not is_session_note(text))


def a_team(root: Path, model: Plays, **more: Any) -> Team:
    """A team below this directory, with room for many members and without caps."""
    (root / "work").mkdir(exist_ok=True)
    settings = root / "settings.json"
    settings.write_text(json.dumps(LIMITS))
    usual = {"permission_mode": "bypassPermissions", "settings_file": settings, "env": {}, "budget": Budget.unlimited()}
    return Team("crew", model=model, cwd=root / "work", home=root / "state", **usual | more)


async def rest(session: Session) -> None:
    """Until nobody has anything left to do."""
    team = session.team
    async with asyncio.timeout(WAIT_S):
        while not team.is_quiet() or any(teammate.state is not MemberState.IDLE for teammate in team.running_members):
            team.changed.clear()
            await team.changed.wait()


async def read_lead_mail(session: Session) -> list[str]:
    """What the members wrote to the lead, which has no turn of its own here: it is seen, without one."""
    desk = session.team.lead_mail
    assert desk is not None
    entries = await desk.unread()
    if entries:
        await desk.mark_delivered(entries)
    return [entry.text for entry in entries]


def heap() -> int:
    """Bytes that this process needs now: its own pages, without code, garbage and what the allocator keeps."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc's; others give back by themselves, or cannot
        ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1_024
    raise RuntimeError("this system does not say how much memory a process holds")


def descriptors() -> int:
    """Open descriptors of this process."""
    return len(os.listdir("/proc/self/fd")) - 1


def held() -> dict[str, int]:
    """What a process may have too much of, besides memory."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        "descriptors": descriptors(),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "children": len(children),
    }


def main(run: Callable[[dict[str, Any], Path], Any]) -> None:
    """Do what the argument says below the directory `root` and print what was found."""
    spec = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(run(spec, Path(spec["root"])))))
