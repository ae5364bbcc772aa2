"""The lead's answer to a member's plan, as SendMessage takes it: one yes or no for one open request.

Nothing else of a model approves a plan. Knows the team and how a plan is answered; does not know what follows.
"""

from __future__ import annotations

from teamwright.agent.tool import ToolResult
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, addressee
from teamwright.protocol.values import dataclass
from teamwright.teams.plans.approval import STANDS, PlanAnswer, answer_plan, whose_plan
from teamwright.tools.team.caller import Caller, json_result

TYPE = "plan_approval_response"


@dataclass(frozen=True, slots=True)
class PlanGiven:
    """What the caller's model gave. `to` may be empty: the request tells whose plan it is."""

    to: str
    request_id: str | None
    approve: bool | None
    feedback: str = ""
    call: str = ""
    again: bool = False


async def answer_by_lead(caller: Caller, given: PlanGiven) -> ToolResult:
    """Answer it. Raises TeamRefused for who is not the lead and for what is not open, UsageError for half an answer."""
    if not caller.is_lead:
        raise TeamRefused(
            "team-refused",
            "plans are answered by the lead, and you are not the lead",
            do=["Your own plan is handed in with ExitPlanMode."],
            note=STANDS,
        )
    if not given.request_id or given.approve is None:
        raise UsageError(
            "usage",
            f"a {TYPE} needs request_id and approve",
            do=["Copy the request_id from the plan that you were shown; approve is true or false."],
            note=STANDS,
        )
    _require_the_same(caller, given.to, given.request_id)
    answer = PlanAnswer(given.approve, LEAD, given.feedback, call=given.call, again=given.again)
    name = await answer_plan(caller.team, given.request_id, answer)
    done = "approved" if given.approve else "sent back"
    rest = "It carries the plan out now." if given.approve else "It reads what to change and hands in a new plan."
    body = {"success": True, "message": f"The plan of {name} is {done}. {rest}", "request_id": given.request_id}
    return json_result({**body, "target": name}, f"plan of {name} {done}")


def _require_the_same(caller: Caller, to: str, request_id: str) -> None:
    """An answer that was written to one member is not given to another."""
    owner = whose_plan(caller.team, request_id)
    if owner and to.strip() and addressee(to, caller.team.names).lower() != owner.lower():
        raise TeamRefused(
            "team-refused",
            f"that request is of {owner}, not of {to.strip()[:64]}",
            do=["Give the request_id of the plan that you mean."],
            note=STANDS,
        )
