"""The life of a member's process whose lead is another program: be the member, and leave its team in order.

Ends when the member does, when its lead is gone, and at SIGTERM, SIGINT without a terminal and SIGHUP. Shows nothing
by itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from teamwright.app.members.guest.joining import join
from teamwright.app.members.guest.stay import Guest
from teamwright.app.members.living import heed_signals
from teamwright.protocol.argv import MemberFlags


@asynccontextmanager
async def as_guest(flags: MemberFlags, env: Mapping[str, str]) -> AsyncGenerator[Guest]:
    """The member, until the block or its life ends. Raises TeamwrightError when it cannot begin."""
    async with AsyncExitStack() as stack:
        guest = await join(flags, env, stack)
        heed_signals(guest.end)
        try:
            yield guest
        finally:
            await guest.see_out()
