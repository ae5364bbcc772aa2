"""The message types shutdown_request, from the lead, and shutdown_response, a member's answer."""

from __future__ import annotations

from typing import Protocol

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.teams.shutdown_requests import answer_stop
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.team.structured_message import StructuredMessage


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
    text = f"{to} was asked to stop. You are notified when it has ended, or why it objects."
    return json_result({"success": True, "message": text, "request_id": request_id, "target": to}, f"shutdown? → {to}")


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
