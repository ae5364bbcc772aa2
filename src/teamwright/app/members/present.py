"""How a member stands at this moment, for the face of its own terminal: the same words and numbers as at its lead's.

Drawn anew from what is there each time; costs no reading of files. Knows a member that lives here; knows no screen.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.app.looking.board import Board
from teamwright.app.looking.now import MemberNow, SessionNow
from teamwright.app.members.seat import Seat
from teamwright.protocol.values import dataclass
from teamwright.teams.health.standing import MemberStanding
from teamwright.teams.health.table import WAITS, health, seen_of


@dataclass(frozen=True, slots=True)
class OfMember:
    """See looking.now.Scene: one member, at its own terminal."""

    seat: Seat

    def members(self, board: Board, /) -> list[MemberNow]:
        """See Scene: itself."""
        mate, standing = self.seat.member.mate, self.seat.member.team.standing
        known = self._known()
        seen = seen_of(known, standing, board.as_open())
        if not self.seat.requests:  # what an earlier life of it asked is no more
            seen = replace(seen, asks="")
        state, on = health(seen)
        task, used = board.task_of(mate.name), known.usage.tokens
        return [MemberNow(mate.name, state, on, state in WAITS, known.since, used, mate.color, task)]

    def now(self, board: Board, /) -> SessionNow:
        """See Scene: its own model, mode, window and money."""
        seat, known = self.seat, self._known()
        purse = seat.member.maker.purse
        return SessionNow(
            model=seat.model,
            mode=seat.mode,
            context=known.context or purse.context.get(seat.name, 0),
            window=seat.agent.model.card.context_tokens,
            usd=known.usage.usd,
            usd_cap=purse.cap_of(seat.name).usd,
            tokens=known.usage.tokens,
            requests=seat.requests,
            done=board.done,
            tasks=board.done + len(board.open),
            alone=not seat.lead_there,
        )

    async def read(self, board: Board, /) -> None:
        """See Scene."""
        await board.read(self.seat.member.team)

    def _known(self) -> MemberStanding:
        mate = self.seat.member.mate
        return self.seat.member.team.standing.members.get(mate.name) or MemberStanding(mate.name, str(mate.state))
