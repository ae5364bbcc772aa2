"""`demo --kill`: the demo in processes that are killed with SIGKILL and resumed, and then an audit from the files.

The lines come from the session's log, as any other terminal could show them; what is said at the end comes from the
files alone, and from a run that nobody killed. Knows `app`; the processes are `life`.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path

from teamwright.app.inspect import home_at
from teamwright.app.looking.audit import Audit, audit
from teamwright.app.looking.live import follow_log
from teamwright.app.opening import open_session
from teamwright.app.repository import Repository
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice, RunEnded, TaskChanged, TeamEvent, ToolCalled
from teamwright.protocol.values import dataclass
from teamwright.ui.demo.life import Life
from teamwright.ui.demo.prompt import SCRIPTED_PROMPT
from teamwright.ui.demo.screen import Screen
from teamwright.ui.demo.session import demo_options, team_of
from teamwright.ui.headless.progress import shown

KILLS = 3
FIRST, LAST, APART = 15, 45, 12
"""A life is killed at random, so many events of the log after it began; a whole run has about 200."""

_MID_WRITE_S = 0.03
"""A kill comes up to so long after its event: in the middle of whatever is done then."""

_STOP_S = 10.0
_NUMBER = re.compile(r"\d[\d,.]*")
_RECEIPT = re.compile(r"\[[cm]\d+\]|\bm\d+\b")


@dataclass(slots=True)
class Killed:
    """What came of it: the report, the audit, and how many numbers it has; `same` as without a kill."""

    text: str = ""
    kills: int = 0
    audit: Audit | None = None
    numbers: int = 0
    same: bool = False

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or left, and the report is the same."""
        return self.same and self.audit is not None and self.audit.clean


@dataclass(slots=True)
class _Run:
    """The run as it goes: where its log is, when it is killed next, what was seen last."""

    life: Life
    screen: Screen
    log: Path
    kills_left: int
    done: Killed = field(default_factory=Killed)
    last: str = "it had just begun"
    seen: int = 0
    change: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, number: int, event: TeamEvent) -> None:
        """Take an event of the log in, and show it."""
        self.seen = number
        self.last = _doing(event) or self.last
        if isinstance(event, RunEnded):
            self.done.text = event.text
        if isinstance(event, Notice) and event.text.startswith("resumed"):
            self.screen.mark("✓", event.text)
        else:
            self.screen.event(event)
        self.change.set()


async def run_killed(place: Repository, home: str | None, pace_ms: int, screen: Screen) -> Killed:
    """The demo, killed and resumed until it is done; then the audit and a run without a kill.

    Raises TeamwrightError when a life fails by itself.
    """
    session = str(uuid.uuid4())
    life = Life(str(place.top), place.name, place.commit, home, session, pace_ms)
    log = home_at(home).session(place.top, session) / "events.jsonl"
    run = _Run(life, screen, log, KILLS)
    following = asyncio.create_task(_follow(run))
    try:
        while not await _one_life(run):
            pass
        await _caught_up(run)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    run.done.audit = await asyncio.to_thread(audit, home_at(home), team_of(place), running={os.getpid()})
    undisturbed = await _undisturbed(place)
    run.done.numbers = len(numbers_of(run.done.text))
    run.done.same = numbers_of(run.done.text) == numbers_of(undisturbed)
    return run.done


def numbers_of(text: str) -> list[str]:
    """The numbers of a report, in order; without those of receipts, which count the calls of a run."""
    return _NUMBER.findall(_RECEIPT.sub("", text))


def audit_lines(done: Killed) -> list[str]:
    """The audit and the comparison, for people."""
    assert done.audit is not None
    same = f"the same {done.numbers} numbers" if done.same else "NOT the same numbers as without a kill"
    return [
        "",
        "audit, from the files alone",
        *done.audit.report(("report", same)),
    ]


async def _follow(run: _Run) -> None:
    async with aclosing(follow_log(run.log, 0)) as events:
        async for item in events:
            if isinstance(item, tuple):
                run.note(*item)


async def _one_life(run: _Run) -> bool:
    """One process: until it is killed (False) or has seen the team through (True)."""
    async with _process(run.life) as process:
        ends, kills = asyncio.create_task(process.wait()), run.done.kills
        try:
            begins = FIRST if not run.seen else run.seen + APART
            if run.kills_left and await _reached(run, random.randint(begins, begins + LAST - FIRST), ends):
                await _kill(run, process)
            await ends
        finally:
            ends.cancel()
        if process.returncode == -signal.SIGKILL and run.done.kills > kills:
            run.screen.mark("✗", f"SIGKILL  the whole process, after {run.last}")
            return False
        if process.returncode != 0:
            await _failed(process)
        return True


async def _kill(run: _Run, process: asyncio.subprocess.Process) -> None:
    run.kills_left -= 1
    await asyncio.sleep(random.uniform(0, _MID_WRITE_S))
    with suppress(ProcessLookupError):
        process.kill()
        run.done.kills += 1


async def _reached(run: _Run, number: int, ends: asyncio.Task[int]) -> bool:
    """Wait until the log has so many events. False: the process ended before that."""
    while run.seen < number and not ends.done():
        run.change.clear()
        changing = asyncio.create_task(run.change.wait())
        await asyncio.wait({changing, ends}, return_when=asyncio.FIRST_COMPLETED)
        changing.cancel()
    return run.seen >= number


async def _failed(process: asyncio.subprocess.Process) -> None:
    said = (await process.stderr.read()).decode(errors="replace") if process.stderr is not None else ""
    raise TeamwrightError(
        "model-failed",
        "the demo failed without being killed",
        looked_at=[("exit code", str(process.returncode)), ("it said", said.strip()[-300:] or "nothing")],
        do=["teamwright demo"],
    )


@asynccontextmanager
async def _process(life: Life) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """The process of a life, in a session of its own so that Ctrl-C reaches it through us; it ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "teamwright.ui.demo.life",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd=life.top,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(life.encode())
        process.stdin.close()
        yield process
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _caught_up(run: _Run) -> None:
    """The last process has ended: its last events are in the file, and shown in a moment."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            while not run.done.text:
                run.change.clear()
                await run.change.wait()


async def _undisturbed(place: Repository) -> str:
    """The report of the same demo that nobody kills, in a state root of its own."""
    with tempfile.TemporaryDirectory(prefix="teamwright-") as home:
        async with open_session(demo_options(place, home=home, pace_ms=0)) as session:
            prompt = SCRIPTED_PROMPT.replace("{team}", team_of(place))
            return (await session.settled(await session.run([text_block(prompt)]))).text


def _doing(event: TeamEvent) -> str:
    """What was going on, for the line of a kill."""
    who = shown(event.member)
    match event:
        case ToolCalled():
            return f"{event.tool} of {who} ended"
        case TaskChanged():
            return f"#{event.task.id} was {event.change} by {who}"
        case MemberChanged(state="working"):
            return f"{who} went to work"
        case _:
            return ""
