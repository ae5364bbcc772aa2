"""Starting a teammate: name, life, first prompt, coroutine, announcement; a failure undoes them in reverse.

Order: reserve the name in the roster, note the life in team.json, put the first prompt into the inbox, start, wait
until it runs, announce. A kill in between leaves what `resuming` completes or takes back. Knows the team and its
builder; does not know a tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.mail.inbox import Inbox
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso, now_ms
from teamwright.protocol.errors import CannotStart, StorageError, TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, agent_id, keyed_id, member_name, message_id
from teamwright.protocol.mail import Entry, IdleNotification, parse_protocol
from teamwright.protocol.roster import Member
from teamwright.protocol.task import Task, TaskStatus
from teamwright.teams.ending import crashed_life, left
from teamwright.teams.forming import ensure_team
from teamwright.teams.incarnation import Life, noted_entry
from teamwright.teams.lifecycle import GONE, Event, State
from teamwright.teams.mailing.desk import Desk
from teamwright.teams.mailing.ping_pong_guard import held
from teamwright.teams.mailing.post import send_protocol
from teamwright.teams.member.elsewhere import IN_PROCESS
from teamwright.teams.member.mate import Mate
from teamwright.teams.plans.awaited import NOTHING_AWAITED
from teamwright.teams.plans.rows import plan_awaited
from teamwright.teams.roster_note import KnownRoster
from teamwright.teams.shown.words import words_of
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.stopping import stop_is_open, stop_read
from teamwright.teams.team import Team
from teamwright.teams.team_file import begin_life, change_team_file, read_team_file
from teamwright.teams.teammate import Teammate

START_S = 30.0
"""How long a member may take to be ready."""

PROGRAMS_OWN = "default"
"""What the roster says of the model of a member that another program runs, where nobody named one."""

GONE_MOST = 64  # members that are over and still remembered


class TeamOffice:
    """What a teammate needs of its team, filled by the team."""

    def __init__(self, team: Team) -> None:
        self._team = team

    async def claim_for(self, name: str, tools: frozenset[str]) -> Task | None:
        """The lowest free task for this member; it is woken when a task that is still a draft becomes free."""
        tasks, settle_ms = self._team.tasks, self._team.outside.settle_ms
        task = await tasks.claim_next(name, tools, settle_ms)
        if task is None and (moment := tasks.next_claim_at(settle_ms)):
            self._team.ring_idle_at(moment)
        return task

    async def roster_note(self, name: str, known: KnownRoster) -> str:
        """What changed in the roster; nothing while it cannot be read."""
        try:
            return await known.note(self._team.roster, name)
        except TeamwrightError:
            return ""

    async def turn_ended(self, name: str) -> None:
        """What the member added to the task list may be claimed now."""
        await self._team.tasks.finish_drafts(name)

    async def held_by(self, name: str) -> list[Task]:
        """The tasks that are this member's and in progress."""
        tasks = await self._team.tasks.all()
        return [t for t in tasks if t.status is TaskStatus.IN_PROGRESS and (t.owner or "").lower() == name.lower()]

    async def tell_lead(self, name: str, notice: IdleNotification, id: str, *, again: bool = False) -> None:
        """Put the idle notice into the lead's inbox. A notice that cannot be put there never ends its sender."""
        try:
            if not (again and await self._team.inbox(LEAD).has(id)):
                await send_protocol(self._team, name, LEAD, notice, id=id)
        except StorageError as problem:
            text = f"the lead did not receive an idle notice of {name} ({problem.what}); its text is in the event log"
            self._team.emit(Notice(member=name, text=text, level="warning"))

    def stop_is_open(self, name: str, request_id: str) -> bool:
        """Whether that request is open and meant for this life of the member."""
        return stop_is_open(self._team, name, request_id)

    async def left(self, name: str, cause: str, agreed_to: str | None) -> None:
        """The member is over."""
        over = self._team.departed
        await (left(self._team, name, cause, agreed_to) if over is None else over(name, cause, agreed_to))


