"""Who hears that a job or a sub-agent of theirs has ended: the lead, a member, or a sub-agent, each by its own queue.

Told live, and after a kill by `unreported_jobs`. Knows the lead, the team and the sub-agents; words are made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.conversation import Conversation
from teamwright.agent.job_journal import Job
from teamwright.protocol.clock import iso_time
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.teams.lead import Lead
from teamwright.teams.subagents.registry import INTERRUPTED, SESSION_ENDED, Subagents
from teamwright.teams.subagents.run_reports import end_notice as of_agent
from teamwright.teams.subagents.run_reports import job_end_notice, subagent_event
from teamwright.teams.team import SessionTeam

Notify: TypeAlias = Callable[[str, str], None]
"""Takes the text and the key under which the transcript will hold it."""


class EndedJob(Protocol):
    """What a job and a run of a sub-agent have."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def owner(self) -> str:
        """Who is told."""
        ...

    @property
    def started_ms(self) -> int:
        """When it began."""
        ...


Job_co = TypeVar("Job_co", bound=EndedJob)


def _job_key(job: Any) -> str:
    return str(job.key)


def _was_stopped(job: Any) -> bool:
    # One that the session itself ended, when somebody left it, is no reason to speak up at the next start.
    return job.state == "stopped"


class UnreportedJobs(Protocol[Job_co]):
    """What is noted of earlier lives: `BackgroundJobs` and `Subagents` of our session, `JobJournal` of another's."""

    def unreported(self) -> list[Job_co]:
        """Jobs that are over and not settled, oldest first."""
        ...

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Nobody needs to be told of these any more."""
        ...


def notify_lost(
    jobs: UnreportedJobs[Job_co],
    team: SessionTeam,
    lead: Lead | None,
    text: Callable[[Job_co], str],
    key: Callable[[Job_co], str] = _job_key,
    quiet: Callable[[Job_co], bool] = _was_stopped,
) -> list[Job_co]:
    """Tell each owner of the jobs that it lost; returns the jobs that are told. Call it when the members are there.

    A job whose owner's transcript has its end, or whose owner is no more, is settled instead and never told again.
    `key` names a notice, `quiet` says which wake nobody. `lead` is None for jobs of a session that was another lead's:
    its own jobs are nobody's then. Raises OSError when a transcript cannot be read.
    """
    by_owner: dict[str, list[Job_co]] = {}
    for job in jobs.unreported():
        by_owner.setdefault(job.owner, []).append(job)
    told: list[Job_co] = []
    for owner, its in by_owner.items():
        if team.subagents is not None and owner in team.subagents.runs:
            continue  # a sub-agent hears of it when it goes on
        found = _find_owner(owner, team, lead)
        if found is None:
            jobs.mark_reported(job.id for job in its)
            continue
        conversation, notice, aside = found
        # A member of the same name whose life began after the job's was not the one who waits.
        born = str(conversation.header.get("at", ""))
        own = {job.id: job for job in its if iso_time(job.started_ms) >= born}
        held = conversation.delivered_ids({f"notice:{key(job)}" for job in own.values()}) | conversation.queued.keys()
        owed = [job for job in own.values() if f"notice:{key(job)}" not in held]
        jobs.mark_reported({job.id for job in its} - {job.id for job in owed})
        for job in owed:
            (aside if quiet(job) else notice)(text(job), key(job))
        told += owed
    return told


def _find_owner(owner: str, team: SessionTeam, lead: Lead | None) -> tuple[Conversation, Notify, Notify] | None:
    """Who is told: its conversation, what wakes it, and what waits until something else does (a lead has that)."""
    if owner == LEAD:
        if lead is None:
            return None
        return lead.agent.conversation, lead.notify, partial(lead.notify, wakes=False)
    mate = team.find_in_process(owner)
    return (mate.agent.conversation, mate.incoming.notify, mate.incoming.notify) if mate is not None else None


@dataclass(slots=True)
class OwnerNotices:
    """The owners of a session's jobs and sub-agents (the port of `Subagents`)."""

    lead: Lead | None
    team: SessionTeam
    agents: Subagents

    def notify(self, owner: str, text: str, key: str) -> bool:
        """See Teller.tell."""
        if owner == LEAD:
            if self.lead is not None:
                self.lead.notify(text, key)
            return self.lead is not None
        if (mate := self.team.find(owner)) is not None:
            mate.notify(text, key)
            return True
        return self.agents.notify_run(owner, text, key)

    def withdraw(self, owner: str, key: str) -> bool:
        """See Teller.withdraw."""
        id = f"notice:{key}"
        if owner == LEAD:
            return self.lead is not None and self.lead.queue.withdraw(id)
        if (mate := self.team.find_in_process(owner)) is not None:
            return mate.incoming.notices.withdraw(id)
        run = self.agents.runs.get(owner)
        return run is not None and run.queue.withdraw(id)

    def notify_change(self) -> None:
        """See Teller.moved."""
        self.team.changed.set()


def connect_owners(lead: Lead | None, team: SessionTeam, jobs: BackgroundJobs) -> None:
    """From now on owners hear of their jobs and sub-agents, and these end with their owner.

    `lead` is None in a member's own process.
    """
    agents = team.subagents
    if agents is None:
        return
    owners = agents.notifier = OwnerNotices(lead, team, agents)

    def done(job: Job) -> None:
        owners.notify(job.owner, job_end_notice(job), job.key)

    async def left(name: str) -> None:
        await agents.stop_all(name, "the agent that started it has ended")
        await jobs.stop_all(name)

    jobs.on_done = done
    team.on_left = left


def notify_lost_subagents(subagents: Subagents, team: SessionTeam, lead: Lead | None) -> None:
    """Owners hear of sub-agents that ended with an earlier life of the session, or may not have heard of their end."""
    told = notify_lost(
        subagents,
        team,
        lead,
        of_agent,
        key=lambda run: run.notice_key,
        quiet=lambda run: run.failure_reason in {SESSION_ENDED, INTERRUPTED},
    )
    for run in told:
        team.emit(subagent_event(run))
