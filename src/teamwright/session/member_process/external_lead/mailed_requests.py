"""Permission requests of a member to an external lead, by mail.

The queue is the one of every run: a hook or another terminal of the user may answer too, and the first answer counts.
The description of a call is sent whole, or not at all. Depends on the queue and mail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from teamwright.approvals.lead_approver import LeadApprover
from teamwright.approvals.request_queue import RequestQueue
from teamwright.permissions.verdict import Question
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import PermissionResponse
from teamwright.protocol.request_events import RequestAnswer
from teamwright.protocol.values import dataclass
from teamwright.teams.team import SessionTeam

LEAD_SAYS = "lead"
"""The approver of a request that the lead's mail answers."""


@dataclass(slots=True)
class MailedRequests:
    """Requests of the member of this name, and the answers in its lead's mail."""

    requests: RequestQueue
    team: SessionTeam
    name: str

    async def heard(self, message: PermissionResponse) -> bool:
        """Take an answer. Return False for a request that was never this member's."""
        id = message.request_id
        box = self.team.requests
        over = box.get_retired(id)
        row = over[0] if over is not None else box.get(id)
        if row is None or row.get("requester") != self.name or row.get("target") != LEAD:
            return False
        await self.requests.answer(id, _answer(message, cast("Mapping[str, Any]", row.get("input") or {})))
        return True


@dataclass(slots=True)
class MailApprover(LeadApprover):
    """The external lead as approver, asked by mail alone."""

    requests: RequestQueue | None = None

    def answers(self, question: Question) -> bool:
        """Return True for every call, and False for questions that only a person can answer."""
        return question.kind == "permission" and self.team.exists

    async def notify(self, id: str, question: Question, suggestions: tuple[Mapping[str, Any], ...]) -> None:
        """Ask the lead by mail. A request that cannot be sent is denied at once, because the lead would never see
        it.
        """
        if not self.answers(question):
            return
        try:
            await self.ask(id, question, suggestions, question.input)
        except TeamwrightError as problem:
            reason = f"the lead could not be asked: {problem.what}"
            if self.requests is not None:
                await self.requests.answer(id, RequestAnswer(verdict="deny", text=reason, by="policy"))

    async def notify_expired(self, id: str, question: Question, reason: str) -> None:
        """Do nothing: the lead's program shows the request as it likes."""


def _answer(message: PermissionResponse, asked: Mapping[str, Any]) -> RequestAnswer:
    """Return the answer in the mail. An unchanged input is dropped; every other text than an approval denies."""
    response = cast("object", message.response)
    if message.subtype != "success" or not isinstance(response, dict):
        return RequestAnswer(verdict="deny", text=str(message.error or "Permission denied"), by=LEAD_SAYS)
    given = cast("dict[str, Any]", response)
    updated: Any = given.get("updated_input")
    updates = given.get("permission_updates")
    changed = cast("dict[str, Any]", updated) if isinstance(updated, dict) and updated and updated != asked else None
    granted = tuple(cast("list[Mapping[str, Any]]", updates)) if isinstance(updates, list) else ()
    return RequestAnswer(verdict="allow", input=changed, updates=granted, by=LEAD_SAYS)