async def spawn(team: Team, spec: SpawnSpec, requester: str = LEAD) -> Mate:
    """Start a teammate; makes the implicit team when there is none.

    Raises InvalidName, TeamRefused (a live name, a requester that is not the lead), LimitExceeded, CannotStart;
    then nothing is left behind.
    """
    _refuse_of_member(requester)
    if not spec.prompt.strip():
        raise UsageError("usage", "a teammate needs a prompt", note="nothing was started")
    name = member_name(spec.name)
    spec = team.builder.resolved(spec)
    if before := next((mate for mate in team.members.values() if spec.call and mate.call == spec.call), None):
        return before  # this very call started it, perhaps as `name-2`, and was cut off by a kill; it may be over
    if spec.call and team.exists and (over := _over(team, spec.call)):
        raise CannotStart("backend", over, do=["Start another one if the work is still to be done."])
    model = (spec.model or PROGRAMS_OWN) if spec.command else await team.builder.wire_model(spec)
    _refuse_late(team)
    if not spec.command and (life := crashed_life(team, name)) is not None:
        return await _resume_crashed(team, name, life, spec)
    backend = await team.elsewhere.choose(spec) if team.elsewhere is not None else IN_PROCESS
    why = team.elsewhere.why if team.elsewhere is not None else ""
    team.limits.admit(depth=0, live_members=len(team.live) + len(team.not_yet_alive))
    with _starting(team, name):
        async with AsyncExitStack() as undo:
            undo.callback(team.limits.undo)
            await ensure_team(team)
            roster = team.roster
            entry = _entry(team, spec, name, model)
            member = await roster.join(entry, dedupe=team.settings.dedupe_names)
            undo.push_async_callback(roster.remove, member.name)
            life = await _begin_life(team, member, spec)
            undo.push_async_callback(end_life, team, member.name, life.incarnation)
            member = await _housed(team, member, backend)
            inbox = team.inbox(member.name)
            await _drop_stale(inbox)
            undo.push_async_callback(inbox.mark_read, {life.first})
            await send_first(team, member, life, spec.description)
            if team.elsewhere is not None and backend != IN_PROCESS:
                mate = await team.elsewhere.start(member, life, undo)
            else:
                mate = await start(team, member, life, undo, replace(spec, name=member.name))
            undo.pop_all()
    mate.why_there = why
    return mate


async def _resume_crashed(team: Team, name: str, life: Life, spec: SpawnSpec) -> Mate:
    """Resume the member with its conversation; the prompt is its next message. Raises as `spawn`."""
    team.limits.admit(depth=0, live_members=len(team.live) + len(team.not_yet_alive))
    with _starting(team, name):
        async with AsyncExitStack() as undo:
            undo.callback(team.limits.undo)
            member = await team.roster.find(name)
            id, inbox = keyed_id(spec.call, name.lower()) if spec.call else message_id(), team.inbox(member.name)
            if not await inbox.has(id):
                await inbox.send(Entry(LEAD, spec.prompt, spec.description or None, iso(), msg_id=id), runtime=True)
                undo.push_async_callback(inbox.mark_read, {id})
            mate = await start_again(team, member, life, undo)
            undo.pop_all()
    again = replace(life, crashed="", call=spec.call or life.call)
    await change_team_file(team.home, team.directory, lambda file: file.resumed(name, again))
    mate.crash, mate.call = life.crashed, again.call
    return mate


async def start_again(team: Team, member: Member, life: Life, undo: AsyncExitStack) -> Mate:
    """Start a member that a process before this one began, where it lived or can live now. Raises TeamwrightError."""
    if team.elsewhere is not None and (life.command or member.backend_type != IN_PROCESS):
        return await team.elsewhere.go_on(member, life, undo)
    return await start(team, member, life, undo, resumed=True)


def _refuse_of_member(requester: str) -> None:
    if requester != LEAD:
        raise TeamRefused(
            "team-refused",
            "a teammate cannot start teammates: the team is flat",
            do=["Call Agent without name for a sub-agent, or ask lead for another teammate."],
            note="nothing was started",
        )


