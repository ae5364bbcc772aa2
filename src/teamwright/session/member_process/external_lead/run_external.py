"""The run of a member process with an external lead, until the member has left its team in order.

Ends when the member ends, when its lead is gone, and at SIGTERM, SIGINT without a terminal and SIGHUP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from teamwright.protocol.member_flags import MemberFlags
from teamwright.session.member_process.external_lead.external_membership import ExternalMembership
from teamwright.session.member_process.external_lead.join_external import join_external_team
from teamwright.session.member_process.run_member import handle_signals


@asynccontextmanager
async def run_external_member(flags: MemberFlags, env: Mapping[str, str]) -> AsyncGenerator[ExternalMembership]:
    """Run the member until the block or the member ends. Raises TeamwrightError when it cannot start."""
    member: ExternalMembership | None = None
    early: list[tuple[str, str]] = []

    def end(how: str, why: str) -> None:
        if member is None:
            early.append((how, why))
        else:
            member.end(how, why)

    async with AsyncExitStack() as stack:
        # A signal that ended the process while it joins would leave its name on the roster of the external team.
        handle_signals(end)
        member = await join_external_team(flags, env, stack)
        for how, why in early[:1]:
            member.end(how, why)
        try:
            yield member
        finally:
            await member.finish()
