"""TaskList: the shared list, one line a task, in numeric order."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agent.tool import NoInput, Tool, ToolContext, ToolResult
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tools.tasks.task_get import number_list
from teamwright.tools.tasks.task_port import TaskPort


class TaskListTool(Tool[NoInput]):
    """Shows all tasks."""

    name = "TaskList"

    def __init__(self, port: TaskPort) -> None:
        self._port = port

    def is_read_only(self, call: NoInput) -> bool:
        """Always."""
        return True

    def summary(self, call: NoInput) -> str:
        """What is looked at."""
        return "task list"

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """The lines, or that there is none."""
        tasks = self._port.tasks
        everything = await tasks.all()
        damaged = tasks.store.damaged_tasks()
        if not everything and not damaged:
            return ToolResult("The task list is empty.", brief="no tasks")
        done = sum(task.status is TaskStatus.COMPLETED for task in everything)
        lines = [
            task_line(task, tasks.known_blockers(task), unverified=tasks.is_unverified(task)) for task in everything
        ]
        lines += [f"#{one.id} [damaged] {one}. Repair or remove the file." for one in damaged]
        return ToolResult("\n".join(lines), brief=f"{len(everything)} tasks, {done} completed")


def task_line(task: Task, waits: Sequence[str], *, unverified: bool = False) -> str:
    """`#3 [in_progress] subject (owner) [blocked by #2, #11]`, parts that do not apply left out.

    `unverified`: it is completed, but nobody saw its check succeed.
    """
    owner = f" ({task.owner})" if task.owner else ""
    held = f" [blocked by {number_list(waits)}]" if waits and task.status is not TaskStatus.COMPLETED else ""
    status = f"{task.status}, unverified" if unverified else str(task.status)
    return f"#{task.id} [{status}] {task.subject}{owner}{held}"
