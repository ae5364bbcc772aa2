"""Lookup of live agents by name: the lead, a member of this process, or one in its own process.

Depends on the lead and the team of a session.
"""

from __future__ import annotations

from collections.abc import Iterable

from teamwright.agent.agent import Agent
from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.ids import LEAD, did_you_mean, lead_stop_error, unknown_member
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.lead_agent import Lead
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate


def find_member(
    team: SessionTeam, name: str, note: str = "nothing was done", jobs: Iterable[str] = ()
) -> Teammate | None:
    """Return the live member of that name; None for the lead. Raises UnknownMember naming the nearest, InvalidName.

    `jobs` are ids of running jobs that could be meant too.
    """
    recipient = team.recipient(name, note)
    if recipient == LEAD:
        return None
    found = team.find(recipient)
    if found is None:
        raise unknown_live_member(team, name, note, jobs)
    return found


def find_teammate(team: SessionTeam, name: str, note: str = "nothing was done", jobs: Iterable[str] = ()) -> Teammate:
    """Return the live member of that name. Raises as `find_member`, and TeamRefused for the lead."""
    found = find_member(team, name, note, jobs)
    if found is None:
        raise lead_stop_error(["/quit"])
    return found


def find_live_agent(
    lead: Lead, team: SessionTeam, name: str = "", note: str = "nothing was done"
) -> Agent | ProcessTeammateBase:
    """Return the lead, or the live member of that name: its agent here, or the member in another process.

    Raises as `find_member`, and TeamRefused for an external member.
    """
    found = find_member(team, name, note) if name else None
    if found is None:
        return lead.agent
    if isinstance(found, LocalTeammate):
        return found.agent
    if isinstance(found, ProcessTeammateBase):
        return found
    raise TeamRefused(
        "team-refused", f"{found.name} runs in another program, which alone knows and does that", note=note
    )


def require_members(team: SessionTeam, name: str, note: str) -> None:
    """Raise UnknownMember when there is no team, which could have a member of that name."""
    if not team.exists:
        raise unknown_live_member(team, name, note)


def unknown_live_member(team: SessionTeam, name: str, note: str, jobs: Iterable[str] = ()) -> UnknownMember:
    """Return the error for a name that no live member has."""
    members = [LEAD, *(one.name for one in team.running_members)]
    ids = list(jobs)
    return unknown_member(
        name,
        members,
        f"team {team.name}" if team.exists else "the team",
        note=note,
        more=[("running", ", ".join(ids))] if ids else [],
        do=did_you_mean(name, [*members[1:], *ids]) if ids else None,
    )


def remote_members(team: SessionTeam) -> list[ProcessTeammateBase]:
    """Return the live members that have a process of their own."""
    return [teammate for teammate in team.running_members if isinstance(teammate, ProcessTeammateBase)]
