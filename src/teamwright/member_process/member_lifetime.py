"""The end of the member of a process. Only the first reason counts.

Depends on the member.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

from teamwright.protocol.member_states import MemberState
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.teams.local_teammate import LocalTeammate

_FAILED = "failed: "


class MemberEnd(Struct, frozen=True):
    """The end of a member: `left`, `failed`, `killed` or `suspended`, and the reason."""

    how: str
    cause: str
    agreed_to: str | None = None


class MemberLifetime(Struct, kw_only=True):
    """The lifetime of one member. `teammate` is the member, once it runs here; `over` is set together with `ended`."""

    teammate: LocalTeammate | None = None
    ended: MemberEnd | None = None
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_ended(self) -> MemberEnd:
        """Return the end of the member, after waiting for it."""
        await self.has_ended.wait()
        return self.ended or MemberEnd("left", "")

    def end(self, how: str, cause: str) -> None:
        """End the member at once. `how` is suspended (it keeps its place) or killed."""
        if self.ended is not None:
            return
        self.ended = MemberEnd(how, cause)
        self.cut()
        self.has_ended.set()

    def cut(self) -> None:
        """Cut off an ended member, if it is running."""
        teammate, ended = self.teammate, self.ended
        if teammate is None or ended is None or teammate.state in ENDED_STATES:
            return
        state = MemberState.SUSPENDED if ended.how == MemberState.SUSPENDED else MemberState.KILLED
        if state is MemberState.SUSPENDED:
            self.leave_requests_open()
        teammate.cut_off(state, ended.cause or ended.how)

    def leave_requests_open(self) -> None:
        """Leave open the calls that wait for an answer, before a suspended member is cut off."""

    async def departed(self, _name: str, cause: str, agreed_to: str | None) -> None:
        """Record that the member ended without being ended here (port of `teams`)."""
        if self.ended is None:
            how = "failed" if cause.startswith(_FAILED) else "left"
            self.ended = MemberEnd(how, cause.removeprefix(_FAILED), agreed_to)
        if self.teammate is not None:
            self.teammate.note_end_processed()
        self.has_ended.set()
