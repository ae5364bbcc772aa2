"""Who hears that a job or a sub-agent of theirs has ended: the lead, a member, or a sub-agent, each by its own queue.

Told live, and after a kill by `lost_jobs`. Knows the lead, the team and the sub-agents; words are made elsewhere.
"""

from __future__ import annotations

from teamwright.agent.background import BackgroundJobs
from teamwright.agent.job_journal import Job
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.teams.agents.book import INTERRUPTED, LEFT, Agents
from teamwright.teams.agents.words import changed, job_notification
from teamwright.teams.agents.words import notification as of_agent
from teamwright.teams.lead import Lead
from teamwright.teams.lost_jobs import tell_lost
from teamwright.teams.team import Team


@dataclass(slots=True)
class Owners:
    """The owners of a session's jobs and sub-agents (the port of `Agents`)."""

    lead: Lead | None
    team: Team
    agents: Agents

    def tell(self, owner: str, text: str, key: str) -> bool:
        """See Teller.tell."""
        if owner == LEAD:
            if self.lead is not None:
                self.lead.notice(text, key)
            return self.lead is not None
        if (mate := self.team.find(owner)) is not None:
            mate.notice(text, key)
            return True
        return self.agents.heard(owner, text, key)

    def withdraw(self, owner: str, key: str) -> bool:
        """See Teller.withdraw."""
        id = f"notice:{key}"
        if owner == LEAD:
            return self.lead is not None and self.lead.queue.withdraw(id)
        if (mate := self.team.own(owner)) is not None:
            return mate.desk.notices.withdraw(id)
        run = self.agents.runs.get(owner)
        return run is not None and run.queue.withdraw(id)

    def moved(self) -> None:
        """See Teller.moved."""
        self.team.changed.set()


def owners_of(lead: Lead | None, team: Team, jobs: BackgroundJobs) -> None:
    """From now on owners hear of their jobs and sub-agents, and these end with their owner.

    `lead` is None in a member's own process.
    """
    agents = team.agents
    if agents is None:
        return
    owners = agents.teller = Owners(lead, team, agents)

    def done(job: Job) -> None:
        owners.tell(job.owner, job_notification(job), job.key)

    async def left(name: str) -> None:
        await agents.stop_all(name, "the agent that started it has ended")
        await jobs.stop_all(name)

    jobs.on_done = done
    team.on_left = left


def tell_lost_agents(agents: Agents, team: Team, lead: Lead | None) -> None:
    """Owners hear of sub-agents that ended with an earlier life of the session, or may not have heard of their end."""
    told = tell_lost(
        agents,
        team,
        lead,
        of_agent,
        key=lambda run: run.notice_key,
        quiet=lambda run: run.why in {LEFT, INTERRUPTED},
    )
    for run in told:
        team.emit(changed(run))
