"""The EnterPlanMode tool: the agent may then change nothing except its plan. Any agent may call it."""

from __future__ import annotations

from teamwright.agent.plan_mode import PlanExit, PlanMode
from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import NoInput

_ALLOWED = "Allowed now: reading, searching, commands that only read. All that changes something is refused."

_AFTER_EXIT = {
    PlanExit.FREELY: "you continue at once",
    PlanExit.APPROVED: "you continue when the plan is approved",
    PlanExit.NEVER: "",
}
"""The result of ExitPlanMode, by exit rule."""


class EnterPlanMode(Tool[NoInput]):
    """The EnterPlanMode tool of one agent."""

    name = "EnterPlanMode"
    input_type = NoInput

    def __init__(self, mode: PlanMode) -> None:
        self._mode = mode

    def can_rerun(self, call: NoInput) -> bool:
        """Return True: an agent in plan mode stays in it."""
        return True

    def summary(self, call: NoInput) -> str:
        """Return the line for people."""
        return "begins to plan"

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """Enter plan mode. The result names the allowed actions, the plan file, and the way to leave."""
        was_on = self._mode.is_on
        file = self._mode.enter()
        if self._mode.read() == "":
            ctx.workplace.note_seen(file, b"")
        begins = "You are in plan mode already." if was_on else "You are in plan mode now."
        text = f"{begins} {_ALLOWED}\n{exit_instructions(self._mode)}"
        return ToolResult(text, brief=f"plans: {file}", facts={"plan_file": str(file)})


def exit_instructions(mode: PlanMode) -> str:
    """Return the path of the plan and the way to leave plan mode, in one line."""
    if mode.exit_rule is PlanExit.NEVER:
        return "Your final text is your plan: the agent that started you reads it. Do not carry it out."
    then = _AFTER_EXIT[mode.exit_rule]
    return f"Write the plan to {mode.file}, or give it as `plan` when you call ExitPlanMode. Then {then}."
