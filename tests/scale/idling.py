"""Idle members: what a process does while nothing happens, counted call by call."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from teamwright import Team
from teamwright.models.model import Request
from teamwright.protocol.events import TeamEvent, TurnEnded
from tests.scale.crew import Plays, a_team, held, main, read_lead_mail, rest

OURS = "/teamwright/"
WINDOW_S = 4.5
"""Two slow looks of the watcher, which come every 2 s."""


async def window() -> dict[str, int]:
    """The calls into the system that this thread makes while nothing happens, by name; `poll` is the loop waking up."""
    calls: Counter[str] = Counter()

    def profile(_frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__module__ in {"posix", "fcntl", "select", "_socket", None}:
            calls[argument.__name__] += 1

    sys.setprofile(profile)
    try:
        await asyncio.sleep(WINDOW_S)
    finally:
        sys.setprofile(None)
    return dict(calls)


async def woken(team: Team, who: str) -> int:
    """How many functions of the program are called from a message to this member to the end of its turn."""
    calls, ended = 0, asyncio.Event()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and OURS in frame.f_code.co_filename

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, TurnEnded) and event.member == who:
            ended.set()

    unsubscribe = team.session.log.subscribe(note, live=False)
    sys.setprofile(profile)
    try:
        await team.send(who, "Are you there?")
        await ended.wait()
    finally:
        sys.setprofile(None)
        unsubscribe()
    return calls


def spoken(text: str, request: Request) -> str:
    """Everybody says the same."""
    return "Seen."


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Calls while `members` are idle; while half of them are over; and who had a turn when one is written to."""
    model = Plays(spoken)
    async with a_team(root, model) as team:
        session = team.session
        for number in range(spec["members"]):
            await team.spawn(f"m{number}", "Wait for mail.")
        await rest(session)
        await read_lead_mail(session)
        await asyncio.sleep(0.2)  # what was just written is noticed by the watcher, once
        before = held()
        if spec.get("wakes_only"):
            await woken(team, "m0")  # it hears who joined the team after it
            return {"wake": await woken(team, "m0")}
        found: dict[str, Any] = {"idle": await window()}
        found["same"] = held() == before
        found["timers"] = (
            session.agent_factory.watchdog is not None and session.agent_factory.watchdog._timer is not None
        )
        for number in range(spec["members"] // 2):
            await team.stop(f"m{number}")
        await read_lead_mail(session)
        await asyncio.sleep(0.2)
        found["half"] = await window()
        asked = dict(model.asked)
        who = f"m{spec['members'] - 1}"
        found["wake"] = await woken(team, who)
        await rest(session)
        found["woken"] = {
            name: count - asked.get(name, 0) for name, count in model.asked.items() if count != asked.get(name)
        }
    return found


if __name__ == "__main__":
    main(run)
