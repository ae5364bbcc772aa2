"""The TaskCreate tool: adds a task to the shared list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import HARMLESS, Access
from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import CALL, WRITES, Task
from teamwright.protocol.usage import Budget
from teamwright.tasks.completion_conditions import own_check
from teamwright.tasks.task_list import TaskUpdateResult
from teamwright.tasks.task_rules import DELETED, TaskWishes, is_owner, merge_metadata
from teamwright.teams.outgoing_mail import SendCall
from teamwright.teams.team_creation import notify_owners, require_owner
from teamwright.tools.caller import Caller
from teamwright.tools.tasks.task_hooks import TaskHooks

REVIEW_OWNERS = ["(a hook looks at it)"]
"""The owner that reserves a task during its review: no member can have such a name."""


def check_access(metadata: Mapping[str, Any] | None, caller: Caller, ctx: ToolContext) -> Access:
    """Return an access to the check that this metadata sets, in the caller's directory; without a check, none."""
    if not (command := own_check(metadata)):
        return HARMLESS
    return Access(command=command, cwd=ctx.workplace.cwd, search_path=caller.team.tasks.check_search_path)


def check_preview(metadata: Mapping[str, Any] | None) -> str:
    """Return the check that would be set, for a question to a person; empty when there is none."""
    command = own_check(metadata)
    return f"{command}\n(the check of a task: it runs each time the task is to be completed)" if command else ""


class TaskCreateInput(ToolInput):
    """Parameters as observed."""

    subject: str = Field(description="Work in one line.")
    description: str = Field(description="Goal, files that may change, and check.")
    activeForm: str | None = None
    owner: str = ""
    reserved_for: list[str] = Field([], alias="for", description="Members that may claim it.")
    blockedBy: list[str] = Field([], description="Numbers of tasks that it waits for.")
    ready: bool = Field(False, description="Claim at once.")
    writes: list[str] = Field([])
    metadata: dict[str, Any] | None = Field(
        None,
        description='{"needs": ["Edit"], "budget": {"tokens": 90000}, "check": "make test", "review": "lead"}: '
        "tools of its member, its limit, a command that must succeed, its approver (a member, lead, human).",
    )


class TaskCreate(Tool[TaskCreateInput]):
    """The TaskCreate tool."""

    name = "TaskCreate"
    input_type = TaskCreateInput

    def __init__(self, caller: Caller, hooks: TaskHooks) -> None:
        self._caller = caller
        self._hooks = hooks

    def makes_known_change(self, call: TaskCreateInput) -> bool:
        """Return True: the same task again is no new work."""
        return True

    def can_rerun(self, call: TaskCreateInput) -> bool:
        """Return True: a call creates one task, which records the call."""
        return True

    def summary(self, call: TaskCreateInput) -> str:
        """Return the subject."""
        return f"create task: {call.subject}"

    def preview(self, call: TaskCreateInput, ctx: ToolContext) -> str:
        """Return the check, if the task has one: the question is about that."""
        return check_preview(call.metadata) or self.summary(call)

    def access(self, call: TaskCreateInput, ctx: ToolContext) -> Access:
        """Return an access to the check, which is a command like any other."""
        return check_access(call.metadata, self._caller, ctx)

    async def run(self, call: TaskCreateInput, ctx: ToolContext) -> ToolResult:
        """Create the task. The result has its number."""
        me = self._caller.name
        require_budget(call.metadata, lead=True)
        watched = self._hooks.review_new_tasks()
        await require_owner(self._caller.team, call.owner, me)
        reserved: dict[str, Any] = {"for": call.reserved_for or (call.metadata or {}).get("for")}
        if call.writes:
            reserved[WRITES] = call.writes
        task = await self._find_created(ctx) or await self._caller.team.tasks.create(
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
            task = (await self._caller.team.tasks.update(task.id, by=me, lead=True, **accepted)).task
        if task.owner is not None:
            created = TaskUpdateResult(task, (), assigned=None if is_owner(task.owner, me) else task.owner)
            await notify_owners(self._caller.team, created, me, SendCall(ctx.key, ctx.is_rerun))
        brief = f"Task #{task.id} created: {task.subject}"
        return ToolResult(brief, brief=brief, facts={"task": task.shown_json()})

    async def _review(self, task: Task, me: str) -> str:
        """Return the reason why the task was removed; empty when it stays.

        It is also removed when the call is cancelled.
        """
        refusal = "the call was cancelled before the hook answered"
        try:
            refusal = await self._hooks.after_task_created(me, task, self._caller.team)
        finally:
            if refusal:
                await self._caller.team.tasks.update(task.id, by=me, lead=True, status=DELETED)
        return refusal

    async def _find_created(self, ctx: ToolContext) -> Task | None:
        """Return the task that this call created before a kill."""
        if not ctx.is_rerun:
            return None
        tasks = await self._caller.team.tasks.all()
        return next((task for task in tasks if (task.metadata or {}).get(CALL) == ctx.key), None)


def require_budget(metadata: dict[str, Any] | None, *, lead: bool) -> None:
    """Check `metadata.budget`. Raises UsageError for an invalid one, TaskRefused when a member sets its own work's."""
    if metadata is None or "budget" not in metadata:
        return
    if not lead:
        raise TaskRefused("reserved", "only the lead says what a task may use", do=["ask lead for more"])
    if metadata["budget"] is not None:
        Budget.from_json(metadata["budget"])
