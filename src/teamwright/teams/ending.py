"""Ending: asking a member to stop, its answer, the deadline, killing, and what the lead is told.

Ending belongs to the runtime: a request is a file, bound to requester, target and incarnation; a model may
object within the deadline, and no model's silence keeps a member alive. Knows the team; knows no tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import LEAD, shutdown_id
from teamwright.protocol.mail import ShutdownApproved, ShutdownRejected, ShutdownRequest, TeammateTerminated
from teamwright.teams.lifecycle import GONE, Event, State
from teamwright.teams.post import recipient, send_protocol
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate


async def ask_to_stop(team: Team, to: str, reason: str, deadlines: set[asyncio.Task[None]]) -> str:
    """The lead asks a member to stop; returns the request's id. The deadline runs from now.

    Raises UnknownMember, and TeamRefused when it was asked already.
    """
    member = await recipient(team, to)
    if member.name == LEAD:
        raise TeamRefused(
            "team-refused",
            "the lead ends with its session, not by request",
            do=["End your turn when the work is done."],
            note="nothing was sent",
        )
    mate = team.find(member.name)
    if mate is None:
        raise TeamRefused(
            "team-refused",
            f"{member.name} does not run in this process",
            do=["It is ended where it runs: leave it alone."],
            note="nothing was sent",
        )
    if mate.stop_request is not None:
        raise TeamRefused(
            "team-refused",
            f"{mate.name} was asked to stop already ({mate.stop_request.request_id})",
            note="nothing was sent",
        )
    request_id = shutdown_id(mate.name)
    limit_s = team.settings.shutdown_objection_s
    body = {
        "kind": "shutdown",
        "requester": LEAD,
        "target": mate.name,
        "incarnation": mate.incarnation,
        "reason": reason,
        "opened_at": now_ms(),
        "deadline": now_ms() + int(limit_s * 1000),
    }
    team.requests.open(request_id, body)
    request = ShutdownRequest(request_id=request_id, sender=LEAD, reason=reason or None, timestamp=iso())
    await send_protocol(team, LEAD, mate.name, request)
    timer = asyncio.create_task(_enforce(team, mate, request_id, limit_s), name=f"deadline of {request_id}")
    deadlines.add(timer)
    timer.add_done_callback(deadlines.discard)
    return request_id


async def answer_stop(team: Team, name: str, request_id: str, approve: bool, reason: str) -> bool:
    """A member's answer to its own open request: True when it leaves.

    Raises UsageError for an objection without a reason, and TeamRefused for an id that is not open for it.
    """
    mate = team.find(name)
    request = team.requests.get(request_id) if mate is not None else None
    if mate is None or request is None or not _bound(request, mate) or team.requests.answer_of(request_id) is not None:
        raise TeamRefused(
            "team-refused",
            f"{request_id!r} is not an open shutdown request to {name}",
            do=["Use the request_id of the shutdown_request that you were sent."],
            note="nothing was answered",
        )
    if not approve and not reason.strip():
        raise UsageError("usage", "an objection needs a reason", note="nothing was answered")
    if not team.requests.answer(request_id, {"approve": approve, "reason": reason, "by": name, "at": now_ms()}):
        raise TeamRefused("team-refused", f"{request_id} was answered already", note="nothing was answered")
    if approve:
        mate.leaving = "shut down on request"
        return True
    mate.objected()
    told = ShutdownRejected(request_id=request_id, sender=name, reason=reason, timestamp=iso())
    await send_protocol(team, name, LEAD, told)
    mate.notes.wrote_lead = True
    return False


def _bound(request: Mapping[str, Any], mate: Teammate) -> bool:
    return (
        request.get("kind") == "shutdown"
        and str(request.get("target", "")).lower() == mate.name.lower()
        and request.get("incarnation") == mate.incarnation
    )


async def _enforce(team: Team, mate: Teammate, request_id: str, limit_s: float) -> None:
    """Nobody answered in time: the runtime ends the member."""
    await asyncio.sleep(limit_s)
    if mate.state in GONE or mate.leaving or team.requests.answer_of(request_id) is not None:
        return
    team.requests.answer(request_id, {"approve": True, "reason": "no answer in time", "by": "system", "at": now_ms()})
    await kill(team, mate, f"did not answer the shutdown request within {limit_s:.0f} s")


async def kill(team: Team, mate: Teammate, cause: str) -> None:
    """End a member at once: its model call and its tools are cancelled, its tasks go back, the lead is told once."""
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.KILLED, cause)
    await _wind_up(team, mate)
    await left(team, mate.name, cause, None)


async def dismiss(team: Team, mate: Teammate, cause: str) -> None:
    """End an idle member at the end of a run: nobody has to be told."""
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.LEFT, cause)
    await _wind_up(team, mate)
    await left(team, mate.name, cause, None, tell=False)


async def _wind_up(team: Team, mate: Teammate) -> None:
    task = mate.task
    if task is None or task is asyncio.current_task():
        return
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=team.settings.cancel_grace_s)
    if not done:
        text = f"{mate.name} did not wind up within {team.settings.cancel_grace_s:.0f} s"
        team.emit(Notice(member=mate.name, text=text, level="warning"))
    mate.agent.conversation.close()


async def left(team: Team, name: str, cause: str, agreed_to: str | None, *, tell: bool = True) -> None:
    """A member is over: off the roster first, tasks handed back, then the lead is told, once."""
    mate = team.members.get(name)
    try:
        if team.on_left is not None:
            await team.on_left(name)
        await team.roster.remove(name)
        handed = [task.id for task in await team.tasks.release(name)]
        if tell:
            await _tell_lead(team, name, cause, agreed_to, handed)
    finally:
        if mate is not None:
            mate.parted = True
        team.ring_idle()
        team.ring(LEAD)


async def _tell_lead(team: Team, name: str, cause: str, agreed_to: str | None, handed: list[str]) -> None:
    if agreed_to is not None:
        told = ShutdownApproved(
            request_id=agreed_to, sender=name, timestamp=iso(), pane_id="in-process", backend_type="in-process"
        )
        await send_protocol(team, name, LEAD, told)
    await send_protocol(team, "system", LEAD, _terminated(name, cause, handed))


def _terminated(name: str, cause: str, handed: list[str]) -> TeammateTerminated:
    message = f"{name} has ended: {cause}."
    if handed:
        ids = ", ".join(f"#{task}" for task in handed)
        message += f" Handed back to the list: {ids}."
    return TeammateTerminated(name=name, cause=cause, message=message, handed_back=handed or None)


async def leave_all(team: Team, cause: str) -> list[str]:
    """End everybody; returns the names of those that were cut off at work."""
    cut = [m.name for m in team.live if m.state is not State.IDLE]
    together = [dismiss(team, mate, cause) for mate in team.live]
    if together:
        await asyncio.gather(*together)
    return cut


async def delete_team(team: Team) -> None:
    """Remove the team; requests, mail and tasks go to the archive.

    Raises TeamRefused while a member is alive (probed) or a task is open.
    """
    team.require()
    if team.live:
        raise TeamRefused(
            "team-refused",
            f'the team "{team.name}" has live members',
            looked_at=[("members", ", ".join(f"{m.name} ({m.state})" for m in team.live))],
            do=["Ask each of them to stop with a shutdown_request, then call TeamDelete again."],
            note="nothing was removed",
        )
    still_open = [task.id for task in await team.tasks.all() if task.status != "completed"]
    if still_open:
        raise TeamRefused(
            "team-refused",
            f'the team "{team.name}" has open tasks',
            looked_at=[("open", ", ".join(f"#{i}" for i in still_open))],
            do=["Complete them, or delete them with TaskUpdate status deleted, then call TeamDelete again."],
            note="nothing was removed",
        )
    name = team.name
    await team.teams.delete(team.directory)
    team.forget()
    team.emit(MemberChanged(member=LEAD, state="working", detail=f'team "{name}" deleted'))
