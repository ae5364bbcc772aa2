"""Who hears that a job or a sub-agent of theirs has ended: the lead, a member, or a sub-agent, each by its own queue.

Told live, and after a kill by `lost_jobs`. Knows the lead, the team and the sub-agents; words are made elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from teamwright.protocol.ids import LEAD
from teamwright.teams.agents.book import Agents
from teamwright.teams.lead import Lead
from teamwright.teams.team import Team


@dataclass(slots=True)
class Owners:
    """The owners of a session's jobs and sub-agents (the port of `Agents`)."""

    lead: Lead
    team: Team
    agents: Agents

    def tell(self, owner: str, text: str, key: str) -> bool:
        """See Teller.tell."""
        if owner == LEAD:
            self.lead.notice(text, key)
            return True
        if (mate := self.team.find(owner)) is not None:
            mate.desk.notice(text, key)
            return True
        return self.agents.heard(owner, text, key)

    def withdraw(self, owner: str, key: str) -> bool:
        """See Teller.withdraw."""
        id = f"notice:{key}"
        if owner == LEAD:
            return self.lead.queue.withdraw(id)
        if (mate := self.team.find(owner)) is not None:
            return mate.desk.notices.withdraw(id)
        run = self.agents.runs.get(owner)
        return run is not None and run.queue.withdraw(id)

    def moved(self) -> None:
        """See Teller.moved."""
        self.team.changed.set()
