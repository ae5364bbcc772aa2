"""The deadlines of shutdown requests: a member that does not answer in time is ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam


class ShutdownDeadlines(Struct):
    """Timers of shutdown requests, owned by the session (the port of the team's tools)."""

    timers: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def request_stop(self, team: SessionTeam, to: str, reason: str, call: str = "") -> str:
        """Ask a member of the team to stop, and start its deadline. `call` names the tool call that asks."""
        from teamwright.teams.shutdown_requests import ask_to_stop

        return await ask_to_stop(team, to, reason, self.timers, call=call)

    def cancel(self) -> None:
        """Cancel all deadlines, because the session closes."""
        for timer in self.timers:
            timer.cancel()
