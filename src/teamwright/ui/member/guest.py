"""A member's process whose lead is another program: what it does in plain lines, in that lead's pane or in a file.

Nobody types here: the lead's program has the person. Knows `app` and the words of events.
"""

from __future__ import annotations

import os

from teamwright.app.members.ending import Ended
from teamwright.app.members.guest.living import as_guest
from teamwright.protocol.argv import MemberFlags
from teamwright.ui.member.plain import say, show


async def run_guest(flags: MemberFlags) -> Ended:
    """Be that member to its end. Raises TeamwrightError."""
    say(f"{flags.agent_name} of {flags.team_name}, which another program leads")
    async with as_guest(flags, os.environ) as guest:
        unsubscribe = guest.log.subscribe(lambda _number, event: show(event), live=False)
        try:
            ended = await guest.until_over()
        finally:
            unsubscribe()
    say(f"{flags.agent_name} has ended: {ended.cause or ended.how}")
    return ended
