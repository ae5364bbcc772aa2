"""A member's process whose lead is another program: what it does in plain lines, in that lead's pane or in a file.

Nobody types here: the lead's program has the person. Knows `app` and the words of events.
"""

from __future__ import annotations

import contextlib
import os
import sys

from teamwright.app.members.guest.living import as_guest
from teamwright.app.members.obeying import Ended
from teamwright.protocol.argv import MemberFlags
from teamwright.protocol.events import TeamEvent, TurnEnded
from teamwright.ui.headless.progress import line_of


async def run_guest(flags: MemberFlags) -> Ended:
    """Be that member to its end. Raises TeamwrightError."""
    _say(f"{flags.agent_name} of {flags.team_name}, which another program leads")
    async with as_guest(flags, os.environ) as guest:
        unsubscribe = guest.log.subscribe(lambda _number, event: _show(event), live=False)
        try:
            ended = await guest.until_over()
        finally:
            unsubscribe()
    _say(f"{flags.agent_name} has ended: {ended.cause or ended.how}")
    return ended


def _show(event: TeamEvent) -> None:
    line = event.text if isinstance(event, TurnEnded) else line_of(event)
    if line:
        _say(line)


def _say(line: str) -> None:
    """A line; nobody may be there to read it, and that ends no member."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
