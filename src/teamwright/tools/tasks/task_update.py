"""The TaskUpdate tool: changes status, owner, texts and edges of a task, or deletes it."""

from __future__ import annotations

import json
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.ids import display_name
from teamwright.tasks.completion_conditions import ReviewAnswer
from teamwright.tasks.task_list import TaskUpdateResult
from teamwright.tasks.task_rules import DELETED, TaskWishes, is_owner
from teamwright.teams.outgoing_mail import SendCall
from teamwright.teams.team_creation import notify_owners, require_owner
from teamwright.tools.caller import Caller
from teamwright.tools.tasks.task_create import check_access, check_preview, require_budget
from teamwright.tools.tasks.task_get import number_list
from teamwright.tools.tasks.task_hooks import TaskHooks

NEXT_STEP_TEXT = "Call TaskList now: take the next free task, or see what your work has freed for others."
"""The text for a member that has completed a task."""

VALUE_MOST = 80
"""The most characters of a new value that the answer repeats."""


class TaskUpdateInput(ToolInput):
    """Parameters as observed."""

    taskId: str = Field(description="Number of the task.")
    subject: str | None = None
    description: str | None = None
    activeForm: str | None = None
    owner: str | None = Field(None, description="Member, or empty.")
    status: Literal["pending", "in_progress", "completed", "deleted"] | None = None
    ready: bool = Field(False, description="Claim at once.")
    addBlocks: list[str] = Field([])
    addBlockedBy: list[str] = Field([])
    review: Literal["approve", "return"] | None = Field(None, description="As its reviewer.")
    comment: str = ""
    metadata: dict[str, Any] | None = Field(None, description="Keys to set; null removes a key.")


class TaskUpdate(Tool[TaskUpdateInput]):
    """The TaskUpdate tool."""

    name = "TaskUpdate"
    input_type = TaskUpdateInput

    def __init__(self, caller: Caller, hooks: TaskHooks) -> None:
        self._caller = caller
        self._hooks = hooks

    def makes_known_change(self, call: TaskUpdateInput) -> bool:
        """Return True: the task is as the input says."""
        return True

    def can_rerun(self, call: TaskUpdateInput) -> bool:
        """Return True: a repeated update changes nothing, and the owner is notified once."""
        return True

    def summary(self, call: TaskUpdateInput) -> str:
        """Return the number and the change."""
        parts = [call.status] if call.status else []
        parts += [f"owner {call.owner}"] if call.owner else []
        parts += [call.review] if call.review else []
        return f"task #{call.taskId}" + (f": {', '.join(parts)}" if parts else "")

    def preview(self, call: TaskUpdateInput, ctx: ToolContext) -> str:
        """Return the check, if the call sets one: the question is about that."""
        return check_preview(call.metadata) or self.summary(call)

    def access(self, call: TaskUpdateInput, ctx: ToolContext) -> Access:
        """Return an access to the check, which is a command like any other."""
        return check_access(call.metadata, self._caller, ctx)

    async def run(self, call: TaskUpdateInput, ctx: ToolContext) -> ToolResult:
        """Update the task, notify a new owner, and return the change."""
        me, lead = self._caller.name, self._caller.is_lead
        if call.review is not None:
            return await self._answer_review(call, ReviewAnswer(call.review == "approve", call.comment), ctx)
        require_budget(call.metadata, lead=lead)
        await require_owner(self._caller.team, call.owner, me, id=call.taskId)
        if (refused := await self._review_completion(call)) is not None:
            return refused
        wish = build_wish(call)
        wish["seen_from"] = ctx.workplace.cwd
        change = await self._caller.team.tasks.update(call.taskId, by=me, lead=lead, **wish)
        call_key = SendCall(ctx.key, ctx.is_rerun and bool(call.owner))
        await notify_owners(self._caller.team, change, me, call_key)
        text = change_text(change)
        brief = text.split("\n", 1)[0]
        done = ("status" in change.changed and change.task.status == "completed") or (
            change.task.in_review and call.status == "completed"
        )
        if done and not lead:
            text += f"\n\n{NEXT_STEP_TEXT}"
        return ToolResult(text, brief=brief, facts={"task": change.task.shown_json(), "changed": list(change.changed)})

    async def _answer_review(self, call: TaskUpdateInput, answer: ReviewAnswer, ctx: ToolContext) -> ToolResult:
        """Store the caller's answer to a review. A call that a kill interrupted finds its own answer."""
        tasks, me, lead = self._caller.team.tasks, self._caller.name, self._caller.is_lead
        try:
            task = await tasks.answer_review(call.taskId, answer, by=me, lead=lead)
        except TaskRefused as problem:
            found = await tasks.get(call.taskId) if ctx.is_rerun and problem.code == "not_in_review" else None
            note = found.review_note if found is not None else None
            if found is None or note is None or not is_owner(note.by, me):
                raise
            task = found
        text = f"Task #{task.id} is {'approved' if answer.approves else 'returned'}."
        return ToolResult(text, brief=text, facts={"task": task.shown_json()})

    async def _review_completion(self, call: TaskUpdateInput) -> ToolResult | None:
        """Return the refusal of a completion by a review; None when it may continue."""
        if call.status != "completed":
            return None
        task = await self._caller.team.tasks.get(call.taskId)
        if task is None or task.status == "completed":
            return None
        review = await self._hooks.before_task_completed(self._caller.name, task, self._caller.team)
        if not review.refusal:
            return None
        what = f"Task #{task.id} is not completed: {review.refusal}"
        result = ToolResult.error(what, "See to that, then complete it again.")
        return replace(result, ends_turn=review.ends_turn)


