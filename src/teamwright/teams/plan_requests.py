"""Plans that members submitted and that wait for an answer: the approver, and the text for status.

Depends on requests and on the last line of the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from teamwright.protocol.ids import LEAD, keyed_id, now_ms
from teamwright.requests.request_store import RequestStore

if TYPE_CHECKING:
    from teamwright.agent.conversation import Conversation

PLAN_KIND = "plan_approval"
"""The kind of a plan's request. A person is asked by a separate request, of kind `plan`."""

POLICY_APPROVER = "policy"
"""The target of a plan that a setting approves."""


def is_plan_of(request: Mapping[str, Any], name: str, incarnation: int) -> bool:
    """Return True when the request is a plan of that incarnation of the member."""
    return (
        request.get("kind") == PLAN_KIND
        and str(request.get("requester", "")).lower() == name.lower()
        and request.get("incarnation") == incarnation
    )


def newest_plan(requests: RequestStore, name: str, incarnation: int) -> Mapping[str, Any] | None:
    """Return the last plan of this incarnation, answered or not; None when it submitted none."""
    every = [*requests.open_requests(), *(request for request, _ in requests.answered_requests())]
    mine = [request for request in every if is_plan_of(request, name, incarnation)]
    return max(mine, key=lambda request: (float(request.get("opened_at") or 0), str(request["id"])), default=None)


def find_plan_by_call(requests: RequestStore, call: str) -> Mapping[str, Any] | None:
    """Return the plan that this call submitted, open or answered; None when it submitted none."""
    every = [*requests.open_requests(), *(request for request, _ in requests.answered_requests())]
    return next((one for one in every if one.get("kind") == PLAN_KIND and call and one.get("call") == call), None)


def pending_plan(requests: RequestStore, name: str, incarnation: int) -> PendingPlan:
    """Return the unanswered plan of this incarnation."""
    request = newest_plan(requests, name, incarnation)
    if request is None or requests.get_answer(str(request["id"])) is not None:
        return NO_PENDING_PLAN
    return PendingPlan(str(request["id"]), str(request.get("target") or ""))


def answer_body(approve: bool, reason: str, by: str, *, mode: str = "", call: str = "") -> dict[str, Any]:
    """Return the answer to a plan for its file. `mode` is the named mode after plan mode, if any."""
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms(), "mode": mode, "call": call}


def close_plans(requests: RequestStore, name: str, incarnation: int, why: str) -> None:
    """Close the open plans of an incarnation that has ended. Raises StorageError."""
    for request in requests.open_requests():
        if is_plan_of(request, name, incarnation):
            requests.answer(str(request["id"]), answer_body(False, why, "system"))


def answer_message_id(request_id: str) -> str:
    """Return the id of the message with the answer, which the member receives once."""
    return keyed_id("plan answered", request_id)


USER_APPROVER = "user"
"""The approver of a plan that a person approves."""


class PendingPlan(Struct, frozen=True):
    """An unanswered plan. `request_id` is empty when no request is open; `approver` is the one who may answer it."""

    request_id: str = ""
    approver: str = ""

    @property
    def is_open(self) -> bool:
        """True while the plan waits for an answer."""
        return bool(self.request_id)

    @property
    def needs_user(self) -> bool:
        """True when a person is asked: then the run waits for the answer too."""
        return self.is_open and self.approver == USER_APPROVER

    @property
    def description(self) -> str:
        """The text of the wait, as status shows it."""
        return f"{'the lead' if self.approver == LEAD else 'the user'} to answer its plan"

    def ends_conversation(self, conversation: Conversation) -> bool:
        """Return True when the plan's submission ended the conversation: no turn is owed before the answer."""
        if not self.is_open or not conversation.items or conversation.unanswered_calls():
            return False
        return self.request_id.encode() in conversation.items[-1]


NO_PENDING_PLAN = PendingPlan()
