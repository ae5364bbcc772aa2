"""Running a member's own process from its command line: the member at work, and its pane.

With a terminal a person sits there: what it does is shown, what they type reaches it. Without one there are plain
lines. Knows `app` and the words of events; does not know who started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence

from teamwright.app.members.ending import Ended
from teamwright.app.members.joining import Joined
from teamwright.app.members.living import at_work, spawn_file
from teamwright.app.members.spawn_file import VARIABLE
from teamwright.protocol.argv import MemberFlags, parse
from teamwright.protocol.events import TeamEvent
from teamwright.ui.garbage import loaded
from teamwright.ui.member.plain import say, show

EXIT = {"left": 0, "suspended": 0, "killed": 0, "failed": 1}
"""The exit code of a member's process, by how it ended."""


def run_member(argv: Sequence[str]) -> int:
    """Be the member that these arguments name, to its end; the exit code. Raises TeamwrightError."""
    return asyncio.run(_run(parse(argv, foreign=not os.environ.get(VARIABLE))))


async def _run(flags: MemberFlags) -> int:
    if not os.environ.get(VARIABLE):  # our own lead gives a spawn file: this one is another program
        from teamwright.ui.member.guest import run_guest

        return EXIT[(await run_guest(flags)).how]
    spawn = spawn_file(flags, os.environ)
    attended = sys.stdin.isatty() and sys.stdout.isatty()
    feed = Feed()
    if not attended:
        say(f"{spawn.member} of {spawn.team}")
    async with at_work(spawn, lambda log: log.subscribe(feed.put, live=attended)) as member:
        loaded()
        ended = await (_attended if attended else _shown)(member, feed)
    say(f"{spawn.member} has ended: {ended.cause or ended.how}")
    return EXIT[ended.how]


class Feed:
    """Events from the first one on: kept until somebody shows them."""

    def __init__(self) -> None:
        self._kept: list[TeamEvent] = []
        self._show: Callable[[TeamEvent], None] | None = None

    def put(self, _number: int, event: TeamEvent) -> None:
        """See storage.log.Subscriber."""
        if self._show is None:
            self._kept.append(event)
        else:
            self._show(event)

    def to(self, show: Callable[[TeamEvent], None]) -> None:
        """Show what was kept, then each as it comes."""
        self._show = show
        while self._kept:
            show(self._kept.pop(0))


async def _shown(member: Joined, feed: Feed) -> Ended:
    """Show what happens in plain lines until the member is over."""
    feed.to(show)
    return await member.obeying.until_over()


async def _attended(member: Joined, feed: Feed) -> Ended:
    """Have a person at it until the member is over. What its pane needs loads only here."""
    from teamwright.app.members.seat import Seat
    from teamwright.ui.member.face import Face
    from teamwright.ui.terminal.editing.keyboard import editor_for
    from teamwright.ui.terminal.lines import Narrator
    from teamwright.ui.terminal.paint import paint_for

    seat = Seat(member, lambda request: face.asked(request), lambda event: face.answered(event))
    narrator = Narrator(paint_for(os.environ, is_tty=True), usual=seat.model)
    face = Face(seat, narrator, member.spawn.team, member.spawn.grace_s)
    face.typing.editor = editor = editor_for(face.wiring(member.maker.home.history), late=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, editor.interrupt)
    face.greet()
    feed.to(face.happened)
    member.line.on_up = face.lead_moved
    unfollow = seat.follow()
    reading = asyncio.create_task(face.read_lines(), name="reading lines")
    try:
        return await member.obeying.until_over()
    finally:
        unfollow()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        with contextlib.suppress(OSError):
            await editor.close()
