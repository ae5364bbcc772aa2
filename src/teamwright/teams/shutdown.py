"""The end of members and teams: kill, leave, suspend and delete, with tasks handed back and the lead notified.

The process that resumes the team completes an interrupted end. Depends on the team. Shutdown requests are in
`shutdown_requests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from teamwright.agent.transcript import find_delivered_ids
from teamwright.protocol.errors import LockTimeout, TeamRefused, TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import LEAD, iso_time, message_id
from teamwright.protocol.mail import InboxEntry, ShutdownApproved, TeammateTerminated
from teamwright.protocol.members import IN_PROCESS, MemberState, parse_config
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.protocol.task import TaskStatus
from teamwright.storage.locks import past_dead_lock
from teamwright.team_records.archive import find_archived
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.life_cycle import ENDED_STATES, FAILED_STATES, LifecycleEvent
from teamwright.team_records.team_catalogue import archived_lead_mail
from teamwright.team_records.team_state import Incarnation, PendingEnd
from teamwright.teams.incoming_mail import starts_turn
from teamwright.teams.outgoing_mail import send_protocol
from teamwright.teams.plan_requests import close_plans
from teamwright.teams.shutdown_answers import is_shutdown_request, shutdown_answer, was_asked_to_stop
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate
from teamwright.teams.undelivered_mail import return_late_mail, return_mail

T = TypeVar("T")


async def kill(team: SessionTeam, teammate: Teammate, cause: str) -> None:
    """End a member at once: its model call and its tools are cancelled, its tasks go back, the lead is notified once.

    Once begun it is completed, also when the caller is cancelled.
    """
    if teammate.state in ENDED_STATES:
        return
    teammate.end_cause = cause
    teammate.transition(LifecycleEvent.KILLED, cause)
    await _end(team, teammate, cause, notify=True)


async def end_silently(team: SessionTeam, teammate: Teammate, cause: str) -> None:
    """End a member at the end of a run, without a notice. The state of a working member says that it
    was interrupted.
    """
    if teammate.state in ENDED_STATES:
        return
    teammate.end_cause = cause
    teammate.transition(LifecycleEvent.LEFT if teammate.state is MemberState.IDLE else LifecycleEvent.KILLED, cause)
    await _end(team, teammate, cause, notify=False)


async def _end(team: SessionTeam, teammate: Teammate, cause: str, *, notify: bool) -> None:
    async def out() -> None:
        await _terminate(team, teammate)
        await process_end(team, teammate.name, cause, None, notify=notify)

    teammate.end_task = asyncio.create_task(out(), name=f"end of {teammate.name}")
    await asyncio.shield(teammate.end_task)


async def _terminate(team: SessionTeam, teammate: Teammate) -> None:
    if trouble := await teammate.terminate(team.settings.cancel_grace_s):
        team.emit(Notice(member=teammate.name, text=trouble, level="warning"))


async def process_end(team: SessionTeam, name: str, cause: str, agreed_to: str | None, *, notify: bool = True) -> None:
    """Process the end of a member: hand back its tasks, remove it from the roster, then notify the lead once.

    A member that failed or crashed stays on the roster with its mail and its conversation, unless it was asked to stop.
    team.json records the end first: the process that resumes the team after a kill completes it. A failed step becomes
    a notice, and the next one is tried.
    """
    teammate = team.members.get(name)
    incarnation = teammate.incarnation if teammate is not None else 0
    try:
        if team.subagents is not None:
            ending = team.subagents.end_owned(name)
            await _try_step(team, name, "its background commands may still run", ending, None)
        open_tasks = await _try_step(team, name, "its tasks could not be listed", _open_tasks(team, name), [])
        tasks = tuple(open_tasks)
        keeps = teammate is not None and _keeps_place(team, teammate)
        parting = PendingEnd(name, incarnation, cause, message_id(), agreed_to or "", tasks, notify, keeps)
        noted = team.state.change(lambda file: file.with_pending_end(parting))
        await _try_step(team, name, "that could not be noted", noted, None)
        await finish_end(team, parting)
        if teammate is not None:
            teammate.keeps_place = keeps
    finally:
        if teammate is not None:
            teammate.end_processed = True
        team.wake_idle()
        team.wake(LEAD)


async def finish_end(team: SessionTeam, pending_end: PendingEnd, *, is_rerun: bool = False) -> None:
    """Complete the steps after the end of a member. `is_rerun`: some of them may have been done before a kill."""
    name = pending_end.name
    roster = team.roster
    tasks = team.tasks
    FileStores(team.home).remove_dead_locks(team.directory)  # its process may have been killed while it had a lock
    handed = await _try_step(
        team, name, "its tasks could not be handed back", past_dead_lock(partial(tasks.release, name)), []
    )
    if not pending_end.keeps:
        await _try_step(
            team, name, "it could not be taken off the roster", past_dead_lock(partial(roster.remove, name)), None
        )
        returned = return_mail(team, name, await _transcript_path(team, name))
        await _try_step(team, name, "the senders of its unread messages could not be notified", returned, None)
        closed = _close_requests(team, pending_end)
        await _try_step(team, name, "one of its requests stays open", closed, None)
    if pending_end.tell:
        ids = sorted({*pending_end.tasks, *(task.id for task in handed)}, key=int)
        notice = notify_lead_of_end(team, pending_end, ids, is_rerun=is_rerun)
        await _try_step(team, name, "the lead could not be notified", notice, None)
    over = team.state.change(
        lambda file: (
            file.with_crash(pending_end)
            if pending_end.keeps
            else file.without_incarnation(pending_end.name, pending_end.incarnation)
        )
    )
    await _try_step(team, name, "team.json still has it", over, None)


def _keeps_place(team: SessionTeam, teammate: Teammate) -> bool:
    """Return True when the member failed or crashed without a request to stop. Never for another program's member."""
    if teammate.state not in FAILED_STATES or teammate.is_external or team.external.files_removed:
        return False
    return not was_asked_to_stop(team.requests, teammate.name, teammate.incarnation)


