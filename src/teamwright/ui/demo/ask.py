"""`demo --ask`: a sub-agent asks for a call that nobody has allowed, and a second terminal answers.

The request is shown with the command that answers it, and waits so long as is said. Where no person can answer, a
second process of this very program does, and that is said. Knows `app`; the team and what it does are ask.toml.
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

from teamwright.app.opening import open_session
from teamwright.app.options import Options
from teamwright.app.report import Calls
from teamwright.app.repository import Repository
from teamwright.app.result import Result
from teamwright.protocol.blocks import text_block
from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.protocol.values import dataclass
from teamwright.ui.asked import closed_words, short_id
from teamwright.ui.demo.board import WIDTH
from teamwright.ui.demo.screen import Screen
from teamwright.ui.demo.session import demo_options, team_of
from teamwright.ui.demo.words import Wish
from teamwright.ui.garbage import loaded
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.questions import request_lines
from teamwright.ui.terminal.text import cut

ASK_S = 60.0
"""How long the request waits unless something else is said, in seconds: then it is denied."""

PROMPT = "Show what happens when a sub-agent needs a call that is not allowed. The team is called {team}."


@dataclass(slots=True)
class Asked:
    """What came of it: the request, how it was closed, and the processes of ours that answered."""

    home: str | None
    by_itself: bool
    screen: Screen
    opened: RequestOpened | None = None
    closed: RequestClosed | None = None
    _answering: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def note(self, event: TeamEvent) -> None:
        """Show an event; a request with all that is to be known of it."""
        if isinstance(event, RequestOpened):
            self.opened = event
            self._show(event)
        elif isinstance(event, RequestClosed):
            self.closed = event
            allowed = event.verdict == "allow"
            reason = f" ({event.reason})" if event.reason else ""
            self.screen.mark("✓" if allowed else "✗", f"{closed_words(event)}{reason}")
        else:
            self.screen.event(event)

    def _show(self, request: RequestOpened) -> None:
        for line in ["", *request_lines(request, Narrator()), ""]:
            for part in _wrapped(line):
                self.screen.line(part)
        if not self.by_itself:
            self.screen.line("Answer it in another terminal:")
            self.screen.line(f"  {answer_words(request.request, self.home)}")
        else:
            self.screen.line("No person is asked here: a second process of this program answers.")
            self.screen.line(f"  {answer_words(request.request, self.home)}")
            task = asyncio.ensure_future(_second_process(request.request, self.home))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        self.screen.line("")

    async def done(self) -> None:
        """Nothing that we started is left."""
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def lines(self) -> list[str]:
        """What became of the request, for the end."""
        if self.opened is None:
            return ["asked     no one: the policy of this run denies questions"]
        closed = self.closed
        how = f"{closed_words(closed)} after {closed.at - self.opened.at:.1f} s" if closed else "no answer came"
        return [cut(f"asked     {short_id(self.opened.request)} by {self.opened.member}", WIDTH), f"          {how}"]

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        opened, closed = self.opened, self.closed
        if opened is None:
            return {"asked": None}
        answer = {"verdict": closed.verdict, "by": closed.by, "reason": closed.reason} if closed is not None else {}
        return {"asked": {"id": opened.request, "member": opened.member, "tool": opened.tool, **answer}}


def answer_words(request: str, home: str | None) -> str:
    """The command of a second terminal, as it works there."""
    program = "teamwright" if shutil.which("teamwright") else f"{shlex.quote(sys.executable)} -m teamwright"
    where = f" --home {shlex.quote(home)}" if home is not None else ""
    return f"{program} requests allow {shlex.quote(short_id(request))}{where}"


async def run_asked(wish: Wish, place: Repository, screen: Screen, calls: Calls, pace_ms: int) -> tuple[Result, Asked]:
    """The team, until it is done: with the answer, or without. Nothing of it is left running."""
    by_itself = wish.yes or wish.output_format == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())
    asked = Asked(wish.home, by_itself, screen)
    try:
        async with open_session(_options(wish, place, pace_ms)) as session:
            loaded()
            session.outside.end = partial(os.kill, os.getpid(), signal.SIGTERM)

            def note(_number: int, event: TeamEvent) -> None:
                calls.note(event)
                asked.note(event)

            session.log.subscribe(note, live=False)
            team = team_of(place)
            await session.set_aside(team)
            result = await session.settled(await session.run([text_block(PROMPT.replace("{team}", team))]))
            await session.goodbye(keep=not result.ok)
            return result, asked
    finally:
        await asked.done()


def _options(wish: Wish, place: Repository, pace_ms: int) -> Options:
    """The demo's, but that what no rule allows is asked."""
    script = resources.files("teamwright.ui.demo") / "ask.toml"
    made = demo_options(place, home=wish.home, pace_ms=pace_ms, model=None)
    limit = ASK_S if wish.within is None else wish.within
    return replace(
        made, model=f"scripted:{script}", permission_mode="default", ask=wish.ask or "wait", ask_timeout_s=limit
    )


async def _second_process(request: str, home: str | None) -> None:
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


def _wrapped(line: str) -> list[str]:
    """A line in lines of at most 80 columns; nothing of a command is left out."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [line]
