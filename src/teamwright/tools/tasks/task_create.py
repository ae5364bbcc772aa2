"""TaskCreate: one more task on the shared list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.permissions.verdict import HARMLESS, Access
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import CALL, Task
from teamwright.tasks.task_check import own_check
from teamwright.tasks.task_list import TaskUpdateResult
from teamwright.tasks.task_rules import DELETED, TaskWishes, is_owner, merge_metadata
from teamwright.tools.tasks.task_port import TaskPort, TaskReview

REVIEW_OWNERS = ["(a hook looks at it)"]
"""For whom a task is kept until it was looked at: nobody can have such a name."""


def check_access(metadata: Mapping[str, Any] | None, ctx: ToolContext) -> Access:
    """What setting this metadata would have run: its check, in the caller's directory; else nothing."""
    command = own_check(metadata)
    return Access(command=command, cwd=ctx.workplace.cwd) if command else HARMLESS


def check_preview(metadata: Mapping[str, Any] | None) -> str:
    """The check that would be set, as people are asked about it; empty when there is none."""
    command = own_check(metadata)
    return f"{command}\n(the check of a task: it runs each time the task is to be completed)" if command else ""


class TaskCreateInput(ToolInput):
    """Parameters as observed."""

    subject: str = Field(description="Work in one line.")
    description: str = Field(description="Goal, files that may change, and check, in full.")
    activeForm: str | None = Field(None, description="Work as an activity, e.g. Fixing the parser.")
    owner: str = Field("", description="Name of the member that does it.")
    reserved_for: list[str] = Field([], alias="for", description="Names of the only members that may claim it.")
    blockedBy: list[str] = Field([], description="Numbers of tasks that this one waits for.")
    ready: bool = Field(False, description="Permission to claim it before your turn ends.")
    metadata: dict[str, Any] | None = Field(
        None,
        description='Any keys. {"needs": ["Edit"]}: tools of a member that may claim it; {"budget": '
        '{"tokens": 90000}}: its limit; {"check": "make test"}: command that must succeed before it is completed.',
    )


class TaskCreate(Tool[TaskCreateInput]):
    """Adds a task."""

    name = "TaskCreate"
    input_type = TaskCreateInput

    def __init__(self, port: TaskPort, watch: TaskReview | None = None) -> None:
        self._port = port
        self._watch = watch

    def can_rerun(self, call: TaskCreateInput) -> bool:
        """A call makes one task: the task names its call."""
        return True

    def summary(self, call: TaskCreateInput) -> str:
        """The subject."""
        return f"create task: {call.subject}"

    def preview(self, call: TaskCreateInput, ctx: ToolContext) -> str:
        """The check, if the task has one: that is what is asked about."""
        return check_preview(call.metadata) or self.summary(call)

    def access(self, call: TaskCreateInput, ctx: ToolContext) -> Access:
        """A check is a command like any other."""
        return check_access(call.metadata, ctx)

    async def run(self, call: TaskCreateInput, ctx: ToolContext) -> ToolResult:
        """Create it; the result names its number."""
        me, _ = self._port.caller_identity()
        require_budget(call.metadata, lead=True)
        watched = self._watch is not None and self._watch.is_active()
        await self._port.require_owner(call.owner)
        reserved = {"for": call.reserved_for or (call.metadata or {}).get("for")}
        task = await self._find_created(ctx) or await self._port.tasks.create(
            call.subject,
            call.description,
            by=me,
            active_form=call.activeForm,
            seen_from=ctx.workplace.cwd,
            owner="" if watched else call.owner,
            blocked_by=call.blockedBy,
            draft=not call.ready,
            metadata=merge_metadata(
                call.metadata,
                {**reserved, **({CALL: ctx.key} if ctx.key else {}), **({"for": REVIEW_OWNERS} if watched else {})},
            ),
        )
        if (task.metadata or {}).get("for") == REVIEW_OWNERS:
            if refusal := await self._review(task, me):
                return ToolResult.error(f"The task was refused and is not on the list: {refusal}", "Do as it says.")
            accepted: TaskWishes = {"metadata": reserved}
            if call.owner:
                accepted["owner"] = call.owner
            task = (await self._port.tasks.update(task.id, by=me, lead=True, **accepted)).task
        if task.owner is not None:
            created = TaskUpdateResult(task, (), assigned=None if is_owner(task.owner, me) else task.owner)
            await self._port.notify_owners(created, ctx.key, is_rerun=ctx.is_rerun)
        brief = f"Task #{task.id} created: {task.subject}"
        return ToolResult(brief, brief=brief, facts={"task": task.to_json()})

    async def _review(self, task: Task, me: str) -> str:
        """Why the task was taken back; empty when it stays. It is taken back too when nobody waits for the answer."""
        refusal = "the call was cancelled before the hook answered"
        try:
            refusal = await self._watch.review_created(task) if self._watch is not None else ""
        finally:
            if refusal:
                await self._port.tasks.update(task.id, by=me, lead=True, status=DELETED)
        return refusal

    async def _find_created(self, ctx: ToolContext) -> Task | None:
        """The task that this very call made before a kill."""
        if not ctx.is_rerun:
            return None
        tasks = await self._port.tasks.all()
        return next((task for task in tasks if (task.metadata or {}).get(CALL) == ctx.key), None)


def require_budget(metadata: dict[str, Any] | None, *, lead: bool) -> None:
    """Look at `metadata.budget`. Raises UsageError for what is none, TaskRefused where a member sets its own work's."""
    if metadata is None or "budget" not in metadata:
        return
    if not lead:
        raise TaskRefused("reserved", "only the lead says what a task may use", do=["ask lead for more"])
    if metadata["budget"] is not None:
        Budget.from_json(metadata["budget"])
