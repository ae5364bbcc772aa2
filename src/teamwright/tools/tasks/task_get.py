"""The TaskGet tool: shows all fields of one task."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.ids import display_name, iso_time, now_ms
from teamwright.protocol.task import CALL, Task
from teamwright.tasks.completion_conditions import task_notes
from teamwright.tasks.task_rules import RUNTIME_KEYS
from teamwright.tools.caller import Caller


class TaskGetInput(ToolInput):
    """Parameters as observed."""

    taskId: str = Field(description="Number of the task.")


class TaskGet(Tool[TaskGetInput]):
    """The TaskGet tool."""

    name = "TaskGet"
    input_type = TaskGetInput

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def is_read_only(self, call: TaskGetInput) -> bool:
        """Return True always."""
        return True

    def summary(self, call: TaskGetInput) -> str:
        """Return the number."""
        return f"task #{call.taskId}"

    async def run(self, call: TaskGetInput, ctx: ToolContext) -> ToolResult:
        """Return the task, or the fact that there is none."""
        tasks = self._caller.team.tasks
        task, waits = await tasks.get_with_blockers(call.taskId)
        if task is None:
            return ToolResult.error(f"There is no task #{call.taskId.strip().removeprefix('#')}.", "Call TaskList.")
        unverified = tasks.is_unverified(task)
        notes = task_notes(task, await tasks.all() if task.writes else ())
        return ToolResult(
            task_text(task, waits, unverified=unverified, notes=notes),
            brief=f"#{task.id} {task.subject}",
            facts={"task": task.shown_json()},
        )


def task_text(task: Task, waits: Sequence[str], *, unverified: bool = False, notes: Sequence[str] = ()) -> str:
    """Return a task in full. `waits`: its open blockers; `unverified`: no passed check is noted.

    `notes` are about its review and about tasks that change the same paths.
    """
    note = " (unverified: its check was not seen to succeed)" if unverified else ""
    lines = [f"Task #{task.id}: {task.subject}", f"Status: {task.status}{note}"]
    if task.owner:
        lines.append(f"Owner: {display_name(task.owner)}")
    if task.draft is not None and task.owner is None and task.draft.is_open(now_ms()):
        creator = display_name(task.draft.by)
        lines.append(f"Draft: {creator} is still describing it; idle teammates do not claim it yet.")
    if times := [f"{word} {iso_time(ms)}" for word, ms in _times(task) if ms]:
        lines.append(f"Times: {', '.join(times)}")
    if (work := task.integration) is not None:
        lines.append(f"Integration: {work.state} (commit {work.tip[:12]} of {work.branch})")
    lines += [f"Note: {note}" for note in notes]
    if (review := task.review_note) is not None and review.comment:
        lines.append(f"Comment of the review by {display_name(review.by)}: {review.comment}")
    lines.append(f"Description: {task.description}")
    if waits:
        lines.append(f"Blocked by: {number_list(waits)}")
    if done := [id for id in task.blocked_by if id not in waits]:
        lines.append(f"Blockers that are done: {number_list(done)}")
    if task.blocks:
        lines.append(f"Blocks: {number_list(task.blocks)}")
    metadata = {key: value for key, value in (task.metadata or {}).items() if key not in {CALL, *RUNTIME_KEYS}}
    if metadata:
        lines.append(f"Metadata: {json.dumps(metadata, ensure_ascii=False)}")
    return "\n".join(lines)


def _times(task: Task) -> tuple[tuple[str, int], ...]:
    return ("created", task.created_ms), ("changed", task.changed_ms)


def number_list(ids: Sequence[str]) -> str:
    """Return ids as people and models write them: `#1, #2`."""
    return ", ".join(f"#{id}" for id in ids)
