"""The lead's answers to pending requests: plans and permissions of members."""

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
    """The model's answer to a plan. `to` may be empty: the request names the member."""

    to: str
    request_id: str | None
    approve: bool | None
    feedback: str = ""
    call: str = ""
    is_rerun: bool = False


async def answer_as_lead(caller: Caller, lead_answer: LeadPlanAnswer) -> ToolResult:
    """Apply the answer to a plan.

    Raises TeamRefused for another caller or a closed request, UsageError for a missing field.
    """
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
    """Raise an error when an answer for one member would be given to another."""
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
    """A lead's answer.

    `input` replaces the call's input; `call` names the answering call, `is_rerun`: a kill interrupted it.
    """

    request_id: str
    approve: bool
    reason: str = ""
    input: Mapping[str, Any] | None = None
    call: str = ""
    is_rerun: bool = False


class PermissionAnswers(Protocol):
    """The port to the queue of requests, implemented in `approvals`."""

    async def answer_as_lead(self, answer: LeadPermissionAnswer) -> str:
        """Apply the lead's answer, once for each call. Return the member that asked.

        Raises TeamRefused for a request that is closed, answered already, or not the lead's to answer.
        """
        ...


async def answer_permission(
    caller: Caller,
    permits: PermissionAnswers | None,
    answer: LeadPermissionAnswer | None,
) -> ToolResult:
    """Apply the lead's answer to a permission request. Raises the port's errors, and UsageError for a missing field."""
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
