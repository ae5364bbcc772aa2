"""The message type plan_approval_response: the lead's answer to a member's plan."""

from __future__ import annotations

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.permissions.verdict import PermissionAnswer
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, parse_recipient
from teamwright.teams.plan_approval import UNCHANGED_NOTE, answer_plan, plan_author
from teamwright.tools.caller import Caller, json_result
from teamwright.tools.team.structured_message import PLAN_ANSWER_TYPE, StructuredMessage


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
    if author and to.strip() and parse_recipient(to, caller.team.names).lower() != author.lower():
        raise TeamRefused(
            "team-refused",
            f"that request is of {author}, not of {to.strip()[:64]}",
            do=["Give the request_id of the plan that you mean."],
            note=UNCHANGED_NOTE,
        )
