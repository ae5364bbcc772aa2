"""The main function of a member process: it runs the member, with a screen on a terminal and plain lines otherwise.

The modules of the screen load only when a person looks at one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from teamwright.member_process.join_team import RunningMember, run_external_member, running_member, take_spawn_file
from teamwright.member_process.member import MemberEnd
from teamwright.protocol.events import TeamEvent, TurnEnded
from teamwright.protocol.member_flags import MemberFlags, parse_argv
from teamwright.session.spawn_file import VARIABLE
from teamwright.ui.display_text import clean
from teamwright.ui.event_text import event_line
from teamwright.ui.python_gc import freeze_loaded

EXIT_CODES = {"left": 0, "suspended": 0, "killed": 0, "failed": 1}
"""Exit codes of a member process, by the way it ended."""


def run_member(argv: Sequence[str]) -> int:
    """Run the member that the arguments name and return the exit code. Raises TeamwrightError."""
    return asyncio.run(_run(parse_argv(argv, foreign=not os.environ.get(VARIABLE))))


async def _run(flags: MemberFlags) -> int:
    # a lead of this program passes a spawn file; without one the lead is another program
    if not os.environ.get(VARIABLE):
        return EXIT_CODES[(await run_in_external_team(flags)).how]
    spawn = take_spawn_file(flags, os.environ)
    attended = sys.stdin.isatty() and sys.stdout.isatty()
    feed = EventBuffer()
    if not attended:
        print_line(f"{spawn.member} of {spawn.team}")
    async with running_member(spawn, lambda log: log.subscribe(feed.put, live=attended)) as member:
        freeze_loaded()
        ended = await (_show_screen if attended else _show_plain)(member, feed)
    print_line(f"{spawn.member} has ended: {ended.cause or ended.how}")
    return EXIT_CODES[ended.how]


async def run_in_external_team(flags: MemberFlags) -> MemberEnd:
    """Run the member of an external team to its end. Raises TeamwrightError."""
    print_line(f"{flags.agent_name} of {flags.team_name}, which another program leads")
    async with run_external_member(flags, os.environ) as member:
        unsubscribe = member.log.subscribe(lambda _number, event: show_event(event), live=False)
        try:
            ended = await member.wait_until_ended()
        finally:
            unsubscribe()
    print_line(f"{flags.agent_name} has ended: {ended.cause or ended.how}")
    return ended


async def _show_plain(member: RunningMember, feed: EventBuffer) -> MemberEnd:
    """Print events as plain lines until the member ends."""
    feed.replay_to(show_event)
    return await member.led_member.wait_until_ended()


async def _show_screen(member: RunningMember, feed: EventBuffer) -> MemberEnd:
    """Run the screen until the member ends. Its modules load only here."""
    from teamwright.member_process.terminal_control import OwnTerminalControl
    from teamwright.ui.terminal.editor_choice import make_editor
    from teamwright.ui.terminal.events import EventFormatter
    from teamwright.ui.terminal.member import MemberTerminal
    from teamwright.ui.terminal.styles import make_paint, terminal_environment

    env = terminal_environment(os.environ, plain=member.settings.plain_terminal)
    control = OwnTerminalControl(
        member, lambda request: terminal.on_request(request), lambda event: terminal.on_answer(event)
    )
    formatter = EventFormatter(make_paint(env, is_tty=True), usual_model=control.model)
    terminal = MemberTerminal(control, formatter, member.spawn.team, member.spawn.grace_s, env)
    terminal.line_input.editor = editor = make_editor(
        terminal.editor_callbacks(member.agent_factory.home.prompt_history), env, deferred=True
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, editor.interrupt)
    terminal.greet()
    feed.replay_to(terminal.on_event)
    member.line.follow(terminal.on_lead_change)
    unfollow = control.follow(terminal.panel.note_external_task)
    reading = asyncio.create_task(terminal.read_lines(), name="reading lines")
    try:
        return await member.led_member.wait_until_ended()
    finally:
        unfollow()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        with contextlib.suppress(OSError):
            await editor.close()


class EventBuffer:
    """A buffer that keeps events until a screen is ready to show them."""

    def __init__(self) -> None:
        self._events: list[TeamEvent] = []
        self._show: Callable[[TeamEvent], None] | None = None

    def put(self, _number: int, event: TeamEvent) -> None:
        """Keep or show the event; see storage.event_log.Subscriber."""
        if self._show is None:
            self._events.append(event)
        else:
            self._show(event)

    def replay_to(self, show: Callable[[TeamEvent], None]) -> None:
        """Show the buffered events, then each new one."""
        self._show = show
        while self._events:
            show(self._events.pop(0))


def show_event(event: TeamEvent) -> None:
    """Print the line of an event, if it has one; at the end of a turn, its final text."""
    line = event.text if isinstance(event, TurnEnded) else event_line(event)
    if line:
        print_line(line)


def print_line(line: str) -> None:
    """Print a cleaned line."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(clean(line) + "\n")
        sys.stdout.flush()