def _over(team: Team, call: str) -> str:
    """What became of the member that this call started before a kill cut it off, if that one is over."""
    file = read_team_file(team.home.team_file(team.directory))
    return file.ended_of(call) if file is not None else ""


async def _begin_life(team: Team, member: Member, spec: SpawnSpec) -> Life:
    """Note that the member lives from now on, and by which transcript: a file of its own for each life."""

    def make(incarnation: int) -> Life:
        number = incarnation
        while True:
            stem = member.name if number <= 1 else f"{member.name}-{number}"
            path = team.home.agent_transcript(team.cwd, team.session, stem)
            if not path.exists():
                break
            number += 1  # an earlier team of this session had a member of the name
        first, asked = message_id(), (spec.call, spec.model, spec.max_turns)
        said = (spec.budget, spec.bounds, spec.mode or "", spec.effort)
        return Life(incarnation, str(path), first, *asked, *said, command=spec.command, entry=noted_entry(member))

    return await begin_life(team.home, team.directory, member.name, make)


async def end_life(team: Team, name: str, incarnation: int) -> None:
    """That life of the member is over, or never was; so is its parting."""
    await change_team_file(team.home, team.directory, lambda file: file.gone(name, incarnation))


async def send_first(team: Team, member: Member, life: Life, summary: str = "") -> None:
    """The member's first prompt: the first entry of its inbox."""
    prompt, id = member.prompt or "", life.first
    first = Entry(sender=LEAD, text=prompt, summary=summary or None, timestamp=iso(), msg_id=id)
    await team.inbox(member.name).send(first, runtime=True)


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


async def _housed(team: Team, member: Member, backend: str) -> Member:
    """Where it will live stands in the roster once its life is noted: until then a kill leaves what is surely ours."""
    if backend == IN_PROCESS:
        return member
    member = replace(member, backend_type=backend, pane_id="")
    await team.roster.add(member)
    return member


def _entry(team: Team, spec: SpawnSpec, name: str, model: str) -> Member:
    return Member(
        agent_id=agent_id(name, team.name or team.session_list),
        name=name,
        agent_type=spec.agent_type,
        model=model,
        prompt=spec.prompt,
        plan_mode_required=spec.plans,
        joined_at=now_ms(),
        pane_id=IN_PROCESS,
        cwd=str(spec.cwd or team.cwd),
        backend_type=IN_PROCESS,
        mode=spec.mode,
        color=spec.definition.color if spec.definition is not None else None,
    )


async def start(
    team: Team,
    member: Member,
    life: Life,
    undo: AsyncExitStack,
    spec: SpawnSpec | None = None,
    *,
    resumed: bool = False,
) -> Teammate:
    """Make the member's agent and let it live; returns when it runs. `undo` takes it back when that fails later.

    `spec` is what was asked for, resolved; None for a member that goes on: it is made of what is on disk.
    `resumed`: a process before this one began the life; who is ended already while it comes back is seen out by whoever
    ended it. Raises TeamwrightError.
    """
    agent = await team.builder.teammate(spec or _spec_of(member, life), team, life)
    undo.callback(agent.conversation.close)
    _refuse_late(team)
    name = member.name
    desk = Desk(name, team.inbox(name), agent.conversation, team.emit)
    desk.held = lambda sender: held(team, name, sender)
    desk.words = lambda entry: words_of(team, name, entry, agent.tags)
    mate = _mate(team, member, life, agent, desk, resumed)
    desk.on_seen = mate.note_seen
    agent.steering = desk
    _forget_old(team)
    team.members[member.name] = mate
    team.outside.entries[member.name] = member
    unfollow = team.follow(member.name, desk)
    mate.task = asyncio.create_task(mate.live(), name=f"member {member.name}")
    mate.task.add_done_callback(lambda task: _life_over(team, mate, unfollow, task))
    undo.push_async_callback(_take_back, team, mate)
    async with asyncio.timeout(START_S):  # wait_for of Python 3.11 loses a cancellation that comes with the wake-up
        await mate.ready.wait()
    if mate.state in GONE and not mate.turns and not resumed:
        raise TeamRefused("team-refused", f"{mate.name} was ended while it started", note="nothing was started")
    return mate


