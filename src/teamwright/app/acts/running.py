"""What runs in one process beside its members: sub-agents and commands, by owner and by name.

Knows what makes agents; knows no team and no session.
"""

from __future__ import annotations

from teamwright.agent.job_journal import Job
from teamwright.app.making.maker import Maker
from teamwright.teams.agents.run import Run

BY_USER = "stopped by the user"


def shown(task: Run | Job) -> str:
    """One of them in a line."""
    return f"{task.id} {task.description or (task.command if isinstance(task, Job) else task.kind)}"


def running_of(maker: Maker, owner: str) -> list[str]:
    """The sub-agents, then the background commands of this owner that run, a line each."""
    agents, jobs = maker.kit.agents, maker.kit.jobs
    runs = [f"{shown(run)}{'' if run.background else ', waited for'}" for run in agents.running(owner)]
    return [*runs, *(shown(job) for job in jobs.list(owner) if job.state == "running")]


def ids_running(maker: Maker) -> list[str]:
    """The ids of all that run."""
    return [one.id for one in (*maker.kit.agents.running(), *maker.kit.jobs.list()) if one.state == "running"]


def named(maker: Maker, name: str) -> Run | Job | None:
    """The sub-agent of that id or name, or the command of that id, also one that is over; None when nothing has it."""
    return maker.kit.agents.find(name) or maker.kit.jobs.known(name)


async def stop_running(maker: Maker, found: Run | Job) -> str:
    """End it, and tell whoever started it. What became of it, in a line."""
    what = shown(found)
    if found.state != "running" and not (isinstance(found, Run) and found.comes):
        return f"{what} does not run: it is {found.state}"
    if isinstance(found, Run):
        await maker.kit.agents.stop(found, BY_USER)
    else:
        await maker.kit.jobs.stop(found.id)
    return f"{what} was stopped"


def to_background(maker: Maker, name: str = "", owner: str | None = None) -> list[str] | None:
    """Let what is waited for go on in the background: what has that name, or all of that owner, or all.

    Returns what went, as people read it; None for a name that nothing here has.
    """
    agents = maker.kit.agents
    if name:
        chosen = agents.find(name)
        if chosen is None:
            return None
        return [shown(chosen)] if agents.to_background(chosen) else []
    moved = [run for run in agents.running(owner, background=False) if agents.to_background(run)]
    return [*map(shown, moved), *maker.kit.jobs.let_go(owner)]
