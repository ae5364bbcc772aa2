"""Questions of a person to the lead or a member of a team that another process leads, answered in passing."""

from __future__ import annotations

from teamwright.config.trust import require_person
from teamwright.protocol.errors import LimitExceeded, TeamwrightError, UsageError, error_from_json
from teamwright.protocol.ids import display_name
from teamwright.requests.outside_question import OutsideQuestion
from teamwright.saved.lead_request import TAKEN_S, LeadRequester, lead_process
from teamwright.saved.team_access import TeamAddress, external_error, runs_with_lead

ASKS = "asks members questions in passing"
"""The action that needs a person, in words."""

ANSWER_S = 120.0
"""Seconds for the answer, unless the person names another time."""


async def ask_member(target: TeamAddress, name: str, question: str, timeout_s: float | None = None) -> str:
    """Return the answer of a member, or of the lead, to a question that it does not remember.

    Raises UnknownMember; UsageError for an empty or too long question; TeamRefused for an external member, and when the
    model gives no answer; LimitExceeded when a cap is spent, or after `timeout_s` seconds; TeamwrightError (`failed`)
    when no process leads the team, or the process does not answer.
    """
    require_person(target.home, ASKS, f"ask {name}@{target.name}"[:100])
    if not question.strip():
        raise UsageError("usage", "the question is empty", do=["ask it in words"], note="nothing was asked")
    member = target.member(name)
    if target.file is None or not runs_with_lead(target, member):
        raise external_error(target, member.name)
    if not target.access.is_local:
        what = f'the process that leads "{target.name}" is reached only on its own machine'
        raise TeamwrightError("failed", what, do=["/btw QUESTION in its terminal"], note="nothing was asked")
    lead = target.lead() if target.is_led() else None
    if lead is None:
        what = f'no process runs the team "{target.name}" now'
        raise TeamwrightError("failed", what, do=[target.resume_command], note="nothing was asked")
    limit = timeout_s or ANSWER_S
    request = OutsideQuestion.new(member.name, question, lead_process(target), TAKEN_S + limit)
    requester = LeadRequester(target, request, lead)
    try:
        answer = await requester.answered(limit, min(TAKEN_S, limit))
        is_alive = lead.is_alive
    finally:
        lead.close()
    if answer is None:
        raise _no_answer(target, display_name(member.name), limit, begun=requester.is_acknowledged, alive=is_alive)
    if (failed := answer.get("failed")) is not None:
        raise error_from_json(failed)
    return str(answer["text"])


def _no_answer(target: TeamAddress, name: str, limit: float, *, begun: bool, alive: bool) -> TeamwrightError:
    if not alive:
        what = f'the process that led "{target.name}" ended before {name} answered'
        return TeamwrightError("failed", what, do=[target.resume_command], note="nothing was lost")
    if begun:
        return LimitExceeded("limit", f"{name} has not answered within {limit:g} s", note="the question is withdrawn")
    what = f'the process that leads "{target.name}" does not answer'
    return TeamwrightError("failed", what, do=[f"teamwright status {target.name}"], note="the question is withdrawn")
