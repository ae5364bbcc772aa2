"""The SendMessage tool: sends text to one member or all, and the answers of the team protocol."""

from __future__ import annotations

from typing import Any, Literal, Protocol, cast

from pydantic import Field, model_validator

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.decide import parse_mode
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.teams.mailbox.outgoing import SendCall, Sent, broadcast, default_summary, send_text
from teamwright.teams.mode_change import set_mode
from teamwright.teams.shutdown_requests import StopAnswer, answer_stop
from teamwright.teams.subagents.registry import Subagents
from teamwright.teams.subagents.run_journal import is_run_id
from teamwright.teams.turn_end import LEAD_ADVICE, SENDER_NOTE
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.subagent.background_lookup import find_subagent
from teamwright.tools.subagent.message_subagent import send_to_subagent
from teamwright.tools.team.lead_answers import PLAN_ANSWER_TYPE as PLAN_ANSWER
from teamwright.tools.team.lead_answers import (
    LeadPermissionAnswer,
    LeadPlanAnswer,
    PermissionAnswers,
    answer_as_lead,
    answer_permission,
)


class StopRequests(Protocol):
    """The port for stop requests, implemented in `session`, which owns the timers."""

    async def request_stop(self, to: str, reason: str, call: str = "") -> str:
        """Ask a member to stop. Return the request's id, one for each `call`. Raises UnknownMember or TeamRefused."""
        ...


_OUTCOME_TEXT = {
    "woke": "It is awake now.",
    "queued_next_round": "It reads it before its next step.",
    "accepted": "It is in the inbox; it is not known whether a process reads it.",
    "no_consumer": "It is in the inbox, but no process reads it now.",
}

RECIPIENT_HINT = "Give a member's name in `to`: ListAgents shows them."
"""The advice for a call without a recipient."""

MAX_CONTENT = 200
"""The most characters of a message that its sender's result repeats."""


