"""The deadlines of shutdown requests: a member that does not answer in time is ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct, field

from teamwright.protocol.errors import TeamRefused

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam


class ShutdownDeadlines(Struct):
    """Timers of shutdown requests, owned by the session (the port of the team's tools)."""

    team: SessionTeam | None = None
    timers: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def set_team(self, team: SessionTeam) -> None:
        """Set the team whose members are asked to stop."""
        self.team = team

    async def request_stop(self, to: str, reason: str, call: str = "") -> str:
        """Ask a member to stop, and start its deadline. `call` names the tool call that asks."""
        if self.team is None:
            raise TeamRefused("team-refused", "there is no team yet", note="nothing was sent")
        from teamwright.teams.shutdown_requests import ask_to_stop

        return await ask_to_stop(self.team, to, reason, self.timers, call=call)

    def cancel(self) -> None:
        """Cancel all deadlines, because the session closes."""
        for timer in self.timers:
            timer.cancel()
