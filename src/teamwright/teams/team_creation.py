"""Create a session's team, explicit or implicit, take over one on disk without a lead, and notify owners of its tasks.

`team_resume` brings the members of a team back. The task list decides who may change an owner.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, display_name, iso_time, now_ms, team_name
from teamwright.protocol.mail import TaskAssignment
from teamwright.protocol.members import TeamConfig
from teamwright.protocol.task import Task
from teamwright.tasks.task_list import TaskUpdateResult
from teamwright.tasks.task_rules import DELETED, is_owner
from teamwright.team_records.team_catalogue import NewTeam
from teamwright.team_records.team_state import LeadLease
from teamwright.teams.outgoing_mail import SendCall, find_recipient, send_note, send_protocol
from teamwright.teams.team import SessionTeam


async def create_team(team: SessionTeam, name: str, description: str | None, agent_type: str | None) -> TeamConfig:
    """Create an explicit team of that name, led by this session; the session's open tasks move into it.

    The team that the session already leads is returned unchanged when it has that name, or is the session's own team
    with members. Raises InvalidName; TeamRefused when this session leads a team of another name, or a live session
    leads one of that name.
    """
    async with team.forming_lock:
        _forget_removed(team)
        same = team.name == team_name(name) if not team.implicit else bool(team.running_members or team.starting)
        if team.directory and same:
            return await team.roster.read()
        _refuse_second(team)
        return await run_uncancelled(_create(team, _new_team(team, name, description, agent_type)))


async def ensure_team(team: SessionTeam, name: str = "") -> None:
    """Create the team if there is none: with that name, or the implicit one, `session-<8>` with the session's list."""
    async with team.forming_lock:
        if team.directory:
            return
        if name:
            new_team = await team.teams.create(_new_team(team, name, None, None))
        else:
            new_team = await team.teams.create_implicit(_new_team(team, team.session_list_name, None, None))
        team.adopt(new_team.config.name, new_team.directory, implicit=not name)


async def attach_team(team: SessionTeam, directory: str) -> TeamConfig:
    """Lead a team on disk that has no lead now: this session's former one, or another session's.

    Only the lead changes; `team_resume` brings the members back. Raises TeamRefused while another process leads it, or
    this session leads another one; TeamwrightError (`unknown-team`), StorageError, LockTimeout.
    """
    async with team.forming_lock:
        _refuse_second(team)
        file = await team.teams.take_over(directory, LeadLease(team.session, os.getpid(), team.lease), team.log)
        team.external.shared_list = team.external.shared_list or file.task_list
        roster = team.stores.roster(directory, team.note_restored_roster)
        config = await roster.change(lambda c: replace(c, lead_session_id=team.session))
        implicit = directory == team.session_list_name
        if not implicit and not team.external.shared_list:
            await team.teams.adopt_open_tasks(directory, team.session_list_name)
        team.adopt(config.name, directory, implicit=implicit, change="resumed")
        await _replace_session_team(team)
        return config


async def _create(team: SessionTeam, new: NewTeam) -> TeamConfig:
    new_team = await team.teams.create(new)
    if team.implicit:
        team.forget()  # the new team replaces the session's own one
    team.adopt(new_team.config.name, new_team.directory, implicit=False)
    await _replace_session_team(team)
    return new_team.config


def _new_team(team: SessionTeam, name: str, description: str | None, agent_type: str | None) -> NewTeam:
    return NewTeam(
        name,
        LeadLease(team.session, os.getpid(), team.lease),
        str(team.cwd),
        team.lead_model,
        now_ms(),
        description,
        agent_type or LEAD,
        team.log,
        team.external.shared_list,
    )


async def _replace_session_team(team: SessionTeam) -> None:
    if await team.teams.replace_team(team.session_list_name, team.directory, team.session):
        team.wake(LEAD)


def _forget_removed(team: SessionTeam) -> None:
    if team.external.files_removed and not team.running_members and not team.starting:
        team.forget()  # another program removed its files, and no member is left in it


