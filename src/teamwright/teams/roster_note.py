"""What a teammate knows of the roster: who is in the team at first, then who joined and who left.

Depends on the roster file, which every process of the team sees. Leaves to the teammate when a note is delivered.
"""

from __future__ import annotations

from dataclasses import field

from teamwright.protocol.envelope import harmless
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.protocol.roster import Member, TeamConfig
from teamwright.protocol.values import dataclass
from teamwright.storage.marks import mark_of
from teamwright.teams.roster import Roster

MOST_LISTED = 30
"""Members that one note lists; ListAgents shows the others."""

_LONGEST_JOB = 80


@dataclass(slots=True)
class KnownRoster:
    """The roster as one teammate knows it: `names` are in lower case, None before the first note."""

    names: frozenset[str] | None = None
    mark: object = field(default=None)

    async def note(self, roster: Roster, reader: str) -> str:
        """Return what changed since the last note, empty when nothing did. Costs one stat when the file is the same."""
        mark = mark_of(roster.home, str(roster.path))
        if mark == self.mark:
            return ""
        config = await roster.read()
        self.mark = mark
        before, self.names = self.names, frozenset(member.name.lower() for member in config.members)
        if before is None:
            return _all(config, reader)
        joined = [member for member in config.members if member.name.lower() not in before]
        left = sorted(before - self.names)
        lines = _listed("Joined the team:", joined)
        return "\n".join([*lines, f"Left the team: {', '.join(left)}."] if left else lines)


def _all(config: TeamConfig, reader: str) -> str:
    others = [m for m in config.teammates if m.name.lower() != reader.lower()]
    if not others:
        return f"You and the lead ({LEAD_ALIAS}) are the whole team now."
    return "\n".join(_listed(f"In the team now, beside you and the lead ({LEAD_ALIAS}):", others))


def _listed(title: str, members: list[Member]) -> list[str]:
    if not members:
        return []
    more = len(members) - MOST_LISTED
    lines = [title, *(_line(member) for member in members[:MOST_LISTED])]
    return [*lines, f"- and {more} more; ListAgents shows all"] if more > 0 else lines


def _line(member: Member) -> str:
    job = " ".join((member.prompt or "").split())
    short = job if len(job) <= _LONGEST_JOB else job[: _LONGEST_JOB - 1].rsplit(" ", 1)[0] + "…"
    return harmless(f"- {member.name} ({member.agent_type})" + (f": {short}" if short else ""))
