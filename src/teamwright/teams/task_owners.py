"""Owners of tasks: which members may be one, and the messages that a new and a former owner receive.

Depends on the roster and on sending. Leaves to the task list who may change an owner.
"""

from __future__ import annotations

from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.mail import TaskAssignment
from teamwright.protocol.task import Task
from teamwright.protocol.timestamps import iso_time
from teamwright.tasks.task_list import TaskUpdateResult
from teamwright.tasks.task_rules import DELETED, is_owner
from teamwright.teams.mailbox.outgoing import SendCall, find_recipient, send_protocol
from teamwright.teams.mailbox.runtime_notes import send_note
from teamwright.teams.team import SessionTeam

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
    task, former = change.task, change.removed_from or ""
    if is_owner(former, LEAD) or await _running_owner(team, former) == "":
        return
    author = LEAD_ALIAS if by == LEAD else by
    if DELETED in change.changed:
        became = f"was deleted by {author}"
    elif task.owner:
        became = f"was given to {task.owner} by {author}"
    else:
        became = f"was taken from you by {author} and has no owner now"
    text = (
        f"Task #{task.id} ({task.subject}) {became}. Stop working on it. If you have changed files for it, send "
        f"{task.owner or author} one message that names them."
    )
    await send_note(team, "task-list", former, text, f"task #{task.id} is no longer yours")


async def _running_owner(team: SessionTeam, name: str) -> str:
    """The member that an owner's name means, as the roster spells it; empty when no live member has it."""
    if not team.exists:
        return ""
    if (teammate := team.find(name)) is not None:
        return teammate.name
    if name.lower() in team.external.external_names:
        member = (await team.roster.read()).find(name)
        return member.name if member is not None else ""
    return LEAD if name == LEAD else ""
