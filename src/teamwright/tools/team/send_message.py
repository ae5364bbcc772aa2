"""The SendMessage tool: sends text to one member or all, and the requests and answers of the team protocol.

Texts are sent by `text_message`, requests and answers by `structured_message`.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import Field, model_validator

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD
from teamwright.subagents.journal import is_run_id
from teamwright.subagents.registry import Subagents
from teamwright.teams.mailbox.outgoing import default_summary
from teamwright.tools.caller import Caller
from teamwright.tools.subagent.background_lookup import find_subagent
from teamwright.tools.subagent.message_subagent import send_to_subagent
from teamwright.tools.team.structured_message import (
    PLAN_ANSWER_TYPE,
    PermissionAnswers,
    StopRequests,
    StructuredMessage,
    answer_member_permission,
    answer_member_plan,
    answer_shutdown,
    request_shutdown,
    set_member_mode,
)
from teamwright.tools.team.text_message import send_text_message

RECIPIENT_HINT = "Give a member's name in `to`: ListAgents shows them."
"""The advice for a call without a recipient."""


class SendMessageInput(ToolInput):
    """The parameters `to`, `message`, `summary`; the older five-type shape is accepted too."""

    to: str = Field(description="Name of a teammate, lead, * for all, or id of a sub-agent.")
    message: str | StructuredMessage = Field(description="Text, or one of the objects above.")
    summary: str | None = Field(None, description="Summary in 5 to 10 words.")
    no_reply: bool = Field(False, description="Delivery with the next message, without waking the recipient.")

    @model_validator(mode="before")
    @classmethod
    def _older_shape(cls, raw: Any) -> Any:
        """Convert `type / recipient / content / summary / request_id / approve` to `to / message / summary`."""
        if not isinstance(raw, dict) or "type" not in raw or "message" in raw:
            return cast("Any", raw)
        arguments = cast("dict[str, Any]", raw)
        kind = arguments.get("type")
        # Only an answer implies its recipient; a text needs one.
        by_itself = {"broadcast": "*", "shutdown_response": LEAD, PLAN_ANSWER_TYPE: LEAD}.get(str(kind), "")
        to = arguments.get("recipient") or arguments.get("to") or by_itself
        if kind in {"message", "broadcast"}:
            message: Any = arguments.get("content", "")
        else:
            body = {"type": kind, "reason": arguments.get("content")}
            body |= {key: arguments.get(key) for key in ("request_id", "approve", "mode")}
            message = {key: value for key, value in body.items() if value is not None}
        more = {"no_reply": arguments["no_reply"]} if "no_reply" in arguments else {}
        return {"to": to, "message": message, "summary": arguments.get("summary")} | more


class SendMessage(Tool[SendMessageInput]):
    """The SendMessage tool for members of the team."""

    name = "SendMessage"
    input_type = SendMessageInput

    def __init__(
        self,
        caller: Caller,
        stopping: StopRequests,
        permits: PermissionAnswers | None = None,
        subagents: Subagents | None = None,
    ) -> None:
        self._caller = caller
        self._agents = subagents
        self._stop_requests = stopping
        self._permission_answers = permits

    def makes_known_change(self, call: SendMessageInput) -> bool:
        """Return True: the same message again says nothing new."""
        return True

    def can_rerun(self, call: SendMessageInput) -> bool:
        """Return True: a message, request or answer is sent once for each call."""
        return True

    def summary(self, call: SendMessageInput) -> str:
        """Return the recipient and the subject."""
        about = call.summary or (default_summary(call.message) if isinstance(call.message, str) else call.message.type)
        return f"→ {call.to}: {about}"

    async def run(self, call: SendMessageInput, ctx: ToolContext) -> ToolResult:
        """Send the message, or return the refusal; nothing is sent then."""
        if self._agents is not None and isinstance(call.message, str) and self._is_subagent(call.to):
            run = find_subagent(self._agents, call.to, self._caller.name)
            return await send_to_subagent(self._agents, run, call.message, self._caller.name, ctx)
        self._caller.team.require_team()
        if not call.to.strip():
            raise UsageError("usage", "a message needs a recipient", do=[RECIPIENT_HINT], note="nothing was sent")
        if isinstance(call.message, StructuredMessage):
            return await self._send_structured(call.to, call.message, ctx)
        return await send_text_message(
            self._caller, call.to, call.message, call.summary or "", ctx, no_reply=call.no_reply
        )

    def _is_subagent(self, to: str) -> bool:
        """Return True when the name means a sub-agent; a member of the same name has precedence."""
        if self._agents is None or not to.strip() or self._caller.team.find(to.strip().partition("@")[0]) is not None:
            return False
        return is_run_id(to.strip()) or self._agents.find(to) is not None

    async def _send_structured(self, to: str, message: StructuredMessage, ctx: ToolContext) -> ToolResult:
        match message.type:
            case "shutdown_request":
                return await request_shutdown(self._caller, self._stop_requests, to, message, ctx)
            case "shutdown_response":
                return await answer_shutdown(self._caller, message, ctx)
            case "permission_response":
                return await answer_member_permission(self._caller, self._permission_answers, message, ctx)
            case "plan_approval_response":
                return await answer_member_plan(self._caller, to, message, ctx)
            case "set_mode":
                return await set_member_mode(self._caller, to, message.mode or "")
