"""Ending: killing, leaving, suspending, deleting; what is handed back and what the lead is told.

Ending belongs to the runtime, and what it began is seen through by whoever goes on with the team. Knows the team;
does not know how a member is asked (`stopping`), nor a tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from teamwright.agent.transcript import ids_held
from teamwright.mail.inbox import peek
from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import Entry, ShutdownApproved, TeammateTerminated
from teamwright.protocol.roster import parse_config
from teamwright.protocol.task import TaskStatus
from teamwright.teams.archive import archived_by
from teamwright.teams.dead_locks import remove_team_locks
from teamwright.teams.incarnation import Life, Parting
from teamwright.teams.lifecycle import FAILURES, GONE, Event, State
from teamwright.teams.mailing.desk import wakes
from teamwright.teams.mailing.post import send_protocol
from teamwright.teams.mailing.returning import return_late_mail, return_mail
from teamwright.teams.member.elsewhere import IN_PROCESS
from teamwright.teams.member.mate import Mate
from teamwright.teams.plans.rows import close_plans
from teamwright.teams.team import Team
from teamwright.teams.team_file import TeamFile, change_team_file, read_team_file

T = TypeVar("T")

BY_USER = "stopped by the user"
"""How the cause begins of an end that a person wanted, in whichever terminal."""


async def kill(team: Team, mate: Mate, cause: str) -> None:
    """End a member at once: its model call and its tools are cancelled, its tasks go back, the lead is told once.

    Once begun it is seen through, also when the caller is cancelled meanwhile.
    """
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.KILLED, cause)
    await _see_out(team, mate, cause, tell=True)


async def dismiss(team: Team, mate: Mate, cause: str) -> None:
    """End a member at the end of a run: nobody has to be told. One at work was cut off, and its state says so."""
    if mate.state in GONE:
        return
    mate.leaving = cause
    mate.move(Event.LEFT if mate.state is State.IDLE else Event.KILLED, cause)
    await _see_out(team, mate, cause, tell=False)


async def _see_out(team: Team, mate: Mate, cause: str, *, tell: bool) -> None:
    async def out() -> None:
        await _wind_up(team, mate)
        await left(team, mate.name, cause, None, tell=tell)

    mate.ending = asyncio.create_task(out(), name=f"end of {mate.name}")
    await asyncio.shield(mate.ending)


async def _wind_up(team: Team, mate: Mate) -> None:
    if trouble := await mate.wind_up(team.settings.cancel_grace_s):
        team.emit(Notice(member=mate.name, text=trouble, level="warning"))


async def left(team: Team, name: str, cause: str, agreed_to: str | None, *, tell: bool = True) -> None:
    """A member is over: tasks handed back, off the roster, then the lead is told, once.

    One that failed or crashed stays on the roster with its mail and its conversation, unless it was asked to stop.
    Noted in team.json first: after a kill whoever goes on with the team sees it through. A step that fails is told as
    a notice, and the next one is tried: nothing keeps the rest from being done.
    """
    mate = team.members.get(name)
    incarnation = mate.incarnation if mate is not None else 0
    try:
        if team.on_left is not None:
            await _tried(team, name, "its background commands may still run", team.on_left(name), None)
        held = await _tried(team, name, "its tasks could not be listed", _open_tasks(team, name), [])
        tasks = tuple(held)
        keeps = mate is not None and _keeps(team, mate)
        parting = Parting(name, incarnation, cause, message_id(), agreed_to or "", tasks, tell, keeps)
        noted = change_team_file(team.home, team.directory, lambda file: file.leaving(parting))
        await _tried(team, name, "that could not be noted", noted, None)
        await see_off(team, parting)
        if mate is not None:
            mate.kept = keeps
    finally:
        if mate is not None:
            mate.parted = True
        team.ring_idle()
        team.ring(LEAD)


async def see_off(team: Team, parting: Parting, *, again: bool = False) -> None:
    """What is left to do for a member that is over. `again`: some of it may have been done before a kill."""
    name, roster, tasks = parting.name, team.roster, team.tasks
    remove_team_locks(team.home, team.directory)  # its process may have been killed while it held one
    handed = await _tried(team, name, "its tasks could not be handed back", tasks.release(name), [])
    if not parting.keeps:
        await _tried(team, name, "it could not be taken off the roster", roster.remove(name), None)
        returned = return_mail(team, name, _ledger(team, name))
        await _tried(team, name, "the senders of what it did not read could not be told", returned, None)
        closed = _close_requests(team, parting)
        await _tried(team, name, "one of its requests stays open", closed, None)
    if parting.tell:
        ids = sorted({*parting.tasks, *(task.id for task in handed)}, key=int)
        told = tell_of(team, parting, ids, again=again)
        await _tried(team, name, "the lead could not be told", told, None)
    over = change_team_file(team.home, team.directory, lambda file: _over(file, parting))
    await _tried(team, name, "team.json still has it", over, None)


def _over(file: TeamFile, parting: Parting) -> TeamFile:
    return file.crashed(parting) if parting.keeps else file.gone(parting.name, parting.incarnation)


def _keeps(team: Team, mate: Mate) -> bool:
    """Whether the member failed or crashed, and nobody had asked it to stop. Another program's member never does."""
    if mate.state not in FAILURES or mate.external or team.outside.removed:
        return False
    return not any(bound(request, mate.name, mate.incarnation) for request in team.requests.open_requests())


