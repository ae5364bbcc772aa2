"""The job of `tests.scale.machines`: the script of its members, and its lead, which runs as a separate process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.spawn import spawn

AT_ONCE = 4
"""Members that are started at the same time, and tasks that are created at the same time."""


_OTHERWISE = """
[script]
name = "machines"

[[agent."*".otherwise]]
say = "Noted."
"""

_TURN = r"""
[[agent.{name}.turn]]
repeat = true
when.task = '#(?P<id>\d+) job'
capture_text = ['#(?P<id>\d+) job']
{messages}
[[agent.{name}.turn.call]]
tool = "TaskUpdate"
input = {{ taskId = "{{{{id}}}}", status = "completed" }}
"""

_MESSAGE = """[[agent.{name}.turn.call]]
tool = "SendMessage"
input = {{ to = "{to}", message = "{name} does #{{{{id}}}}, part {part}", summary = "a part" }}
"""


def member_names(count: int) -> list[str]:
    """Return the names of the members."""
    return [f"m{number}" for number in range(count)]


def script(members: int, messages: int) -> str:
    """Return the script: a member sends the messages of a task to its next neighbours, one each, and completes it."""
    names = member_names(members)
    turns: list[str] = []
    for number, name in enumerate(names):
        neighbours = [names[(number + 1 + part % (members - 1)) % members] for part in range(messages)]
        sends = "".join(_MESSAGE.format(name=name, to=to, part=part) for part, to in enumerate(neighbours))
        turns.append(_TURN.format(name=name, messages=sends))
    return _OTHERWISE + "".join(turns)


# ── the lead ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def lead(spec: dict[str, Any]) -> None:
    """Start the members, create the tasks, and see the job through. Print the seconds of each step as JSON lines."""
    options = Options(
        cwd=Path(spec["cwd"]),
        home=spec["home"],
        model=f"scripted:{spec['script']}",
        permission_mode="bypassPermissions",
        database=spec["database"],
        settings_file=Path(spec["settings"]),
    )
    async with open_session(options) as session:
        team = session.team

        async def start(name: str) -> None:
            await spawn(team, SpawnSpec(prompt="Take tasks until there are none.", name=name, isolation="remote"))

        async def create(number: int) -> None:
            await team.tasks.create(f"job {number}", "Tell your neighbours.", by=LEAD)

        report("start", await timed([partial(start, name) for name in member_names(spec["members"])]))
        report("create", await timed([partial(create, number) for number in range(spec["tasks"])]))
        result = await session.run([text_block("See the jobs through.")])
        report("run", result.stop)
        await session.end_members(result)


def report(what: str, value: object) -> None:
    """Print a line for the process that reads it."""
    print(json.dumps({"what": what, "value": value}), flush=True)


async def timed(works: Sequence[Callable[[], Awaitable[None]]]) -> list[float]:
    """Do these works, AT_ONCE at the same time. Return the seconds of each."""
    free = asyncio.Semaphore(AT_ONCE)

    async def do(work: Callable[[], Awaitable[None]]) -> float:
        async with free:
            began = time.monotonic()
            await work()
            return time.monotonic() - began

    return await asyncio.gather(*map(do, works))
