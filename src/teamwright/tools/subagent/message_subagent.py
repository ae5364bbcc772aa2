"""The SendMessage tool without teammates: sends a message to a sub-agent. With teammates, their tool does this too.

A running sub-agent has the message in its transcript at once and reads it before its next step; one that has ended
resumes with it in the background. Depends on sub-agents.
"""

from __future__ import annotations

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.errors import UsageError
from teamwright.subagents.registry import Subagents
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.subagents.subagent_settings import CallRef
from teamwright.tools.caller import json_result
from teamwright.tools.subagent.background_lookup import find_subagent


class MessageSubagentInput(ToolInput):
    """Parameters of SendMessage to a sub-agent."""

    to: str = Field(min_length=1, description="Id or name of a sub-agent.")
    message: str = Field(min_length=1, description="Text.")
    summary: str | None = Field(None, description="Summary in 5 to 10 words.")


class MessageSubagent(Tool[MessageSubagentInput]):
    """The SendMessage tool of the agent with this name."""

    name = "SendMessage"
    input_type = MessageSubagentInput

    def __init__(self, caller: str, subagents: Subagents) -> None:
        self._caller = caller
        self._agents = subagents

    def makes_known_change(self, call: MessageSubagentInput) -> bool:
        """Return True: the same message again says nothing new."""
        return True

    def can_rerun(self, call: MessageSubagentInput) -> bool:
        """Return True: a message is sent once for each call."""
        return True

    def summary(self, call: MessageSubagentInput) -> str:
        """Return the recipient and the subject."""
        return f"→ {call.to}: {call.summary or call.message[:60]}"

    async def run(self, call: MessageSubagentInput, ctx: ToolContext) -> ToolResult:
        """Send the message, or return the refusal; nothing is sent then."""
        run = find_subagent(self._agents, call.to, self._caller)
        return await send_to_subagent(self._agents, run, call.message, self._caller, ctx)


async def send_to_subagent(
    subagents: Subagents, run: SubagentRun, text: str, sender: str, ctx: ToolContext
) -> ToolResult:
    """Send a text to a sub-agent. Raises UsageError for an empty text, TeamwrightError when it cannot resume."""
    if not text.strip():
        raise UsageError("usage", "a message needs words", note="nothing was sent")
    call = CallRef(ctx.tool_use_id, ctx.key, ctx.is_rerun)
    if await subagents.send(run, text, sender, call):
        message, outcome = f"{run.id} reads it before its next step.", "queued_next_round"
    else:
        message, outcome = f"{run.id} continues in the background. You are notified when it ends.", "resumed"
    body = {
        "success": True,
        "message": message,
        "outcome": outcome,
        "agentId": run.id,
        "outputFile": str(run.output_file),
    }
    return json_result(body, f"→ {run.id}")
