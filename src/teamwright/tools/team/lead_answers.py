"""Answering a member's request for a permission: the port for it, and what a lead gives with its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from teamwright.agent.tool import ToolResult
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, parse_recipient
from teamwright.protocol.values import dataclass
from teamwright.teams.plan_approval import UNCHANGED_NOTE, PlanAnswer, answer_plan, plan_author
from teamwright.tools.caller import Caller, json_result

PLAN_ANSWER_TYPE = "plan_approval_response"


@dataclass(frozen=True, slots=True)
class LeadPlanAnswer:
    """What the caller's model gave. `to` may be empty: the request tells whose plan it is."""

    to: str
    request_id: str | None
    approve: bool | None
    feedback: str = ""
    call: str = ""
    is_rerun: bool = False


async def answer_as_lead(caller: Caller, lead_answer: LeadPlanAnswer) -> ToolResult:
    """Answer it. Raises TeamRefused for who is not the lead and for what is not open, UsageError for half an answer."""
    if not caller.is_lead:
        raise TeamRefused(
            "team-refused",
            "plans are answered by the lead, and you are not the lead",
            do=["Your own plan is handed in with ExitPlanMode."],
            note=UNCHANGED_NOTE,
        )
    if not lead_answer.request_id or lead_answer.approve is None:
        raise UsageError(
            "usage",
            f"a {PLAN_ANSWER_TYPE} needs request_id and approve",
            do=["Copy the request_id from the plan that you were shown; approve is true or false."],
            note=UNCHANGED_NOTE,
        )
    _require_same_member(caller, lead_answer.to, lead_answer.request_id)
    answer = PlanAnswer(
        lead_answer.approve, LEAD, lead_answer.feedback, call=lead_answer.call, is_rerun=lead_answer.is_rerun
    )
    name = await answer_plan(caller.team, lead_answer.request_id, answer)
    done = "approved" if lead_answer.approve else "sent back"
    rest = "It carries the plan out now." if lead_answer.approve else "It reads what to change and hands in a new plan."
    body = {"success": True, "message": f"The plan of {name} is {done}. {rest}", "request_id": lead_answer.request_id}
    return json_result({**body, "target": name}, f"plan of {name} {done}")


def _require_same_member(caller: Caller, to: str, request_id: str) -> None:
    """An answer that was written to one member is not given to another."""
    owner = plan_author(caller.team, request_id)
    if owner and to.strip() and parse_recipient(to, caller.team.names).lower() != owner.lower():
        raise TeamRefused(
            "team-refused",
            f"that request is of {owner}, not of {to.strip()[:64]}",
            do=["Give the request_id of the plan that you mean."],
            note=UNCHANGED_NOTE,
        )


@dataclass(frozen=True, slots=True)
class LeadPermissionAnswer:
    """A lead's answer. `input` is what is to be run instead; `call` names the call that answers, `again`: a kill cut
    it off before."""

    request_id: str
    approve: bool
    reason: str = ""
    input: Mapping[str, Any] | None = None
    call: str = ""
    is_rerun: bool = False


class PermissionAnswers(Protocol):
    """The port to the queue of requests. Filled in `app`."""

    async def answer_as_lead(self, answer: LeadPermissionAnswer) -> str:
        """Take the lead's answer, once for each call. Returns the member that asked.

        Raises TeamRefused for what is not open, was answered before, or is not the lead's to answer.
        """
        ...


async def answer_permission(
    caller: Caller,
    permits: PermissionAnswers | None,
    answer: LeadPermissionAnswer | None,
) -> ToolResult:
    """The lead's answer to a member's request. Raises as the port does, and UsageError for half an answer."""
    if not caller.is_lead or permits is None:
        raise TeamRefused(
            "team-refused",
            "a permission_response is the lead's answer, and you are not the lead",
            do=["Continue your work; an approver answers your request."],
            note="nothing was answered",
        )
    if answer is None:
        raise UsageError(
            "usage",
            "a permission_response needs request_id and approve",
            do=["Copy the request_id from the request; approve is true or false."],
            note="nothing was answered",
        )
    member = await permits.answer_as_lead(answer)
    done = "allowed" if answer.approve else "denied"
    text = f"{member} received the answer: {done}. It continues."
    body = {"success": True, "message": text, "request_id": answer.request_id, "target": member}
    return json_result(body, f"{done} {answer.request_id} of {member}")
