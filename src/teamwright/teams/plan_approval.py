"""Approval of a member's plan: one request for each submission, one answer to a request, one mode change for an answer.

The request is a file bound to the incarnation that made it; the first answer counts. Only that file ends plan mode,
never a message. The next process completes an interrupted step. Depends on the team, requests and mail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from teamwright.agent.plan_mode import PlanMode, PlanSubmission
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, iso_time, now_ms, plan_id
from teamwright.protocol.mail import PlanApprovalRequest, PlanApprovalResponse
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.external_plans import answer_external_plan, bound_incarnation
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.outgoing_mail import send_protocol
from teamwright.teams.plan_requests import (
    NO_PENDING_PLAN,
    PLAN_KIND,
    POLICY_APPROVER,
    USER_APPROVER,
    PendingPlan,
    answer_body,
    answer_message_id,
    find_plan_by_call,
    is_plan_of,
    newest_plan,
)
from teamwright.teams.team import SessionTeam

UNCHANGED_NOTE = "the plan stays as it was; nothing was answered"
"""The end of every refusal of an answer."""


async def submit_plan(
    team: SessionTeam, teammate: LocalTeammate, submission: PlanSubmission, approver: str, deadline_s: float | None
) -> str:
    """Open a request for this plan and notify its approver; returns its id, one for each call.

    `target` is the lead, `user` or `policy`; `deadline_s` in seconds, None: it waits for ever. Raises TeamRefused while
    another plan of the member waits, InboxFull, LockTimeout, StorageError; then no plan was submitted.
    """
    before = find_plan_by_call(team.requests, submission.call) if submission.is_rerun else None
    request_id = (
        str(before["id"]) if before is not None else _open_request(team, teammate, submission, approver, deadline_s)
    )
    if team.requests.get_answer(request_id) is None:
        mode = _require_plan_mode(teammate)
        mode.set_pending_request(request_id)
        teammate.pending_plan = PendingPlan(request_id, approver)
        try:
            await _notify_approver(team, teammate, request_id, is_rerun=before is not None)
        except BaseException:
            team.requests.answer(request_id, answer_body(False, "it could not be handed in", "system"))
            mode.set_pending_request("")
            teammate.pending_plan = NO_PENDING_PLAN
            raise
        teammate.turn_notes.wrote_lead = True
    return request_id


def _open_request(
    team: SessionTeam, teammate: LocalTeammate, submission: PlanSubmission, approver: str, deadline_s: float | None
) -> str:
    if teammate.pending_plan.is_open:
        raise TeamRefused(
            "team-refused",
            f"a plan of {teammate.name} waits already ({teammate.pending_plan.request_id})",
            note=UNCHANGED_NOTE,
        )
    now = now_ms()
    while team.requests.get(request_id := plan_id(teammate.name, team.name, now)) is not None:
        now += 1  # two submissions within a millisecond
    body = {
        "kind": PLAN_KIND,
        "requester": teammate.name,
        "target": approver,
        "incarnation": teammate.incarnation,
        "opened_at": now,
        "deadline": None if deadline_s is None else now + int(deadline_s * 1000),
        "plan": submission.plan,
        "plan_file": str(submission.file),
        "rules": list(submission.rules),
        "call": submission.call,
        "tool_use_id": submission.tool_use_id,
    }
    team.requests.open(request_id, body)
    return request_id


async def _notify_approver(team: SessionTeam, teammate: LocalTeammate, request_id: str, *, is_rerun: bool) -> None:
    request = team.requests.get(request_id) or {}
    if request.get("target") == LEAD:
        message = PlanApprovalRequest(
            sender=teammate.name,
            timestamp=iso_time(),
            plan_file_path=str(request["plan_file"]),
            plan_content=str(request["plan"]),
            request_id=request_id,
        )
        async with team.plan_lock:
            if not (is_rerun and await team.mailbox(LEAD).contains(request_id)):
                await send_protocol(team, teammate.name, LEAD, message, id=request_id)
    if team.ports.on_plan is not None and request:
        team.ports.on_plan(request)


# ── answering ────────────────────────────────────────────────────────────────────────────────────────────────────


async def answer_plan(
    team: SessionTeam, request_id: str, answer: PermissionAnswer, call: str = "", *, is_rerun: bool = False
) -> str:
    """Answer an open request of a live member; the first answer counts. Returns the member's name.

    `answer.by` is the lead, `user`, `policy`, or `deadline`; a granted mode follows plan mode. `call` names the
    answering call; `is_rerun`: a kill interrupted it before. Raises TeamRefused for a request that is not open, is
    another's to answer, or was answered already.
    """
    request = team.requests.get(request_id) or {}
    name = str(request.get("requester", ""))
    incarnation = bound_incarnation(team, name)
    teammate = team.find(name)
    if incarnation is None or not is_plan_of(request, name, incarnation):
        raise _refusal(f"{request_id[:120]!r} is not an open plan request of anybody here")
    if answer.by == LEAD and request.get("target") != LEAD:
        whose = "the user" if request.get("target") == USER_APPROVER else "a setting"
        raise _refusal(f"the plan of {name} is approved by {whose}, not by you")
    before = team.requests.get_answer(request_id)
    if before is None:
        mode = next((str(update.mode) for update in answer.updates if update.kind == "setMode"), "")
        body = answer_body(answer.allowed, answer.text, answer.by, mode=mode, call=call)
        if team.requests.answer(request_id, body):
            before = body
    elif not (is_rerun and call and before.get("call") == call):
        before = None
    if before is None:
        by = LEAD_ALIAS if (first := _first_approver(team, request_id)) == LEAD else first
        raise _refusal(f"{request_id} was answered before, by {by}; the first answer counts")
    if name.lower() in team.external.external_names:
        await answer_external_plan(team, name, request, before)
    elif isinstance(teammate, ProcessTeammateBase):
        await teammate.perform("plan_answered")  # its own process applies the file's answer
    elif isinstance(teammate, LocalTeammate):
        await _apply_and_notify(team, teammate, request, before)
    return name


def plan_author(team: SessionTeam, request_id: str) -> str:
    """Return the member that submitted the plan of this request; empty when there is none."""
    request = team.requests.get(request_id) or {}
    return str(request.get("requester") or "") if request.get("kind") == PLAN_KIND else ""


def _first_approver(team: SessionTeam, request_id: str) -> str:
    return str((team.requests.get_answer(request_id) or {}).get("by") or "system")


def _refusal(what: str) -> TeamRefused:
    return TeamRefused(
        "team-refused", what, do=["Use the request_id of a plan that waits for you."], note=UNCHANGED_NOTE
    )


async def _apply_and_notify(
    team: SessionTeam, teammate: LocalTeammate, request: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """Apply an answer, each step once: the mode changes, the member is notified and continues."""
    request_id = str(request["id"])
    approved = answer.get("approve") is True
    # requested rules count only when a reader approved them
    rules = [str(rule) for rule in request.get("rules") or ()] if answer.get("by") != POLICY_APPROVER else []
    mode = apply_answer(teammate, request, answer, rules)
    if request.get("target") != POLICY_APPROVER:
        message = PlanApprovalResponse(
            request_id=request_id,
            approved=approved,
            feedback=None if approved else str(answer.get("reason") or "") or None,
            timestamp=iso_time(),
            permission_mode=str(mode.policy.effective_mode) if approved else None,
        )
        sender = LEAD if answer.get("by") == LEAD else "user" if answer.get("by") == USER_APPROVER else "system"
        async with team.plan_lock:
            if not await team.mailbox(teammate.name).contains(answer_message_id(request_id)):
                await send_protocol(team, sender, teammate.name, message, id=answer_message_id(request_id))


def apply_answer(
    teammate: LocalTeammate, request: Mapping[str, Any], answer: Mapping[str, Any], granted: Sequence[str] = ()
) -> PlanMode:
    """Change the member's own mode as the answer says, once, and end its wait; `granted` are rules.

    Returns its plan mode. Raises StorageError, and TeamRefused for a member without plan mode.
    """
    mode = _require_plan_mode(teammate)
    if mode.pending_request == str(request["id"]):  # else it was applied before a kill, or the mode changed since
        if answer.get("approve") is True:
            if mode.read() != request["plan"]:
                mode.write(str(request["plan"]))  # the approved text is the plan to carry out
            by = str(answer.get("by") or "")
            call = str(request.get("call") or "")
            mode.leave(_granted_mode(answer), by=by, call=call, granted=granted)
        else:
            mode.set_pending_request("")
    teammate.pending_plan = NO_PENDING_PLAN
    return mode


def _granted_mode(answer: Mapping[str, Any]) -> Mode | None:
    """Return the mode granted with an approval, if any; plan mode itself does not count."""
    try:
        named = Mode(str(answer.get("mode") or ""))
    except ValueError:
        return None
    return None if named is Mode.PLAN else named


def _require_plan_mode(teammate: LocalTeammate) -> PlanMode:
    mode = teammate.agent.plan
    if mode is None:
        raise TeamRefused("team-refused", f"{teammate.name} cannot plan", note=UNCHANGED_NOTE)
    return mode


async def approve_by_mode_change(team: SessionTeam, teammate: LocalTeammate) -> None:
    """Approve a waiting plan, because a person set the member's mode. Raises InboxFull, StorageError."""
    mode = teammate.agent.plan
    if mode is not None and teammate.pending_plan.is_open and not mode.is_on:
        with suppress(TeamRefused):  # it was answered just now
            granted = PermissionUpdate("setMode", mode=str(mode.policy.mode))
            answer = PermissionAnswer(True, USER_APPROVER, updates=(granted,))
            await answer_plan(team, teammate.pending_plan.request_id, answer)


# ── resume ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def resume_plan(team: SessionTeam, teammate: LocalTeammate) -> None:
    """Resume the last plan of a resumed member: it waits again, or its answer is applied, once.

    Raises InboxFull, LockTimeout, StorageError.
    """
    request = newest_plan(team.requests, teammate.name, teammate.incarnation)
    if request is None or teammate.agent.plan is None:
        return
    answer = team.requests.get_answer(str(request["id"]))
    if answer is not None:
        await _apply_and_notify(team, teammate, request, answer)
        return
    teammate.agent.plan.set_pending_request(str(request["id"]))
    teammate.pending_plan = PendingPlan(str(request["id"]), str(request["target"]))
    await _notify_approver(team, teammate, str(request["id"]), is_rerun=True)
