"""Plans of members that other programs run: a request for each plan that arrives by mail, and its answer by mail.

The member's program applies the answer. Depends on requests, mail and the team.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, Verdict
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, iso_time, now_ms
from teamwright.protocol.mail import PlanApprovalRequest, PlanApprovalResponse
from teamwright.protocol.members import MemberState
from teamwright.protocol.time_limit import time_limit
from teamwright.teams.mode_rank import MODE_RANK
from teamwright.teams.outgoing_mail import send_protocol
from teamwright.teams.plan_requests import NO_PENDING_PLAN, PLAN_KIND, PendingPlan, answer_message_id
from teamwright.teams.team import SessionTeam

_EXTERNAL_MODES = (Mode.DONT_ASK, Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.BYPASS)
"""Modes that another program may receive; planning, delegating and bubbling work differently there."""


ANSWER_DELAY_S = 2.0
"""Seconds after its request before a plan is answered to a member that this process did not start."""

MAX_TURN_WAIT_S = 10.0
"""Seconds that an answer waits for the end of the turn of a member that this process started."""


def mode_for_external(lead: Policy, requested: Mode | None = None) -> Mode:
    """Return the mode that another program receives: the requested one, never more than the lead's.

    It is not bypassPermissions when a deny rule or path ownership restricts the lead: that program knows neither.
    """
    above = lead.effective_mode if lead.effective_mode in _EXTERNAL_MODES else Mode.DEFAULT
    mode = (
        requested
        if requested is not None and requested in _EXTERNAL_MODES and MODE_RANK[requested] <= MODE_RANK[above]
        else above
    )
    is_restricted = lead.scope.ownership is not None or any(rule.verdict is Verdict.DENY for rule in lead.rules)
    return Mode.ACCEPT_EDITS if mode is Mode.BYPASS and is_restricted else mode


def bound_incarnation(team: SessionTeam, name: str) -> int | None:
    """Return the incarnation to which a member's requests are bound; 0 for one that we did not start, None for an
    unknown name.
    """
    if (teammate := team.find(name)) is not None:
        return teammate.incarnation
    return 0 if name.lower() in team.external.external_names else None


def open_external_plan(
    team: SessionTeam, name: str, message: PlanApprovalRequest, target: str, deadline_s: float | None
) -> Mapping[str, Any] | None:
    """Open a request for the plan of another program's member, under the plan's own id.

    Returns the new or existing request; None for an invalid one, with a warning.
    """
    id = message.request_id
    now = now_ms()
    body = {
        "kind": PLAN_KIND,
        "requester": name,
        "target": target,
        "incarnation": bound_incarnation(team, name),
        "plan": message.plan_content,
        "plan_file": message.plan_file_path,
    }
    times = {"opened_at": now, "deadline": None if deadline_s is None else now + int(deadline_s * 1000)}
    try:
        request = team.requests.get(id)
        if request is None:
            team.requests.open(id, body | times)
            request = team.requests.get(id) or {}
        if any(request.get(key) != body[key] for key in ("kind", "requester", "incarnation", "plan")):
            raise ValueError("its id is in use")
    except (TeamwrightError, ValueError, TypeError, AttributeError) as problem:
        why = problem.what if isinstance(problem, TeamwrightError) else str(problem)
        text = f"a plan of {name} cannot be answered: {why}"
        team.emit(Notice(member=name, text=text, level="warning"))
        return None
    if team.requests.get_answer(id) is None:
        _notify_listener(team, name, PendingPlan(id, str(request.get("target") or target)))
    return request


async def answer_external_plan(
    team: SessionTeam, name: str, request: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    """Send the answer to the member, once. Raises InboxFull, LockTimeout, StorageError."""
    id = str(request["id"])
    approved = answer.get("approve") is True
    try:
        wished = Mode(str(answer.get("mode") or ""))
    except ValueError:
        wished = None
    message = PlanApprovalResponse(
        request_id=id,
        approved=approved,
        feedback=None if approved else str(answer.get("reason") or "") or None,
        timestamp=iso_time(),
        permission_mode=str(mode_for_external(team.lead_policy, wished)) if approved else None,
    )
    await _wait_for_turn_end(team, name, request)
    _notify_listener(team, name, NO_PENDING_PLAN)
    async with team.plan_lock:
        if not await team.mailbox(name).contains(answer_message_id(id)):
            await send_protocol(team, LEAD, name, message, id=answer_message_id(id))
    followed = team.external.listeners.get(name.lower())
    if followed is not None and message.permission_mode is not None:
        followed.note_mode(message.permission_mode)


async def _wait_for_turn_end(team: SessionTeam, name: str, request: Mapping[str, Any]) -> None:
    """Wait for the end of the turn in which the member submitted its plan.

    The other product's newest version (2.1.330) starts no turn for an answer that it receives before that.
    """
    opened_at = request.get("opened_at")
    most = MAX_TURN_WAIT_S
    if team.find(name) is None:
        most = ANSWER_DELAY_S - ((now_ms() - opened_at) / 1000 if isinstance(opened_at, int) else 0.0)
    with suppress(TimeoutError):
        async with time_limit(most):
            while await _is_in_turn(team, name):
                team.changed.clear()
                await team.changed.wait()


async def _is_in_turn(team: SessionTeam, name: str) -> bool:
    """Return True when the member's turn may still run; the roster entry tells for one that this
    process did not start.
    """
    if (teammate := team.find(name)) is not None:
        return teammate.state in {MemberState.WORKING, MemberState.BLOCKED}
    entry = (await team.roster.read()).find(name)
    return entry is not None and entry.is_active is not False


def _notify_listener(team: SessionTeam, name: str, plan: PendingPlan) -> None:
    if (followed := team.external.listeners.get(name.lower())) is not None:
        followed.note_plan(plan)
