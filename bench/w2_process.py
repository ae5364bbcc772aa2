"""One process of W2: `python -m bench.w2_process SPEC` prints its figures as JSON.

SPEC `kind`: "session": a lead's words to an idle teammate of the same process, from the send to the member's model
call. "idle": CPU that `members` idle teammates burn in `seconds`. "bell": a reader that sleeps until somebody
rings; "watcher": a teammate of a session that notices what is written from outside; "poll": a reader that looks
twice a second, as others do; "sender" writes to them, `reader` says to whom. All of these work below `root`.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from bench.crew import ready
from bench.letters import paths
from teamwright.mail.inbox import Inbox
from teamwright.models.model import ModelCard, Part, Reply, Request, TextPart
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.storage.doorbell import Doorbell, ring
from teamwright.storage.paths import find_home
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.outgoing_mail import send_text
from teamwright.teams.spawn import spawn
from teamwright.teams.team_creation import create_team

READER = "bea"
LIMITS = {"limits": {"members": 1_000, "spawns": 10_000, "spawns_per_minute": 10_000}}


class Listener:
    """A model that answers at once and notes when it was asked."""

    def __init__(self) -> None:
        self.card = ModelCard("bench", "bench", "bench")
        self.asked = 0.0

    async def aclose(self) -> None:
        """Nothing is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """One answer."""
        self.asked = time.monotonic()
        yield TextPart("Seen.")
        yield Reply([text_block("Seen.")], "end_turn", Usage(120, 40, 2_000, 100, 1, 0.001), "bench")


class Reader(Listener):
    """A listener that notes how old each letter is when it is told of it: a turn may bring several, or none."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.ages: list[float] = []
        self.all_came = asyncio.Event()
        self._letters = letters
        self._told = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """One answer."""
        now = time.monotonic()
        for item in request.items[self._told :]:
            self.ages += [now - float(sent) for sent in re.findall(rb"sent at ([\d.]+) for", item)]
        self._told = len(request.items)
        if len(self.ages) >= self._letters:
            self.all_came.set()
        async for part in super().stream(request):
            yield part


def options(root: Path, model: Listener) -> Options:
    """A session below this directory, with room for many members."""
    (root / "work").mkdir()
    settings = root / "settings.json"
    settings.write_text(json.dumps(LIMITS))
    return Options(cwd=root / "work", home=str(root / "state"), model=model, settings_file=settings, env={})


async def rest(session: Session) -> None:
    """Until all members have nothing left to do."""
    team = session.team
    while not team.is_quiet() or any(teammate.state is not MemberState.IDLE for teammate in team.running_members):
        team.changed.clear()
        await team.changed.wait()


async def in_session(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Microseconds from the send to the turn: the middle one and the slowest of a hundred."""
    model = Listener()
    took: list[float] = []
    async with open_session(options(root, model)) as session:
        await create_team(session.team, "bench", None, None)
        await spawn(session.team, SpawnSpec("Wait for mail.", name=READER))
        await rest(session)
        for number in range(spec["times"]):
            await asyncio.sleep(random.uniform(0, 0.002))
            start = time.monotonic()
            await send_text(session.team, "team-lead", READER, f"Have a look at number {number}.")
            await rest(session)
            took.append(model.asked - start)
            lead = session.team.mailbox("team-lead")
            await lead.mark_delivered([e.msg_id for e in await lead.unread() if e.msg_id])
    return spread(took, "us", 1e6)


async def idle(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Percent of a core that idle members burn."""
    async with open_session(options(root, Listener())) as session:
        await create_team(session.team, "bench", None, None)
        for number in range(spec["members"]):
            await spawn(session.team, SpawnSpec("Wait for mail.", name=f"m{number}"))
        await rest(session)
        cpu, start = time.process_time(), time.monotonic()
        await asyncio.sleep(spec["seconds"])
        share = (time.process_time() - cpu) / (time.monotonic() - start)
    return {"percent": share * 100}


async def by_bell(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """A reader that sleeps until its bell is rung, then looks."""
    inbox, bell = Inbox(*paths(root, READER)), Doorbell.bind(root / "bell")
    try:
        return await _read(spec, inbox, bell.wait)
    finally:
        bell.close()


async def by_poll(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """A reader that looks twice a second."""
    return await _read(spec, Inbox(*paths(root, READER)), lambda: asyncio.sleep(0.5))


async def _read(spec: dict[str, Any], inbox: Inbox, until: Callable[[], Any]) -> dict[str, Any]:
    took: list[float] = []
    ready()
    while len(took) < spec["times"]:
        await until()
        entries = await inbox.unread()
        now = time.monotonic()
        took += [now - _sent(entry) for entry in entries]
        await inbox.mark_delivered([entry.msg_id for entry in entries if entry.msg_id])
    return spread(took, "ms", 1e3)


async def by_watcher(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """A teammate of a session that somebody outside writes to: from the send to its model call."""
    model = Reader(spec["times"])
    async with open_session(options(root, model)) as session:
        await create_team(session.team, "bench", None, None)
        await spawn(session.team, SpawnSpec("Wait for mail.", name=READER))
        await rest(session)
        ready()
        await model.all_came.wait()
    return spread(model.ages, "ms", 1e3)


async def sender(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Messages at random moments, each with the time of its sending."""
    if spec["reader"] == "watcher":
        home = find_home(str(root / "state"))
        inbox = Inbox(home.inbox("bench", READER), home.guard(home.inbox("bench", READER)), root / "archive.jsonl")
    else:
        inbox = Inbox(*paths(root, READER))
    ready()
    for _ in range(spec["times"]):
        await asyncio.sleep(random.uniform(*spec["pause"]))
        await inbox.put(InboxEntry("ada", f"sent at {time.monotonic()} for you"))
        if spec["reader"] == "bell":
            ring(root / "bell")
    return {}


def _sent(entry: InboxEntry) -> float:
    return float(entry.text.split("sent at ")[1].split(" ")[0])


def spread(took: list[float], unit: str, scale: float) -> dict[str, float]:
    """The middle one, and the slowest but for one of a hundred; `scale` units to a second."""
    took = sorted(took)
    return {f"p50_{unit}": took[len(took) // 2] * scale, f"p99_{unit}": took[(len(took) - 1) * 99 // 100] * scale}


KINDS = {
    "session": in_session,
    "idle": idle,
    "bell": by_bell,
    "poll": by_poll,
    "watcher": by_watcher,
    "sender": sender,
}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as own:
        print(json.dumps(asyncio.run(KINDS[spec["kind"]](spec, Path(spec.get("root", own))))))


if __name__ == "__main__":
    main()
