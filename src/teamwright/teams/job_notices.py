"""Notices to the owner of an ended job or sub-agent: the lead, a member, or a sub-agent, each through its own queue.

Delivered live, and after a kill from `unreported`. Depends on the lead, the team and the sub-agents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.agent.conversation import Conversation
from teamwright.agent.transcript import calls_without_result
from teamwright.hooks import payload
from teamwright.hooks.payload import HookAgent
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.protocol.runtime_tags import TaskEnd, escape_tags
from teamwright.subagents.registry import INTERRUPTED, SESSION_ENDED, Subagents
from teamwright.subagents.reports import end_notice as of_agent
from teamwright.subagents.reports import job_end_notice, job_wait_notice, subagent_event
from teamwright.subagents.subagent_settings import CallRef
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.teams.lead_agent import Lead

Notify: TypeAlias = Callable[[TaskEnd, str], None]
"""Receives the end and the key under which the transcript will store it."""


class EndedJob(Protocol):
    """The common fields of a job and a sub-agent's run."""

    @property
    def id(self) -> str: ...

    @property
    def owner(self) -> str:
        """The agent that is notified."""
        ...

    @property
    def started_ms(self) -> int:
        """The start time in milliseconds since 1970."""
        ...


Job_co = TypeVar("Job_co", bound=EndedJob)


def _job_key(job: Any) -> str:
    return str(job.key)


def _was_stopped(job: Any) -> bool:
    # A job that the session itself ended when it was left causes no notice at the next start.
    return job.state == "stopped"


class UnreportedJobs(Protocol[Job_co]):
    """The records of earlier processes: `BackgroundJobs` and `Subagents` of our session, `JobJournal` of another's."""

    def unreported(self) -> list[Job_co]:
        """Return ended jobs without a delivered notice, oldest first."""
        ...

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Mark the ends of these jobs as reported."""


def notify_lost(
    jobs: UnreportedJobs[Job_co],
    team: SessionTeam,
    lead: Lead | None,
    end: Callable[[Job_co], TaskEnd],
    key: Callable[[Job_co], str] = _job_key,
    quiet: Callable[[Job_co], bool] = _was_stopped,
) -> list[Job_co]:
    """Notify each owner of its lost jobs; returns the jobs of these notices. Call it when the members are there.

    A job whose owner's transcript has its end, or whose owner has ended, is only marked as reported. `key` names a
    notice, `quiet` returns True for one that wakes no agent. `lead` is None for jobs of a session that another lead
    had: that lead's jobs then have no owner. Raises OSError when a transcript cannot be read.
    """
    by_owner: dict[str, list[Job_co]] = {}
    for job in jobs.unreported():
        by_owner.setdefault(job.owner, []).append(job)
    notified_jobs: list[Job_co] = []
    for owner, its in by_owner.items():
        if team.subagents is not None and owner in team.subagents.runs:
            continue  # a sub-agent is notified when it is resumed
        found = _find_owner(owner, team, lead)
        if found is None:
            jobs.mark_reported(job.id for job in its)
            continue
        conversation, notice, aside = found
        # A member of the same name that started after the job is not its owner.
        started_at = str(conversation.header.get("at", ""))
        own = {job.id: job for job in its if iso_time(job.started_ms) >= started_at}
        known_ids = (
            conversation.delivered_ids({f"notice:{key(job)}" for job in own.values()}) | conversation.queued.keys()
        )
        unreported_jobs = [job for job in own.values() if f"notice:{key(job)}" not in known_ids]
        jobs.mark_reported({job.id for job in its} - {job.id for job in unreported_jobs})
        for job in unreported_jobs:
            (aside if quiet(job) else notice)(end(job), key(job))
        notified_jobs += unreported_jobs
    return notified_jobs


def _find_owner(owner: str, team: SessionTeam, lead: Lead | None) -> tuple[Conversation, Notify, Notify] | None:
    """Return the owner's conversation, its waking notice and its quiet notice (which only a lead has)."""
    if owner == LEAD:
        if lead is None:
            return None
        return lead.agent.conversation, lead.notify, partial(lead.notify, wakes=False)
    teammate = team.find_in_process(owner)
    return (
        (teammate.agent.conversation, teammate.incoming.notify, teammate.incoming.notify)
        if teammate is not None
        else None
    )


