"""The plan that a member handed in and that is not answered yet: for whom it waits, and how that is said.

A value. Knows the conversation's last line; refuses to know requests and who answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.agent.conversation import Conversation
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.values import dataclass
from teamwright.requests.request_store import RequestStore

PLAN_KIND = "plan_approval"
"""The kind of a row. What a person is asked beside it is a request of its own, of kind `plan`."""

POLICY_APPROVER = "policy"
"""The target of a plan that a setting approves."""


def is_plan_of(request: Mapping[str, Any], name: str, incarnation: int) -> bool:
    """Whether this is a plan of that life of the member."""
    return (
        request.get("kind") == PLAN_KIND
        and str(request.get("requester", "")).lower() == name.lower()
        and request.get("incarnation") == incarnation
    )


def newest_plan(requests: RequestStore, name: str, incarnation: int) -> Mapping[str, Any] | None:
    """The last plan that this life handed in, answered or not; None when it handed in none."""
    every = [*requests.open_requests(), *(request for request, _ in requests.answered_requests())]
    mine = [request for request in every if is_plan_of(request, name, incarnation)]
    return max(mine, key=lambda request: (float(request.get("opened_at") or 0), str(request["id"])), default=None)


def find_plan_by_call(requests: RequestStore, call: str) -> Mapping[str, Any] | None:
    """The plan that this call handed in before a kill, whatever became of it since."""
    every = [*requests.open_requests(), *(request for request, _ in requests.answered_requests())]
    return next((one for one in every if one.get("kind") == PLAN_KIND and call and one.get("call") == call), None)


def pending_plan(requests: RequestStore, name: str, incarnation: int) -> PendingPlan:
    """The plan of this life that is not answered yet."""
    request = newest_plan(requests, name, incarnation)
    if request is None or requests.get_answer(str(request["id"])) is not None:
        return NO_PENDING_PLAN
    return PendingPlan(str(request["id"]), str(request.get("target") or ""))


def answer_body(approve: bool, reason: str, by: str, *, mode: str = "", call: str = "") -> dict[str, Any]:
    """The answer to a plan, as its file has it. `mode` comes after plan mode where one was named."""
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms(), "mode": mode, "call": call}


def close_plans(requests: RequestStore, name: str, incarnation: int, why: str) -> None:
    """No plan stays without an answer when whoever made it is over. Raises StorageError."""
    for request in requests.open_requests():
        if is_plan_of(request, name, incarnation):
            requests.answer(str(request["id"]), answer_body(False, why, "system"))


def answer_message_id(request_id: str) -> str:
    """The id of the message that brings the answer to the member: it is told once."""
    return keyed_id("plan answered", request_id)


USER_APPROVER = "user"
"""For whom a plan waits that a person approves."""


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """`request` is the id of the open request, empty when none is open; `whom` may answer it."""

    request_id: str = ""
    approver: str = ""

    @property
    def is_open(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self.request_id)

    @property
    def needs_user(self) -> bool:
        """Whether a person is asked: then the run waits for the answer too."""
        return self.is_open and self.approver == USER_APPROVER

    @property
    def description(self) -> str:
        """What is waited for, as status shows it."""
        return f"{'the lead' if self.approver == LEAD else 'the user'} to answer its plan"

    def ends_conversation(self, conversation: Conversation) -> bool:
        """Whether handing it in was the last thing in the conversation: nothing is owed before the answer is there."""
        if not self.is_open or not conversation.items or conversation.unanswered_calls():
            return False
        return self.request_id.encode() in conversation.items[-1]


NO_PENDING_PLAN = PendingPlan()
