"""The TaskStop tool: ends a background sub-agent or shell command, and for the lead a teammate."""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field, model_validator

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, lead_stop_error
from teamwright.subagents.registry import Subagents
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.teams.shutdown import kill
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.subagent.background_lookup import find_background_task


class TaskStopInput(ToolInput):
    """Parameters of TaskStop; the older `shell_id` is accepted too."""

    task_id: str = Field(min_length=1, description="Id of the sub-agent or command; or a teammate's name.")

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "shell_id" in raw and "task_id" not in raw:
            arguments = cast("dict[str, Any]", raw)
            return {("task_id" if key == "shell_id" else key): value for key, value in arguments.items()}
        return cast("Any", raw)


class TaskStop(Tool[TaskStopInput]):
    """The TaskStop tool of its caller."""

    name = "TaskStop"
    aliases = ("KillShell",)
    input_type = TaskStopInput

    def __init__(self, caller: Caller, subagents: Subagents, jobs: BackgroundJobs) -> None:
        self._caller = caller
        self._agents = subagents
        self._jobs = jobs

    def makes_known_change(self, call: TaskStopInput) -> bool:
        """Return True: what is stopped stays stopped."""
        return True

    def summary(self, call: TaskStopInput) -> str:
        """Return the id."""
        return call.task_id

    async def run(self, call: TaskStopInput, ctx: ToolContext) -> ToolResult:
        """Stop the task; its processes are gone when this returns.

        The agent that started it receives its partial result.
        """
        name = call.task_id.strip()
        if name.lower() in {LEAD, LEAD_ALIAS}:
            raise lead_stop_error([])
        team = self._caller.team
        if self._agents.find(name) is None:
            teammate = team.find(team.recipient(name) if "@" in name else name)
            if teammate is not None:
                return await self._stop_member(teammate.name)
        found = find_background_task(self._agents, self._jobs, name, self._caller.name)
        if found.state != "running" and not (isinstance(found, SubagentRun) and found.is_resuming):
            return ToolResult.error(
                f"{found.id} is not running (status: {found.state}).", "TaskOutput shows its result. Continue."
            )
        if isinstance(found, SubagentRun):
            await self._agents.stop(
                found, f"stopped by {'the lead' if self._caller.name == LEAD else self._caller.name}"
            )
            return _stopped_result(found.id, "local_agent", found.description)
        await self._jobs.stop(found.id)
        return _stopped_result(found.id, "local_bash", found.description or found.command)

    async def _stop_member(self, name: str) -> ToolResult:
        if not self._caller.is_lead:
            raise TeamRefused(
                "team-refused",
                "only the lead ends a member",
                do=["Write to lead if a member should stop."],
                note="nothing was stopped",
            )
        teammate = self._caller.team.find(name)
        if teammate is not None:
            await kill(self._caller.team, teammate, "stopped by the lead")
        return _stopped_result(name, "teammate", name)


def _stopped_result(id: str, kind: str, what: str) -> ToolResult:
    body = {"message": f"Stopped {id} ({what}).", "task_id": id, "task_type": kind, "command": what}
    return json_result(body, f"stopped {id}")