def crashed_life(team: Team, name: str) -> Life | None:
    """The life of a member of that name that failed or crashed, and has its place still. Raises StorageError."""
    file = read_team_file(team.home.team_file(team.directory)) if team.exists and team.find(name) is None else None
    life = file.lives.get(name.lower()) if file is not None else None
    return life if life is not None and life.crashed else None


async def remove_crashed(team: Team, name: str, cause: str) -> bool:
    """End a member for good that failed or crashed before. False when there is none of that name."""
    if (life := crashed_life(team, name)) is None:
        return False
    member = await team.roster.find(name)
    parting = Parting(member.name, life.incarnation, cause, message_id())
    await change_team_file(team.home, team.directory, lambda file: file.leaving(parting))
    await see_off(team, parting)
    if (mate := team.members.get(member.name)) is not None:
        mate.kept = False
    return True


def _ledger(team: Team, name: str) -> Path | None:
    """The transcript of a member that is over."""
    mate = team.members.get(name)
    if mate is not None:
        return mate.ledger
    file = read_team_file(team.home.team_file(team.directory))
    life = file.lives.get(name.lower()) if file is not None else None
    return Path(life.transcript) if life is not None else None


async def _open_tasks(team: Team, name: str) -> list[str]:
    tasks = await team.tasks.all()
    return [t.id for t in tasks if (t.owner or "").lower() == name.lower() and t.status is not TaskStatus.COMPLETED]


async def _tried(team: Team, name: str, failing: str, step: Awaitable[T], otherwise: T) -> T:
    try:
        return await step
    except Exception as problem:
        why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
        team.emit(Notice(member=name, text=f"{name} has ended, but {failing}: {why}", level="warning"))
        return otherwise


def bound(request: Mapping[str, Any], name: str, incarnation: int) -> bool:
    """Whether this is a shutdown request to that life of the member."""
    return (
        request.get("kind") == "shutdown"
        and str(request.get("target", "")).lower() == name.lower()
        and request.get("incarnation") == incarnation
    )


def verdict(approve: bool, reason: str, by: str = "system") -> dict[str, Any]:
    """The answer to a shutdown request, as its file has it."""
    return {"approve": approve, "reason": reason, "by": by, "at": now_ms()}


async def _close_requests(team: Team, parting: Parting) -> None:
    """No request stays without an answer: who has ended has agreed, or was ended."""
    name = parting.name
    mate = team.members.get(name)
    if mate is not None:
        mate.asked = ""
    close_plans(team.requests, name, parting.incarnation, parting.cause)
    for request in team.requests.open_requests():
        if bound(request, name, parting.incarnation):
            team.requests.answer(str(request["id"]), verdict(True, parting.cause))


async def tell_of(team: Team, parting: Parting, handed: list[str], *, again: bool) -> None:
    """Tell the lead who is over, why, and which tasks went back; `again`: it may have been told before a kill."""
    name = parting.name
    inbox = team.inbox(LEAD)
    if parting.agreed_to and not (again and await inbox.has(f"{parting.told}-agreed")):
        entry = team.outside.entries.get(name)
        pane, backend = (entry.pane_id, entry.backend_type) if entry is not None else (IN_PROCESS, IN_PROCESS)
        told = ShutdownApproved(
            request_id=parting.agreed_to, sender=name, timestamp=iso(), pane_id=pane, backend_type=backend
        )
        await send_protocol(team, name, LEAD, told, id=f"{parting.told}-agreed")
    if not (again and await inbox.has(parting.told)):
        await send_protocol(team, "system", LEAD, _terminated(parting, handed), id=parting.told)


def _terminated(parting: Parting, handed: list[str]) -> TeammateTerminated:
    name, cause = parting.name, parting.cause
    message = f"{name} has ended: {cause}."
    if parting.keeps:
        message += (
            f' Its conversation is kept: Agent with name "{name}" and its next job resumes it; a shutdown_request to '
            f"{name} removes it."
        )
    if handed:
        ids = ", ".join(f"#{task}" for task in handed)
        message += f" Its open tasks are free again: {ids}."
    return TeammateTerminated(name=name, cause=cause, message=message, handed_back=handed or None)


