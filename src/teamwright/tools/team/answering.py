"""Answering a member's request for a permission: the port for it, and what a lead gives with its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from teamwright.agent.tool import ToolResult
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.values import dataclass
from teamwright.tools.team.caller import Caller, json_result


@dataclass(frozen=True, slots=True)
class PermitGiven:
    """A lead's answer. `input` is what is to be run instead; `call` names the call that answers, `again`: a kill cut
    it off before."""

    request_id: str
    approve: bool
    reason: str = ""
    input: Mapping[str, Any] | None = None
    call: str = ""
    again: bool = False


class Permits(Protocol):
    """The port to the queue of requests. Filled in `app`."""

    async def answered_by_lead(self, given: PermitGiven) -> str:
        """Take the lead's answer, once for each call. Returns the member that asked.

        Raises TeamRefused for what is not open, was answered before, or is not the lead's to answer.
        """
        ...


async def answer_permission(
    caller: Caller,
    permits: Permits | None,
    given: PermitGiven | None,
) -> ToolResult:
    """The lead's answer to a member's request. Raises as the port does, and UsageError for half an answer."""
    if not caller.is_lead or permits is None:
        raise TeamRefused(
            "team-refused",
            "a permission_response is the lead's answer, and you are not the lead",
            do=["Continue your work; an approver answers your request."],
            note="nothing was answered",
        )
    if given is None:
        raise UsageError(
            "usage",
            "a permission_response needs request_id and approve",
            do=["Copy the request_id from the request; approve is true or false."],
            note="nothing was answered",
        )
    member = await permits.answered_by_lead(given)
    done = "allowed" if given.approve else "denied"
    text = f"{member} received the answer: {done}. It continues."
    body = {"success": True, "message": text, "request_id": given.request_id, "target": member}
    return json_result(body, f"{done} {given.request_id} of {member}")
