"""Forming: a session makes its team, explicit or implicit, or takes one that is on disk and has no lead.

Knows the team, the catalogue of all teams and the one who hands over; does not know how members come back.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import LEAD, team_name
from teamwright.protocol.roster import TeamConfig
from teamwright.storage.atomic import sweep_drafts
from teamwright.storage.bell import sweep
from teamwright.tasks.task_list import TaskList
from teamwright.teams.catalogue import NewTeam
from teamwright.teams.dead_locks import remove_team_locks
from teamwright.teams.roster import Roster
from teamwright.teams.succession import make_way
from teamwright.teams.team import Team
from teamwright.teams.team_file import LeadLease, take_lead
from teamwright.teams.unbroken import seen_through


async def create_team(team: Team, name: str, description: str | None, agent_type: str | None) -> TeamConfig:
    """Create an explicit team of that name, led by this session; the session's open tasks move into it.

    The team that the session leads already is returned as it is when it has that name, or is the session's own team
    with members. Raises InvalidName; TeamRefused when this session leads a team of another name, or a live session
    leads one of that name.
    """
    async with team.forming:
        _forget_removed(team)
        same = team.name == team_name(name) if not team.implicit else bool(team.live or team.starting)
        if team.directory and same:
            return await team.roster.read()
        _refuse_another(team)
        return await seen_through(_create(team, _new(team, name, description, agent_type)))


async def _create(team: Team, new: NewTeam) -> TeamConfig:
    made = await team.teams.create(new)
    if team.implicit:
        team.forget()  # the session's own team makes way
    team.adopt(made.config.name, made.directory, implicit=False)
    await _succeed(team)
    return made.config


async def _succeed(team: Team) -> None:
    if await make_way(team.home, team.session_list, team.directory, team.session):
        team.ring(LEAD)


def _forget_removed(team: Team) -> None:
    if team.outside.removed and not team.live and not team.starting:
        team.forget()  # another program removed its files, and no member is left in it


def _refuse_another(team: Team) -> None:
    _forget_removed(team)
    if team.directory and not team.implicit:
        raise TeamRefused(
            "team-refused",
            f'this session leads the team "{team.name}" already',
            do=[f'Use the team "{team.name}" for this work, or end it with TeamDelete first.'],
            note="nothing was created",
        )
    if team.live or team.starting:
        raise TeamRefused(
            "team-refused",
            "the session's own team has members",
            looked_at=[("members", ", ".join([*(m.name for m in team.live), *team.not_yet_alive]))],
            do=["Continue with them, or stop them first."],
            note="nothing was created",
        )


async def ensure_team(team: Team, name: str = "") -> None:
    """The team, made if there is none: of that name, or the implicit one, `session-<8>` with the session's list."""
    async with team.forming:
        if team.directory:
            return
        if name:
            made = await team.teams.create(_new(team, name, None, None))
        else:
            made = await team.teams.create_implicit(_new(team, team.session_list, None, None))
        team.adopt(made.config.name, made.directory, implicit=not name)


async def attach_team(team: Team, directory: str) -> TeamConfig:
    """Lead a team that is on disk and has no lead now: this session's own of an earlier life, or another's.

    Only the lead changes hands; `resuming` brings the members back. Raises TeamRefused while somebody leads it, or
    this session leads another one; TeamwrightError (`unknown-team`), StorageError, LockTimeout.
    """
    async with team.forming:
        _refuse_another(team)
        if not team.home.team_file(directory).exists():
            raise _foreign(directory, team.home.team(directory))
        remove_team_locks(team.home, directory)
        lead = LeadLease(team.session, os.getpid(), team.lease)
        file = await take_lead(team.home, directory, lead, team.log)
        team.outside.shared_list = team.outside.shared_list or file.task_list
        config = await Roster(team.home, directory).change(lambda c: replace(c, lead_session_id=team.session))
        implicit = directory == team.session_list
        if not implicit and not team.outside.shared_list:
            own = TaskList(team.home.tasks(team.session_list), team.home.guard)
            await TaskList(team.home.tasks(directory), team.home.guard).take_over(own)
        sweep(team.home.bell(directory, LEAD).parent)
        place = team.home.team(directory)
        sweep_drafts(place, place / "inboxes", team.home.requests(directory), team.home.tasks(directory))
        team.adopt(config.name, directory, implicit=implicit, change="resumed")
        await _succeed(team)
        return config


def _new(team: Team, name: str, description: str | None, agent_type: str | None) -> NewTeam:
    lead = LeadLease(team.session, os.getpid(), team.lease)
    kind = agent_type or LEAD
    shared = team.outside.shared_list
    return NewTeam(name, lead, str(team.cwd), team.lead_model, now_ms(), description, kind, team.log, shared)


def _foreign(directory: str, place: Path) -> TeamRefused:
    return TeamRefused(
        "team-refused",
        f"the team in {directory} is another product's: it has no team.json",
        looked_at=[("team", str(place))],
        do=["make a team of your own"],
        note="nothing was changed",
    )
