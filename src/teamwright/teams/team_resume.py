"""Resume of a team whose processes ended: its members come back with their transcripts, mail and tasks.

First it completes or undoes steps that a kill interrupted: a spawn, a departure, a shutdown request with its deadline.
Depends on the team and the start of members.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from msgspec.structs import replace

from teamwright.agent.transcript import calls_without_result, read_header
from teamwright.protocol.errors import CannotStart, StorageError, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import message_id
from teamwright.protocol.members import IN_PROCESS, RosterMember
from teamwright.storage.files import storage_error
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_state import Incarnation, PendingEnd, TeamFile
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.plan_approval import resume_plan
from teamwright.teams.resume_result import ResumeResult
from teamwright.teams.shutdown import finish_end, notify_lead_of_end
from teamwright.teams.shutdown_answers import SHUT_DOWN, find_agreement, is_shutdown_request, was_asked_to_stop
from teamwright.teams.shutdown_requests import StopTarget, send_stop_request, start_deadline
from teamwright.teams.spawn import change_entry, end_incarnation, restart, save_mode_everywhere, send_first_prompt
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate
from teamwright.teams.undelivered_mail import return_late_mail


async def resume_members(team: SessionTeam, deadlines: set[asyncio.Task[None]]) -> ResumeResult:
    """Resume the members of the team that this session leads; `deadlines` receives the timers of open requests.

    A member that cannot come back gives its tasks back, and the lead is notified of the reason. It keeps its place
    while its transcript is readable. Raises StorageError, LockTimeout when the team's own files cannot be read.
    """
    file = await team.state.read()
    if file is None:
        return ResumeResult()
    left = await team.teams.unfinished_work(team.directory)
    repaired = sum(_count_cut_off_calls(incarnation) for incarnation in file.incarnation_records.values())
    await _finish_pending_ends(team, file)
    teammates = (await team.roster.read()).teammates
    _arm_external(team, [m.name for m in teammates if not _is_own_member(m, file)], deadlines)
    here = [m for m in teammates if _is_own_member(m, file)]
    back: list[str] = []
    not_resumed: list[str] = []
    gone = [parting.name for parting in file.pending_ends.values() if not parting.keeps]
    team.resuming = {name for member in here if (name := member.name.lower()) in file.incarnation_records}
    for member in here:
        incarnation = file.incarnation_records.get(member.name.lower())
        is_lost = bool(member.worktree_path) and not os.path.isdir(member.worktree_path or "")
        if incarnation is None:
            await team.roster.remove(member.name)  # its start had only reserved the name
        elif (parting := _agreed_end(team, member, incarnation)) is not None:
            await _end_member(team, parting)
            gone.append(member.name)
        elif (trouble := await _resume_member(team, member, incarnation, deadlines)) is None:
            (back if team.find(member.name) is not None else gone).append(member.name)
            if is_lost:
                _report_lost_worktree(team, member)
        elif (parting := _agreed_end(team, member, incarnation)) is not None:  # it agreed since, and its process ended
            await _end_member(team, parting)
            gone.append(member.name)
        else:
            cause = f"could not be resumed: {trouble.what}"
            team.emit(Notice(member=member.name, text=f"{member.name} {cause}", level="warning"))
            keeps = _keeps_place(team, member, incarnation, trouble)
            await _end_member(team, PendingEnd(member.name, incarnation.incarnation, cause, message_id(), keeps=keeps))
            (not_resumed if keeps else gone).append(member.name)
        team.resuming.discard(member.name.lower())
        team.changed.set()
    gone += await _end_unlisted(team, [m.name.lower() for m in here])
    await return_late_mail(team)
    ended = tuple(f"{name} ({one.cause})" for name, one in file.ended.items() if name not in file.incarnation_records)
    return ResumeResult(
        tuple(back), tuple(gone), len(left.tasks), left.unread_messages, repaired, ended, tuple(not_resumed)
    )


def _report_lost_worktree(team: SessionTeam, member: RosterMember) -> None:
    """Notify the member and the lead that its worktree was made again. The person was notified when that was done."""
    what = f"The worktree {member.worktree_path} was gone and was made again from its branch"
    key = f"lost-worktree:{member.worktree_path}"
    if (teammate := team.find(member.name)) is not None:
        teammate.notify(
            f"{what}. Your files that were not committed are lost: look at `git log` and `git status`, and do that "
            "work again before you complete a task.",
            key,
        )
    if team.lead is not None:
        team.lead.notify(f"{what}. Files of {member.name} that were not committed are lost.", key)


def _arm_external(team: SessionTeam, names: list[str], deadlines: set[asyncio.Task[None]]) -> None:
    """Restart the deadlines of members that other programs put on the roster."""
    for request in team.requests.open_requests():
        for name in (name for name in names if is_shutdown_request(request, name, 0)):
            start_deadline(team, StopTarget(name, 0), str(request["id"]), deadlines)


async def _finish_pending_ends(team: SessionTeam, file: TeamFile) -> None:
    for name, parting in file.pending_ends.items():
        incarnation = file.incarnation_records.get(name)
        if incarnation is not None and incarnation.incarnation > parting.incarnation:
            # The name has a new incarnation already: only the lead's notice is left.
            await notify_lead_of_end(team, parting, [*parting.tasks], is_rerun=True)
            await end_incarnation(team, parting.name, parting.incarnation)
        else:
            if incarnation is not None and incarnation.incarnation == parting.incarnation:
                await _clean_up(team, parting.name, incarnation)
            await finish_end(team, parting, is_rerun=True)


def _is_own_member(member: RosterMember, file: TeamFile) -> bool:
    """Return True when the member is ours: it ran in its lead's process, or has an incarnation that we began."""
    return member.backend_type == IN_PROCESS or member.name.lower() in file.incarnation_records


