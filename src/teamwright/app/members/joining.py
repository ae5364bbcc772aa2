"""A member's own process: assembled of the same parts as its lead's, with the one queue and purse of the run there.

The team's files are the same for both; what only the lead does (declaring dead, handing back, telling of strangers)
is left to it. Either everything stands or nothing is left. Knows all rooms below; knows no screen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from teamwright.app.acts.table import Here
from teamwright.app.assembling import equip, jobs_of, kit_of, maker_of, models_in, numbers_of, team_of
from teamwright.app.checking.making import checks_of
from teamwright.app.ground import Ground, ground_of_member
from teamwright.app.hooking.making import make_hooks
from teamwright.app.making.maker import Maker
from teamwright.app.members.asking import LeadAdmits, LeadAsks, LeadStops, MemberPurse
from teamwright.app.members.calling import Line
from teamwright.app.members.obeying import Obeying
from teamwright.app.members.spawn_file import SpawnFile, options_of
from teamwright.app.models_of import Models
from teamwright.app.renewing.reload import Reloading
from teamwright.app.requests.making import ask_timeout
from teamwright.app.spending.wiring import books_until, take_tasks, wire
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import SessionOpened
from teamwright.protocol.ids import SessionId
from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.storage.bell import hang, ring
from teamwright.storage.lease import Lease
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import read_recent
from teamwright.storage.watch import Watcher
from teamwright.teams.agents.telling import owners_of, tell_lost_agents
from teamwright.teams.agents.words import job_notification
from teamwright.teams.health.standing import Standing
from teamwright.teams.incarnation import Life
from teamwright.teams.lost_jobs import tell_lost
from teamwright.teams.member.room import LEASE, room_of
from teamwright.teams.plans.approval import take_up_plan
from teamwright.teams.spawning import start
from teamwright.teams.team import Team
from teamwright.teams.team_file import read_team_file
from teamwright.teams.teammate import Teammate

Began: TypeAlias = Callable[[EventLog], object]
"""Is given a member's log before its first event."""


@dataclass(slots=True)
class Joined:
    """A member that lives in this process."""

    spawn: SpawnFile
    team: Team
    mate: Teammate
    maker: Maker
    log: EventLog
    line: Line
    watcher: Watcher
    obeying: Obeying
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def joined(spawn: SpawnFile, line: Line, begun: Began | None = None) -> AsyncGenerator[Joined]:
    """The member, at work, for the block; `begun` is given its log. Raises TeamwrightError; nothing is left then."""
    async with AsyncExitStack() as stack:
        member = await _join(spawn, line, begun, stack)
        yield member


async def _join(spawn: SpawnFile, line: Line, begun: Began | None, stack: AsyncExitStack) -> Joined:
    options, session = options_of(spawn), SessionId(spawn.session)
    home_ground = ground_of_member(options, session, Path())
    life = _life(home_ground, spawn)
    room = room_of(Path(life.transcript))
    ground = replace(home_ground, room=room, resumed=(room / "events.jsonl").exists())
    lease = Lease.take(room / LEASE, f"member {spawn.member} of {spawn.team}")
    stack.callback(lease.release)
    log = line.log = EventLog(room / "events.jsonl")
    stack.callback(log.close)
    if begun is not None:
        begun(log)
    log.emit(SessionOpened(member=spawn.member, pid=os.getpid(), session=ground.id))
    watcher = await stack.enter_async_context(Watcher())
    maker, models, warnings = await _maker(ground, log, line, stack)
    team = _team(spawn, ground, log, maker)
    reading = cache(partial(Reloading, ground, maker))
    obeying = Obeying(team, maker, line, lambda agent: Here(team, maker, models, agent, reading))
    maker.policies.on_always = obeying.said_always
    line.on_call, line.on_hello = obeying.called, obeying.welcomed
    line.stands = obeying.stands
    obeying.welcomed(line.hello)
    line.heed(obeying.noted)
    line.tell_earlier()
    log.subscribe(obeying.said_mode, live=False)
    log.subscribe(line.told, live=False)
    log.subscribe(obeying.own, live=False)
    wire(maker.purse, team, log)
    _connect(team, watcher, obeying, stack)
    stack.push_async_callback(end_work, maker)
    entry = await _entry(team, spawn)
    obeying.require_wanted()
    mate = await _start(team, entry, life, spawn, stack)
    tell_lost(maker.kit.jobs, team, None, job_notification)
    tell_lost_agents(maker.kit.agents, team, None)
    await take_tasks(maker.purse, team)
    obeying.lives(mate)
    stack.push_async_callback(obeying.close)
    return Joined(spawn, team, mate, maker, log, line, watcher, obeying, tuple(warnings))


