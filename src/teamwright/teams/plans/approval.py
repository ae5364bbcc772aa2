"""Approval of a member's plan: one request a round, one answer a request, one change of mode an answer.

The request is a file bound to the life that made it, and whoever is first answers it; plan mode ends by that file
alone, never by what somebody writes. A kill in between is seen through by the next process. Knows the team, requests
and mail; does not know how a person is asked, nor a tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from teamwright.agent.plan_mode import PlanMode, Submission
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, plan_id
from teamwright.protocol.mail import PlanApprovalRequest, PlanApprovalResponse
from teamwright.protocol.values import dataclass
from teamwright.teams.mailing.post import send_protocol
from teamwright.teams.member.away import Away
from teamwright.teams.plans.awaited import NOTHING_AWAITED, USER, Awaited
from teamwright.teams.plans.beyond import life_of, settle_beyond
from teamwright.teams.plans.rows import KIND, POLICY, answer_body, made_by, newest_of, of_life, told_under
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate

STANDS = "the plan stays as it was; nothing was answered"
"""The end of every refusal of an answer."""


async def hand_in(team: Team, mate: Teammate, given: Submission, target: str, deadline_s: float | None) -> str:
    """Open a request for this plan and tell whoever approves it; returns its id, one for each call.

    `target` is the lead, `user` or `policy`; `deadline_s` in seconds, None: it waits for ever. Raises TeamRefused
    while another plan of the member waits, InboxFull, LockTimeout, StorageError; then nothing was handed in.
    """
    before = made_by(team.requests, given.call) if given.again else None
    request_id = str(before["id"]) if before is not None else _opened(team, mate, given, target, deadline_s)
    if team.requests.answer_of(request_id) is None:
        mode = _mode(mate)
        mode.waits_for(request_id)
        mate.plan = Awaited(request_id, target)
        try:
            await _tell_approver(team, mate, request_id, again=before is not None)
        except BaseException:
            team.requests.answer(request_id, answer_body(False, "it could not be handed in", "system"))
            mode.waits_for("")
            mate.plan = NOTHING_AWAITED
            raise
        mate.notes.wrote_lead = True
    return request_id


def _opened(team: Team, mate: Teammate, given: Submission, target: str, deadline_s: float | None) -> str:
    if mate.plan.open:
        raise TeamRefused("team-refused", f"a plan of {mate.name} waits already ({mate.plan.request})", note=STANDS)
    now = now_ms()
    while team.requests.get(request_id := plan_id(mate.name, team.name, now)) is not None:
        now += 1  # two rounds within a millisecond
    body = {
        "kind": KIND,
        "requester": mate.name,
        "target": target,
        "incarnation": mate.incarnation,
        "opened_at": now,
        "deadline": None if deadline_s is None else now + int(deadline_s * 1000),
        "plan": given.plan,
        "plan_file": str(given.file),
        "rules": list(given.rules),
        "call": given.call,
        "tool_use_id": given.tool_use_id,
    }
    team.requests.open(request_id, body)
    return request_id


async def _tell_approver(team: Team, mate: Teammate, request_id: str, *, again: bool) -> None:
    request = team.requests.get(request_id) or {}
    if request.get("target") == LEAD:
        told = PlanApprovalRequest(
            sender=mate.name,
            timestamp=iso(),
            plan_file_path=str(request["plan_file"]),
            plan_content=str(request["plan"]),
            request_id=request_id,
        )
        async with team.planning:
            if not (again and await team.inbox(LEAD).has(request_id)):
                await send_protocol(team, mate.name, LEAD, told, id=request_id)
    if team.on_plan is not None and request:
        team.on_plan(request)


# ── answering ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """What is answered to a plan. `by` is the lead, `user`, `policy`, or `deadline`; `mode` comes after plan mode.

    `call` names the call that answers; `again`: a kill cut it off before.
    """

    approve: bool
    by: str
    feedback: str = ""
    mode: str = ""
    call: str = ""
    again: bool = False


async def answer_plan(team: Team, request_id: str, given: PlanAnswer) -> str:
    """Answer an open request of a member that lives; the first answer counts. Returns the member's name.

    Raises TeamRefused for what is not an open request, not this one's to answer, or answered already.
    """
    request = team.requests.get(request_id) or {}
    name = str(request.get("requester", ""))
    life, mate = life_of(team, name), team.find(name)
    if life is None or not of_life(request, name, life):
        raise _refused(f"{request_id[:120]!r} is not an open plan request of anybody here")
    if given.by == LEAD and request.get("target") != LEAD:
        whose = "the user" if request.get("target") == USER else "a setting"
        raise _refused(f"the plan of {name} is approved by {whose}, not by you")
    before = team.requests.answer_of(request_id)
    if before is None:
        body = answer_body(given.approve, given.feedback, given.by, mode=given.mode, call=given.call)
        if team.requests.answer(request_id, body):
            before = body
    elif not (given.again and given.call and before.get("call") == given.call):
        before = None
    if before is None:
        by = LEAD_ALIAS if (first := _first(team, request_id)) == LEAD else first
        raise _refused(f"{request_id} was answered before, by {by}; the first answer counts")
    if name.lower() in team.outside.strangers:
        await settle_beyond(team, name, request, before)
    elif isinstance(mate, Away):
        await mate.perform("plan_answered")  # its own process applies what the file says
    elif isinstance(mate, Teammate):
        await _settle(team, mate, request, before)
    return name


def whose_plan(team: Team, request_id: str) -> str:
    """The member that handed in the plan of this request; empty when there is none."""
    request = team.requests.get(request_id) or {}
    return str(request.get("requester") or "") if request.get("kind") == KIND else ""


def _first(team: Team, request_id: str) -> str:
    return str((team.requests.answer_of(request_id) or {}).get("by") or "system")


def _refused(what: str) -> TeamRefused:
    return TeamRefused("team-refused", what, do=["Use the request_id of a plan that waits for you."], note=STANDS)


async def _settle(team: Team, mate: Teammate, request: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """What follows from an answer, each step once: the mode changes, the member is told and goes on."""
    request_id, approved = str(request["id"]), answer.get("approve") is True
    # what it would like to be allowed counts only where somebody read it
    rules = [str(rule) for rule in request.get("rules") or ()] if answer.get("by") != POLICY else []
    mode = apply_answer(mate, request, answer, rules)
    if request.get("target") != POLICY:
        told = PlanApprovalResponse(
            request_id=request_id,
            approved=approved,
            feedback=None if approved else str(answer.get("reason") or "") or None,
            timestamp=iso(),
            permission_mode=str(mode.policy.lasting_mode) if approved else None,
        )
        sender = LEAD if answer.get("by") == LEAD else "user" if answer.get("by") == USER else "system"
        async with team.planning:
            if not await team.inbox(mate.name).has(told_under(request_id)):
                await send_protocol(team, sender, mate.name, told, id=told_under(request_id))


def apply_answer(
    mate: Teammate, request: Mapping[str, Any], answer: Mapping[str, Any], granted: Sequence[str] = ()
) -> PlanMode:
    """The member's own mode changes as the answer says, once, and it waits no longer; `granted` are rules.

    Returns its plan mode. Raises StorageError, and TeamRefused for a member that cannot plan.
    """
    mode = _mode(mate)
    if mode.waits == str(request["id"]):  # else it was applied before a kill, or somebody changed the mode meanwhile
        if answer.get("approve") is True:
            if mode.read() != request["plan"]:
                mode.write(str(request["plan"]))  # what was approved is what is carried out
            by, call = str(answer.get("by") or ""), str(request.get("call") or "")
            mode.leave(_named(answer), by=by, call=call, granted=granted)
        else:
            mode.waits_for("")
    mate.plan = NOTHING_AWAITED
    return mode


def _named(answer: Mapping[str, Any]) -> Mode | None:
    """The mode that was granted with a yes, where one was; plan mode is none to go on with."""
    try:
        named = Mode(str(answer.get("mode") or ""))
    except ValueError:
        return None
    return None if named is Mode.PLAN else named


def _mode(mate: Teammate) -> PlanMode:
    mode = mate.agent.plan
    if mode is None:
        raise TeamRefused("team-refused", f"{mate.name} cannot plan", note=STANDS)
    return mode


async def mode_was_set(team: Team, mate: Teammate) -> None:
    """A person set the member's mode: a plan that waited is answered by that. Raises InboxFull, StorageError."""
    mode = mate.agent.plan
    if mode is not None and mate.plan.open and not mode.on:
        with suppress(TeamRefused):  # it was answered just now
            await answer_plan(team, mate.plan.request, PlanAnswer(True, USER, mode=str(mode.policy.mode)))


# ── the next process ─────────────────────────────────────────────────────────────────────────────────────────────


async def take_up_plan(team: Team, mate: Teammate) -> None:
    """Go on with the last plan of a member that came back: it waits again, or its answer is applied, once.

    Raises InboxFull, LockTimeout, StorageError.
    """
    request = newest_of(team.requests, mate.name, mate.incarnation)
    if request is None or mate.agent.plan is None:
        return
    answer = team.requests.answer_of(str(request["id"]))
    if answer is not None:
        await _settle(team, mate, request, answer)
        return
    mate.agent.plan.waits_for(str(request["id"]))
    mate.plan = Awaited(str(request["id"]), str(request["target"]))
    await _tell_approver(team, mate, str(request["id"]), again=True)