def _mate(team: Team, member: Member, life: Life, agent: Agent, desk: Desk, resumed: bool) -> Teammate:
    """The member itself, which does not run yet."""
    name = member.name
    return Teammate(
        agent=agent,
        desk=desk,
        office=TeamOffice(team),
        emit=team.emit,
        incarnation=life.incarnation,
        color=member.color,
        model=agent.model.card.name,
        effort=agent.shown_effort,
        agent_type=member.agent_type,
        changed=team.changed,
        resumed=resumed,
        call=life.call,
        stop_request=stop_read(team, name, life.incarnation, agent.conversation) if resumed else None,
        plan=plan_awaited(team.requests, name, life.incarnation) if resumed else NOTHING_AWAITED,
    )


def _forget_old(team: Team) -> None:
    """Of those that are over only the last are remembered: results count from events, files have the rest."""
    over = [mate.name for mate in team.members.values() if mate.state in GONE and mate.parted]
    for name in over[: max(0, len(over) - GONE_MOST)]:
        del team.members[name]
        team.outside.entries.pop(name, None)


def _spec_of(member: Member, life: Life) -> SpawnSpec:
    """What a member that goes on is made of, from what is on disk."""
    return SpawnSpec(
        prompt=member.prompt or "",
        name=member.name,
        agent_type=member.agent_type,
        model=life.model,
        effort=life.effort,
        mode=mode_of(member, life),
        max_turns=life.max_turns,
        budget=life.budget,
        cwd=Path(member.cwd),
        bounds=life.bounds,
        plan_mode_required=bool(member.plan_mode_required),
        call=life.call,
    )


def mode_of(member: Member, life: Life) -> str | None:
    """The mode that its life has; not what others wrote on the roster since, which everybody may change."""
    if life.mode is not None:
        return life.mode or None
    return member.mode if member.mode is None or member.mode in list(Mode) else str(Mode.DEFAULT)


def _life_over(team: Team, mate: Teammate, unfollow: Callable[[], None], task: asyncio.Task[None]) -> None:
    """Runs however a life ends, also one that was cancelled before its first step: what it held goes."""
    unfollow()
    if mate.state not in GONE and not mate.leaving and not team.closing:
        # Cancelled by nobody of ours: it is no more, and that is seen to and told like any other end.
        mate.leaving = "its task was cancelled"
        mate.move(Event.BROKE, mate.leaving)
        over = mate.office.left(mate.name, f"failed: {mate.leaving}", None)
        mate.ending = asyncio.create_task(over, name=f"end of {mate.name}")
    mate.agent.conversation.close()
    if mate.agent.hooks.runs:
        said = mate.agent.conversation.said_since(0)
        mate.agent.hooks.ended("done" if mate.state is State.COMPLETED else str(mate.state), mate.leaving, said)
    mate.agent = mate.agent.spent()
    mate.desk = Desk(mate.name, mate.desk.inbox, mate.agent.conversation, team.emit)
    if mate.state in GONE:
        mate.task = None  # a task that was cancelled keeps its frames, and they the conversation
        entry = team.outside.entries.get(mate.name)
        if entry is not None and team.members.get(mate.name) is mate:
            team.outside.entries[mate.name] = replace(entry, prompt="")
    mate.ready.set()
    team.changed.set()
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        team.emit(Notice(member=mate.name, text=f"{type(problem).__name__}: {problem}", level="warning"))


async def _take_back(team: Team, mate: Teammate) -> None:
    """A member whose start failed never was."""
    mate.leaving = "it could not be started"
    if mate.task is not None:
        mate.task.cancel()
        await asyncio.wait({mate.task}, timeout=team.settings.cancel_grace_s)
    if mate.state not in GONE:
        mate.move(Event.BROKE, mate.leaving)
    if team.members.get(mate.name) is mate:
        del team.members[mate.name]
