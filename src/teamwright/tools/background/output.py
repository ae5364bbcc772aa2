"""TaskOutput: what a background sub-agent or shell command gave so far, or all of it once it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from teamwright.agent.background import BackgroundJobs
from teamwright.agent.job_journal import Job
from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.teams.agents.book import Agents
from teamwright.teams.agents.run import Run
from teamwright.tools.background.finding import known_task

LONGEST = 600_000
"""Milliseconds that one call waits at most."""

SHOWN = 30_000
"""Characters of output in a result; the file has all of it."""


class TaskOutputInput(ToolInput):
    """Parameters of TaskOutput."""

    task_id: str = Field(description="Id of the sub-agent or command.")
    block: bool = Field(True, description="Waiting for the end.")
    timeout: int = Field(30_000, ge=0, description="Waiting time in milliseconds, at most 600000.")


class TaskOutput(Tool[TaskOutputInput]):
    """Reads background tasks for the agent of this name."""

    name = "TaskOutput"
    input_type = TaskOutputInput

    def __init__(self, caller: str, agents: Agents, jobs: BackgroundJobs) -> None:
        self._caller = caller
        self._agents = agents
        self._jobs = jobs

    def read_only(self, call: TaskOutputInput) -> bool:
        """It only looks."""
        return True

    def waits(self, call: TaskOutputInput) -> bool:
        """With `block` it waits for the end."""
        return call.block

    def summary(self, call: TaskOutputInput) -> str:
        """Of what."""
        return call.task_id

    async def run(self, call: TaskOutputInput, ctx: ToolContext) -> ToolResult:
        """Status and output; at the end all of it, which is told nowhere else then."""
        found = known_task(self._agents, self._jobs, call.task_id, self._caller)
        wait_s = min(call.timeout, LONGEST) / 1000 if call.block else 0.0
        if isinstance(found, Run):
            return await self._of_agent(found, call, wait_s)
        return await self._of_job(found, call, wait_s)

    async def _of_agent(self, run: Run, call: TaskOutputInput, wait_s: float) -> ToolResult:
        ended = await self._agents.wait(run, wait_s)
        if not ended:
            said = await asyncio.to_thread(_tail, run.file)
            return _result(_waited(call), {"task_id": run.id, "task_type": "local_agent", "status": "running"}, said)
        if call.block and run.owner == self._caller:
            self._agents.consume(run)
        said = run.text or await asyncio.to_thread(_tail, run.file)
        about = {"task_id": run.id, "task_type": "local_agent", "status": str(run.state)}
        return _result("success", about | ({"error": run.why} if run.why else {}), said)

    async def _of_job(self, job: Job, call: TaskOutputInput, wait_s: float) -> ToolResult:
        ended = await self._jobs.wait(job.id, wait_s)
        if ended and call.block and job.owner == self._caller and self._agents.withdraw(job.owner, job.key):
            self._jobs.settle([job.id])
        said = await asyncio.to_thread(_tail, job.file)
        about = {"task_id": job.id, "task_type": "local_bash", "status": job.state}
        if job.exit_code is not None:
            about["exit_code"] = str(job.exit_code)
        return _result("success" if ended else _waited(call), about, said)


def _waited(call: TaskOutputInput) -> str:
    return "timeout" if call.block else "not_ready"


def _result(how: str, about: Mapping[str, str], said: str) -> ToolResult:
    """In the form that models know (tags as observed)."""
    parts = {"retrieval_status": how, **about}
    lines = [f"<{tag}>{value}</{tag}>" for tag, value in parts.items()]
    if said.strip():
        lines.append(f"<output>\n{said.rstrip()}\n</output>")
    return ToolResult("\n\n".join(lines), brief=f"{about['task_id']} {about['status']}", facts=parts)


def _tail(file: Path) -> str:
    """The end of what is in the file; empty when there is none."""
    try:
        with open(file, "rb") as open_file:
            size = open_file.seek(0, 2)
            open_file.seek(max(0, size - SHOWN * 4))
            text = open_file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text if len(text) <= SHOWN else f"[… {file} has all of it]\n{text[-SHOWN:]}"
