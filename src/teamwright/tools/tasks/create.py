"""TaskCreate: one more task on the shared list."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.protocol.task import CALL, Task
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

    def repeats(self, call: TaskCreateInput) -> bool:
        """A call makes one task: the task names its call."""
        return True

    def summary(self, call: TaskCreateInput) -> str:
        """The subject."""
        return f"create task: {call.subject}"

    async def run(self, call: TaskCreateInput, ctx: ToolContext) -> ToolResult:
        """Create it; the result names its number."""
        me, _ = self._port.me()
        task = await self._made_before(ctx) or await self._port.tasks.create(
            call.subject,
            call.description,
            by=me,
            active_form=call.activeForm,
            metadata={**(call.metadata or {}), **({CALL: ctx.key} if ctx.key else {})},
        )
        brief = f"Task #{task.id} created: {task.subject}"
        return ToolResult(brief, brief=brief, facts={"task": task.to_json()})

    async def _made_before(self, ctx: ToolContext) -> Task | None:
        """The task that this very call made before a kill."""
        if not ctx.again:
            return None
        tasks = await self._port.tasks.all()
        return next((task for task in tasks if (task.metadata or {}).get(CALL) == ctx.key), None)
