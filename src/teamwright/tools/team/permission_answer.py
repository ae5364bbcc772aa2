"""The message type permission_response: the lead's answer to a member's permission request."""

from __future__ import annotations

from typing import Protocol

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.request_events import RequestAnswer
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.team.structured_message import StructuredMessage

LEAD_APPROVER = "lead"
"""The lead's name as an approver."""


class PermissionAnswers(Protocol):
    """The port to the queue of requests, implemented in `approvals`."""

    async def answer_as_lead(self, request_id: str, answer: RequestAnswer, call: str, *, is_rerun: bool) -> str:
        """Apply the lead's answer, once for each call. Return the member that asked.

        `call` names the answering call, `is_rerun`: a kill interrupted it before. Raises TeamRefused for a request that
        is closed, answered already, or not the lead's to answer.
        """
        ...


async def answer_member_permission(
    caller: Caller, answers: PermissionAnswers | None, message: StructuredMessage, ctx: ToolContext
) -> ToolResult:
    """Apply the lead's answer to a permission request. Raises the port's errors, and UsageError for a missing field."""
    if not caller.is_lead or answers is None:
        raise TeamRefused(
            "team-refused",
            "a permission_response is the lead's answer, and you are not the lead",
            do=["Continue your work; an approver answers your request."],
            note="nothing was answered",
        )
    request_id, approve = message.request_id, message.approve
    if request_id is None or approve is None:
        raise UsageError(
            "usage",
            "a permission_response needs request_id and approve",
            do=["Copy the request_id from the request; approve is true or false."],
            note="nothing was answered",
        )
    verdict, reason = "allow" if approve else "deny", message.reason or ""
    answer = RequestAnswer(verdict=verdict, text=reason, input=message.updated_input, by=LEAD_APPROVER)
    member = await answers.answer_as_lead(request_id, answer, ctx.key, is_rerun=ctx.is_rerun)
    done = "allowed" if approve else "denied"
    text = f"{member} received the answer: {done}. It continues."
    body = {"success": True, "message": text, "request_id": request_id, "target": member}
    return json_result(body, f"{done} {request_id} of {member}")
