"""The jobs that run in one process: sub-agents and background commands, by owner and by name.

Depends on the agent factory.
"""

from __future__ import annotations

from teamwright.agent.background_jobs import RunningCommand
from teamwright.agent.job_journal import Job
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.teams.subagents.run import SubagentRun

BY_USER = "stopped by the user"


def describe_job(task: SubagentRun | Job) -> str:
    """Return the description of a job in a line."""
    return f"{task.id} {task.description or (task.command if isinstance(task, Job) else task.agent_type)}"


def list_running(agent_factory: AgentFactory, owner: str) -> list[str]:
    """Return the running sub-agents, then the background commands, of this owner, a line each."""
    agents, jobs = agent_factory.toolset.agents, agent_factory.toolset.jobs
    runs = [f"{describe_job(run)}{'' if run.background else ', waited for'}" for run in agents.running_runs(owner)]
    return [*runs, *(describe_job(job) for job in jobs.list(owner) if job.state == "running")]


def running_command(agent_factory: AgentFactory, owner: str) -> RunningCommand | None:
    """Return the newest command that this agent waits for; None without one, and for agents of other processes."""
    return agent_factory.toolset.jobs.foreground_command(owner)


def running_ids(agent_factory: AgentFactory) -> list[str]:
    """Return the ids of all running jobs."""
    return [
        one.id
        for one in (*agent_factory.toolset.agents.running_runs(), *agent_factory.toolset.jobs.list())
        if one.state == "running"
    ]


def find_job(agent_factory: AgentFactory, name: str) -> SubagentRun | Job | None:
    """Return the sub-agent of that id or name, or the command of that id, also an ended one; None for unknown names."""
    return agent_factory.toolset.agents.find(name) or agent_factory.toolset.jobs.find(name)


async def stop_running(agent_factory: AgentFactory, found: SubagentRun | Job) -> str:
    """Stop a job and notify its owner. Return the result in a line."""
    what = describe_job(found)
    if found.state != "running" and not (isinstance(found, SubagentRun) and found.is_resuming):
        return f"{what} does not run: it is {found.state}"
    if isinstance(found, SubagentRun):
        await agent_factory.toolset.agents.stop(found, BY_USER)
    else:
        await agent_factory.toolset.jobs.stop(found.id)
    return f"{what} was stopped"


def move_to_background(agent_factory: AgentFactory, name: str = "", owner: str | None = None) -> list[str] | None:
    """Move jobs that are waited for to the background: the one of that name, all of that owner, or all.

    Returns them as shown to people; None for an unknown name.
    """
    agents = agent_factory.toolset.agents
    if name:
        chosen = agents.find(name)
        if chosen is None:
            return None
        return [describe_job(chosen)] if agents.move_to_background(chosen) else []
    moved = [run for run in agents.running_runs(owner, background=False) if agents.move_to_background(run)]
    return [*map(describe_job, moved), *agent_factory.toolset.jobs.move_to_background(owner)]
