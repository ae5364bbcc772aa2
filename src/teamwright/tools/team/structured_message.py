"""The object form of a message: the requests and answers of the team protocol, by type.

Types: shutdown_request and set_mode from the lead, shutdown_response from a member, plan_approval_response and
permission_response from the lead to a member that asked.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pydantic import Field

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import PermissionAnswer, parse_mode
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.teams.permission_mode_change import set_mode
from teamwright.teams.plan_approval import UNCHANGED_NOTE, answer_plan, plan_author
from teamwright.teams.shutdown_requests import answer_stop
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller, json_result

PLAN_ANSWER_TYPE = "plan_approval_response"


class StructuredMessage(ToolInput):
    """Message of the protocol."""

    type: Literal[
        "shutdown_request", "shutdown_response", "permission_response", "plan_approval_response", "set_mode"
    ] = Field(description="Kind of message.")
    request_id: str | None = Field(None, description="Id of the request.")
    approve: bool | None = Field(None, description="Your answer.")
    reason: str | None = Field(None, description="Reason.")
    feedback: str | None = Field(None, description="Changes that a plan needs.")
    updated_input: dict[str, Any] | None = Field(None, description="Input to run instead.")
    mode: str | None = Field(None, description="Permission mode.")


async def set_member_mode(caller: Caller, to: str, mode: str) -> ToolResult:
    """Set a member's mode. Raises TeamRefused for another caller than the lead, UsageError for all members at once."""
    if not caller.is_lead:
        raise TeamRefused("team-refused", "only the lead sets the mode of a member", note="nothing was changed")
    if to.strip() == "*":
        raise UsageError(
            "usage",
            "a mode is set for one member at a time",
            do=["Send one set_mode to each."],
            note="nothing was changed",
        )
    change = await set_mode(caller.team, to, parse_mode(mode, "set_mode"), LEAD)
    body = {"success": True, "message": f"{change}.", "target": change.member, "mode": str(change.mode)}
    return json_result(body, f"mode {change.mode} → {change.member}")


async def answer_member_plan(caller: Caller, to: str, message: StructuredMessage, ctx: ToolContext) -> ToolResult:
    """Apply the answer to a plan. The older shape may omit the member; its `to` is then the lead.

    Raises TeamRefused for another caller or a closed request, UsageError for a missing field.
    """
    if not caller.is_lead:
        raise TeamRefused(
            "team-refused",
            "plans are answered by the lead, and you are not the lead",
            do=["Your own plan is handed in with ExitPlanMode."],
            note=UNCHANGED_NOTE,
        )
    request_id, approve = message.request_id, message.approve
    if not request_id or approve is None:
        raise UsageError(
            "usage",
            f"a {PLAN_ANSWER_TYPE} needs request_id and approve",
            do=["Copy the request_id from the plan that you were shown; approve is true or false."],
            note=UNCHANGED_NOTE,
        )
    if to.strip().lower() not in {LEAD, LEAD_ALIAS}:
        _require_author(caller, to, request_id)
    feedback = message.feedback or message.reason or ""
    answer = PermissionAnswer(approve, LEAD, feedback)
    name = await answer_plan(caller.team, request_id, answer, ctx.key, is_rerun=ctx.is_rerun)
    done = "approved" if approve else "sent back"
    rest = "It carries the plan out now." if approve else "It reads what to change and hands in a new plan."
    body = {"success": True, "message": f"The plan of {name} is {done}. {rest}", "request_id": request_id}
    return json_result({**body, "target": name}, f"plan of {name} {done}")


def _require_author(caller: Caller, to: str, request_id: str) -> None:
    """Raise an error when an answer for one member would be given to another."""
    author = plan_author(caller.team, request_id)
    if author and to.strip() and caller.team.recipient(to, UNCHANGED_NOTE).lower() != author.lower():
        raise TeamRefused(
            "team-refused",
            f"that request is of {author}, not of {to.strip()[:64]}",
            do=["Give the request_id of the plan that you mean."],
            note=UNCHANGED_NOTE,
        )


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


class StopRequests(Protocol):
    """The port for stop requests, implemented in `session`, which owns the timers."""

    async def request_stop(self, team: SessionTeam, to: str, reason: str, call: str = "") -> str:
        """Ask a member to stop. Return the request's id, one for each `call`. Raises UnknownMember or TeamRefused."""
        ...


async def request_shutdown(
    caller: Caller, requests: StopRequests, to: str, message: StructuredMessage, ctx: ToolContext
) -> ToolResult:
    """Ask a member to stop. Raises UsageError for all members at once, TeamRefused for another caller than the lead."""
    if to.strip() == "*":
        raise UsageError(
            "usage",
            "a shutdown is asked of one member at a time",
            do=["Send one shutdown_request to each."],
            note="nothing was sent",
        )
    if not caller.is_lead:
        raise TeamRefused(
            "team-refused",
            "only the lead asks members to stop",
            do=["Write to lead if a member should stop."],
            note="nothing was sent",
        )
    request_id = await requests.request_stop(caller.team, to, message.reason or "", ctx.key)
    name = request_id.partition("@")[2]  # as on the roster, not as the call wrote it
    text = f"{name} was asked to stop. You are notified when it has ended, or why it objects."
    body = {"success": True, "message": text, "request_id": request_id, "target": name}
    return json_result(body, f"shutdown? → {name}")


async def answer_shutdown(caller: Caller, message: StructuredMessage, ctx: ToolContext) -> ToolResult:
    """Answer the caller's own shutdown request. An approval ends the turn.

    Raises TeamRefused for the lead, UsageError for a missing field.
    """
    if caller.is_lead:
        raise TeamRefused(
            "team-refused",
            "a shutdown_response is a member's answer, and you are the lead",
            do=["To ask a member to stop, send it a shutdown_request."],
            note="nothing was answered",
        )
    if message.request_id is None or message.approve is None:
        raise UsageError(
            "usage",
            "a shutdown_response needs request_id and approve",
            do=["Copy the request_id from the shutdown_request; approve is true or false."],
            note="nothing was answered",
        )
    request_id, reason = message.request_id, message.reason or ""
    if await answer_stop(caller.team, caller.name, request_id, message.approve, reason, is_rerun=ctx.is_rerun):
        result = json_result(
            {"success": True, "message": "You agreed; you end now.", "request_id": request_id},
            "agreed to stop",
        )
        return ToolResult(result.content, brief=result.brief, facts=result.facts, ends_turn=True)
    text = "The lead received your reason. Continue your work."
    return json_result({"success": True, "message": text, "request_id": request_id}, f"objected: {reason}")
