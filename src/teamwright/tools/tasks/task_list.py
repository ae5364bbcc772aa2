"""The TaskList tool: shows the shared list, one line a task, in numeric order."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import NoInput
from teamwright.protocol.ids import display_name
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.completion_conditions import task_notes
from teamwright.tools.caller import Caller
from teamwright.tools.tasks.task_get import number_list


class TaskListTool(Tool[NoInput]):
    """The TaskList tool."""

    name = "TaskList"
    input_type = NoInput

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def is_read_only(self, call: NoInput) -> bool:
        """Return True always."""
        return True

    def summary(self, call: NoInput) -> str:
        """Return the line for people."""
        return "task list"

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """Return the lines, or the fact that there are no tasks."""
        tasks = self._caller.team.tasks
        found = await tasks.snapshot()
        everything = found.tasks
        damaged = found.damaged
        if not everything and not damaged:
            return ToolResult("The task list is empty.", brief="no tasks")
        done = sum(task.status is TaskStatus.COMPLETED for task in everything)
        lines = [
            task_line(
                task,
                found.open_blockers(task),
                unverified=tasks.is_unverified(task),
                notes=task_notes(task, everything),
            )
            for task in everything
        ]
        lines += [f"#{one.id} [damaged] {one}. Repair or remove the file." for one in damaged]
        return ToolResult("\n".join(lines), brief=f"{len(everything)} tasks, {done} completed")


def task_line(task: Task, waits: Sequence[str], *, unverified: bool = False, notes: Sequence[str] = ()) -> str:
    """Return `#3 [in_progress] subject (owner) [blocked by #2, #11]`, without parts that do not apply.

    `unverified`: it is completed, but no passed check is noted. The state of its commit follows the status. `notes` are
    about its review and about tasks that change the same paths.
    """
    owner = f" ({display_name(task.owner)})" if task.owner else ""
    blockers = f" [blocked by {number_list(waits)}]" if waits and task.status is not TaskStatus.COMPLETED else ""
    state = [str(task.integration.state)] if task.integration is not None else []
    status = ", ".join([str(task.status), *(["unverified"] if unverified else []), *state])
    more = "".join(f" [{note}]" for note in notes)
    return f"#{task.id} [{status}] {task.subject}{owner}{blockers}{more}"
