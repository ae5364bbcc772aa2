"""What runs in one process beside its members: sub-agents and commands, by owner and by name.

Knows what makes agents; knows no team and no session.
"""

from __future__ import annotations

from teamwright.agent.job_journal import Job
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.teams.subagents.run import SubagentRun

BY_USER = "stopped by the user"


def describe_job(task: SubagentRun | Job) -> str:
    """One of them in a line."""
    return f"{task.id} {task.description or (task.command if isinstance(task, Job) else task.agent_type)}"


def list_running(maker: AgentFactory, owner: str) -> list[str]:
    """The sub-agents, then the background commands of this owner that run, a line each."""
    agents, jobs = maker.kit.agents, maker.kit.jobs
    runs = [f"{describe_job(run)}{'' if run.background else ', waited for'}" for run in agents.running_runs(owner)]
    return [*runs, *(describe_job(job) for job in jobs.list(owner) if job.state == "running")]


def running_ids(maker: AgentFactory) -> list[str]:
    """The ids of all that run."""
    return [one.id for one in (*maker.kit.agents.running_runs(), *maker.kit.jobs.list()) if one.state == "running"]


def find_job(maker: AgentFactory, name: str) -> SubagentRun | Job | None:
    """The sub-agent of that id or name, or the command of that id, also one that is over; None when nothing has it."""
    return maker.kit.agents.find(name) or maker.kit.jobs.find(name)


async def stop_running(maker: AgentFactory, found: SubagentRun | Job) -> str:
    """End it, and tell whoever started it. What became of it, in a line."""
    what = describe_job(found)
    if found.state != "running" and not (isinstance(found, SubagentRun) and found.is_resuming):
        return f"{what} does not run: it is {found.state}"
    if isinstance(found, SubagentRun):
        await maker.kit.agents.stop(found, BY_USER)
    else:
        await maker.kit.jobs.stop(found.id)
    return f"{what} was stopped"


def move_to_background(maker: AgentFactory, name: str = "", owner: str | None = None) -> list[str] | None:
    """Let what is waited for go on in the background: what has that name, or all of that owner, or all.

    Returns what went, as people read it; None for a name that nothing here has.
    """
    agents = maker.kit.agents
    if name:
        chosen = agents.find(name)
        if chosen is None:
            return None
        return [describe_job(chosen)] if agents.move_to_background(chosen) else []
    moved = [run for run in agents.running_runs(owner, background=False) if agents.move_to_background(run)]
    return [*map(describe_job, moved), *maker.kit.jobs.move_to_background(owner)]
