"""What an id of the background means: a sub-agent, a shell command, in this life of the session or an earlier one.

Whoever started it may look and stop; the lead may with all. Knows both books; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from teamwright.agent.background import BackgroundJobs
from teamwright.agent.job_journal import Job
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, nearest
from teamwright.teams.agents.book import Agents
from teamwright.teams.agents.run import Run


def known_agent(agents: Agents, text: str, caller: str) -> Run:
    """The sub-agent of that id or name. Raises UsageError with the nearest, TeamRefused for another's."""
    run = agents.find(text)
    if run is None:
        raise unknown(text, "sub-agent", [*agents.runs, *(one.name for one in agents.runs.values() if one.name)])
    return _own(run, run.owner, run.id, caller)


def known_task(agents: Agents, jobs: BackgroundJobs, text: str, caller: str) -> Run | Job:
    """The sub-agent or the command of that id. Raises as `known_agent`."""
    wanted = text.strip()
    run = agents.find(wanted)
    if run is not None:
        return _own(run, run.owner, run.id, caller)
    job = jobs.known(wanted)
    if job is not None:
        return _own(job, job.owner, job.id, caller)
    raise unknown(text, "background task", [*agents.runs, *(one.id for one in jobs.list())])


Found = TypeVar("Found", Run, Job)


def _own(found: Found, owner: str, id: str, caller: str) -> Found:
    if caller not in {owner, LEAD} and owner:
        whose = LEAD_ALIAS if owner == LEAD else owner
        raise TeamRefused("team-refused", f"{id} belongs to {whose}", do=["Ask its owner."], note="nothing was done")
    return found


def unknown(text: str, what: str, ids: Iterable[str]) -> UsageError:
    """The error for an id that never was."""
    known = list(ids)
    close = nearest(text, known)
    hint = f"Did you mean {close}?" if close else ""
    if text.strip(" #").isdecimal():
        hint = "A number is a task of the list: TaskGet and TaskUpdate are for it."
    return UsageError(
        "usage",
        f"there is no {what} {text[:60]!r} in this session",
        looked_at=[("known", ", ".join(known[-12:]) or "none")],
        do=[hint] if hint else (),
        note="nothing was done",
    )
