"""Running a member's own process from its command line: the member at work, and what it does shown line by line.

With a spawn file it is a member that our own lead started; without one its lead is another program. Knows `app` and the
words of events.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Sequence

from teamwright.app.members.guest.living import as_guest
from teamwright.app.members.guest.stay import Guest
from teamwright.app.members.joining import Joined
from teamwright.app.members.living import at_work, spawn_file, until_over
from teamwright.app.members.obeying import Ended
from teamwright.app.members.spawn_file import VARIABLE
from teamwright.protocol.argv import MemberFlags, parse
from teamwright.protocol.events import TeamEvent, TurnEnded
from teamwright.ui.headless.progress import line_of

EXIT = {"left": 0, "suspended": 0, "killed": 0, "failed": 1}
"""The exit code of a member's process, by how it ended."""


def run_member(argv: Sequence[str]) -> int:
    """Be the member that these arguments name, to its end; the exit code. Raises TeamwrightError."""
    return asyncio.run(_run(parse(argv)))


async def _run(flags: MemberFlags) -> int:
    return await (_of_ours(flags) if os.environ.get(VARIABLE) else _of_others(flags))


async def _of_ours(flags: MemberFlags) -> int:
    spawn = spawn_file(flags, os.environ)
    _say(f"{spawn.member} of {spawn.team}")
    async with at_work(spawn) as member:
        ended = await _shown(member, until_over(member))
    return _over(spawn.member, ended)


async def _of_others(flags: MemberFlags) -> int:
    _say(f"{flags.agent_name} of {flags.team_name}, which another program leads")
    async with as_guest(flags, os.environ) as guest:
        ended = await _shown(guest, guest.until_over())
    return _over(flags.agent_name, ended)


def _over(name: str, ended: Ended) -> int:
    _say(f"{name} has ended: {ended.cause or ended.how}")
    return EXIT[ended.how]


async def _shown(member: Joined | Guest, over: Awaitable[Ended]) -> Ended:
    """Show what happens until the member is over."""
    unsubscribe = member.log.subscribe(lambda _number, event: _show(event), live=False)
    try:
        return await over
    finally:
        unsubscribe()


def _show(event: TeamEvent) -> None:
    line = event.text if isinstance(event, TurnEnded) else line_of(event)
    if line:
        _say(line)


def _say(line: str) -> None:
    """A line in the pane; nobody may be there to read it, and that ends no member."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