def _refuse_second(team: SessionTeam) -> None:
    _forget_removed(team)
    if team.directory and not team.implicit:
        raise TeamRefused(
            "team-refused",
            f'this session leads the team "{team.name}" already',
            do=[f'Use the team "{team.name}" for this work, or end it with TeamDelete first.'],
            note="nothing was created",
        )
    if team.running_members or team.starting:
        raise TeamRefused(
            "team-refused",
            "the session's own team has members",
            looked_at=[("members", ", ".join([*(m.name for m in team.running_members), *team.starting_names]))],
            do=["Continue with them, or stop them first."],
            note="nothing was created",
        )


T = TypeVar("T")


async def run_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work. A cancellation is raised after its end; an error of the work is lost then."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()
        raise asyncio.CancelledError
    return task.result()


_WITHOUT_TASK_TOOLS = (
    "If you have no task tools, do the task all the same, and send a message to team-lead when it is done or blocked."
)
"""For members that another program runs: in its newest version the tools depend on the model."""


_UNCHANGED = "nothing was changed"


async def require_owner(team: SessionTeam, owner: str | None, caller: str, *, id: str = "") -> None:
    """Check that a name can own a task: the caller, the lead, a running member, or a member of another session.

    `id` is the task that is changed; its present owner may stay. Raises UnknownMember with the nearest name,
    TeamRefused without a team.
    """
    name = (owner or "").strip()
    if team.external.shared_list and "@" in name and name.partition("@")[2] != team.session_list_name:
        return
    if not name or is_owner(team.recipient(name, _UNCHANGED), caller) or is_owner(name, LEAD):
        return
    task = await team.tasks.get(id) if id else None
    if task is not None and is_owner(task.owner, name):
        return
    await find_recipient(team, name, _UNCHANGED)


async def notify_owners(team: SessionTeam, change: TaskUpdateResult, by: str, call: SendCall | None = None) -> None:
    """Notify the new owner and the former owner of a changed task; once for each `call`."""
    again = call is not None and call.is_rerun
    if change.assigned or (again and change.task.owner):
        await notify_owner(team, change.task, by, call)
    if change.removed_from:
        await _notify_former(team, change, by)


async def notify_owner(team: SessionTeam, task: Task, by: str, call: SendCall | None = None) -> None:
    """Notify a task's owner, when it is a live member other than `by`; once for each `call`.

    A member that another program runs is notified too, since it has no other way to know.
    """
    owner = await _running_owner(team, task.owner or "")
    if owner in {"", by}:
        return
    id = call.message_id_for(owner) if call is not None else ""
    if call is not None and call.is_rerun and await team.mailbox(owner).contains(id):
        return
    description = task.description
    if owner.lower() in team.external.external_names:
        description = f"{description}\n\n{_WITHOUT_TASK_TOOLS}"
    assignment = TaskAssignment(
        task_id=task.id, subject=task.subject, description=description, assigned_by=by, timestamp=iso_time()
    )
    await send_protocol(team, by, owner, assignment, id=id)


async def _notify_former(team: SessionTeam, change: TaskUpdateResult, by: str) -> None:
    """Tell the member that had the task to stop working on it."""
    task = change.task
    former = change.removed_from or ""
    if is_owner(former, LEAD) or await _running_owner(team, former) == "":
        return
    author = display_name(by)
    if DELETED in change.changed:
        became = f"was deleted by {author}"
    elif task.owner:
        became = f"was given to {display_name(task.owner)} by {author}"
    else:
        became = f"was taken from you by {author} and has no owner now"
    text = (
        f"Task #{task.id} ({task.subject}) {became}. Stop working on it. If you have changed files for it, send "
        f"{display_name(task.owner or author)} one message that names them."
    )
    await send_note(team, "task-list", former, text, f"task #{task.id} is no longer yours")


async def _running_owner(team: SessionTeam, name: str) -> str:
    """Return the member that an owner's name means, as the roster spells it; empty when no live member has it."""
    if not team.exists:
        return ""
    if (teammate := team.find(name)) is not None:
        return teammate.name
    if name.lower() in team.external.external_names:
        member = (await team.roster.read()).find(name)
        return member.name if member is not None else ""
    return LEAD if name == LEAD else ""