async def _maker(ground: Ground, log: EventLog, line: Line, stack: AsyncExitStack) -> tuple[Maker, Models, list[str]]:
    asks = LeadAsks(line, log.emit)
    numbers = numbers_of(ground, log)
    models = models_in(ground, numbers)
    stack.push_async_callback(models.aclose)
    jobs = jobs_of(ground, stack)
    kit = kit_of(ground, jobs, asks, LeadStops(), None)
    purse = MemberPurse(line, ground.settings.each, partial(books_until, log.path, log.last))
    maker = maker_of(ground, models, purse, log, kit, numbers)
    maker.limits.beside = LeadAdmits(line)
    maker.grant, maker.policies.lead_answers = asks.grant, ground.settings.lead_answers
    maker.plans.approved_by(ground.settings, ask_timeout(ground))
    make_hooks(ground, log, kit, asks, maker.resolver.hooks_of)
    warnings = equip(ground, log, maker, stack)
    await jobs.ready()
    return maker, models, warnings


def _team(spawn: SpawnFile, ground: Ground, log: EventLog, maker: Maker) -> Team:
    """The team as its lead made it, with nobody here yet."""
    team = team_of(ground, log, maker)
    team.settings = replace(team.settings, ping_pong=sys.maxsize)  # the lead's process sees all that is written
    team.name, team.directory = spawn.team, spawn.directory
    team.lead_model = spawn.model
    team.standing = Standing.of(read_recent(ground.home.session(ground.cwd, ground.id) / "events.jsonl"))
    team.check = checks_of(ground, maker, team)
    maker.team = team
    maker.plans.team = team
    return team


def _connect(team: Team, watcher: Watcher, obeying: Obeying, stack: AsyncExitStack) -> None:
    """How this process notices what others write, and has others notice."""
    home, directory = team.home, team.directory
    team.watch = lambda path, look: watcher.follow(path, look)
    team.hang = lambda name, look: hang(home.bell(directory, name), look)
    team.far = lambda name: _ring(home.bell(directory, name))
    team.reached = obeying.standing_of
    team.departed = obeying.departed
    team.on_plan = lambda request: obeying.line.note("plan", request=request["id"], target=request["target"])
    known = team.tasks.outside(lambda _before, _after: obeying.tasks_changed())
    stack.callback(known.close)
    follow = partial(obeying.look_at_tasks, known)
    stack.callback(watcher.follow_directory(team.tasks.directory, follow, is_task))
    owners_of(None, team, obeying.maker.kit.jobs)


def _ring(path: Path) -> None:
    ring(path)


def is_task(name: str) -> bool:
    """Whether a file of a task list is a task."""
    return name.removesuffix(".json").isdigit()


async def _start(team: Team, member: Member, life: Life, spawn: SpawnFile, stack: AsyncExitStack) -> Teammate:
    mate = await start(team, member, life, stack, resumed=spawn.resumed)
    if spawn.resumed:
        await take_up_plan(team, mate)
        for request in team.requests.open_requests():
            if request.get("kind") == "shutdown" and request.get("incarnation") == life.incarnation:
                mate.asked = str(request["id"])
    return mate


async def end_work(maker: Maker) -> None:
    """End all that runs here beside the member itself, and let the hooks of that run. May be called twice."""
    kit = maker.kit
    await maker.plans.close()
    await kit.agents.end_background()
    await kit.agents.close()
    await kit.jobs.close()
    if kit.hooking is not None:
        await kit.hooking.hooks.close()


def _life(ground: Ground, spawn: SpawnFile) -> Life:
    """The life that this process goes on with, or begins. Raises CannotStart when it is over already."""
    file = read_team_file(ground.home.team_file(spawn.directory))
    life = file.lives.get(spawn.member.lower()) if file is not None else None
    if life is None or life.incarnation != spawn.incarnation:
        raise CannotStart("backend", f"{spawn.member} is no longer a member of {spawn.team}", note="nothing was begun")
    return life


async def _entry(team: Team, spawn: SpawnFile) -> Member:
    config = await team.roster.read()
    member = config.find(spawn.member)
    if member is None:
        raise CannotStart("backend", f"{spawn.member} is not on the roster of {spawn.team}", note="nothing was begun")
    return member