def build_wish(call: TaskUpdateInput) -> TaskWishes:
    """Return the requested fields. Omitted fields, and empty ones as weak models send them, do not change.

    An empty owner removes the owner, unless the task is being started or completed.
    """
    wish: TaskWishes = {}
    if call.subject:
        wish["subject"] = call.subject
    if call.description:
        wish["description"] = call.description
    if call.activeForm:
        wish["active_form"] = call.activeForm
    if call.owner or (call.owner is not None and call.status in {None, "pending"}):
        wish["owner"] = call.owner
    if call.status is not None:
        wish["status"] = call.status
    if call.metadata is not None:
        wish["metadata"] = call.metadata
    if call.ready:
        wish["ready"] = True
    if call.addBlocks:
        wish["add_blocks"] = call.addBlocks
    if call.addBlockedBy:
        wish["add_blocked_by"] = call.addBlockedBy
    return wish


def _value(change: TaskUpdateResult, name: str) -> str:
    """Return a changed field with its new value as in the task file, but for the lead's name."""
    fields = change.task.shown_json()
    if name not in fields and name not in {"owner", "activeForm", "metadata"}:
        return name
    value = fields.get(name) or "none"
    value = display_name(str(value)) if name == "owner" else value
    flat = " ".join((value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split())
    return f"{name} = {flat}" if len(flat) <= VALUE_MOST else f"{name} = {flat[:VALUE_MOST]}…"


def change_text(change: TaskUpdateResult) -> str:
    """Return the change in a line or two."""
    if change.task.in_review:
        return (
            f"The work of task #{change.task.id} is in review. The task is completed when it is approved; "
            "you receive a message when it is returned."
        )
    if not change.changed:
        return f"Task #{change.task.id} is that way already; nothing changed."
    if change.changed == (DELETED,):
        text = f"Task #{change.task.id} deleted"
    else:
        text = f"Task #{change.task.id} updated: {', '.join(_value(change, name) for name in change.changed)}"
    if change.task.awaits_integration:
        text += "\nIts commit is queued for the team's branch. Tasks that wait for it become free when it is merged."
    if change.unblocked:
        text += f"\nNo longer waiting: {number_list([task.id for task in change.unblocked])}"
    return text
