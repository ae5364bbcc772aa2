"""The status of one member for its own terminal, in the same terms as at its lead's.

Computed for each call, without reading files. Depends on a member of this process.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.protocol.values import dataclass
from teamwright.session.member_process.own_terminal_control import OwnTerminalControl
from teamwright.teams.status.member_state import WAITING_STATES, member_facts, shown_state
from teamwright.teams.status.team_status import MemberActivity
from teamwright.views.cost import CostView, cost_of_totals
from teamwright.views.live_status import MemberRow, SessionRow, TaskBoard
from teamwright.views.log import LogView


@dataclass(frozen=True, slots=True)
class MemberScreen:
    """The status of one member at its own terminal, a `StatusSource`."""

    seat: OwnTerminalControl

    def members(self, board: TaskBoard, /) -> list[MemberRow]:
        """Implement `StatusSource.members` with the member alone."""
        mate, standing = self.seat.member.mate, self.seat.member.team.status
        known = self._known()
        seen = member_facts(known, standing, board.open_tasks_by_id())
        if not self.seat.requests:  # requests of an earlier incarnation are closed
            seen = replace(seen, pending_request="")
        state, on = shown_state(seen)
        task, used = board.task_of(mate.name), known.usage.tokens
        return [MemberRow(mate.name, state, on, state in WAITING_STATES, known.since, used, mate.color, task)]

    def now(self, board: TaskBoard, /) -> SessionRow:
        """Implement `StatusSource.now` with the member's model, mode, window and money."""
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
        """Implement `StatusSource.read`."""
        await board.read(self.seat.member.team)

    def _known(self) -> MemberActivity:
        mate = self.seat.member.mate
        return self.seat.member.team.status.members.get(mate.name) or MemberActivity(mate.name, mate.state)


async def member_cost(control: OwnTerminalControl) -> CostView:
    """Return the cost of the member and its sub-agents in this process. Raises StorageError."""
    member = control.member
    books = member.maker.purse.books
    subjects = {(books.list, task.id): task.subject for task in await control.tasks()}
    return cost_of_totals(books, subjects, LogView(member.log.path, member.spawn.session, member.team.name))