def _excerpt(text: str) -> str:
    """Return the beginning of the message: the sender knows the rest, and every model call reads the result again."""
    return text if len(text) <= MAX_CONTENT else text[:MAX_CONTENT] + "…"


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
        given = cast("dict[str, Any]", raw)
        kind = given.get("type")
        # Only an answer implies its recipient; a text needs one.
        by_itself = {"broadcast": "*", "shutdown_response": LEAD, PLAN_ANSWER: LEAD}.get(str(kind), "")
        to = given.get("recipient") or given.get("to") or by_itself
        if kind in {"message", "broadcast"}:
            message: Any = given.get("content", "")
        else:
            wanted = {"type": kind, "reason": given.get("content")}
            wanted |= {key: given.get(key) for key in ("request_id", "approve", "mode")}
            message = {key: value for key, value in wanted.items() if value is not None}
        more = {"no_reply": given["no_reply"]} if "no_reply" in given else {}
        return {"to": to, "message": message, "summary": given.get("summary")} | more


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
            return await self._structured(call.to, call.message, ctx)
        once = SendCall(ctx.key, ctx.is_rerun, call.no_reply)
        if call.to.strip() == "*":
            return await self._broadcast(call.message, call.summary or "", once)
        me, about = self._caller, call.summary or ""
        sent = await send_text(me.team, me.name, call.to, call.message, about, once)
        return self._sent_result(sent, call.message, call.summary or default_summary(call.message))

    def _is_subagent(self, to: str) -> bool:
        """Return True when the name means a sub-agent; a member of the same name has precedence."""
        if self._agents is None or not to.strip() or self._caller.team.find(to.strip().partition("@")[0]) is not None:
            return False
        return is_run_id(to.strip()) or self._agents.find(to) is not None

    async def _broadcast(self, text: str, summary: str, call: SendCall) -> ToolResult:
        sent = await broadcast(self._caller.team, self._caller.name, text, summary, call)
        names = [one.to for one in sent]
        body = {
            "success": True,
            "message": f"Sent to {len(names)} {'member' if len(names) == 1 else 'members'}: {', '.join(names)}.",
            "recipients": names,
            "msg_ids": {one.to: one.message_id for one in sent},
            "routing": {
                "sender": self._caller.name,
                "target": "@team",
                "summary": summary or default_summary(text),
                "content": _excerpt(text),
            },
        }
        return json_result(body, f"sent to {', '.join(names)}")

    async def _structured(self, to: str, message: StructuredMessage, ctx: ToolContext) -> ToolResult:
        if message.type == "shutdown_request":
            return await self._ask_to_stop(to, message, ctx.key)
        if message.type == "set_mode":
            return await self._set_mode(to, message.mode or "")
        if message.type == PLAN_ANSWER:
            return await answer_as_lead(self._caller, _plan_answer(to, message, ctx))
        if message.type == "permission_response":
            return await answer_permission(self._caller, self._permission_answers, _permission_answer(message, ctx))
        return await self._answer_stop(message, is_rerun=ctx.is_rerun)

    async def _ask_to_stop(self, to: str, message: StructuredMessage, key: str) -> ToolResult:
        if to.strip() == "*":
            raise UsageError(
                "usage",
                "a shutdown is asked of one member at a time",
                do=["Send one shutdown_request to each."],
                note="nothing was sent",
            )
        if not self._caller.is_lead:
            raise TeamRefused(
                "team-refused",
                "only the lead asks members to stop",
                do=["Write to lead if a member should stop."],
                note="nothing was sent",
            )
        request_id = await self._stop_requests.request_stop(to, message.reason or "", key)
        text = f"{to} was asked to stop. You are notified when it has ended, or why it objects."
        return json_result(
            {"success": True, "message": text, "request_id": request_id, "target": to}, f"shutdown? → {to}"
        )

    async def _set_mode(self, to: str, mode: str) -> ToolResult:
        if not self._caller.is_lead:
            raise TeamRefused("team-refused", "only the lead sets the mode of a member", note="nothing was changed")
        if to.strip() == "*":
            raise UsageError(
                "usage",
                "a mode is set for one member at a time",
                do=["Send one set_mode to each."],
                note="nothing was changed",
            )
        made = await set_mode(self._caller.team, to, parse_mode(mode, "set_mode"), LEAD)
        body = {"success": True, "message": f"{made}.", "target": made.member, "mode": str(made.mode)}
        return json_result(body, f"mode {made.mode} → {made.member}")

    async def _answer_stop(self, message: StructuredMessage, *, is_rerun: bool) -> ToolResult:
        if self._caller.is_lead:
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
        reason = message.reason or ""
        given = StopAnswer(message.approve, reason, is_rerun)
        leaves = await answer_stop(self._caller.team, self._caller.name, message.request_id, given)
        if leaves:
            made = json_result(
                {"success": True, "message": "You agreed; you end now.", "request_id": message.request_id},
                "agreed to stop",
            )
            return ToolResult(made.content, brief=made.brief, facts=made.facts, ends_turn=True)
        text = "The lead received your reason. Continue your work."
        return json_result({"success": True, "message": text, "request_id": message.request_id}, f"objected: {reason}")

    def _outcome_text(self, sent: Sent) -> str:
        mate = self._caller.team.find(sent.to)
        if mate is None or not mate.cap_reason:
            return _OUTCOME_TEXT[sent.outcome]
        why = mate.cap_reason.removeprefix("budget_exceeded: ")
        return f"It does nothing now: {why}. {LEAD_ADVICE if self._caller.is_lead else SENDER_NOTE}"

    def _sent_result(self, sent: Sent, text: str, summary: str) -> ToolResult:
        mate = self._caller.team.find(self._caller.name)
        routing = {
            "sender": self._caller.name,
            "senderColor": mate.color if mate is not None else None,
            "target": f"@{sent.to}",
            "targetColor": sent.color,
            "summary": summary,
            "content": _excerpt(text),
        }
        body = {
            "success": True,
            "message": f"In {sent.to}'s inbox. {self._outcome_text(sent)}",
            "outcome": sent.outcome,
            "msg_id": sent.message_id,
            "routing": {key: value for key, value in routing.items() if value is not None},
        }
        return json_result(body, f"→ {sent.to}: {summary}")


def _plan_answer(to: str, message: StructuredMessage, ctx: ToolContext) -> LeadPlanAnswer:
    """Return the answer to a plan. The older shape may omit the member; its `to` is then the lead."""
    whom = "" if to.strip().lower() in {LEAD, LEAD_ALIAS} else to
    said = message.feedback or message.reason or ""
    return LeadPlanAnswer(whom, message.request_id, message.approve, said, ctx.key, ctx.is_rerun)


def _permission_answer(message: StructuredMessage, ctx: ToolContext) -> LeadPermissionAnswer | None:
    """Return the answer to a permission request; None when a field is missing."""
    if message.request_id is None or message.approve is None:
        return None
    reason = message.reason or ""
    return LeadPermissionAnswer(
        message.request_id, message.approve, reason, message.updated_input, ctx.key, ctx.is_rerun
    )
