"""Starting a teammate: name, first prompt, coroutine, announcement; a failure undoes them in reverse.

Order: reserve the name in the roster, put the first prompt into the inbox, start, wait until it runs, announce.
Knows the team and its builder; does not know a tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace

from teamwright.mail.inbox import Inbox
from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, agent_id, member_name, message_id
from teamwright.protocol.mail import Entry, IdleNotification, parse_protocol
from teamwright.protocol.roster import Member
from teamwright.protocol.task import Task
from teamwright.teams.desk import Desk
from teamwright.teams.ending import left, stop_is_open
from teamwright.teams.lifecycle import GONE, Event
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

    def stop_is_open(self, name: str, request_id: str) -> bool:
        """Whether that request is open and meant for this life of the member."""
        return stop_is_open(self._team, name, request_id)

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
    _refuse_late(team)
    team.limits.admit(depth=0, live_members=len(team.live) + len(team.not_yet_alive))
    with _starting(team, name):
        async with AsyncExitStack() as undo:
            undo.callback(team.limits.undo)
            await team.ensure()
            roster = team.roster
            member = await roster.join(_entry(team, spec, name, model), dedupe=team.settings.dedupe_names)
            undo.push_async_callback(roster.remove, member.name)
            inbox = team.inbox(member.name)
            await _drop_stale(inbox)
            id = message_id()
            first = Entry(sender=LEAD, text=spec.prompt, summary=spec.description or None, timestamp=iso(), msg_id=id)
            undo.push_async_callback(inbox.mark_read, {id})
            await inbox.send(first, runtime=True)
            mate = await _start(team, spec, member, undo)
            undo.pop_all()
    return mate


@contextmanager
def _starting(team: Team, name: str) -> Generator[None]:
    team.starting.append(name)
    try:
        yield
    finally:
        team.starting.remove(name)
        team.changed.set()


def _refuse_late(team: Team) -> None:
    if team.closing:
        raise TeamRefused("team-refused", "the session is ending", note="nothing was started")


async def _drop_stale(inbox: Inbox) -> None:
    """Requests and assignments to an earlier life of the name are not for this one; words of people are kept."""
    unread = await inbox.unread()
    await inbox.mark_read({e.msg_id for e in unread if e.msg_id and parse_protocol(e.text) is not None})


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


async def _start(team: Team, spec: SpawnSpec, member: Member, undo: AsyncExitStack) -> Teammate:
    incarnation = await team.roster.next_incarnation(member.name)
    agent = await team.builder.teammate(replace(spec, name=member.name), team, incarnation)
    undo.callback(agent.conversation.close)
    _refuse_late(team)
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
    team.outside.entries[member.name] = member
    unfollow = team.follow(member.name, desk)
    mate.task = asyncio.create_task(mate.live(), name=f"member {member.name}")
    mate.task.add_done_callback(lambda task: _life_over(team, mate, unfollow, task))
    undo.push_async_callback(_take_back, team, mate)
    async with asyncio.timeout(START_S):  # wait_for of Python 3.11 loses a cancellation that comes with the wake-up
        await mate.ready.wait()
    if mate.state in GONE and not mate.turns:
        raise TeamRefused("team-refused", f"{mate.name} was ended while it started", note="nobody was started")
    return mate


def _life_over(team: Team, mate: Teammate, unfollow: Callable[[], None], task: asyncio.Task[None]) -> None:
    """Runs however a life ends, also one that was cancelled before its first step."""
    unfollow()
    mate.agent.conversation.close()
    mate.ready.set()
    team.changed.set()
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        team.emit(Notice(member=mate.name, text=f"{type(problem).__name__}: {problem}", level="warning"))


async def _take_back(team: Team, mate: Teammate) -> None:
    """A member whose start failed never was."""
    if mate.task is not None:
        mate.task.cancel()
        await asyncio.wait({mate.task}, timeout=team.settings.cancel_grace_s)
    if mate.state not in GONE:
        mate.move(Event.BROKE, "it could not be started")
    if team.members.get(mate.name) is mate:
        del team.members[mate.name]
