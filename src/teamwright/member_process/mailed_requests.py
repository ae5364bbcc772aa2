"""Permission requests of a member to an external lead, by mail, and the grants that come with an approval.

The queue is the one of every run: a hook or another terminal of the user may answer too, and the first answer counts.
The description of a call is sent whole, or not at all. A grant is for this incarnation of the member, within bounds:
nothing is saved permanently, bypassPermissions is never granted at run time, and the deny rules of the member's own
settings always apply. Depends on the queue, mail and policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.approvals.lead_agent_approval import LeadApprover
from teamwright.approvals.request_queue import RequestQueue
from teamwright.external.roster import MembershipFile
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Emit, ModeChanged, Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import PermissionResponse
from teamwright.protocol.pending_request_events import RequestAnswer
from teamwright.session.agents.policies import AgentPolicies
from teamwright.teams.team import SessionTeam

LEAD_SAYS = "lead"
"""The approver of a request that the lead's mail answers."""


class MailedRequests(Struct):
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


def _answer(message: PermissionResponse, requested_input: Mapping[str, Any]) -> RequestAnswer:
    """Return the answer in the mail. An unchanged input is dropped; every other text than an approval denies."""
    response = cast("object", message.response)
    if message.subtype != "success" or not isinstance(response, dict):
        return RequestAnswer(verdict="deny", text=str(message.error or "Permission denied"), by=LEAD_SAYS)
    fields = cast("dict[str, Any]", response)
    updated: Any = fields.get("updated_input")
    updates = fields.get("permission_updates")
    changed = (
        cast("dict[str, Any]", updated)
        if isinstance(updated, dict) and updated and updated != requested_input
        else None
    )
    granted = tuple(cast("list[Mapping[str, Any]]", updates)) if isinstance(updates, list) else ()
    return RequestAnswer(verdict="allow", input=changed, updates=granted, by=LEAD_SAYS)


_SOURCE = "granted by the lead's mail"


class ExternalLeadGrants(Struct):
    """Grants to the member of this name. `file` keeps its mode for its next process."""

    name: str
    policies: AgentPolicies
    emit: Emit
    file: MembershipFile
    may_bypass: bool

    async def __call__(self, owner: str, policy: Policy, answer: PermissionAnswer) -> None:
        """Implement the grant port of `agent`. A grant that fails is reported and left out. Never raises."""
        for update in answer.updates:
            try:
                if update.kind == "setMode":
                    self._enter(check_mode(update, policy.effective_mode))
                else:
                    self._hold(replace(update, destination="session"))
            except TeamwrightError as problem:
                self._tell(f"not granted: {problem.what}")

    def in_mode(self, text: str) -> None:
        """Set the mode that the lead named with the approval of a plan, as far as it is allowed."""
        wished = next((mode for mode in Mode if mode == text), None)
        if wished is Mode.BYPASS and not self.may_bypass:
            self._tell(f"{Mode.BYPASS} is not granted to a running member: the mode is {Mode.ACCEPT_EDITS}")
            wished = Mode.ACCEPT_EDITS
        try:
            if wished is not Mode.BYPASS:
                wished = check_mode(
                    PermissionUpdate("setMode", mode=text if wished is None else str(wished)), Mode.DEFAULT
                )
            self._enter(wished, is_announced=True)
        except TeamwrightError as problem:
            self._tell(f"the mode stays as it was: {problem.what}")

    def _enter(self, mode: Mode, *, is_announced: bool = False) -> None:
        """Bound the member and its sub-agents by this mode from the next call on. Raises UsageError."""
        session = self.policies.session
        if mode is Mode.PLAN:
            raise UsageError("usage", "only the member can enter plan mode, or it is started in it")
        if session.mode is mode:
            return
        session.change_mode(mode)
        self.file.change(mode=str(mode))
        if not is_announced:
            self.emit(ModeChanged(member=self.name, mode=str(mode), by="lead"))

    def _hold(self, update: PermissionUpdate) -> None:
        for one in list(self.policies):
            if one.mode is not Mode.BUBBLE:
                one.apply_update(update, _SOURCE, by_user=False)

    def _tell(self, text: str) -> None:
        self.emit(Notice(member=self.name, text=text, level="warning"))
