"""Members that live in other processes than the one that asks: by the roster, and by what was told of them.

In the lead's process there are none: it has all of them. Knows the roster and how everybody stands; rings nobody.
"""

from __future__ import annotations

from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.teams.health.standing import MemberStanding
from teamwright.teams.team import Team


@dataclass(frozen=True, slots=True)
class Other:
    """One of them: its entry on the roster, and how it stands."""

    entry: Member
    stands: MemberStanding


async def beside(team: Team) -> list[Other]:
    """Those that are alive, in the order of the roster. Raises StorageError."""
    if team.reached is None or not team.exists:
        return []
    here = {name.lower() for name in team.members}
    found: list[Other] = []
    for entry in (await team.roster.read()).teammates:
        if entry.name.lower() in here or team.reached(entry.name) is None:
            continue
        found.append(Other(entry, team.standing.members.get(entry.name) or MemberStanding(entry.name, state="idle")))
    return found