def _agreed_end(team: SessionTeam, member: RosterMember, incarnation: Incarnation) -> PendingEnd | None:
    """Return the end of a member that agreed to its shutdown, or was ended, just before the kill."""
    if (agreed := find_agreement(team.requests, member.name, incarnation.incarnation)) is None:
        return None
    agreed = "" if incarnation.command else agreed
    return PendingEnd(member.name, incarnation.incarnation, SHUT_DOWN, message_id(), agreed)


async def _clean_up(team: SessionTeam, name: str, incarnation: Incarnation) -> None:
    """Stop the remaining processes of a member that has ended, at its location."""
    if team.launcher is None or incarnation.place is None:
        return
    try:
        await team.launcher.clean_up(incarnation)
    except TeamwrightError as problem:
        text = f"{name} has ended, and may still run where it was started: {problem.what}"
        team.emit(Notice(member=name, text=text, level="warning"))


async def _end_member(team: SessionTeam, pending_end: PendingEnd) -> None:
    file = await team.state.read()
    incarnation = file.incarnation_records.get(pending_end.name.lower()) if file is not None else None
    if incarnation is not None:
        await _clean_up(team, pending_end.name, incarnation)
    await team.state.change(lambda file: file.with_pending_end(pending_end))
    await finish_end(team, pending_end)


def _keeps_place(team: SessionTeam, member: RosterMember, incarnation: Incarnation, trouble: TeamwrightError) -> bool:
    """Return True when a member that could not be resumed keeps its place and its conversation, like a crashed one.

    Its process was killed while it started, or its backend failed. Without its transcript it has ended.
    """
    if incarnation.command or trouble.slug == "damaged-file":
        return False
    return not was_asked_to_stop(team.requests, member.name, incarnation.incarnation)


