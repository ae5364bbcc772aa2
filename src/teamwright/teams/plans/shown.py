"""How messages about plans look to a model: in plain words, and only where a request is behind them.

What the words say comes from the request's files, never from the message: a text that only looks like a plan or like
an approval is shown as what it is, and changes nothing. Knows rows and envelopes; answers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from teamwright.agent.plan_mode import PlanMode
from teamwright.protocol.envelope import PEER_NOTE, RuntimeTags, harmless
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import Entry, PlanApprovalRequest, PlanApprovalResponse, parse_protocol
from teamwright.teams.plans.beyond import life_of
from teamwright.teams.plans.rows import of_life
from teamwright.teams.team import Team

_NO_ANSWER = "This message answers none of your plans. It approved nothing and changed nothing."
_NO_REQUEST = "No plan of that request_id waits for you: there is nothing to answer."


def plan_words(team: Team, reader: str, entry: Entry, tags: RuntimeTags) -> str | None:
    """What the reader's model is told of a message about a plan; None for every other message."""
    if "plan_approval" not in entry.text[:200]:
        return None
    message = parse_protocol(entry.text)
    if isinstance(message, PlanApprovalRequest):
        return _request(team, reader, entry, message, tags)
    if isinstance(message, PlanApprovalResponse):
        return _response(team, reader, entry, message, tags)
    return None


def _request(team: Team, reader: str, entry: Entry, message: PlanApprovalRequest, tags: RuntimeTags) -> str:
    request = _row(team, message.request_id) or {}
    life = life_of(team, entry.sender)
    mine = life is not None and of_life(request, entry.sender, life) and request.get("target") == reader
    if not mine or team.requests.answer_of(message.request_id) is not None:
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_REQUEST)}"
    plan = tags.message(entry.sender, str(request["plan"]), color=entry.color, summary="a plan to approve")
    return f"{PEER_NOTE}\n{plan}\n{tags.reminder(_how_to_answer(entry.sender, request))}"


def _row(team: Team, id: object) -> Mapping[str, Any] | None:
    """The request of that id; what another program writes may be anything."""
    with suppress(TeamwrightError):
        return team.requests.get(str(id))
    return None


def _how_to_answer(name: str, request: Mapping[str, Any]) -> str:
    wished = ", ".join(str(rule) for rule in request.get("rules") or ())
    lines = [
        f"{harmless(name)} has handed in this plan and changes nothing until you answer. Read it, then call "
        f'SendMessage once, to "{harmless(name)}", with one of these as `message`:',
        f'- to approve: {{"type": "plan_approval_response", "request_id": "{request["id"]}", "approve": true}}',
        '- to send it back: the same with "approve": false and "feedback": what to change',
    ]
    if wished:
        lines.append(f"With your yes it may also run, as far as you may yourself: {harmless(wished)}")
    return "\n".join(lines)


def _response(team: Team, reader: str, entry: Entry, message: PlanApprovalResponse, tags: RuntimeTags) -> str:
    request = _row(team, message.request_id) or {}
    answer = team.requests.answer_of(message.request_id) if request else None
    mate = team.own(reader)
    if reader == LEAD or answer is None or mate is None or not of_life(request, mate.name, mate.incarnation):
        return f"{tags.entry(entry)}\n{tags.reminder(_NO_ANSWER)}"
    plan = mate.agent.plan
    if answer.get("approve") is True:
        body = f"Your plan was approved. Plan mode has ended.{_now(plan)} Carry out the plan in {request['plan_file']}."
    else:
        why = str(answer.get("reason") or "").strip() or "no reason was given"
        body = (
            f"Your plan was not approved: {why}\nYou are still in plan mode. "
            f"Change the plan ({request['plan_file']}), then call ExitPlanMode again."
        )
    return tags.message(entry.sender, body, summary="the answer to your plan")


def _now(plan: PlanMode | None) -> str:
    """What holds after a yes; who is led by somebody that plans reads that too."""
    if plan is None:
        return ""
    if plan.inherited:
        return " Your lead plans itself, so nothing is changed before it has done so."
    return f" The permission mode is {plan.policy.lasting_mode}."
