"""Lookup of live agents by name: the lead, a member of this process, or one in its own process.

Depends on a session's lead and team.
"""

from __future__ import annotations

from teamwright.agent.agent import Agent
from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, nearest, parse_recipient
from teamwright.session.session import Session
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.in_process_teammate import InProcessTeammate


def find_live_agent(session: Session, name: str = "", note: str = "nothing was done") -> Agent | ProcessTeammateBase:
    """Return the lead, or the live member of that name: its agent here, or the member in another process.

    Raises UnknownMember naming the nearest, InvalidName, TeamRefused for an external member.
    """
    if not name or parse_recipient(name, session.team.names) == LEAD:
        return session.lead.agent
    mate = session.team.find(parse_recipient(name, session.team.names))
    if isinstance(mate, InProcessTeammate):
        return mate.agent
    if isinstance(mate, ProcessTeammateBase):
        return mate
    if mate is not None:
        raise TeamRefused(
            "team-refused", f"{mate.name} runs in another program, which alone knows and does that", note=note
        )
    names = [LEAD_ALIAS, *(one.name for one in session.team.running_members)]
    close = nearest(name, names)
    raise UnknownMember(
        "unknown-member",
        f'"{name}" is not in the team',
        looked_at=[("members", ", ".join(names))],
        do=[f"did you mean {close}?"] if close else [],
        note=note,
    )


def remote_members(session: Session) -> list[ProcessTeammateBase]:
    """Return the live members that have a process of their own."""
    return [mate for mate in session.team.running_members if isinstance(mate, ProcessTeammateBase)]