async def leave_all(team: Team, cause: str) -> list[str]:
    """End everybody, and wait for those that are ending already; returns the names of those cut off at work.

    Nobody starts from now on.
    """
    team.closing = True
    cut = [m.name for m in team.live if m.state is not State.IDLE or m.owes]
    together = [dismiss(team, mate, cause) for mate in team.live]
    if together:
        await asyncio.gather(*together)
    await _until_parted(team)
    await _return_late(team)
    return cut


async def suspend_all(team: Team, cause: str) -> list[str]:
    """Let everybody go and keep their places: files stay as a kill would leave them, a resume goes on with them.

    Returns the names of those cut off at work. Nobody starts from now on.
    """
    team.closing = True
    live = team.live
    cut = [mate.name for mate in live if mate.state is not State.IDLE or mate.owes]
    for mate in live:
        mate.leaving = cause
        mate.move(Event.SUSPENDED, cause)
        mate.ending = asyncio.create_task(_let_go(team, mate), name=f"end of {mate.name}")
    await asyncio.gather(*(asyncio.shield(mate.ending) for mate in live if mate.ending is not None))
    await _until_parted(team)
    await _return_late(team)
    return cut


async def _return_late(team: Team) -> None:
    if team.exists and not team.outside.removed:
        late = return_late_mail(team)
        await _tried(team, LEAD, "mail to members that had ended could not be returned", late, None)


async def _let_go(team: Team, mate: Mate) -> None:
    try:
        await _wind_up(team, mate)
    finally:
        mate.parted = True
        team.changed.set()


async def _until_parted(team: Team) -> None:
    """Those that are gone may still be handing back what they had."""
    going = {task for m in team.members.values() for task in (m.ending, m.task) if task is not None and not m.parted}
    if going:
        await asyncio.wait(going, timeout=team.settings.goodbye_s)


async def delete_team(team: Team, *, force: bool = False) -> None:
    """Remove the team; requests, mail and tasks go to the archive, and the lead keeps what it had not seen.

    Raises TeamRefused while a member is alive (probed) or starting, or a task is open (not with `force`).
    """
    team.require()
    async with team.forming:
        if not team.live and not team.starting:
            await _until_parted(team)
        _refuse_alive(team)
        if not force:
            await refuse_open(team)
        await _return_late(team)
        name, unseen = team.name, list[Entry]()
        if not team.outside.removed:  # by another program: then nothing is left to keep
            unseen = _unseen_in(team, await team.teams.delete(team.directory))
        team.forget()
        if team.on_unseen is not None:
            team.on_unseen(unseen)
    team.emit(MemberChanged(member=LEAD, state="working", detail=f'team "{name}" deleted'))


async def delete_again(team: Team) -> str:
    """See through the deletion that a kill cut off: files, and what the lead had not seen. The team's name, or empty.

    Raises StorageError, LockTimeout.
    """
    entry = await archived_by(team.home, team.session)
    if entry is None:
        return ""
    if team.on_unseen is not None:
        team.on_unseen(_unseen_in(team, entry))
    return parse_config((entry / "config.json").read_bytes()).name


def _unseen_in(team: Team, entry: Path) -> list[Entry]:
    """What waited for the lead in the inbox of a team that is in the archive now, to its last letter."""
    waiting = [one for one in peek(entry / "inboxes" / f"{LEAD}.json") if not one.read and wakes(one)]
    held = ids_held(team.home.transcript(team.cwd, team.session), [f"mail:{one.msg_id}" for one in waiting])
    return [replace(one, msg_id=one.msg_id or message_id()) for one in waiting if f"mail:{one.msg_id}" not in held]


def _refuse_alive(team: Team) -> None:
    live = {m.name.lower() for m in team.live}
    members = [f"{m.name} ({m.state})" for m in team.live] + [f"{name} (starting)" for name in team.not_yet_alive]
    members += [f"{name} (another program runs it)" for name in sorted(team.outside.strangers - live)]
    if not members:
        return
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has live members',
        looked_at=[("members", ", ".join(members))],
        do=["Ask each of them to stop with a shutdown_request, then call TeamDelete again."],
        note="nothing was removed",
    )


async def refuse_open(team: Team) -> None:
    """Raise TeamRefused while a task of the team is open, or damaged and possibly open."""
    still_open = [task.id for task in await team.tasks.all() if task.status != "completed"]
    damaged = [task for task in team.tasks.store.damaged_tasks() if task.open]
    if not (still_open or damaged) or team.outside.shared_list:  # a list that others share goes on without us
        return
    if damaged:
        raise TeamRefused(
            "team-refused",
            f'the team "{team.name}" has damaged task files, which may be open tasks',
            looked_at=[("damaged", str(task)) for task in damaged],
            do=["Repair each file, or remove it when the task is not needed, then call TeamDelete again."],
            note="nothing was removed",
        )
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has open tasks',
        looked_at=[("open", ", ".join(f"#{i}" for i in still_open))],
        do=["Complete them, or delete them with TaskUpdate status deleted, then call TeamDelete again."],
        note="nothing was removed",
    )