class OwnerNotices(Struct):
    """The owners of a session's jobs and sub-agents (an `OwnerNotifier`)."""

    lead: Lead | None
    team: SessionTeam
    agents: Subagents

    def notify(self, owner: str, end: TaskEnd, key: str) -> bool:
        if owner == LEAD:
            if self.lead is not None:
                self.lead.notify(end, key)
            return self.lead is not None
        if (teammate := self.team.find(owner)) is not None:
            teammate.notify(end, key)
            return True
        return self.agents.notify_run(owner, end, key)

    def withdraw(self, owner: str, key: str) -> bool:
        id = f"notice:{key}"
        if owner == LEAD:
            return self.lead is not None and self.lead.queue.withdraw(id)
        if (teammate := self.team.find_in_process(owner)) is not None:
            return teammate.incoming.notices.withdraw(id)
        run = self.agents.runs.get(owner)
        return run is not None and run.queue.withdraw(id)

    def notify_change(self) -> None:
        self.team.changed.set()


def connect_owners(lead: Lead | None, team: SessionTeam, jobs: BackgroundJobs) -> None:
    """Connect owners with their jobs and sub-agents: they are notified, and their jobs end with them.

    `lead` is None in a member's own process.
    """
    agents = team.subagents
    if agents is None:
        return
    owners = agents.notifier = OwnerNotices(lead, team, agents)

    def waits(job: Job, lines: str) -> None:
        owners.notify(job.owner, job_wait_notice(job, lines), f"{job.key}-waits")
        text = f"{jobs.line(job)}: it is silent, and seems to wait for an input"
        team.emit(Notice(member=job.owner, text=text, level="warning"))

    def done(job: Job) -> None:
        if job.seems_to_wait:
            owners.withdraw(job.owner, f"{job.key}-waits")  # its end says more
        owners.notify(job.owner, job_end_notice(job), job.key)
        team.changed.set()  # also without an owner: a run may wait for this end

    jobs.follow_ends(done)
    jobs.follow_waits(waits)


def notify_lost_subagents(subagents: Subagents, team: SessionTeam, lead: Lead | None) -> None:
    """Notify owners of sub-agents that ended with an earlier process of the session, or whose end may be unreported."""
    runs = notify_lost(
        subagents,
        team,
        lead,
        of_agent,
        key=lambda run: run.notice_key,
        quiet=lambda run: run.failure_reason in {SESSION_ENDED, INTERRUPTED},
    )
    for run in runs:
        team.emit(subagent_event(run))


async def continue_waiting_subagents(
    subagents: Subagents, team: SessionTeam, lead: Lead | None, left_open: Collection[str]
) -> None:
    """Continue the background sub-agents of an earlier process whose calls waited for an answer when it ended.

    Each asks again, and an answer that was given since counts. `left_open` has the ids of such calls. An agent that
    cannot continue is left to the notice about its end. Call it when the members are there, before the notices.
    """
    if not left_open or not subagents.settings.background:
        return
    for run in subagents.unreported():
        if not run.background or _find_owner(run.owner, team, lead) is None:
            continue  # the call that waits for it, or its owner, continues it
        try:
            if any(call.id in left_open for call in calls_without_result(run.transcript)):
                await subagents.resume(run, "", run.owner, CallRef(), background=True)
        except (TeamwrightError, OSError, ValueError, KeyError) as problem:
            why = problem.what if isinstance(problem, TeamwrightError) else str(problem)
            text = f"the sub-agent {run.id} waited for an answer, and could not be continued: {why}"
            team.emit(Notice(member=run.owner, text=text, level="warning"))


def deliver_text(current_team: Callable[[], SessionTeam | None], agent: HookAgent, text: str, wakes: bool) -> None:
    """Deliver a text of a hook to this agent. Tags in it are escaped.

    Without `wakes` an idle lead or teammate receives it with its next turn.
    """
    team = current_team()
    text = escape_tags(text)
    if team is None:
        return
    if agent.kind == payload.LEAD:
        if team.lead is not None:
            team.lead.notify(text, wakes=wakes)
    elif agent.kind == payload.SUBAGENT:
        if team.subagents is not None:
            team.subagents.notify_run(agent.agent_id, text, "")
    elif (teammate := team.find_in_process(agent.name)) is not None:
        mail = teammate.incoming
        mail.notices.put_notice(mail.conversation.tags, text)
        if wakes:
            mail.wake()
