"""Creation of a session's team, explicit or implicit, and takeover of a team on disk without a lead.

Depends on the team and the catalogue of all teams. Resuming the members is left to `team_resume`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, team_name
from teamwright.protocol.roster import TeamConfig
from teamwright.protocol.timestamps import now_ms
from teamwright.team_records.team_catalogue import NewTeam
from teamwright.team_records.team_state_file import LeadLease
from teamwright.teams.team import SessionTeam

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


async def _create(team: SessionTeam, new: NewTeam) -> TeamConfig:
    new_team = await team.teams.create(new)
    if team.implicit:
        team.forget()  # the new team replaces the session's own one
    team.adopt(new_team.config.name, new_team.directory, implicit=False)
    await _replace_session_team(team)
    return new_team.config


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


def _new_team(team: SessionTeam, name: str, description: str | None, agent_type: str | None) -> NewTeam:
    lead = LeadLease(team.session, os.getpid(), team.lease)
    kind = agent_type or LEAD
    shared = team.external.shared_list
    return NewTeam(name, lead, str(team.cwd), team.lead_model, now_ms(), description, kind, team.log, shared)
