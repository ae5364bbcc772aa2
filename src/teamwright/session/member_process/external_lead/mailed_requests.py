"""Permissions of a member whose lead is another program: asked of that lead by mail, and taken from its mail.

The queue is the one of every run, so a hook or another terminal of the same user may answer too, and the first answer
counts. What a call would do is sent whole, or not at all. Knows the queue and mail; does not know who reads it.
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
"""Who answers a request, when the lead's mail does."""


@dataclass(slots=True)
class MailedRequests:
    """Requests of the member of this name, and the answers in its lead's mail."""

    requests: RequestQueue
    team: SessionTeam
    name: str

    async def heard(self, message: PermissionResponse) -> bool:
        """An answer came. False for one to a request that never was this member's."""
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
    """The lead answers for the member, and is asked by mail alone (see LeadApprover)."""

    requests: RequestQueue | None = None

    def answers(self, question: Question) -> bool:
        """See LeadApprover: every call, and no question that a person would have to understand."""
        return question.kind == "permission" and self.team.exists

    async def notify(self, id: str, question: Question, suggestions: tuple[Mapping[str, Any], ...]) -> None:
        """See LeadApprover. What cannot be sent is denied at once: nobody would see it."""
        if not self.answers(question):
            return
        try:
            await self.ask(id, question, suggestions, question.input)
        except TeamwrightError as problem:
            reason = f"the lead could not be asked: {problem.what}"
            if self.requests is not None:
                await self.requests.answer(id, RequestAnswer(verdict="deny", text=reason, by="policy"))

    async def notify_expired(self, id: str, question: Question, reason: str) -> None:
        """See LeadApprover. Its own program shows the request as it likes."""


def _answer(message: PermissionResponse, asked: Mapping[str, Any]) -> RequestAnswer:
    """What the mail says. An input that is as it was asked changes nothing; anything but a plain yes is a no."""
    response = cast("object", message.response)
    if message.subtype != "success" or not isinstance(response, dict):
        return RequestAnswer(verdict="deny", text=str(message.error or "Permission denied"), by=LEAD_SAYS)
    given = cast("dict[str, Any]", response)
    updated: Any = given.get("updated_input")
    updates = given.get("permission_updates")
    changed = cast("dict[str, Any]", updated) if isinstance(updated, dict) and updated and updated != asked else None
    granted = tuple(cast("list[Mapping[str, Any]]", updates)) if isinstance(updates, list) else ()
    return RequestAnswer(verdict="allow", input=changed, updates=granted, by=LEAD_SAYS)
