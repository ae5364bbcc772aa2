"""Shutdown requests: a member is asked to stop, may object within the deadline, and is ended when it does not answer.

A request is a file, bound to requester, target and incarnation; no model's silence keeps a member alive. Knows the
team and how a member is ended; knows no tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from teamwright.agent.conversation import Conversation
from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, addressee, keyed_id, shutdown_id
from teamwright.protocol.mail import ShutdownApproved, ShutdownRejected, ShutdownRequest
from teamwright.protocol.values import dataclass
from teamwright.teams.ending import bound, kill, remove_crashed, verdict
from teamwright.teams.lifecycle import GONE
from teamwright.teams.mailing.post import recipient, send_protocol
from teamwright.teams.member.mate import Mate
from teamwright.teams.plans.beyond import life_of
from teamwright.teams.team import Team


async def ask_to_stop(
    team: Team,
    to: str,
    reason: str,
    deadlines: set[asyncio.Task[None]],
    *,
    call: str = "",
) -> str:
    """The lead asks a member to stop; returns the request's id. The deadline runs from now.

    `call` names the call that asks: made again after a kill, it gives the request that is there. Raises UnknownMember,
    and TeamRefused when it was asked already.
    """
    if call and (before := _asked_by(team, call)):
        return before
    name = addressee(to, team.names)
    if await remove_crashed(team, name, "removed after it had crashed"):
        return shutdown_id(name)
    whom = await _can_be_asked(team, to)
    request_id = shutdown_id(whom.name)
    body = {
        "kind": "shutdown",
        "requester": LEAD,
        "target": whom.name,
        "incarnation": whom.life,
        "reason": reason,
        "opened_at": now_ms(),
        "deadline": now_ms() + int(team.settings.shutdown_objection_s * 1000),
        "call": call,
    }
    team.requests.open(request_id, body)
    if whom.mate is not None:
        whom.mate.asked = request_id
    try:
        await send_request(team, whom.name, body | {"id": request_id})
    except BaseException:
        if whom.mate is not None:
            whom.mate.asked = ""
        team.requests.answer(request_id, verdict(False, "it could not be sent"))
        raise
    arm(team, whom, request_id, deadlines)
    return request_id


@dataclass(frozen=True, slots=True)
class Asked:
    """Who is asked to stop. `mate` is None, and `life` 0, for a member that another program put on the roster."""

    name: str
    life: int
    mate: Mate | None = None

    @classmethod
    def of(cls, mate: Mate) -> Asked:
        """A member that this process runs, or has started."""
        return cls(mate.name, mate.incarnation, mate)


async def _can_be_asked(team: Team, to: str) -> Asked:
    """The member of that name, which lives as far as anybody knows, and was not asked yet."""
    member = await recipient(team, to)
    if member.name == LEAD:
        raise TeamRefused(
            "team-refused",
            "the lead ends with its session, not by request",
            do=["End your turn when the work is done."],
            note="nothing was sent",
        )
    mate = team.find(member.name)
    if mate is None and member.name.lower() not in team.outside.strangers:
        raise TeamRefused(
            "team-refused",
            f"{member.name} does not run in this process",
            do=["It is ended where it runs: leave it alone."],
            note="nothing was sent",
        )
    whom = Asked.of(mate) if mate is not None else Asked(member.name, 0)
    before = mate.asked if mate is not None else _open_to(team, whom)
    if before:
        raise TeamRefused("team-refused", f"{whom.name} was asked to stop already ({before})", note="nothing was sent")
    return whom


def _open_to(team: Team, whom: Asked) -> str:
    """The id of the open request to stop of that life; empty when there is none."""
    made = team.requests.open_requests()
    return next((str(request["id"]) for request in made if bound(request, whom.name, whom.life)), "")


def _asked_by(team: Team, call: str) -> str:
    """The request that this call made before a kill, whatever became of it since; empty when it made none."""
    made = [*team.requests.open_requests(), *(request for request, _ in team.requests.answered())]
    return next((str(request["id"]) for request in made if request.get("call") == call), "")


async def send_request(team: Team, name: str, body: Mapping[str, Any], *, again: bool = False) -> None:
    """The notice of a shutdown request, in the member's inbox under an id of its own."""
    id = str(body["id"])
    if again and await team.inbox(name).has(id):
        return
    reason = str(body.get("reason") or "") or None
    request = ShutdownRequest(request_id=id, sender=LEAD, reason=reason, timestamp=iso())
    await send_protocol(team, LEAD, name, request, id=id)


