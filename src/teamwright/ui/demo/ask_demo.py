"""`demo --ask`: a second terminal answers a request of the demo.

A sub-agent of ask_demo.toml makes a call that no rule allows. When no person can answer, a second process of this
program does.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import textwrap
from contextlib import suppress
from functools import partial
from importlib import resources
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.processes.own_python import own_python_argv
from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.protocol.messages import text_block
from teamwright.saved.run_repository import Repository
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.result import Result
from teamwright.ui.demo.demo import DemoOptions, demo_options, demo_team_name
from teamwright.ui.demo.demo_screen import WIDTH, DemoScreen
from teamwright.ui.display_text import cut
from teamwright.ui.event_text import answer_text, short_id
from teamwright.ui.python_gc import freeze_loaded
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_lines import request_lines
from teamwright.views.run_report import CallCollector

ANSWER_TIMEOUT_S = 60.0
"""Seconds until the request is denied, by default."""

PROMPT = "Show what happens when a sub-agent needs a call that is not allowed. The team is called {team}."


async def run_ask_demo(
    options: DemoOptions, repository: Repository, screen: DemoScreen, calls: CallCollector, pace_ms: int
) -> tuple[Result, AskDemo]:
    """Run the team until it is done, with or without an answer. No process of the demo is left running."""
    answers_itself = options.yes or options.output_format == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())
    demo = AskDemo(options.home, answers_itself, screen)
    try:
        end = partial(os.kill, os.getpid(), signal.SIGTERM)
        async with open_session(_ask_options(options, repository, pace_ms), end) as session:
            freeze_loaded()

            def note(_number: int, event: TeamEvent) -> None:
                calls.add_event(event)
                demo.note(event)

            session.log.subscribe(note, live=False)
            team = demo_team_name(repository)
            await session.archive_team(team)
            result = await session.end_members(await session.run([text_block(PROMPT.replace("{team}", team))]))
            await session.finish(keep=not result.ok)
            return result, demo
    finally:
        await demo.close()


class AskDemo(Struct):
    """The result of the demo: the request, its outcome, and the processes that the demo started to answer it."""

    home: str | None
    answers_itself: bool
    screen: DemoScreen
    opened: RequestOpened | None = None
    closed: RequestClosed | None = None
    _answer_tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def note(self, event: TeamEvent) -> None:
        """Show an event; a request is shown in full."""
        if isinstance(event, RequestOpened):
            self.opened = event
            self._show(event)
        elif isinstance(event, RequestClosed):
            self.closed = event
            allowed = event.verdict == "allow"
            reason = f" ({event.reason})" if event.reason else ""
            self.screen.show_mark("✓" if allowed else "✗", f"{answer_text(event)}{reason}")
        else:
            self.screen.show_event(event)

    def _show(self, request: RequestOpened) -> None:
        for line in ["", *request_lines(request, EventFormatter()), ""]:
            for part in _wrap(line):
                self.screen.show_line(part)
        if not self.answers_itself:
            self.screen.show_line("Answer it in another terminal:")
            self.screen.show_line(f"  {answer_command_line(request.request, self.home)}")
        else:
            self.screen.show_line("No person is asked here: a second process of this program answers.")
            self.screen.show_line(f"  {answer_command_line(request.request, self.home)}")
            task = asyncio.ensure_future(_answer_from_second_process(request.request, self.home))
            self._answer_tasks.add(task)
            task.add_done_callback(self._answer_tasks.discard)
        self.screen.show_line("")

    async def close(self) -> None:
        """End the processes that the demo started."""
        for task in self._answer_tasks:
            task.cancel()
        await asyncio.gather(*self._answer_tasks, return_exceptions=True)

    def lines(self) -> list[str]:
        """Return the lines about the request for the end of the demo."""
        if self.opened is None:
            return ["asked     no one: the policy of this run denies questions"]
        closed = self.closed
        how = f"{answer_text(closed)} after {closed.at - self.opened.at:.1f} s" if closed else "no answer came"
        return [cut(f"asked     {short_id(self.opened.request)} by {self.opened.member}", WIDTH), f"          {how}"]

    def as_json(self) -> dict[str, Any]:
        """Return the same facts as JSON."""
        opened, closed = self.opened, self.closed
        if opened is None:
            return {"asked": None}
        answer = {"verdict": closed.verdict, "by": closed.by, "reason": closed.reason} if closed is not None else {}
        return {"asked": {"id": opened.request, "member": opened.member, "tool": opened.tool, **answer}}


def answer_command_line(request: str, home: str | None) -> str:
    """Return the command for a second terminal, with all flags that it needs there."""
    program = "teamwright" if shutil.which("teamwright") else f"{shlex.quote(sys.executable)} -m teamwright"
    where = f" --home {shlex.quote(home)}" if home is not None else ""
    return f"{program} requests allow {shlex.quote(short_id(request))}{where}"


def _ask_options(options: DemoOptions, repository: Repository, pace_ms: int) -> Options:
    """Return the options of the demo, changed so that calls without a rule are asked."""
    script = resources.files("teamwright.ui.demo") / "ask_demo.toml"
    base = demo_options(repository, home=options.home, pace_ms=pace_ms, model=None)
    limit = ANSWER_TIMEOUT_S if options.within is None else options.within
    return replace(
        base, model=f"scripted:{script}", permission_mode="default", ask=options.ask or "wait", ask_timeout_s=limit
    )


async def _answer_from_second_process(request: str, home: str | None) -> None:
    """Approve the request from another process of this program, which ends with the task."""
    where = ["--home", home] if home is not None else []
    process = await asyncio.create_subprocess_exec(
        *(*own_python_argv("teamwright", "-B"), "requests", "allow", request, *where),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _wrap(line: str) -> list[str]:
    """Break a line into lines of at most 80 columns, without leaving out any part of a command."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [line]
