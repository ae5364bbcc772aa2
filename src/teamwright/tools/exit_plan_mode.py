"""The ExitPlanMode tool: submits the plan. An agent that entered on its initiative may continue without an approval.

Only the approver's answer ends plan mode, and no error of this tool reads like an approval. Depends on the agent's plan
mode and the approval port.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from teamwright.agent.plan_mode import PlanApproval, PlanExit, PlanMode, PlanOutcome, PlanSubmission
from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.ids import LEAD
from teamwright.storage.plan_file import MAX_BYTES
from teamwright.tools.enter_plan_mode import exit_instructions


class AllowedPrompt(ToolInput):
    """Allowed command."""

    tool: Literal["Bash"] = "Bash"
    prompt: str = Field(description="npm test, git log:*.")


class ExitPlanInput(ToolInput):
    """The plan, and the permissions that it asks for. Keys of other programs' versions are ignored."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    plan: str | None = Field(None, description="Not needed when the plan file has it.")
    allowedPrompts: list[AllowedPrompt] = Field(
        default_factory=list[AllowedPrompt], description="Commands that you will need."
    )


class ExitPlanMode(Tool[ExitPlanInput]):
    """The ExitPlanMode tool of one agent."""

    name = "ExitPlanMode"
    input_type = ExitPlanInput

    def __init__(self, member: str, mode: PlanMode, approval: PlanApproval) -> None:
        self._member = member
        self._mode = mode
        self._approval = approval

    def can_rerun(self, call: ExitPlanInput) -> bool:
        """Return True: a plan is submitted once for each call."""
        return True

    def summary(self, call: ExitPlanInput) -> str:
        """Return the first line of the plan."""
        first = (call.plan or "").strip().split("\n", 1)[0]
        return f"hands in its plan: {first[:80]}" if first else "hands in its plan"

    async def run(self, call: ExitPlanInput, ctx: ToolContext) -> ToolResult:
        """Submit the plan. The result has the outcome."""
        mode = self._mode
        if ctx.is_rerun and mode.ended_by_call == ctx.key:
            return self._left_result(PlanOutcome(True))
        if (refusal := self._refusal()) is not None:
            return refusal
        if mode.pending_request and not ctx.is_rerun:
            text = (
                f"Your plan was handed in already ({mode.pending_request}) and is not answered yet; nothing was handed "
                "in again.\nYour turn ends here; you are woken by the answer."
            )
            return ToolResult(text, is_error=True, brief="waits for an answer already", ends_turn=True)
        mode.enter()  # an agent that others put into plan mode has a plan file from here on
        plan = self._plan(call, ctx)
        if isinstance(plan, ToolResult):
            return plan
        rules = tuple(f"{one.tool}({one.prompt})" for one in call.allowedPrompts)
        submission = PlanSubmission(plan, mode.file, rules, ctx.key, ctx.tool_use_id, ctx.is_rerun)
        if mode.exit_rule is PlanExit.FREELY:
            mode.leave(call=ctx.key)
            return self._left_result(PlanOutcome(True))
        return self._outcome_result(await self._approval.submit(self._member, mode, submission))

    def _refusal(self) -> ToolResult | None:
        mode = self._mode
        if mode.is_on and mode.exit_rule is PlanExit.NEVER:
            return ToolResult.error(
                "You were started to plan, and do not leave plan mode.", "Give the plan as your final text."
            )
        if mode.is_on:
            return None
        if mode.is_inherited:
            return ToolResult.error(
                "The agent that started you is in plan mode, and only that agent can leave it. Nothing was approved.",
                "Read what you need, and report what you found or would do.",
            )
        return ToolResult.error(
            "You are not in plan mode, so there is nothing to leave, and nothing was approved.",
            "Continue with your former permissions.",
        )

    def _plan(self, call: ExitPlanInput, ctx: ToolContext) -> str | ToolResult:
        """Return the text of the plan after writing its file, or the refusal."""
        mode = self._mode
        if call.plan is not None and not call.plan.strip():
            return ToolResult.error("The plan is empty; nothing was handed in.", "Give the plan as text.")
        if call.plan is not None:
            if len(call.plan.encode("utf-8", "replace")) > MAX_BYTES:
                return ToolResult.error(
                    f"The plan is longer than {MAX_BYTES:,} bytes; nothing was handed in.", "Make it shorter."
                )
            mode.write(call.plan)
            ctx.workplace.note_seen(mode.file, mode.read().encode())
            return call.plan
        plan = mode.read()
        if not plan.strip():
            return ToolResult.error(
                f"There is no plan in {mode.file} yet; nothing was handed in.", exit_instructions(mode)
            )
        return plan

    def _outcome_result(self, outcome: PlanOutcome) -> ToolResult:
        if outcome.approved is None:
            approver = "the lead" if outcome.approver == LEAD else "the user"
            text = (
                f"Your plan waits for {approver}. It is not approved yet: you are still in plan mode.\n"
                f"Your turn ends here; you are woken by the answer. Request ID: {outcome.request}"
            )
            return ToolResult(
                text, brief=f"waits for {approver}", ends_turn=True, facts={"request_id": outcome.request}
            )
        if outcome.approved:
            return self._left_result(outcome)
        why = outcome.reason.strip().rstrip(".") or "no reason was given"
        return ToolResult.error(
            f"The plan was not approved: {why}. You are still in plan mode.",
            f"Change the plan ({self._mode.file}) and call ExitPlanMode again, or end your turn and say what you need.",
        )

    def _left_result(self, outcome: PlanOutcome) -> ToolResult:
        mode = self._mode
        by = f" {outcome.by} approved the plan." if outcome.by else ""
        if mode.is_inherited:
            rest = "The agent that started you is still in plan mode, so change nothing. Continue to read, and report."
        else:
            rest = f"The permission mode is {mode.policy.effective_mode}. Carry out the plan."
        return ToolResult(f"Plan mode has ended.{by} The plan is in {mode.file}.\n{rest}", brief="plan mode has ended")
