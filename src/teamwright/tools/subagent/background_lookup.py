"""Lookup of background ids: a sub-agent or a shell command, of this run of the session or an earlier one.

The agent that started it may read and stop it; the lead may read and stop all. Depends on sub-agents and background
jobs; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, display_name, nearest
from teamwright.subagents.registry import Subagents
from teamwright.subagents.subagent_run import SubagentRun


def find_subagent(subagents: Subagents, text: str, caller: str) -> SubagentRun:
    """Return the sub-agent with that id or name.

    Raises UsageError with the nearest, TeamRefused for another agent's.
    """
    run = subagents.find(text)
    if run is None:
        raise unknown_id_error(
            text, "sub-agent", [*subagents.runs, *(one.name for one in subagents.runs.values() if one.name)]
        )
    return _require_own(run, run.owner, run.id, caller)


def find_background_task(subagents: Subagents, jobs: BackgroundJobs, text: str, caller: str) -> SubagentRun | Job:
    """Return the sub-agent or the command with that id. Raises the errors of `find_subagent`."""
    task_id = text.strip()
    run = subagents.find(task_id)
    if run is not None:
        return _require_own(run, run.owner, run.id, caller)
    job = jobs.find(task_id)
    if job is not None:
        return _require_own(job, job.owner, job.id, caller)
    raise unknown_id_error(text, "background task", [*subagents.runs, *(one.id for one in jobs.list())])


BackgroundTask = TypeVar("BackgroundTask", SubagentRun, Job)


def _require_own(task: BackgroundTask, owner: str, id: str, caller: str) -> BackgroundTask:
    if caller not in {owner, LEAD} and owner:
        whose = display_name(owner)
        raise TeamRefused("team-refused", f"{id} belongs to {whose}", do=["Ask its owner."], note="nothing was done")
    return task


def unknown_id_error(text: str, what: str, ids: Iterable[str]) -> UsageError:
    """Return the error for an unknown id."""
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