async def find_crashed(team: SessionTeam, name: str) -> Incarnation | None:
    """Return the incarnation of a failed or crashed member that still has its place. Raises StorageError."""
    file = await team.state.read() if team.exists and team.find(name) is None else None
    return file.find_crashed(name) if file is not None else None


async def remove_crashed(team: SessionTeam, name: str, cause: str) -> bool:
    """End a failed or crashed member for good. False when there is none of that name."""
    if (incarnation := await find_crashed(team, name)) is None:
        return False
    member = await team.roster.find(name)
    parting = PendingEnd(member.name, incarnation.incarnation, cause, message_id())
    await team.state.change(lambda file: file.with_pending_end(parting))
    teammate = team.members.get(member.name)
    if teammate is not None:  # else a check of the roster at the same time would restore the entry, or report it
        teammate.keeps_place = False
        teammate.end_processed = False
    try:
        await finish_end(team, parting)
    finally:
        if teammate is not None:
            teammate.end_processed = True
    return True


async def _transcript_path(team: SessionTeam, name: str) -> Path | None:
    """Return the transcript of a member that has ended."""
    teammate = team.members.get(name)
    if teammate is not None:
        return teammate.transcript_path
    file = await team.state.read()
    incarnation = file.incarnation_records.get(name.lower()) if file is not None else None
    return Path(incarnation.transcript) if incarnation is not None else None


async def _open_tasks(team: SessionTeam, name: str) -> list[str]:
    tasks = await team.tasks.all()
    return [t.id for t in tasks if (t.owner or "").lower() == name.lower() and t.status is not TaskStatus.COMPLETED]


async def _try_step(team: SessionTeam, name: str, failing: str, step: Awaitable[T], otherwise: T) -> T:
    try:
        return await step
    except Exception as problem:
        why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
        team.emit(Notice(member=name, text=f"{name} has ended, but {failing}: {why}", level="warning"))
        return otherwise


