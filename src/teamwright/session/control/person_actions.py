"""Actions of a person on a running session: write to a member, stop it, list its jobs, store a note.

A facade over `teams` for user interfaces with a session. Each action is stored in the files before it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from teamwright.config.add_instruction import NoteFile, append_note, note_files
from teamwright.permissions.verdict import PermissionAnswer, PermissionUpdate
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UnknownMember, UsageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage
from teamwright.session.control.action_table import (
    BACKGROUND,
    FOREGROUND,
    RUNNING,
    STOP,
    find_job,
    list_running,
    running_ids,
    stop_running,
)
from teamwright.session.control.action_table import list_foreground as foreground_here
from teamwright.session.control.action_table import move_to_background as here_to_background
from teamwright.session.control.live_agents import find_member, find_teammate, remote_members, require_members
from teamwright.session.options import read_prompt
from teamwright.session.result import TaskResult
from teamwright.session.session import Session
from teamwright.team_records.life_cycle import USER_CAUSE
from teamwright.team_records.team_status import MemberStatus
from teamwright.teams.backend import HidingBackend
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.outgoing_mail import Sent, send_text
from teamwright.teams.shutdown import delete_team, kill, refuse_with_open_tasks
from teamwright.teams.teammate import Teammate

T = TypeVar("T")

ANSWERS_S = 3.0
"""Seconds that member processes may take to list their jobs."""


def live_members(session: Session) -> list[MemberStatus]:
    """Return the lead, then all live members, in the order of joining, with the states of their lifecycles."""
    budget_tracker = session.agent_factory.budget_tracker
    lead = session.lead
    first = MemberStatus(
        LEAD,
        MemberState.WORKING if lead.busy else MemberState.IDLE,
        model=lead.agent.model.card.name,
        agent_type="lead",
        turn=lead.turns,
        mode=str(session.modes.mode),
    )
    others = [
        MemberStatus(
            teammate.name,
            teammate.state,
            model=teammate.model,
            agent_type=teammate.agent_type,
            reason=teammate.waiting_on,
            turn=teammate.turns,
            mode=teammate.mode,
            place=str(teammate.shown_location),
            note=teammate.shown_location.note,
        )
        for teammate in session.team.running_members
    ]
    return [
        replace(
            member,
            context=budget_tracker.context.get(member.name, 0),
            usage=budget_tracker.by_member.get(member.name, Usage()),
        )
        for member in (first, *others)
    ]


def backend_reasons(session: Session) -> list[tuple[str, str]]:
    """Return each backend that `auto` chose for a member, once for each reason."""
    places = [teammate.shown_location for teammate in session.team.running_members]
    return list(dict.fromkeys((place.backend, place.why) for place in places if place.why))


def members_with_accepted_edits(session: Session) -> set[str]:
    """Return the members whose edits a person accepted in advance."""
    return {teammate.name for teammate in session.team.running_members if teammate.edits_accepted_by}


def member_names(session: Session) -> list[str]:
    """Return the names of live members, without the lead."""
    return [teammate.name for teammate in session.team.running_members]


def members_at_work(session: Session) -> list[str]:
    """Return the names of members that work or are about to."""
    return [teammate.name for teammate in session.team.busy_members()]


def prompt_lead(session: Session, text: str, attached: Sequence[Block] = ()) -> None:
    """Send the user's prompt to the lead, with files attached by `@path`, for its next turn or model call.

    `attached` are the resources of MCP servers that it mentions (`server_resources.read_mentions`).

    Raises UsageError for a file that cannot be attached and for an image that the lead's model cannot take,
    StorageError for a file that cannot be read.
    """
    blocks = [*read_prompt(text, None, session.agent_factory.work_directory), *attached]
    card = session.lead.agent.model.card
    if not card.images and any(block.get("type") == "image" for block in blocks):
        raise UsageError(
            "usage",
            f"the lead's model {card.name} takes no images",
            do=["/model NAME chooses another model", "name the file without @: agents can use programs on it"],
            note="nothing was sent",
        )
    session.lead.add_prompt(blocks)


def run_in_shell(session: Session, command: str) -> None:
    """Run the user's shell command between the lead's turns; the lead reads its output later."""
    session.lead.queue_shell(command)


async def send_to_member(session: Session, name: str, text: str) -> Sent:
    """Send a message from the user to a member. Raises UnknownMember, InboxFull, LockTimeout; then nothing is sent."""
    require_members(session.team, name, "nothing was sent")
    return await send_text(session.team, "user", name, text)


async def stop_member(session: Session, name: str) -> tuple[str, list[TaskResult]]:
    """Stop a member at once; return its name and the tasks that are unowned again.

    Its model call and its commands have ended when this returns. Raises UnknownMember, InvalidName, and TeamRefused for
    the lead.
    """
    teammate = _find(session, name, "nothing was stopped")
    tasks = session.team.tasks
    mine = {task.id for task in await tasks.all() if task.owner == teammate.name and task.status != "completed"}
    await kill(session.team, teammate, USER_CAUSE)
    free = [task for task in await tasks.all() if task.id in mine and task.owner is None]
    return teammate.name, [TaskResult(task.id, task.subject, str(task.status)) for task in free]


async def delete_led_team(session: Session, *, force: bool) -> None:
    """End all members and archive the team.

    Raises TeamRefused while a task is open, unless `force`; then no member has ended.
    """
    session.team.require_team()
    if not force:
        await refuse_with_open_tasks(session.team)
    await session.finish()
    await delete_team(session.team, force=force)


async def stop_task(session: Session, name: str) -> str | None:
    """Stop a sub-agent by id or name, or a background command by id, and notify its owner.

    Returns the result in a line; None for an unknown name.
    """
    if session.team.find(name) is not None:
        return None
    found = find_job(session.agent_factory, name)
    if found is None or found.state != "running":
        for teammate in remote_members(session.team):
            if (stopped := await _of(STOP.on(session, teammate, name=name), None)) is not None:
                return stopped
    return None if found is None else await stop_running(session.agent_factory, found)


async def list_jobs(session: Session, owner: str) -> list[str]:
    """Return the jobs of a member that still run: its sub-agents, then its background commands, a line each."""
    teammate = session.team.find(owner)
    if isinstance(teammate, ProcessTeammateBase):
        return list(await _of(RUNNING.on(session, teammate), ()))
    return list_running(session.agent_factory, owner)


async def _of(call: Awaitable[T], otherwise: T) -> T:
    """Return the answer of a member process; `otherwise` when it does not answer in time."""
    try:
        async with time_limit(ANSWERS_S):
            return await call
    except (TeamwrightError, TimeoutError):
        return otherwise


def interrupt_member(session: Session, name: str) -> bool:
    """Interrupt a member's turn. Return False when it is not in a turn.

    Raises UnknownMember, InvalidName, and TeamRefused for the lead.
    """
    return _find(session, name, "nothing was interrupted").interrupt()


async def list_foreground(session: Session) -> list[str]:
    """Return what agents wait for and a person can move to the background, a line each with its name first."""
    theirs = remote_members(session.team)
    there = await asyncio.gather(*(_of(FOREGROUND.on(session, teammate), ()) for teammate in theirs))
    return [*foreground_here(session.agent_factory), *(line for lines in there for line in lines)]


async def move_to_background(session: Session, name: str) -> list[str]:
    """Move to the background what has that name: a sub-agent's id or name, the call of a command (`cN`), or a member
    for all that it waits for itself.

    Returns what moved, as shown to people. Raises UsageError for an unknown name.
    """
    agent_factory = session.agent_factory
    theirs = remote_members(session.team)
    if (found := here_to_background(agent_factory, name)) is not None:
        return found
    try:
        teammate = find_member(session.team, name, "nothing was moved", running_ids(agent_factory))
    except UnknownMember:
        for one in theirs:
            if (there := await _of(BACKGROUND.on(session, one, name=name), None)) is not None:
                return list(there)
        raise
    if isinstance(teammate, ProcessTeammateBase):
        return list(await BACKGROUND.on(session, teammate, name="") or ())
    return here_to_background(agent_factory, owner=LEAD if teammate is None else teammate.name) or []


async def set_pane_hidden(session: Session, name: str, *, hidden: bool) -> str:
    """Hide the pane of a member, or show it again; the member continues. Return the result as a sentence.

    The roster lists the hidden panes. Raises UnknownMember, InvalidName, CannotStart, and TeamRefused for the lead, for
    a member without a pane, and for a backend that cannot hide panes.
    """
    teammate = _find(session, name, "nothing was changed")
    verb = "hidden" if hidden else "shown"
    backend = getattr(teammate, "backend", None)
    if teammate.location is None or not isinstance(backend, HidingBackend):
        raise TeamRefused(
            "team-refused",
            f"{teammate.name} runs in {teammate.shown_location}: it has no pane",
            note="nothing was changed",
        )
    location = teammate.location
    if not await (backend.hide(location) if hidden else backend.show(location)):
        raise TeamRefused(
            "team-refused",
            f"{teammate.name} cannot be {verb} in {teammate.shown_location}, or is gone",
            note="nothing was changed",
        )
    await session.team.roster.change(lambda config: config.with_hidden(location.id, hidden=hidden))
    return f"{teammate.name} is {verb} ({teammate.shown_location})"


def record_interrupt(session: Session) -> None:
    """Record that the person interrupted the lead's turn, so that no answer is owed. Raises StorageError."""
    session.lead.note_interrupt()


async def allow_directory(session: Session, directory: Path) -> None:
    """Let all agents of the session work in this directory too, until the session ends."""
    update = PermissionUpdate("addDirectories", directories=(str(directory),))
    answer = PermissionAnswer(True, "terminal", updates=(update,))
    await session.agent_factory.keep_grant(LEAD, session.agent_factory.policy, answer)


def note_choices(session: Session) -> tuple[NoteFile, ...]:
    """Return the instruction files that can store a note, one for each scope."""
    context = session.reloading.context
    return note_files(context.home, context.trust.root, compat=context.settings.compat)


def store_note(session: Session, file: NoteFile, note: str) -> None:
    """Store the note in the file, and give it to the lead with its next prompt. Raises TeamRefused, StorageError."""
    append_note(file, note)
    session.lead.add_note(f"The user added a note to {file.path}, which each session reads: {note}")


def _find(session: Session, name: str, note: str) -> Teammate:
    return find_teammate(session.team, name, note, running_ids(session.agent_factory))
