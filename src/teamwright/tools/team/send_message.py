"""The SendMessage tool: sends text to one member or all, and the requests and answers of the team protocol.

These are shutdown_request and set_mode from the lead, shutdown_response from a member, and plan_approval_response and
permission_response from the lead to a member that asked.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, cast

from pydantic import Field, model_validator

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import PermissionAnswer, parse_mode
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import RequestAnswer
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, display_name
from teamwright.subagents.journal import is_run_id
from teamwright.subagents.registry import Subagents
from teamwright.teams.local_teammate import LEAD_ADVICE, SENDER_NOTE
from teamwright.teams.outgoing_mail import SendCall, Sent, broadcast, default_summary, send_text
from teamwright.teams.permission_mode_change import set_mode
from teamwright.teams.plan_approval import UNCHANGED_NOTE, answer_plan, plan_author
from teamwright.teams.shutdown_requests import answer_stop
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.subagent.background_lookup import find_subagent
from teamwright.tools.subagent.message_subagent import send_to_subagent

PLAN_ANSWER_TYPE = "plan_approval_response"


class StructuredMessage(ToolInput):
    """Message of the protocol."""

    type: Literal["shutdown_request", "shutdown_response", "permission_response", "plan_approval_response", "set_mode"]
    request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None
    feedback: str | None = None
    updated_input: dict[str, Any] | None = None
    mode: str | None = None


RECIPIENT_HINT = "Give a member's name in `to`: ListAgents shows them."
"""The advice for a call without a recipient."""


class SendMessageInput(ToolInput):
    """The parameters `to`, `message`, `summary`; the older five-type shape is accepted too."""

    to: str = Field(description="Teammate, lead, *, or id of a sub-agent.")
    message: str | StructuredMessage
    summary: str | None = None
    no_reply: bool = Field(False, description="Delivery without waking.")

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
        team = self._caller.team
        sender = self._caller.name
        summary = call.summary or ""
        sending = SendCall(ctx.key, ctx.is_rerun, call.no_reply)
        if call.to.strip() == "*":
            return _broadcast_result(
                sender, await broadcast(team, sender, call.message, summary, sending), call.message
            )
        sent = await send_text(team, sender, call.to, call.message, summary, sending)
        return _sent_result(self._caller, sent, call.message)

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


class PermissionAnswers(Protocol):
    """The port to the queue of requests, implemented in `approvals`."""

    async def answer_as_lead(self, request_id: str, answer: RequestAnswer, call: str, *, is_rerun: bool) -> str:
        """Apply the lead's answer, once for each call. Return the member that asked.

        `call` names the answering call, `is_rerun`: a kill interrupted it before. Raises TeamRefused for a request that
        is closed, answered already, or not the lead's to answer.
        """
        ...


class StopRequests(Protocol):
    """The port for stop requests, implemented in `session`, which owns the timers."""

    async def request_stop(self, team: SessionTeam, to: str, reason: str, call: str = "") -> str:
        """Ask a member to stop. Return the request's id, one for each `call`. Raises UnknownMember or TeamRefused."""
        ...


MAX_CONTENT = 200
"""The most characters of a message that its sender's result repeats."""

_OUTCOME_TEXT = {
    "woke": "It is awake now.",
    "queued_next_round": "It reads it before its next step.",
    "accepted": "It is in the inbox; it is not known whether a process reads it.",
    "no_consumer": "It is in the inbox, but no process reads it now.",
}


def _broadcast_result(sender: str, messages: list[Sent], text: str) -> ToolResult:
    names = [message.to for message in messages]
    shown = ", ".join(display_name(name) for name in names)
    body = {
        "success": True,
        "message": f"Sent to {len(names)} {'member' if len(names) == 1 else 'members'}: {shown}.",
        "recipients": names,
        "msg_ids": {message.to: message.message_id for message in messages},
        "routing": {
            "sender": sender,
            "target": "@team",
            "summary": messages[0].summary,
            "content": _excerpt(text),
        },
    }
    return json_result(body, f"sent to {shown}")


def _sent_result(caller: Caller, sent: Sent, text: str) -> ToolResult:
    routing = {
        "sender": caller.name,
        "senderColor": sent.sender_color,
        "target": f"@{sent.to}",
        "targetColor": sent.color,
        "summary": sent.summary,
        "content": _excerpt(text),
    }
    outcome = _OUTCOME_TEXT[sent.outcome]
    if sent.cap_reason:
        why = sent.cap_reason.removeprefix("budget_exceeded: ")
        outcome = f"It does nothing now: {why}. {LEAD_ADVICE if caller.is_lead else SENDER_NOTE}"
    shown = display_name(sent.to)
    body = {
        "success": True,
        "message": f"In {shown}'s inbox. {outcome}",
        "outcome": sent.outcome,
        "msg_id": sent.message_id,
        "routing": {key: value for key, value in routing.items() if value is not None},
    }
    return json_result(body, f"→ {shown}: {sent.summary}")


def _excerpt(text: str) -> str:
    """Return the beginning of the message: the sender knows the rest, and every model call reads the result again."""
    return text if len(text) <= MAX_CONTENT else text[:MAX_CONTENT] + "…"


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
    verdict = "allow" if approve else "deny"
    reason = message.reason or ""
    answer = RequestAnswer(verdict=verdict, text=reason, input=message.updated_input, by=LEAD_APPROVER)
    member = await answers.answer_as_lead(request_id, answer, ctx.key, is_rerun=ctx.is_rerun)
    done = "allowed" if approve else "denied"
    text = f"{member} received the answer: {done}. It continues."
    body = {"success": True, "message": text, "request_id": request_id, "target": member}
    return json_result(body, f"{done} {request_id} of {member}")


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
    request_id = message.request_id
    reason = message.reason or ""
    if await answer_stop(caller.team, caller.name, request_id, message.approve, reason, is_rerun=ctx.is_rerun):
        result = json_result(
            {"success": True, "message": "You agreed; you end now.", "request_id": request_id},
            "agreed to stop",
        )
        return ToolResult(result.content, brief=result.brief, facts=result.facts, ends_turn=True)
    text = "The lead received your reason. Continue your work."
    return json_result({"success": True, "message": text, "request_id": request_id}, f"objected: {reason}")