async def _close_requests(team: SessionTeam, pending_end: PendingEnd) -> None:
    """Close the open requests of an ended member: it has agreed, or was ended."""
    name = pending_end.name
    teammate = team.members.get(name)
    if teammate is not None:
        teammate.stop_request_id = ""
    close_plans(team.requests, name, pending_end.incarnation, pending_end.cause)
    for request in team.requests.open_requests():
        if is_shutdown_request(request, name, pending_end.incarnation):
            team.requests.answer(str(request["id"]), shutdown_answer(True, pending_end.cause))


async def notify_lead_of_end(
    team: SessionTeam, pending_end: PendingEnd, returned_tasks: list[str], *, is_rerun: bool
) -> None:
    """Notify the lead of an end, its cause and the returned tasks. `is_rerun`: the notice may exist
    from before a kill. A lead of this process whose inbox stays locked receives the notice in memory.
    """
    message = _terminated_message(pending_end, returned_tasks)
    try:
        await _send_end_to_lead(team, pending_end, message, is_rerun=is_rerun)
    except LockTimeout:
        if team.lead is None:
            raise
        team.lead.notify(escape_tags(message.message), pending_end.told)


async def _send_end_to_lead(
    team: SessionTeam, pending_end: PendingEnd, message: TeammateTerminated, *, is_rerun: bool
) -> None:
    name = pending_end.name
    inbox = team.mailbox(LEAD)
    if pending_end.agreed_to and not (is_rerun and await inbox.contains(f"{pending_end.told}-agreed")):
        entry = team.external.own_entries.get(name)
        pane, backend = (entry.pane_id, entry.backend_type) if entry is not None else (IN_PROCESS, IN_PROCESS)
        approval = ShutdownApproved(
            request_id=pending_end.agreed_to, sender=name, timestamp=iso_time(), pane_id=pane, backend_type=backend
        )
        await send_protocol(team, name, LEAD, approval, id=f"{pending_end.told}-agreed")
    if not (is_rerun and await inbox.contains(pending_end.told)):
        await send_protocol(team, "system", LEAD, message, id=pending_end.told)


def _terminated_message(pending_end: PendingEnd, returned_tasks: list[str]) -> TeammateTerminated:
    name, cause = pending_end.name, pending_end.cause
    message = f"{name} has ended: {cause}."
    if pending_end.keeps:
        message += (
            f' Its conversation is kept: Agent with name "{name}" and its next job resumes it; a shutdown_request to '
            f"{name} removes it."
        )
    if returned_tasks:
        ids = ", ".join(f"#{task}" for task in returned_tasks)
        message += f" Its open tasks are free again: {ids}."
    return TeammateTerminated(name=name, cause=cause, message=message, handed_back=returned_tasks or None)


async def end_all(team: SessionTeam, cause: str) -> list[str]:
    """End all members, and wait for those that are ending already; returns the names of those interrupted at work.

    No member starts from now on.
    """
    team.closing = True
    cut = [m.name for m in team.running_members if m.state is not MemberState.IDLE or m.owes_turn]
    together = [end_silently(team, teammate, cause) for teammate in team.running_members]
    if together:
        await asyncio.gather(*together)
    await _wait_for_ends(team)
    await _return_late_mail(team)
    return cut


async def suspend_all(team: SessionTeam, cause: str) -> list[str]:
    """Suspend all members with their places: files stay as after a kill, and a resume continues with them.

    Returns the names of those interrupted at work. No member starts from now on.
    """
    team.closing = True
    live = team.running_members
    cut = [teammate.name for teammate in live if teammate.state is not MemberState.IDLE or teammate.owes_turn]
    for teammate in live:
        teammate.end_cause = cause
        teammate.transition(LifecycleEvent.SUSPENDED, cause)
        teammate.end_task = asyncio.create_task(_suspend(team, teammate), name=f"end of {teammate.name}")
    await asyncio.gather(*(asyncio.shield(teammate.end_task) for teammate in live if teammate.end_task is not None))
    await _wait_for_ends(team)
    await _return_late_mail(team)
    return cut


