"""How a running session stands at this moment, for a face that shows it all the time: members, model, money, window.

Drawn anew from what is there each time: the live members, the fold of the events, the books. Nothing is kept here, so
nobody is listed who is gone. Costs no reading of files. Knows sessions; knows no screen.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.protocol.events import TaskInfo
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.session.session import Session
from teamwright.teams.lifecycle import MemberState
from teamwright.teams.status.member_state import WAITING_STATES, member_facts, shown_state
from teamwright.teams.status.team_status import MemberActivity
from teamwright.views.task_board import TaskBoard

STARTING = "starting"
"""The word for a member that is not ready yet; all other words are those of the table of health."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member that is alive, or the lead. `on` says what it waits for (then `waits`) or does, empty when unknown.

    `since` is when its state began, in seconds since 1970 (0: not known); `tokens` is all it used, 0 for one that
    another program runs. `task` is what it has in hand.
    """

    name: str
    state: str
    on: str = ""
    waits: bool = False
    since: float = 0.0
    tokens: int = 0
    color: str | None = None
    task: TaskInfo | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What one line can say of a session. `context` and `window` are the lead's, in tokens, 0 when not known.

    `usd` is None when a price is not known; `usd_cap` None without a cap. `requests` wait for a person. At a member's
    own terminal all of it is the member's, and `alone` says that its lead is gone.
    """

    model: str
    mode: str
    context: int
    window: int
    usd: float | None
    usd_cap: float | None
    tokens: int
    requests: int
    done: int
    tasks: int
    alone: bool = False


class StatusSource(Protocol):
    """What a face shows all the time: a session at its lead's terminal, or a member at its own."""

    def members(self, board: TaskBoard, /) -> list[MemberRow]:
        """Whoever has a row."""
        ...

    def now(self, board: TaskBoard, /) -> SessionRow:
        """What the one line says."""
        ...

    async def read(self, board: TaskBoard, /) -> None:
        """Begin the board anew from the files. Raises StorageError."""
        ...


@dataclass(frozen=True, slots=True)
class SessionStatusSource:
    """See Scene: the lead and its team."""

    session: Session

    def members(self, board: TaskBoard, /) -> list[MemberRow]:
        """See Scene."""
        return member_rows(self.session, board)

    def now(self, board: TaskBoard, /) -> SessionRow:
        """See Scene."""
        return session_row(self.session, board)

    async def read(self, board: TaskBoard, /) -> None:
        """See Scene."""
        await board.read(self.session.team)


def member_rows(session: Session, board: TaskBoard) -> list[MemberRow]:
    """The lead, then everybody who is alive or about to be, in the order of joining."""
    team, tasks = session.team, board.open_tasks_by_id()
    found = [_lead(session, board)]
    for mate in team.running_members:
        known = team.status.members.get(mate.name) or MemberActivity(mate.name, str(mate.state))
        state, on = shown_state(member_facts(known, team.status, tasks))
        if mate.state is MemberState.PENDING:
            state, on = STARTING, ""
        task = board.task_of(mate.name)
        used = known.usage.tokens
        found.append(MemberRow(mate.name, state, on, state in WAITING_STATES, known.since, used, mate.color, task))
    return [*found, *(MemberRow(name, STARTING) for name in team.starting_names)]


def _lead(session: Session, board: TaskBoard) -> MemberRow:
    """The lead: whether it works it knows itself, before any event tells."""
    standing = session.team.status
    known = standing.members.get(LEAD)
    used = known.usage.tokens if known is not None else 0
    task = board.task_of(LEAD)
    if not session.lead.busy or known is None:
        state = "working" if session.lead.busy else "idle"
        return MemberRow(LEAD, state, since=known.since if known is not None else 0.0, tokens=used, task=task)
    state, on = shown_state(member_facts(known, standing, {}))
    if state == "idle":  # the event that it works is on its way
        state, on = "working", ""
    return MemberRow(LEAD, state, on, state in WAITING_STATES, known.since, used, None, task)


def session_row(session: Session, board: TaskBoard) -> SessionRow:
    """What the line says now."""
    standing, purse, card = session.team.status, session.maker.purse, session.lead.agent.model.card
    known = standing.members.get(LEAD)
    used = standing.usage
    return SessionRow(
        model=card.name,
        mode=str(session.modes.mode),
        context=known.context if known is not None and known.context else purse.context.get(LEAD, 0),
        window=card.context_tokens,
        usd=used.usd,
        usd_cap=purse.budget.usd,
        tokens=used.tokens,
        requests=len(standing.requests),
        done=board.done,
        tasks=board.done + len(board.open),
    )
