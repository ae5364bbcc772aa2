"""How a running session stands at this moment, for a face that shows it all the time: members, model, money, window.

Drawn anew from what is there each time: the live members, the fold of the events, the books. Nothing is kept here, so
nobody is listed who is gone. Costs no reading of files. Knows sessions; knows no screen.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.app.looking.board import Board
from teamwright.app.session import Session
from teamwright.protocol.events import TaskInfo
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.teams.health.standing import MemberStanding
from teamwright.teams.health.table import WAITS, health, seen_of
from teamwright.teams.lifecycle import State

STARTING = "starting"
"""The word for a member that is not ready yet; all other words are those of the table of health."""


@dataclass(frozen=True, slots=True)
class MemberNow:
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
class SessionNow:
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


class Scene(Protocol):
    """What a face shows all the time: a session at its lead's terminal, or a member at its own."""

    def members(self, board: Board, /) -> list[MemberNow]:
        """Whoever has a row."""
        ...

    def now(self, board: Board, /) -> SessionNow:
        """What the one line says."""
        ...

    async def read(self, board: Board, /) -> None:
        """Begin the board anew from the files. Raises StorageError."""
        ...


@dataclass(frozen=True, slots=True)
class OfSession:
    """See Scene: the lead and its team."""

    session: Session

    def members(self, board: Board, /) -> list[MemberNow]:
        """See Scene."""
        return members_now(self.session, board)

    def now(self, board: Board, /) -> SessionNow:
        """See Scene."""
        return session_now(self.session, board)

    async def read(self, board: Board, /) -> None:
        """See Scene."""
        await board.read(self.session.team)


def members_now(session: Session, board: Board) -> list[MemberNow]:
    """The lead, then everybody who is alive or about to be, in the order of joining."""
    team, tasks = session.team, board.as_open()
    found = [_lead(session, board)]
    for mate in team.live:
        known = team.standing.members.get(mate.name) or MemberStanding(mate.name, str(mate.state))
        state, on = health(seen_of(known, team.standing, tasks))
        if mate.state is State.PENDING:
            state, on = STARTING, ""
        task = board.task_of(mate.name)
        used = known.usage.tokens
        found.append(MemberNow(mate.name, state, on, state in WAITS, known.since, used, mate.color, task))
    return [*found, *(MemberNow(name, STARTING) for name in team.not_yet_alive)]


def _lead(session: Session, board: Board) -> MemberNow:
    """The lead: whether it works it knows itself, before any event tells."""
    standing = session.team.standing
    known = standing.members.get(LEAD)
    used = known.usage.tokens if known is not None else 0
    task = board.task_of(LEAD)
    if not session.lead.busy or known is None:
        state = "working" if session.lead.busy else "idle"
        return MemberNow(LEAD, state, since=known.since if known is not None else 0.0, tokens=used, task=task)
    state, on = health(seen_of(known, standing, {}))
    if state == "idle":  # the event that it works is on its way
        state, on = "working", ""
    return MemberNow(LEAD, state, on, state in WAITS, known.since, used, None, task)


def session_now(session: Session, board: Board) -> SessionNow:
    """What the line says now."""
    standing, purse, card = session.team.standing, session.maker.purse, session.lead.agent.model.card
    known = standing.members.get(LEAD)
    used = standing.usage
    return SessionNow(
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