async def _return_late_mail(team: SessionTeam) -> None:
    if team.exists and not team.external.files_removed:
        late = return_late_mail(team)
        await _try_step(team, LEAD, "mail to members that had ended could not be returned", late, None)


async def _suspend(team: SessionTeam, teammate: Teammate) -> None:
    try:
        await _terminate(team, teammate)
    finally:
        teammate.end_processed = True
        team.changed.set()


async def _wait_for_ends(team: SessionTeam) -> None:
    """Wait for ended members that are still handing back their tasks."""
    going = {
        task
        for m in team.members.values()
        for task in (m.end_task, m.run_task)
        if task is not None and not m.end_processed
    }
    if going:
        await asyncio.wait(going, timeout=team.settings.shutdown_timeout_s)


async def delete_team(team: SessionTeam, *, force: bool = False) -> None:
    """Remove the team; requests, mail and tasks go to the archive, and the lead keeps its unread mail.

    Raises TeamRefused while a member is alive (probed) or starting, or a task is open (not with `force`).
    """
    team.require_team()
    async with team.forming_lock:
        if not team.running_members and not team.starting:
            await _wait_for_ends(team)
        _refuse_with_members(team)
        if not force:
            await refuse_with_open_tasks(team)
        await _return_late_mail(team)
        name = team.name
        unseen = list[InboxEntry]()
        if not team.external.files_removed:  # another program removed them: nothing is left to keep
            unseen = _unread_lead_mail(team, await team.teams.archive(team.directory))
        team.forget()
        if team.lead is not None:
            team.lead.queue_unread_mail(unseen)
    team.emit(MemberChanged(member=LEAD, state=MemberState.WORKING, detail=f'team "{name}" deleted'))


async def finish_delete(team: SessionTeam) -> str:
    """Complete a deletion that a kill interrupted: files, and the lead's unread mail. Returns the team's name, or an
    empty text.

    Raises StorageError, LockTimeout.
    """
    entry = await find_archived(team.home, team.session)
    if entry is None:
        return ""
    if team.lead is not None:
        team.lead.queue_unread_mail(_unread_lead_mail(team, archived_lead_mail(entry)))
    return parse_config((entry / "config.json").read_bytes()).name


def _unread_lead_mail(team: SessionTeam, entries: Sequence[InboxEntry]) -> list[InboxEntry]:
    """Return the lead's unread mail of a team that is in the archive now."""
    waiting = [one for one in entries if not one.read and starts_turn(one)]
    delivered_ids = find_delivered_ids(
        team.home.transcript(team.cwd, team.session), [f"mail:{one.msg_id}" for one in waiting]
    )
    return [
        replace(one, msg_id=one.msg_id or message_id()) for one in waiting if f"mail:{one.msg_id}" not in delivered_ids
    ]


def _refuse_with_members(team: SessionTeam) -> None:
    live = {m.name.lower() for m in team.running_members}
    members = [f"{m.name} ({m.state})" for m in team.running_members] + [
        f"{name} (starting)" for name in team.starting_names
    ]
    members += [f"{name} (another program runs it)" for name in sorted(team.external.external_names - live)]
    if not members:
        return
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has live members',
        looked_at=[("members", ", ".join(members))],
        do=["Ask each of them to stop with a shutdown_request, then call TeamDelete again."],
        note="nothing was removed",
    )


async def refuse_with_open_tasks(team: SessionTeam) -> None:
    """Raise TeamRefused while a task of the team is open, or damaged and possibly open."""
    found = await team.tasks.snapshot()
    still_open = [task.id for task in found.tasks if task.status != "completed"]
    damaged = [task for task in found.damaged if task.is_open]
    if not (still_open or damaged) or team.external.shared_list:  # a shared list continues without this team
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
