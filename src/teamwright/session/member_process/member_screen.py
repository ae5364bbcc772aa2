"""How a member stands at this moment, for the face of its own terminal: the same words and numbers as at its lead's.

Drawn anew from what is there each time; costs no reading of files. Knows a member that lives here; knows no screen.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.protocol.values import dataclass
from teamwright.session.control.member_control import MemberControl
from teamwright.teams.status.member_state import WAITING_STATES, member_facts, shown_state
from teamwright.teams.status.team_status import MemberActivity
from teamwright.views.live_status import MemberRow, SessionRow
from teamwright.views.task_board import TaskBoard


@dataclass(frozen=True, slots=True)
class MemberScreen:
    """See looking.now.Scene: one member, at its own terminal."""

    seat: MemberControl

    def members(self, board: TaskBoard, /) -> list[MemberRow]:
        """See Scene: itself."""
        mate, standing = self.seat.member.mate, self.seat.member.team.status
        known = self._known()
        seen = member_facts(known, standing, board.open_tasks_by_id())
        if not self.seat.requests:  # what an earlier life of it asked is no more
            seen = replace(seen, pending_request="")
        state, on = shown_state(seen)
        task, used = board.task_of(mate.name), known.usage.tokens
        return [MemberRow(mate.name, state, on, state in WAITING_STATES, known.since, used, mate.color, task)]

    def now(self, board: TaskBoard, /) -> SessionRow:
        """See Scene: its own model, mode, window and money."""
        seat, known = self.seat, self._known()
        purse = seat.member.maker.purse
        return SessionRow(
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
            alone=not seat.is_lead_reachable,
        )

    async def read(self, board: TaskBoard, /) -> None:
        """See Scene."""
        await board.read(self.seat.member.team)

    def _known(self) -> MemberActivity:
        mate = self.seat.member.mate
        return self.seat.member.team.status.members.get(mate.name) or MemberActivity(mate.name, str(mate.state))
