"""The status of one member for its own terminal, in the same terms as at its lead's.

Computed for each call, without reading files. Depends on a member of this process.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from teamwright.member_process.own_terminal import OwnTerminalControl
from teamwright.team_records.member_status import MemberStatus
from teamwright.teams.member_state import with_state
from teamwright.views.cost import CostView, cost_of_totals
from teamwright.views.live_status import SessionRow, TaskBoard, known_status
from teamwright.views.log import LogView


class MemberScreen(Struct, frozen=True):
    """The status of one member at its own terminal, a `StatusSource`."""

    seat: OwnTerminalControl

    def members(self, board: TaskBoard, /) -> list[MemberStatus]:
        """Implement `StatusSource.members` with the member alone."""
        teammate, team = self.seat.member.teammate, self.seat.member.team
        status = team.status if self.seat.requests else replace(team.status, requests={})  # others are closed
        row = with_state(known_status(team, teammate), status, board.open_tasks_by_id())
        return [replace(row, color=teammate.color, task=board.task_of(teammate.name))]

    def now(self, board: TaskBoard, /) -> SessionRow:
        """Implement `StatusSource.now` with the member's model, mode, window and money."""
        seat, known = self.seat, known_status(self.seat.member.team, self.seat.member.teammate)
        budget_tracker = seat.member.agent_factory.budget_tracker
        return SessionRow(
            model=seat.model,
            mode=seat.mode,
            context=known.context or budget_tracker.context.get(seat.name, 0),
            window=seat.agent.model.card.context_tokens,
            usd=known.usage.usd,
            usd_cap=budget_tracker.cap_of(seat.name).usd,
            tokens=known.usage.tokens,
            requests=seat.requests,
            done=board.done,
            tasks=board.done + len(board.open),
            alone=not seat.is_lead_reachable,
        )

    async def read(self, board: TaskBoard, /) -> None:
        """Implement `StatusSource.read`."""
        await board.read(self.seat.member.team)


async def member_cost(control: OwnTerminalControl) -> CostView:
    """Return the cost of the member and its sub-agents in this process. Raises StorageError."""
    member = control.member
    books = member.agent_factory.budget_tracker.books
    subjects = {(books.list, task.id): task.subject for task in await control.tasks()}
    return cost_of_totals(books, subjects, LogView(member.log.path, member.spawn.session, member.team.name))
