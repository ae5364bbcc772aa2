"""Members and sub-agents that come, do a turn and go: what of them is left in the process that ran them."""

import asyncio
import gc
import re
import tracemalloc
from pathlib import Path
from typing import Any

from teamwright.models.model import Request
from teamwright.protocol.ids import LEAD
from teamwright.session.session import Session
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.shutdown import kill
from teamwright.teams.spawn import spawn
from tests.scale.crew import Plays, a_team, heap, held, main, read_lead_mail, rest

WARM = 10
PROMPT = "Look up what there is. " + "word " * 400


class Played:
    """A member reads a long file and says a word; the lead starts as many sub-agents as it is told, ten at a time."""

    def __init__(self) -> None:
        self._wanted = 0

    def __call__(self, text: str, request: Request) -> str | list[tuple[str, dict[str, Any]]]:
        if request.agent_name != LEAD:
            return "Done." if "a line of a long file" in text else [("Read", {"file_path": "long.txt"})]
        if found := re.search(r"sub-agents: (\d+)", text):
            self._wanted = int(found[1])
        if self._wanted == 0:
            return "All are back."
        self._wanted -= 10
        return [("Agent", {"description": "one of many", "prompt": PROMPT})] * 10


async def come_and_go(session: Session, name: str, *, gently: bool) -> None:
    """One member: a start, a turn, an end."""
    teammate = await spawn(session.team, SpawnSpec(PROMPT, name=name, mode="acceptEdits"))
    while teammate.turns < 1 or not teammate.is_resting:
        session.team.changed.clear()
        await session.team.changed.wait()
    if gently:
        await session.deadlines.request_stop(session.team, name, "that was all")
        while not teammate.end_processed:
            session.team.changed.clear()
            await session.team.changed.wait()
    else:
        await kill(session.team, teammate, "that was all")


def registered(session: Session) -> dict[str, int]:
    """Entries of what the session keeps, by where."""
    team, agent_factory = session.team, session.agent_factory
    return {
        "watched": sum(len(one.callbacks) for one in session.outside.watcher._files.values()),
        "bells": len(session.outside._bells),
        "timers": len(session.deadlines.timers),
        "talk": len(team.message_counts),
        "inheritances": len(agent_factory.inheritances),
        "derived": len(agent_factory.policies.derived),
        "standing": len(team.status.members),
        "early": len(session.tally.early),
        "waiting": len(session.tally.waiting),
        "subscribers": len(session.log._subscribers),
        "remembered": len(team.members),
        "items": sum(len(teammate.agent.conversation.items) for teammate in team.members.values()),
    }


async def level(session: Session) -> dict[str, Any]:
    """What is held now that nobody is at work."""
    await rest(session)
    await read_lead_mail(session)
    await asyncio.sleep(0.05)
    return {"heap": heap(), "traced": traced(), **held(), **registered(session)}


def traced() -> int:
    """Bytes that Python objects hold."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """The levels: after the first ten, after `sequential` one after another, `together`, and `subagents`."""
    found: dict[str, Any] = {}
    if spec.get("trace"):
        tracemalloc.start()
    async with a_team(root, Plays(Played())) as team:
        session = team.session
        (root / "work" / "long.txt").write_text("a line of a long file\n" * 1_500)
        for number in range(WARM):
            await come_and_go(session, f"warm-{number}", gently=number % 2 == 0)
        await read_lead_mail(session)
        await team.run(f"sub-agents: {WARM}")
        found["first"] = await level(session)
        before = tracemalloc.take_snapshot() if spec.get("trace") else None
        for number in range(spec["sequential"]):
            await come_and_go(session, f"one-{number}", gently=number % 2 == 0)
        found["sequential"] = await level(session)
        together = (come_and_go(session, f"par-{number}", gently=number % 2 == 0) for number in range(spec["together"]))
        await asyncio.gather(*together)
        found["together"] = await level(session)
        await team.run(f"sub-agents: {spec['subagents']}")
        found["subagents"] = await level(session)
        if before is not None:
            found["top"] = [str(line) for line in tracemalloc.take_snapshot().compare_to(before, "lineno")[:25]]
    found["after"] = held()
    return found


if __name__ == "__main__":
    main(run)
