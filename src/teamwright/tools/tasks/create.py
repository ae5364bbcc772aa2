"""TaskCreate: one more task on the shared list."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.tools.tasks.port import TaskPort


class TaskCreateInput(ToolInput):
    """Parameters as observed."""

    subject: str = Field(description="What is to be done, in one line.")
    description: str = Field(description="All that somebody else needs to do it.")
    activeForm: str | None = Field(None, description="The same as an activity, e.g. Fixing the parser.")
    metadata: dict[str, Any] | None = Field(
        None, description='Any keys. {"for": ["ann"]} keeps it for ann; {"needs": ["Edit"]} for those with that tool.'
    )


class TaskCreate(Tool[TaskCreateInput]):
    """Adds a task."""

    name = "TaskCreate"
    input_type = TaskCreateInput

    def __init__(self, port: TaskPort) -> None:
        self._port = port

    def summary(self, call: TaskCreateInput) -> str:
        """The subject."""
        return f"create task: {call.subject}"

    async def run(self, call: TaskCreateInput, ctx: ToolContext) -> ToolResult:
        """Create it; the result names its number."""
        me, _ = self._port.me()
        task = await self._port.tasks.create(
            call.subject, call.description, by=me, active_form=call.activeForm, metadata=call.metadata
        )
        brief = f"Task #{task.id} created: {task.subject}"
        return ToolResult(brief, brief=brief, facts={"task": task.to_json()})