async def _resume_member(
    team: SessionTeam, member: RosterMember, incarnation: Incarnation, deadlines: set[asyncio.Task[None]]
) -> TeamwrightError | None:
    """Resume one member. Returns None, or why it cannot be resumed.

    Raises StorageError, LockTimeout for a temporary problem, which does not cost the member its place.
    """
    try:
        incarnation = incarnation if incarnation.command else await _locate_transcript(team, member, incarnation)
        teammate = await _start_member(team, member, incarnation)
    except StorageError as problem:
        if problem.slug != "damaged-file":
            raise
        return problem
    except TeamwrightError as problem:
        return problem
    except TimeoutError:
        return CannotStart("backend", "it was not ready in time")
    if teammate.state not in ENDED_STATES and not teammate.is_external:
        await save_mode_everywhere(team, teammate)  # a mode that another program wrote has no effect
    elif incarnation.mode is not None:
        mode = incarnation.mode or None
        await change_entry(team, member.name, lambda entry: replace(entry, mode=mode))
    if incarnation.crashed:
        await team.state.change(lambda file: file.with_resumed(member.name, incarnation))
    if isinstance(teammate, LocalTeammate) and teammate.state not in ENDED_STATES:
        await resume_plan(team, teammate)
    for request in team.requests.open_requests() if teammate.state not in ENDED_STATES else ():
        if is_shutdown_request(request, member.name, incarnation.incarnation):
            teammate.stop_request_id = str(request["id"])
            await send_stop_request(team, teammate.name, request, is_rerun=True)
            start_deadline(team, StopTarget.from_teammate(teammate), teammate.stop_request_id, deadlines)
    return None


async def _locate_transcript(team: SessionTeam, member: RosterMember, incarnation: Incarnation) -> Incarnation:
    """Return the incarnation with its transcript's present path, or with its first prompt when it had not begun.

    Raises StorageError (`damaged-file`) when the transcript is gone: a member does not silently start again.
    """
    path = Path(incarnation.transcript)
    here = team.home.own.joinpath("projects", *path.parts[-4:])
    # The home was moved, or the session fetched into it. The former home may still have a file that its process was
    # killed before sharing: no other machine would find what the member reads from now on.
    if path.parts[-4:-3] and path != here:
        path = here
        incarnation = replace(incarnation, transcript=str(here))
        await team.state.change(lambda file: file.with_incarnation(member.name, incarnation))
    if _has_transcript(path):
        return incarnation
    inbox = team.mailbox(member.name)
    if not await inbox.contains(incarnation.first):
        await send_first_prompt(team, member, incarnation)
    elif all(entry.msg_id != incarnation.first for entry in await inbox.unread()):
        raise StorageError("damaged-file", f"its transcript is gone: {path}")
    return incarnation


async def _start_member(team: SessionTeam, member: RosterMember, incarnation: Incarnation) -> Teammate:
    """Start the member again; with the lead's model when its own is no longer available."""
    try:
        async with AsyncExitStack() as undo:
            teammate = await restart(team, member, incarnation, undo)
            undo.pop_all()
    except CannotStart as problem:
        if incarnation.model is None or incarnation.command:
            raise
        text = f"{member.name} continues with the lead's model: {problem.what}"
        team.emit(Notice(member=member.name, text=text, level="warning"))
        return await _start_member(team, member, replace(incarnation, model=None))
    return teammate


def _count_cut_off_calls(incarnation: Incarnation) -> int:
    """Return the number of the member's calls without a result."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # then the member reports the problem of its transcript
        return len(calls_without_result(Path(incarnation.transcript)))
    return 0


def _has_transcript(transcript: Path) -> bool:
    """Return True when the transcript has at least its first line; a kill may leave an empty file."""
    try:
        return read_header(transcript) is not None
    except StorageError:
        return True
    except OSError as problem:
        raise storage_error(problem, transcript) from problem


async def _end_unlisted(team: SessionTeam, names: list[str]) -> list[str]:
    """End incarnations whose roster entry another program removed, and whose end was never processed.

    Their definition is lost with the entry. Returns the names of those whose tasks went back.
    """
    file = await team.state.read()
    lost = (
        {name: incarnation for name, incarnation in file.incarnation_records.items() if name not in names}
        if file is not None
        else {}
    )
    for name, incarnation in lost.items():
        cause = "could not be resumed: another program had taken it off the roster"
        await _end_member(team, PendingEnd(name, incarnation.incarnation, cause, message_id()))
    return list(lost)
