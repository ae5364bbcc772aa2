"""Shutdown requests: a member may object within the deadline, and is ended when it does not answer.

A request is a file, bound to requester, target and incarnation; silence of a model keeps no member alive. A server of
the user that computes is not silent: the deadline begins again while such a server works on the member's answer, or its
call waits for a slot there, for the call that runs and the next one, which tells the member of the request. Depends on
the team and on the end of members.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from teamwright.agent.conversation import Conversation
from teamwright.models.model import SLOT_WAIT
from teamwright.models.model_settings import FIRST_CONTENT_S
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, iso_time, keyed_id, lead_stop_error, now_ms, shutdown_id
from teamwright.protocol.mail import ShutdownApproved, ShutdownRejected, ShutdownRequest
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_status import MemberStatus
from teamwright.teams.external_plans import bound_incarnation
from teamwright.teams.outgoing_mail import find_recipient, send_protocol
from teamwright.teams.shutdown import kill, remove_crashed
from teamwright.teams.shutdown_answers import SHUT_DOWN, is_shutdown_request, shutdown_answer
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate


async def ask_to_stop(
    team: SessionTeam,
    to: str,
    reason: str,
    deadlines: set[asyncio.Task[None]],
    *,
    call: str = "",
) -> str:
    """Send a member the lead's request to stop, with a deadline from now; returns the request's id.

    A crashed member is removed at once, without a request. `call` names the requesting call: repeated after a kill, it
    returns the existing request. Raises UnknownMember, and TeamRefused when the member was asked already.
    """
    if call and (before := _find_request_by_call(team, call)):
        return before
    name = team.recipient(to, "nothing was sent")
    if await remove_crashed(team, name, "removed after it had crashed"):
        return shutdown_id(name)
    whom = await _find_stop_target(team, to)
    request_id = shutdown_id(whom.name)
    body = {
        "kind": "shutdown",
        "requester": LEAD,
        "target": whom.name,
        "incarnation": whom.incarnation,
        "reason": reason,
        "opened_at": now_ms(),
        "deadline": now_ms() + int(team.settings.shutdown_objection_s * 1000),
        "call": call,
    }
    team.requests.open(request_id, body)
    if whom.teammate is not None:
        whom.teammate.stop_request_id = request_id
    try:
        await send_stop_request(team, whom.name, body | {"id": request_id})
    except BaseException:
        if whom.teammate is not None:
            whom.teammate.stop_request_id = ""
        team.requests.answer(request_id, shutdown_answer(False, "it could not be sent"))
        raise
    start_deadline(team, whom, request_id, deadlines)
    return request_id


class StopTarget(Struct, frozen=True):
    """The target of a request to stop. `teammate` is None, and `incarnation` 0, for a member that another program put
    on the roster.
    """

    name: str
    incarnation: int
    teammate: Teammate | None = None

    @classmethod
    def from_teammate(cls, teammate: Teammate) -> StopTarget:
        """Return the target for a member that this process runs, or has started."""
        return cls(teammate.name, teammate.incarnation, teammate)


async def _find_stop_target(team: SessionTeam, to: str) -> StopTarget:
    """Return the member of that name, if it is alive as far as known, and was not asked yet."""
    member = await find_recipient(team, to)
    if member.name == LEAD:
        raise lead_stop_error(["End your turn when the work is done."])
    teammate = team.find(member.name)
    if teammate is None and member.name.lower() not in team.external.external_names:
        raise TeamRefused(
            "team-refused",
            f"{member.name} does not run in this process",
            do=["It is ended where it runs: leave it alone."],
            note="nothing was sent",
        )
    whom = StopTarget.from_teammate(teammate) if teammate is not None else StopTarget(member.name, 0)
    before = teammate.stop_request_id if teammate is not None else _find_open_request(team, whom)
    if before:
        raise TeamRefused("team-refused", f"{whom.name} was asked to stop already ({before})", note="nothing was sent")
    return whom


def _find_open_request(team: SessionTeam, target: StopTarget) -> str:
    """Return the id of the open request to stop of that incarnation; empty when there is none."""
    open_requests = team.requests.open_requests()
    return next(
        (
            str(request["id"])
            for request in open_requests
            if is_shutdown_request(request, target.name, target.incarnation)
        ),
        "",
    )


def _find_request_by_call(team: SessionTeam, call: str) -> str:
    """Return the request that this call made before a kill, in any state; empty when it made none."""
    requests = [*team.requests.open_requests(), *(request for request, _ in team.requests.answered_requests())]
    return next((str(request["id"]) for request in requests if request.get("call") == call), "")


async def send_stop_request(team: SessionTeam, name: str, body: Mapping[str, Any], *, is_rerun: bool = False) -> None:
    """Put a shutdown request into the member's inbox as a message with a separate id."""
    id = str(body["id"])
    if is_rerun and await team.mailbox(name).contains(id):
        return
    reason = str(body.get("reason") or "") or None
    request = ShutdownRequest(request_id=id, sender=LEAD, reason=reason, timestamp=iso_time())
    await send_protocol(team, LEAD, name, request, id=id)


def start_deadline(team: SessionTeam, target: StopTarget, request_id: str, deadlines: set[asyncio.Task[None]]) -> None:
    """Start the deadline for an objection, after which the runtime ends the member."""
    timer = asyncio.create_task(_enforce_deadline(team, target, request_id), name=f"deadline of {request_id}")
    deadlines.add(timer)
    timer.add_done_callback(deadlines.discard)


