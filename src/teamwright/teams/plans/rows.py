"""The rows of plan requests: whose plan it is, of which life, and who may answer it.

Reads request files as they are. Refuses to know who asks, who answers, and what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.mail.requests import RequestBox
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import keyed_id
from teamwright.teams.plans.awaited import NOTHING_AWAITED, Awaited

KIND = "plan_approval"
"""The kind of a row. What a person is asked beside it is a request of its own, of kind `plan`."""

POLICY = "policy"
"""The target of a plan that a setting approves."""


def of_life(request: Mapping[str, Any], name: str, incarnation: int) -> bool:
    """Whether this is a plan of that life of the member."""
    return (
        request.get("kind") == KIND
        and str(request.get("requester", "")).lower() == name.lower()
        and request.get("incarnation") == incarnation
    )


def newest_of(box: RequestBox, name: str, incarnation: int) -> Mapping[str, Any] | None:
    """The last plan that this life handed in, answered or not; None when it handed in none."""
    every = [*box.open_requests(), *(request for request, _ in box.answered())]
    mine = [request for request in every if of_life(request, name, incarnation)]
    return max(mine, key=lambda request: (float(request.get("opened_at") or 0), str(request["id"])), default=None)


def made_by(box: RequestBox, call: str) -> Mapping[str, Any] | None:
    """The plan that this call handed in before a kill, whatever became of it since."""
    every = [*box.open_requests(), *(request for request, _ in box.answered())]
    return next((one for one in every if one.get("kind") == KIND and call and one.get("call") == call), None)


def plan_awaited(box: RequestBox, name: str, incarnation: int) -> Awaited:
    """The plan of this life that is not answered yet."""
    request = newest_of(box, name, incarnation)
    if request is None or box.answer_of(str(request["id"])) is not None:
        return NOTHING_AWAITED
    return Awaited(str(request["id"]), str(request.get("target") or ""))


def answer_body(approve: bool, reason: str, by: str, *, mode: str = "", call: str = "") -> dict[str, Any]:
    """The answer to a plan, as its file has it. `mode` comes after plan mode where one was named."""
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms(), "mode": mode, "call": call}


def close_plans(box: RequestBox, name: str, incarnation: int, why: str) -> None:
    """No plan stays without an answer when whoever made it is over. Raises StorageError."""
    for request in box.open_requests():
        if of_life(request, name, incarnation):
            box.answer(str(request["id"]), answer_body(False, why, "system"))


def told_under(request_id: str) -> str:
    """The id of the message that brings the answer to the member: it is told once."""
    return keyed_id("plan answered", request_id)
