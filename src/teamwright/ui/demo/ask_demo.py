"""`demo --ask`: a sub-agent asks for a call that nobody has allowed, and a second terminal answers.

The request is shown with the command that answers it, and waits so long as is said. Where no person can answer, a
second process of this very program does, and that is said. Knows `app`; the team and what it does are ask_demo.toml.
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
from dataclasses import field, replace
from functools import partial
from importlib import resources
from typing import Any

from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.protocol.messages import text_block
from teamwright.protocol.values import dataclass
from teamwright.session.open import open_session
from teamwright.session.options import Options
from teamwright.session.repository import Repository
from teamwright.session.result import Result
from teamwright.ui.demo.demo_screen import DemoScreen
from teamwright.ui.demo.demo_session import demo_options, demo_team_name
from teamwright.ui.demo.demo_text import DemoOptions
from teamwright.ui.demo.team_panel import WIDTH
from teamwright.ui.display_text import cut
from teamwright.ui.event_text import answer_text, short_id
from teamwright.ui.garbage_collector import freeze_loaded
from teamwright.ui.terminal.narrator import Narrator
from teamwright.ui.terminal.request_prompt import request_lines
from teamwright.views.run_report import CallCollector

ANSWER_TIMEOUT_S = 60.0
"""How long the request waits unless something else is said, in seconds: then it is denied."""

PROMPT = "Show what happens when a sub-agent needs a call that is not allowed. The team is called {team}."


@dataclass(slots=True)
class AskDemo:
    """What came of it: the request, how it was closed, and the processes of ours that answered."""

    home: str | None
    answers_itself: bool
    screen: DemoScreen
    opened: RequestOpened | None = None
    closed: RequestClosed | None = None
    _answer_tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def note(self, event: TeamEvent) -> None:
        """Show an event; a request with all that is to be known of it."""
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
        for line in ["", *request_lines(request, Narrator()), ""]:
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
        """Nothing that we started is left."""
        for task in self._answer_tasks:
            task.cancel()
        await asyncio.gather(*self._answer_tasks, return_exceptions=True)

    def lines(self) -> list[str]:
        """What became of the request, for the end."""
        if self.opened is None:
            return ["asked     no one: the policy of this run denies questions"]
        closed = self.closed
        how = f"{answer_text(closed)} after {closed.at - self.opened.at:.1f} s" if closed else "no answer came"
        return [cut(f"asked     {short_id(self.opened.request)} by {self.opened.member}", WIDTH), f"          {how}"]

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        opened, closed = self.opened, self.closed
        if opened is None:
            return {"asked": None}
        answer = {"verdict": closed.verdict, "by": closed.by, "reason": closed.reason} if closed is not None else {}
        return {"asked": {"id": opened.request, "member": opened.member, "tool": opened.tool, **answer}}


def answer_command_line(request: str, home: str | None) -> str:
    """The command of a second terminal, as it works there."""
    program = "teamwright" if shutil.which("teamwright") else f"{shlex.quote(sys.executable)} -m teamwright"
    where = f" --home {shlex.quote(home)}" if home is not None else ""
    return f"{program} requests allow {shlex.quote(short_id(request))}{where}"


async def run_ask_demo(
    options: DemoOptions, repository: Repository, screen: DemoScreen, calls: CallCollector, pace_ms: int
) -> tuple[Result, AskDemo]:
    """The team, until it is done: with the answer, or without. Nothing of it is left running."""
    by_itself = options.yes or options.output_format == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())
    asked = AskDemo(options.home, by_itself, screen)
    try:
        async with open_session(_options(options, repository, pace_ms)) as session:
            freeze_loaded()
            session.outside.end = partial(os.kill, os.getpid(), signal.SIGTERM)

            def note(_number: int, event: TeamEvent) -> None:
                calls.add_event(event)
                asked.note(event)

            session.log.subscribe(note, live=False)
            team = demo_team_name(repository)
            await session.archive_team(team)
            result = await session.end_members(await session.run([text_block(PROMPT.replace("{team}", team))]))
            await session.finish(keep=not result.ok)
            return result, asked
    finally:
        await asked.close()


def _options(options: DemoOptions, repository: Repository, pace_ms: int) -> Options:
    """The demo's, but that what no rule allows is asked."""
    script = resources.files("teamwright.ui.demo") / "ask_demo.toml"
    made = demo_options(repository, home=options.home, pace_ms=pace_ms, model=None)
    limit = ANSWER_TIMEOUT_S if options.within is None else options.within
    return replace(
        made, model=f"scripted:{script}", permission_mode="default", ask=options.ask or "wait", ask_timeout_s=limit
    )


async def _answer_from_second_process(request: str, home: str | None) -> None:
    """Another process of this program says yes; it ends with the task. -P: never a module of the repository."""
    where = ["--home", home] if home is not None else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-B", "-m", "teamwright", "requests", "allow", request, *where),
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
    """A line in lines of at most 80 columns; nothing of a command is left out."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [line]