async def answer_stop(
    team: SessionTeam, name: str, request_id: str, approve: bool, reason: str, *, is_rerun: bool = False
) -> bool:
    """Answer a member's own open request. Returns True when the member leaves.

    `is_rerun`: a kill interrupted the answer before; the recorded answer counts.
    Raises UsageError for an objection without a reason, and TeamRefused for an id that is not open for it.
    """
    teammate = team.find_in_process(name)
    before = team.requests.get_answer(request_id)
    if before is not None and is_rerun and before.get("by") == name:
        approve = before.get("approve") is True
        reason = str(before.get("reason", ""))
    elif before is not None:
        teammate = None
    if teammate is None or not is_stop_request_open(team, name, request_id):
        raise TeamRefused(
            "team-refused",
            f"{request_id!r} is not an open shutdown request to {name}",
            do=["Use the request_id of the shutdown_request that you were sent."],
            note="nothing was answered",
        )
    if not approve and not reason.strip():
        raise UsageError("usage", "an objection needs a reason", note="nothing was answered")
    if before is None and not team.requests.answer(request_id, shutdown_answer(approve, reason, name)):
        raise TeamRefused("team-refused", f"{request_id} was answered already", note="nothing was answered")
    if approve:
        teammate.end_cause = SHUT_DOWN
        return True
    teammate.note_objection()
    id = keyed_id("objected", request_id)
    if not (is_rerun and await team.mailbox(LEAD).contains(id)):
        rejection = ShutdownRejected(request_id=request_id, sender=name, reason=reason, timestamp=iso_time())
        await send_protocol(team, name, LEAD, rejection, id=id)
    teammate.turn_notes.wrote_lead = True
    return False


def is_stop_request_open(team: SessionTeam, name: str, request_id: str) -> bool:
    """Return True when that request is open and was made to this incarnation of the member."""
    teammate = team.find(name)
    request = team.requests.get(str(request_id)) if teammate is not None else None  # other programs may write anything
    return teammate is not None and request is not None and is_shutdown_request(request, name, teammate.incarnation)


def find_read_request(
    team: SessionTeam, name: str, incarnation: int, conversation: Conversation
) -> ShutdownRequest | None:
    """Return the open request to stop that this incarnation had read before a kill, and had not answered."""
    for request in team.requests.open_requests():
        id = str(request["id"])
        brought = str(request.get("message") or id)  # a lead that is another program uses a separate message id
        if is_shutdown_request(request, name, incarnation) and conversation.delivered_ids({f"mail:{brought}"}):
            reason = str(request.get("reason") or "") or None
            return ShutdownRequest(request_id=id, sender=LEAD, reason=reason, timestamp=iso_time())
    return None


def apply_mailed_answer(team: SessionTeam, name: str, message: ShutdownApproved | ShutdownRejected) -> bool:
    """Apply the mailed answer of an external member to a request to stop; False for a request that is
    not open for it.
    """
    incarnation = bound_incarnation(team, name)
    try:
        request = team.requests.get(message.request_id)
        if incarnation is None or request is None or not is_shutdown_request(request, name, incarnation):
            return False
        approve = isinstance(message, ShutdownApproved)
        reason = "" if isinstance(message, ShutdownApproved) else str(message.reason or "")
        if not team.requests.answer(message.request_id, shutdown_answer(approve, reason, name)):
            return False
    except (TeamwrightError, TypeError, AttributeError):  # other programs may write anything
        return False
    if (followed := team.external.listeners.get(name.lower())) is not None:
        (followed.note_agreement if approve else followed.note_objection)()
    return True


LOOK_EVERY_S = 1.0
"""Seconds between two looks at what a member does that was asked to stop."""


async def _wait_for_end(team: SessionTeam, name: str, run: asyncio.Task[None], limit_s: float) -> None:
    """Wait until the member has ended, at most so many seconds after its server was last seen to compute."""
    loop = asyncio.get_running_loop()
    late_at = loop.time() + limit_s
    member = team.status.members.get(name)
    most_calls = 1 + (member.model_calls if member is not None else 0)
    while not run.done() and (left_s := late_at - loop.time()) > 0:
        await asyncio.wait({run}, timeout=min(left_s, LOOK_EVERY_S))
        member = team.status.members.get(name)
        if member is not None and member.model_calls <= most_calls and is_computed_for(member):
            late_at = loop.time() + limit_s


def is_computed_for(member: MemberStatus) -> bool:
    """Return True while a server of the user works on the member's answer, or its call waits for a slot there.

    Such a server reads the prompt, or the answer grows. What was last heard of a process that hangs is not believed for
    longer than a server may take until an answer begins.
    """
    if time.time() - member.doing_since > FIRST_CONTENT_S:
        return False
    return (member.own_server and not member.stalled) or (member.doing == "pause" and member.what == SLOT_WAIT)


async def _enforce_deadline(team: SessionTeam, target: StopTarget, request_id: str) -> None:
    """End the member when the deadline passes without an answer. Stops as soon as the member has ended."""
    limit_s = team.settings.shutdown_objection_s
    teammate = target.teammate
    if teammate is None:
        await asyncio.sleep(limit_s)
    elif teammate.run_task is not None:
        await _wait_for_end(team, teammate.name, teammate.run_task, limit_s)
    if teammate is not None and (teammate.state in ENDED_STATES or teammate.end_cause):
        return
    if not team.exists or team.requests.get_answer(request_id) is not None:
        return
    late = f"did not answer the shutdown request within {limit_s:.0f} s"
    if teammate is not None:
        team.requests.answer(request_id, shutdown_answer(True, "no answer in time"))
        await kill(team, teammate, late)
    elif target.name.lower() in team.external.external_names:
        team.requests.answer(request_id, shutdown_answer(True, "no answer in time"))
        team.external.note_ended(target.name, f"it {late}; whether its program still runs is not known")
