"""The TaskOutput tool: returns the output of a background sub-agent or shell command, so far or complete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.subagents.registry import Subagents
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.tools.subagent.background_lookup import find_background_task

MAX_WAIT_MS = 600_000
"""The longest wait of one call, in milliseconds."""

MAX_OUTPUT = 30_000
"""The most characters of output in a result; the file has all of it."""


TIMEOUT = "timeout"
"""The status of a result after a wait for what still runs."""


class TaskOutputInput(ToolInput):
    """Parameters of TaskOutput."""

    task_id: str = Field(description="Id of the sub-agent or command.")
    block: bool = Field(True, description="Waiting for the end.")
    timeout: int = Field(30_000, ge=0, description="Waiting time in milliseconds, at most 600000.")


class TaskOutput(Tool[TaskOutputInput]):
    """The TaskOutput tool of the agent with this name."""

    name = "TaskOutput"
    input_type = TaskOutputInput

    def __init__(self, caller: str, subagents: Subagents, jobs: BackgroundJobs) -> None:
        self._caller = caller
        self._agents = subagents
        self._jobs = jobs

    def is_read_only(self, call: TaskOutputInput) -> bool:
        """Return True: it only reads."""
        return True

    def is_wait(self, call: TaskOutputInput, result: ToolResult) -> bool:
        """Return True for a call with `block` that waited for what still runs."""
        return result.facts.get("retrieval_status") == TIMEOUT

    def summary(self, call: TaskOutputInput) -> str:
        """Return the id."""
        return call.task_id

    async def run(self, call: TaskOutputInput, ctx: ToolContext) -> ToolResult:
        """Return status and output. A call after the end has all of it and replaces the notice of the end."""
        found = find_background_task(self._agents, self._jobs, call.task_id, self._caller)
        wait_s = min(call.timeout, MAX_WAIT_MS) / 1000 if call.block else 0.0
        if isinstance(found, SubagentRun):
            return await self._subagent_output(found, call, wait_s)
        return await self._job_output(found, call, wait_s)

    async def _subagent_output(self, run: SubagentRun, call: TaskOutputInput, wait_s: float) -> ToolResult:
        ended = await self._agents.wait(run, wait_s)
        if not ended:
            output = await asyncio.to_thread(_tail, run.output_file)
            return _result(
                _wait_status(call), {"task_id": run.id, "task_type": "local_agent", "status": "running"}, output
            )
        if call.block and run.owner == self._caller:
            self._agents.mark_read(run)
        output = run.text or await asyncio.to_thread(_tail, run.output_file)
        about = {"task_id": run.id, "task_type": "local_agent", "status": str(run.state)}
        return _result("success", about | ({"error": run.failure_reason} if run.failure_reason else {}), output)

    async def _job_output(self, job: Job, call: TaskOutputInput, wait_s: float) -> ToolResult:
        ended = await self._jobs.wait(job.id, wait_s)
        if ended and call.block and job.owner == self._caller and self._agents.withdraw(job.owner, job.key):
            self._jobs.mark_reported([job.id])
        output = await asyncio.to_thread(_tail, job.file)
        about = {"task_id": job.id, "task_type": "local_bash", "status": job.state}
        if job.exit_code is not None:
            about["exit_code"] = str(job.exit_code)
        return _result("success" if ended else _wait_status(call), about, output)


def _wait_status(call: TaskOutputInput) -> str:
    return TIMEOUT if call.block else "not_ready"


def _result(how: str, fields: Mapping[str, str], output: str) -> ToolResult:
    """Return the result in the form that models know (tags as observed)."""
    parts = {"retrieval_status": how, **fields}
    lines = [f"<{tag}>{value}</{tag}>" for tag, value in parts.items()]
    if output.strip():
        lines.append(f"<output>\n{output.rstrip()}\n</output>")
    return ToolResult("\n\n".join(lines), brief=f"{fields['task_id']} {fields['status']}", facts=parts)


def _tail(file: Path) -> str:
    """Return the end of the file; empty when there is none."""
    try:
        with open(file, "rb") as open_file:
            size = open_file.seek(0, 2)
            open_file.seek(max(0, size - MAX_OUTPUT * 4))
            text = open_file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text if len(text) <= MAX_OUTPUT else f"[… {file} has all of it]\n{text[-MAX_OUTPUT:]}"
