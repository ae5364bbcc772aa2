"""`demo --kill`: the demo survives SIGKILL.

The demo runs in separate processes. Its lines come from the session's log, which any other terminal could follow; the
final figures come only from the files, and from a second run without kills.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from teamwright.processes.own_python import own_python_argv
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice, RunEnded, TaskChanged, TeamEvent, ToolCalled
from teamwright.protocol.ids import display_name
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import text_block
from teamwright.protocol.time_limit import time_limit
from teamwright.saved.run_repository import Repository
from teamwright.session.open_session import open_session
from teamwright.storage.event_log import log_path
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.demo.demo import SCRIPTED_PROMPT, demo_options, demo_team_name
from teamwright.ui.demo.demo_process import DemoSpec
from teamwright.ui.demo.demo_screen import DemoScreen
from teamwright.views.audit.audit import Audit, audit
from teamwright.views.follow_team import follow_log

KILLS = 3

FIRST_KILL_EVENT, LAST_KILL_EVENT, MIN_EVENTS_APART = 15, 45, 12
"""The range of the random kill, in log events after the start of the process; a whole run has about 200."""

_MID_WRITE_S = 0.03
"""The maximum delay of a kill after its event, in seconds, so that it also hits unfinished writes."""

_STOP_S = 10.0


class RecoveryDemo(Struct):
    """The result: the report, the audit, the count of numbers, and if they equal those of a run without kills."""

    text: str = ""
    kills: int = 0
    audit: Audit | None = None
    numbers: int = 0
    same_numbers: bool = False

    @property
    def is_clean(self) -> bool:
        """True when no record was lost, duplicated or left behind, and the report is the same."""
        return self.same_numbers and self.audit is not None and self.audit.clean


async def run_recovery_demo(repository: Repository, home: str | None, pace_ms: int, screen: DemoScreen) -> RecoveryDemo:
    """Run the demo, with kills and resumes until it is done; then audit it and run it without kills.

    Raises TeamwrightError when a process fails without being killed.
    """
    session = str(uuid.uuid4())
    spec = DemoSpec(str(repository.top), repository.name, repository.commit, home, session, pace_ms)
    log = log_path(resolve_home(home).session(repository.top, session))
    run = _Run(spec, screen, log, KILLS)
    following = asyncio.create_task(_follow(run))
    try:
        while not await _run_until_killed(run):
            pass
        await _wait_for_last_events(run)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    run.result.audit = await asyncio.to_thread(
        audit, resolve_home(home), demo_team_name(repository), running={os.getpid()}
    )
    undisturbed = await _report_without_kill(repository)
    run.result.numbers = len(report_numbers(run.result.text))
    run.result.same_numbers = report_numbers(run.result.text) == report_numbers(undisturbed)
    return run.result


_NUMBER = re.compile(r"\d[\d,.]*")

_RECEIPT = re.compile(r"\[[cm]\d+\]|\bm\d+\b")


def report_numbers(text: str) -> list[str]:
    """Return the numbers of a report, in order, without receipts, which count the calls of a run."""
    return _NUMBER.findall(_RECEIPT.sub("", text))


def audit_lines(done: RecoveryDemo) -> list[str]:
    """Return the audit and the comparison as lines."""
    assert done.audit is not None
    same = f"the same {done.numbers} numbers" if done.same_numbers else "NOT the same numbers as without a kill"
    return [
        "",
        "audit, from the files alone",
        *done.audit.report(("report", same)),
    ]


class _Run(Struct):
    """The state of the run: its log, the remaining kills, the last event seen."""

    spec: DemoSpec
    screen: DemoScreen
    log: Path
    kills_left: int
    result: RecoveryDemo = field(default_factory=RecoveryDemo)
    last: str = "it had just begun"
    last_event: int = 0
    change: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, number: int, event: TeamEvent) -> None:
        """Count an event of the log, and show it."""
        self.last_event = number
        self.last = _describe_event(event) or self.last
        if isinstance(event, RunEnded):
            self.result.text = event.text
        if isinstance(event, Notice) and event.text.startswith("resumed"):
            self.screen.show_mark("✓", event.text)
        else:
            self.screen.show_event(event)
        self.change.set()


async def _follow(run: _Run) -> None:
    async with aclosing(follow_log(run.log, 0)) as events:
        async for item in events:
            if isinstance(item, tuple):
                run.note(*item)


async def _run_until_killed(run: _Run) -> bool:
    """Run one process. Returns False when it was killed, and True when the team was done."""
    async with _demo_process(run.spec) as process:
        ends = asyncio.create_task(process.wait())
        kills = run.result.kills
        try:
            begins = FIRST_KILL_EVENT if not run.last_event else run.last_event + MIN_EVENTS_APART
            if run.kills_left and await _wait_for_event(
                run, random.randint(begins, begins + LAST_KILL_EVENT - FIRST_KILL_EVENT), ends
            ):
                await _kill(run, process)
            await ends
        finally:
            ends.cancel()
        if process.returncode == -signal.SIGKILL and run.result.kills > kills:
            run.screen.show_mark("✗", f"SIGKILL  the whole process, after {run.last}")
            return False
        if process.returncode != 0:
            await _raise_failure(process)
        return True


async def _kill(run: _Run, process: asyncio.subprocess.Process) -> None:
    run.kills_left -= 1
    await asyncio.sleep(random.uniform(0, _MID_WRITE_S))
    with suppress(ProcessLookupError):
        process.kill()
        run.result.kills += 1


async def _wait_for_event(run: _Run, number: int, ends: asyncio.Task[int]) -> bool:
    """Wait until the log has `number` events. Returns False when the process ended first."""
    while run.last_event < number and not ends.done():
        run.change.clear()
        changing = asyncio.create_task(run.change.wait())
        await asyncio.wait({changing, ends}, return_when=asyncio.FIRST_COMPLETED)
        changing.cancel()
    return run.last_event >= number


async def _raise_failure(process: asyncio.subprocess.Process) -> None:
    error_output = (await process.stderr.read()).decode(errors="replace") if process.stderr is not None else ""
    raise TeamwrightError(
        "model-failed",
        "the demo failed without being killed",
        looked_at=[("exit code", str(process.returncode)), ("it said", error_output.strip()[-300:] or "nothing")],
        do=["teamwright demo"],
    )


@asynccontextmanager
async def _demo_process(spec: DemoSpec) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """Start a process in a new process session, so that Ctrl-C does not reach it; end it with the block."""
    process = await asyncio.create_subprocess_exec(
        *own_python_argv("teamwright.ui.demo.demo_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd=spec.top,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(spec.encode())
        process.stdin.close()
        yield process
    finally:
        await _end_process(process)


async def _end_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with time_limit(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _wait_for_last_events(run: _Run) -> None:
    """Wait until the last events of the ended process were read from the log and shown."""
    with suppress(TimeoutError):
        async with time_limit(_STOP_S):
            while not run.result.text:
                run.change.clear()
                await run.change.wait()


async def _report_without_kill(repository: Repository) -> str:
    """Return the report of the same demo without kills, from a separate state root."""
    with tempfile.TemporaryDirectory(prefix="teamwright-") as home:
        async with open_session(demo_options(repository, home=home, pace_ms=0)) as session:
            prompt = SCRIPTED_PROMPT.replace("{team}", demo_team_name(repository))
            return (await session.end_members(await session.run([text_block(prompt)]))).text


def _describe_event(event: TeamEvent) -> str:
    """Return a description of the event for the line of a kill."""
    who = display_name(event.member)
    match event:
        case ToolCalled():
            return f"{event.tool} of {who} ended"
        case TaskChanged():
            return f"#{event.task.id} was {event.change} by {who}"
        case MemberChanged(state=MemberState.WORKING):
            return f"{who} went to work"
        case _:
            return ""
