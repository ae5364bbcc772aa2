"""Who is meant by a name: the lead, a member of this process, or one that lives in its own.

Knows a session's lead and team; does not know what is to be done.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.app.session import Session
from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, addressee, nearest
from teamwright.teams.member.away import Away
from teamwright.teams.teammate import Teammate


def whom(session: Session, name: str = "", note: str = "nothing was done") -> Agent | Away:
    """The lead, or the live member of that name: its agent, or the member itself where that is not here.

    Raises UnknownMember naming the nearest, InvalidName, TeamRefused for one that another program runs.
    """
    if not name or addressee(name, session.team.names) == LEAD:
        return session.lead.agent
    mate = session.team.find(addressee(name, session.team.names))
    if isinstance(mate, Teammate):
        return mate.agent
    if isinstance(mate, Away):
        return mate
    if mate is not None:
        raise TeamRefused(
            "team-refused", f"{mate.name} runs in another program, which alone knows and does that", note=note
        )
    names = [LEAD_ALIAS, *(one.name for one in session.team.live)]
    close = nearest(name, names)
    raise UnknownMember(
        "unknown-member",
        f'"{name}" is not in the team',
        looked_at=[("members", ", ".join(names))],
        do=[f"did you mean {close}?"] if close else [],
        note=note,
    )


def away(session: Session) -> list[Away]:
    """The live members that have a process of their own."""
    return [mate for mate in session.team.live if isinstance(mate, Away)]
