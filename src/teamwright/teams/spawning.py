"""Starting a teammate: name, first prompt, coroutine, announcement; a failure undoes them in reverse.

Order: reserve the name in the roster, put the first prompt into the inbox, start, wait until it runs, announce.
Knows the team and its builder; does not know a tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD, agent_id, member_name, message_id
from teamwright.protocol.mail import Entry, IdleNotification
from teamwright.protocol.roster import Member
from teamwright.protocol.task import Task
from teamwright.teams.desk import Desk
from teamwright.teams.ending import left
from teamwright.teams.post import held, send_protocol
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate

START_S = 30.0
"""How long a member may take to be ready."""


class TeamOffice:
    """What a teammate needs of its team, filled by the team."""

    def __init__(self, team: Team) -> None:
        self._team = team

    async def claim_for(self, name: str, tools: frozenset[str]) -> Task | None:
        """The lowest free task for this member."""
        return await self._team.tasks.claim_next(name, tools)

    async def tell_lead(self, name: str, notice: IdleNotification) -> None:
        """The idle notice into the lead's inbox."""
        await send_protocol(self._team, name, LEAD, notice)

    async def left(self, name: str, cause: str, agreed_to: str | None) -> None:
        """The member is over."""
        await left(self._team, name, cause, agreed_to)


async def spawn(team: Team, spec: SpawnSpec, requester: str = LEAD) -> Teammate:
    """Start a teammate; makes the implicit team when there is none.

    Raises InvalidName, TeamRefused (a live name, a requester that is not the lead), LimitExceeded, CannotStart;
    then nothing is left behind.
    """
    if requester != LEAD:
        raise TeamRefused(
            "team-refused",
            "a teammate cannot start teammates: the team is flat",
            do=["Call Agent without name for a sub-agent, or ask team-lead for another teammate."],
            note="nothing was started",
        )
    if not spec.prompt.strip():
        raise UsageError("usage", "a teammate needs a prompt", note="nothing was started")
    name = member_name(spec.name)
    model = await team.builder.wire_model(spec)
    team.limits.admit(depth=0, live_members=len(team.live))
    async with AsyncExitStack() as undo:
        undo.callback(team.limits.undo)
        await team.ensure()
        member = await team.roster.join(_entry(team, spec, name, model), dedupe=team.settings.dedupe_names)
        undo.push_async_callback(team.roster.remove, member.name)
        first = Entry(
            sender=LEAD, text=spec.prompt, summary=spec.description or None, timestamp=iso(), msg_id=message_id()
        )
        await team.inbox(member.name).send(first, runtime=True)
        mate = await _start(team, spec, member)
        undo.pop_all()
    return mate


def _entry(team: Team, spec: SpawnSpec, name: str, model: str) -> Member:
    return Member(
        agent_id=agent_id(name, team.name or team.session_list),
        name=name,
        agent_type=spec.agent_type,
        model=model,
        prompt=spec.prompt,
        plan_mode_required=spec.plan_mode_required,
        joined_at=now_ms(),
        pane_id="in-process",
        cwd=str(spec.cwd or team.cwd),
        backend_type="in-process",
        mode=spec.mode,
    )


async def _start(team: Team, spec: SpawnSpec, member: Member) -> Teammate:
    incarnation = await team.roster.next_incarnation(member.name)
    agent = await team.builder.teammate(replace(spec, name=member.name), team, incarnation)
    desk = Desk(member.name, team.inbox(member.name), agent.conversation, team.emit)
    desk.held = lambda sender: held(team, member.name, sender)
    mate = Teammate(
        agent,
        desk,
        TeamOffice(team),
        team.emit,
        incarnation,
        color=member.color,
        model=agent.model.card.name,
        agent_type=member.agent_type,
        changed=team.changed,
    )

    def seen(entries: Sequence[Entry]) -> None:
        mate.note_seen(entries)

    desk.on_seen = seen
    agent.steering = desk
    team.members[member.name] = mate
    unfollow = team.follow(member.name, desk)
    mate.task = asyncio.create_task(_life(team, mate, unfollow), name=f"member {member.name}")
    await asyncio.wait_for(mate.ready.wait(), START_S)
    return mate


async def _life(team: Team, mate: Teammate, unfollow: Callable[[], None]) -> None:
    try:
        await mate.live()
    finally:
        unfollow()
        mate.agent.conversation.close()
        team.changed.set()
