"""A lead and a member with a process of its own: `python -m bench.member_process SPEC` prints its figures as JSON.

SPEC `backend`: where the member lives ("detached", "tmux"). `kind` "member": a lead starts a member with a process of
its own: milliseconds from the beginning of the spawn to the member's first model request, the CPU time that its process
took until then, and what its memory is. "wake":
its words to that member, idle, `times` times: from the send until the lead hears that the member begins a turn on them,
and until the model request that holds them is there. The model server is in the lead's process.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.fresh import clean_env
from bench.tmux import in_tmux
from bench.w2_process import spread
from teamwright.protocol.events import MessageDelivered, TeamEvent
from teamwright.protocol.members import MemberState
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.outgoing_mail import send_text
from teamwright.teams.spawn import spawn
from teamwright.teams.team_creation import create_team
from teamwright.testing.model_server import LoopbackModel, RequestJson

MEMBER = "bea"
FIRST = "Wait for mail."
_KB = 1_024


class Asked:
    """The server's side: when the member's requests came, and what its process took at the first."""

    def __init__(self, root: Path) -> None:
        self.times: list[float] = []
        self.cost: dict[str, float] = {}
        self._root = root

    def __call__(self, body: RequestJson) -> str:
        """One answer."""
        if FIRST in json.dumps(body["messages"][0]):
            self.times.append(time.monotonic())
            if not self.cost:
                self.cost = cost_so_far(member_pid(self._root))
        return "Seen."


def member_pid(root: Path) -> int:
    """The member's process, as its own log says."""
    [log] = root.glob(f"state/projects/*/*/members/{MEMBER}/events.jsonl")
    return next(one["pid"] for one in map(json.loads, log.read_text().splitlines()) if one["type"] == "session_opened")


def cost_so_far(pid: int) -> dict[str, float]:
    """What a process took: milliseconds of CPU; MB of memory: its share of all (PSS), and what is its alone (USS)."""
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kb = {row[0]: int(row[1]) for row in rows}
    ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return {
        "cpu_ms": ticks * 1_000 / os.sysconf("SC_CLK_TCK"),
        "pss_mb": kb["Pss:"] / _KB,
        "uss_mb": (kb["Private_Clean:"] + kb["Private_Dirty:"]) / _KB,
    }


async def measure(spec: dict[str, Any], root: Path, env: dict[str, str]) -> dict[str, Any]:
    """The figures of one session."""
    asked = Asked(root)
    (root / "work").mkdir()
    async with LoopbackModel(asked) as server:
        env |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-bench-not-a-key"}
        options = Options(
            cwd=root / "work",
            home=str(root / "state"),
            model="claude-haiku-4-5",
            backend=spec["backend"],
            env=env,
        )
        async with open_session(options) as session:
            await create_team(session.team, "bench", None, None)
            start = time.monotonic()
            await spawn(session.team, SpawnSpec(FIRST, name=MEMBER))
            await rest(session)
            if spec["kind"] == "member":
                return {"first_ms": (asked.times[0] - start) * 1_000, **asked.cost}
            return await _wake(session, asked, spec["times"])


async def _wake(session: Session, asked: Asked, times: int) -> dict[str, Any]:
    begun: list[float] = []
    reached: list[float] = []
    heard: list[float] = []

    def hear(_number: int, event: TeamEvent) -> None:
        if isinstance(event, MessageDelivered) and event.member == MEMBER:
            heard.append(time.monotonic())

    session.log.subscribe(hear, live=False)
    for number in range(times):
        await asyncio.sleep(random.uniform(0.001, 0.02))
        start, so_far = time.monotonic(), len(asked.times)
        await send_text(session.team, "team-lead", MEMBER, f"Have a look at number {number}.")
        await rest(session)
        begun.append(heard[-1] - start)
        reached.append(asked.times[so_far] - start)
    return spread(begun, "ms", 1e3) | {f"asked_{key}": value for key, value in spread(reached, "ms", 1e3).items()}


async def rest(session: Session) -> None:
    """Until the member and everybody else have nothing left to do."""
    team = session.team
    while not team.is_quiet() or any(teammate.state is not MemberState.IDLE for teammate in team.running_members):
        team.changed.clear()
        await team.changed.wait()


def main() -> None:
    """What SPEC asks for, in a directory of its own."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="tw-") as root, in_tmux(spec["backend"], Path(root)) as where:
        print(json.dumps(asyncio.run(measure(spec, Path(root), clean_env(**where)))))


if __name__ == "__main__":
    main()