def arm(team: Team, whom: Asked, request_id: str, deadlines: set[asyncio.Task[None]]) -> None:
    """From now on the member has so long to object; then the runtime ends it."""
    timer = asyncio.create_task(_enforce(team, whom, request_id), name=f"deadline of {request_id}")
    deadlines.add(timer)
    timer.add_done_callback(deadlines.discard)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a member answers to a request to stop. `again`: a kill cut the answering off before."""

    approve: bool
    reason: str = ""
    again: bool = False


async def answer_stop(team: Team, name: str, request_id: str, given: Answer) -> bool:
    """A member's answer to its own open request: True when it leaves.

    Raises UsageError for an objection without a reason, and TeamRefused for an id that is not open for it.
    """
    mate = team.own(name)
    before = team.requests.answer_of(request_id)
    if before is not None and given.again and before.get("by") == name:
        given = replace(given, approve=before.get("approve") is True, reason=str(before.get("reason", "")))
    elif before is not None:
        mate = None
    approve, reason = given.approve, given.reason
    if mate is None or not stop_is_open(team, name, request_id):
        raise TeamRefused(
            "team-refused",
            f"{request_id!r} is not an open shutdown request to {name}",
            do=["Use the request_id of the shutdown_request that you were sent."],
            note="nothing was answered",
        )
    if not approve and not reason.strip():
        raise UsageError("usage", "an objection needs a reason", note="nothing was answered")
    if before is None and not team.requests.answer(request_id, verdict(approve, reason, name)):
        raise TeamRefused("team-refused", f"{request_id} was answered already", note="nothing was answered")
    if approve:
        mate.leaving = "shut down on request"
        return True
    mate.objected()
    id = keyed_id("objected", request_id)
    if not (given.again and await team.inbox(LEAD).has(id)):
        told = ShutdownRejected(request_id=request_id, sender=name, reason=reason, timestamp=iso())
        await send_protocol(team, name, LEAD, told, id=id)
    mate.notes.wrote_lead = True
    return False


def stop_is_open(team: Team, name: str, request_id: str) -> bool:
    """Whether that request is open and was made to this life of the member."""
    mate = team.find(name)
    request = team.requests.get(str(request_id)) if mate is not None else None  # another program may write anything
    return mate is not None and request is not None and bound(request, name, mate.incarnation)


def stop_read(team: Team, name: str, incarnation: int, conversation: Conversation) -> ShutdownRequest | None:
    """The open request to stop that this life of the member had read before a kill, and had not answered."""
    for request in team.requests.open_requests():
        id = str(request["id"])
        brought = str(request.get("message") or id)  # of a lead that another program is, under an id of its own
        if bound(request, name, incarnation) and conversation.holds({f"mail:{brought}"}):
            reason = str(request.get("reason") or "") or None
            return ShutdownRequest(request_id=id, sender=LEAD, reason=reason, timestamp=iso())
    return None


def answered_by_mail(team: Team, name: str, message: ShutdownApproved | ShutdownRejected) -> bool:
    """What a member that another program runs wrote to a request to stop; False for one that is not open for it."""
    life = life_of(team, name)
    try:
        request = team.requests.get(message.request_id)
        if life is None or request is None or not bound(request, name, life):
            return False
        approve = isinstance(message, ShutdownApproved)
        reason = "" if isinstance(message, ShutdownApproved) else str(message.reason or "")
        if not team.requests.answer(message.request_id, verdict(approve, reason, name)):
            return False
    except (TeamwrightError, TypeError, AttributeError):  # what another program writes may be anything
        return False
    if (followed := team.outside.followed.get(name.lower())) is not None:
        (followed.agreed if approve else followed.objected)()
    return True


async def _enforce(team: Team, whom: Asked, request_id: str) -> None:
    """Nobody answered in time: the runtime ends the member. Over as soon as the member is."""
    limit_s, mate = team.settings.shutdown_objection_s, whom.mate
    if mate is None:
        await asyncio.sleep(limit_s)
    elif mate.task is not None:
        await asyncio.wait({mate.task}, timeout=limit_s)
    if mate is not None and (mate.state in GONE or mate.leaving):
        return
    if not team.exists or team.requests.answer_of(request_id) is not None:
        return
    late = f"did not answer the shutdown request within {limit_s:.0f} s"
    if mate is not None:
        team.requests.answer(request_id, verdict(True, "no answer in time"))
        await kill(team, mate, late)
    elif whom.name.lower() in team.outside.strangers and team.outside.on_over is not None:
        team.requests.answer(request_id, verdict(True, "no answer in time"))
        team.outside.on_over(whom.name, f"it {late}; whether its program still runs is not known")
