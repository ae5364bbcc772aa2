"""Ending: asking a member to stop, its answer, the deadline, killing, and what the lead is told.

Ending belongs to the runtime: a request is a file, bound to requester, target and incarnation; a model may
object within the deadline, and no model's silence keeps a member alive. Knows the team; knows no tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import LEAD, shutdown_id
from teamwright.protocol.mail import ShutdownApproved, ShutdownRejected, ShutdownRequest, TeammateTerminated
from teamwright.teams.desk import wakes
from teamwright.teams.lifecycle import GONE, Event, State
from teamwright.teams.post import recipient, send_protocol
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate

T = TypeVar("T")


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
    if mate.asked:
        raise TeamRefused(
            "team-refused", f"{mate.name} was asked to stop already ({mate.asked})", note="nothing was sent"
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
    mate.asked = request_id
    try:
        await send_protocol(team, LEAD, mate.name, request)
    except BaseException:
        mate.asked = ""
        team.requests.answer(request_id, _answer(False, "it could not be sent"))
        raise
    timer = asyncio.create_task(_enforce(team, mate, request_id, limit_s), name=f"deadline of {request_id}")
    deadlines.add(timer)
    timer.add_done_callback(deadlines.discard)
    return request_id


def _answer(approve: bool, reason: str, by: str = "system") -> dict[str, Any]:
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms()}


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
    if not team.requests.answer(request_id, _answer(approve, reason, name)):
        raise TeamRefused("team-refused", f"{request_id} was answered already", note="nothing was answered")
    if approve:
        mate.leaving = "shut down on request"
        return True
    mate.objected()
    told = ShutdownRejected(request_id=request_id, sender=name, reason=reason, timestamp=iso())
    await send_protocol(team, name, LEAD, told)
    mate.notes.wrote_lead = True
    return False


def stop_is_open(team: Team, name: str, request_id: str) -> bool:
    """Whether that request is open and was made to this life of the member."""
    mate = team.find(name)
    request = team.requests.get(request_id) if mate is not None else None
    return mate is not None and request is not None and _bound(request, mate)


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
    team.requests.answer(request_id, _answer(True, "no answer in time"))
    await kill(team, mate, f"did not answer the shutdown request within {limit_s:.0f} s")


async def kill(team: Team, mate: Teammate, cause: str) -> None:
    """End a member at once: its model call and its tools are cancelled, its tasks go back, the lead is told once.

    Once begun it is seen through, also when the caller is cancelled meanwhile.
    """
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.KILLED, cause)
    await _see_out(team, mate, cause, tell=True)


async def dismiss(team: Team, mate: Teammate, cause: str) -> None:
    """End a member at the end of a run: nobody has to be told. One at work was cut off, and its state says so."""
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.LEFT if mate.state is State.IDLE else Event.KILLED, cause)
    await _see_out(team, mate, cause, tell=False)


async def _see_out(team: Team, mate: Teammate, cause: str, *, tell: bool) -> None:
    async def out() -> None:
        await _wind_up(team, mate)
        await left(team, mate.name, cause, None, tell=tell)

    mate.ending = asyncio.create_task(out(), name=f"end of {mate.name}")
    await asyncio.shield(mate.ending)


async def _wind_up(team: Team, mate: Teammate) -> None:
    task = mate.task
    if task is None:
        return
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=team.settings.cancel_grace_s)
    if not done:
        text = f"{mate.name} did not wind up within {team.settings.cancel_grace_s:.0f} s"
        team.emit(Notice(member=mate.name, text=text, level="warning"))
    mate.agent.conversation.close()


async def left(team: Team, name: str, cause: str, agreed_to: str | None, *, tell: bool = True) -> None:
    """A member is over: tasks handed back, off the roster, then the lead is told, once.

    A step that fails is told as a notice, and the next one is tried: nothing keeps the rest from being done.
    """
    mate = team.members.get(name)
    roster, tasks = team.roster, team.tasks
    try:
        if team.on_left is not None:
            await _tried(team, name, "its background commands may still run", team.on_left(name), None)
        handed = await _tried(team, name, "its tasks could not be handed back", tasks.release(name), [])
        await _tried(team, name, "it could not be taken off the roster", roster.remove(name), None)
        if mate is not None and mate.asked:
            await _tried(team, name, "its shutdown request stays open", _close_request(team, mate, cause), None)
        if tell:
            ids = [task.id for task in handed]
            await _tried(team, name, "the lead could not be told", _tell_lead(team, name, cause, agreed_to, ids), None)
    finally:
        if mate is not None:
            mate.parted = True
        team.ring_idle()
        team.ring(LEAD)


async def _tried(team: Team, name: str, failing: str, step: Awaitable[T], otherwise: T) -> T:
    try:
        return await step
    except Exception as problem:
        why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
        team.emit(Notice(member=name, text=f"{name} has ended, but {failing}: {why}", level="warning"))
        return otherwise


async def _close_request(team: Team, mate: Teammate, cause: str) -> None:
    """No request stays without an answer: who has ended has agreed, or was ended."""
    request_id, mate.asked = mate.asked, ""
    team.requests.answer(request_id, _answer(True, cause))


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
    """End everybody, and wait for those that are ending already; returns the names of those cut off at work.

    Nobody starts from now on.
    """
    team.closing = True
    cut = [m.name for m in team.live if m.state is not State.IDLE]
    together = [dismiss(team, mate, cause) for mate in team.live]
    if together:
        await asyncio.gather(*together)
    await _until_parted(team)
    return cut


async def _until_parted(team: Team) -> None:
    """Those that are gone may still be handing back what they had."""
    going = {task for m in team.members.values() for task in (m.ending, m.task) if task is not None and not m.parted}
    if going:
        await asyncio.wait(going, timeout=team.settings.goodbye_s)


async def delete_team(team: Team) -> None:
    """Remove the team; requests, mail and tasks go to the archive, and the lead keeps what it had not seen.

    Raises TeamRefused while a member is alive (probed) or starting, or a task is open.
    """
    team.require()
    async with team.forming:
        if not team.live and not team.starting:
            await _until_parted(team)
        _refuse_alive(team)
        await _refuse_open(team)
        unseen = await team.lead_desk.unread() if team.lead_desk is not None else []
        name = team.name
        await team.teams.delete(team.directory)
        team.forget()
        if team.on_unseen is not None:
            team.on_unseen([entry for entry in unseen if wakes(entry)])
    team.emit(MemberChanged(member=LEAD, state="working", detail=f'team "{name}" deleted'))


def _refuse_alive(team: Team) -> None:
    members = [f"{m.name} ({m.state})" for m in team.live] + [f"{name} (starting)" for name in team.not_yet_alive]
    if not members:
        return
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has live members',
        looked_at=[("members", ", ".join(members))],
        do=["Ask each of them to stop with a shutdown_request, then call TeamDelete again."],
        note="nothing was removed",
    )


async def _refuse_open(team: Team) -> None:
    still_open = [task.id for task in await team.tasks.all() if task.status != "completed"]
    if not still_open:
        return
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has open tasks',
        looked_at=[("open", ", ".join(f"#{i}" for i in still_open))],
        do=["Complete them, or delete them with TaskUpdate status deleted, then call TeamDelete again."],
        note="nothing was removed",
    )
