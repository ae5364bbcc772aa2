"""A member's process in a team that another program leads, assembled of the same parts as any other of ours.

Its settings, tools, model and keys are its own; what it may do its lead answers by mail. Nothing is done here that only
a lead does. Either everything stands or nothing is left. Knows all rooms below; knows no screen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

from teamwright.agent.transcript import read_header
from teamwright.app.approver import require_person_for_mode
from teamwright.app.asking import Requests
from teamwright.app.assembling import equip, jobs_of, kit_of, maker_of, models_in, numbers_of, team_of
from teamwright.app.checking.making import checks_of
from teamwright.app.ground import Ground, ground_of_member
from teamwright.app.hooking.making import make_hooks
from teamwright.app.making.maker import Maker
from teamwright.app.members.asking import LeadStops
from teamwright.app.members.guest.asking import ByMail, Mailed
from teamwright.app.members.guest.failing import tell_failed
from teamwright.app.members.guest.finding import Found, find, find_team, working_directory
from teamwright.app.members.guest.granting import LeadGrants
from teamwright.app.members.guest.life import Lived, look_up, new_life, own_entry
from teamwright.app.members.guest.stay import Guest
from teamwright.app.model_settings import model_settings
from teamwright.app.options import Options
from teamwright.app.requests.making import ask_timeout, requests_of
from teamwright.app.spending.purse import Purse
from teamwright.app.spending.wiring import books_until, wire
from teamwright.models.resolve import resolve
from teamwright.permissions.verdict import Mode
from teamwright.protocol.argv import MemberFlags
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.events import Notice, SessionOpened
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.roster import Member, TeamConfig
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward
from teamwright.storage.lease import Lease
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import read_recent
from teamwright.storage.watch import Watcher
from teamwright.teams.agents.telling import owners_of, tell_lost_agents
from teamwright.teams.agents.words import job_notification
from teamwright.teams.guest.dialect import Dialect
from teamwright.teams.guest.inbox import GuestInbox, OwnInbox, Postal
from teamwright.teams.guest.place import RosterPlace
from teamwright.teams.guest.presence import Presence, lead_process
from teamwright.teams.guest.reception import Reception
from teamwright.teams.guest.record import GuestRecord
from teamwright.teams.health.standing import Standing
from teamwright.teams.incarnation import Life
from teamwright.teams.lost_jobs import tell_lost
from teamwright.teams.processes.starting import LEASE
from teamwright.teams.spawning import start
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team


@dataclass(slots=True)
class _Made:
    """What a member's process is made of, before it is anybody's."""

    found: Found
    lived: Lived
    ground: Ground
    log: EventLog
    watcher: Watcher
    maker: Maker
    requests: Requests
    warnings: list[str] = field(default_factory=list[str])


async def join(flags: MemberFlags, env: Mapping[str, str], stack: AsyncExitStack) -> Guest:
    """The member that these flags name, at work until the stack is closed.

    Raises TeamwrightError; then its lead was told, unless another process is that member.
    """
    cwd = working_directory()
    try:
        found = await find(flags, env)
    except TeamwrightError as problem:
        if problem.slug not in {"backend", "unknown-team"}:  # of another process, or of nobody
            with suppress(TeamwrightError):
                await tell_failed(await find_team(flags, env), flags, problem)
        raise
    inbox = found.home.inbox(found.directory, found.name)
    guard = found.home.guard(inbox)
    lease = Lease.take(guard.with_name(f"{guard.name}.member"), f"{found.name} of {flags.team_name}")
    stack.callback(lease.release)
    try:
        made = await _make(found, flags, cwd, stack)
        return await _begin(made, flags, env, stack)
    except TeamwrightError as problem:
        await tell_failed(found, flags, problem)
        raise
    except Exception as problem:
        bug = TeamwrightError("bug", f"{type(problem).__name__}: {problem}")
        await tell_failed(found, flags, bug)
        raise


async def _make(found: Found, flags: MemberFlags, cwd: Path, stack: AsyncExitStack) -> _Made:
    lived = look_up(found, cwd)
    room = lived.room
    ground, warnings = _ground(_options(found, flags, cwd), found)
    ground = replace(ground, room=room, resumed=(room / "events.jsonl").exists())
    lease = Lease.take(room / LEASE, f"member {found.name} of {found.config.name}")
    stack.callback(lease.release)
    log = EventLog(room / "events.jsonl")
    stack.callback(log.close)
    log.emit(SessionOpened(member=found.name, pid=os.getpid(), session=ground.id))
    watcher = await stack.enter_async_context(Watcher())
    numbers = numbers_of(ground, log)
    models = models_in(ground, numbers)
    stack.push_async_callback(models.aclose)
    requests = requests_of(ground, log, watcher)
    jobs = jobs_of(ground, stack)
    kit = kit_of(ground, jobs, requests, LeadStops(), None)
    purse = Purse(ground.options.budget, each=ground.settings.each, earlier=partial(books_until, log.path, log.last))
    maker = maker_of(ground, models, purse, log, kit, numbers)
    require_person_for_mode(ground.home, maker.policy.mode)
    maker.plans.approved_by(ground.settings, ask_timeout(ground))
    maker.plans.who = LEAD_ALIAS  # whatever one's own settings say: it is that lead's member
    make_hooks(ground, log, kit, requests, maker.resolver.hooks_of)
    warnings += [*found.warnings, *ground.settings.warnings, *equip(ground, log, maker, stack)]
    await jobs.ready()
    return _Made(found, lived, ground, log, watcher, maker, requests, warnings)


def _options(found: Found, flags: MemberFlags, cwd: Path) -> Options:
    return Options(
        cwd=cwd,
        home=str(found.home.shared),
        model=flags.model or None,
        permission_mode=str(found.mode) if found.mode is not None else None,
        allowed_tools=flags.allowed_tools,
        disallowed_tools=flags.disallowed_tools,
        teams=True,
    )


def _ground(options: Options, found: Found) -> tuple[Ground, list[str]]:
    """The ground, with the model of the flags if it can be had, else with one that the settings name."""
    ground = ground_of_member(options, found.session, Path())
    wanted = options.model
    if not isinstance(wanted, str) or wanted.startswith("scripted:"):
        return ground, []
    try:
        resolve(wanted, ground.env, model_settings(ground.settings))
    except CannotStart as problem:
        own = ground_of_member(replace(options, model=None), found.session, Path())
        said = own.settings.models.get("model")
        if not said:
            raise
        return own, [f"{problem.what}: it has the model of your settings instead, {said}"]
    return ground, []


async def _begin(made: _Made, flags: MemberFlags, env: Mapping[str, str], stack: AsyncExitStack) -> Guest:
    team, postal = _team(made)
    guest, spec = await _guest(made, team, flags, env)
    guest.place.on_roster = partial(_noticed, postal.dialect, guest.presence)
    stack.push_async_callback(guest.close)
    for line in guest.warnings:
        guest.say(line, "warning")
    reception = _take_mail(made, team, guest, postal)
    _connect(made, team, guest, stack)
    stack.push_async_callback(_end_jobs, made.maker)
    made.requests.close_left()
    if guest.record.farewell is not None:
        guest.over.set()  # a kill came while it left: that is seen through
        return guest
    entry = guest.place.entry or guest.record.entry
    member = replace(guest.record.entry, color=entry.color, pane_id=entry.pane_id, backend_type=entry.backend_type)
    resumed = read_header(Path(guest.record.life.transcript)) is not None
    guest.mate = await start(team, member, guest.record.life, stack, None if resumed else spec, resumed=resumed)
    await reception.take_up()
    tell_lost(made.maker.kit.jobs, team, None, job_notification)
    tell_lost_agents(made.maker.kit.agents, team, None)
    guest.place.keep()
    guest.look_at_mail()
    return guest


def _team(made: _Made) -> tuple[Team, Postal]:
    """The team as another program made it, with nobody of ours in it yet."""
    ground, found, log = made.ground, made.found, made.log
    team = team_of(ground, log, made.maker)
    team.settings = replace(team.settings, ping_pong=sys.maxsize)  # who talks in circles is its lead's matter
    team.outside.led_outside = True
    team.name, team.directory = found.config.name, found.directory
    team.standing = Standing.of(read_recent(log.path))
    team.check = checks_of(ground, made.maker, team)
    team.reached = lambda _name: None  # nobody can tell how the others stand
    made.maker.team = made.maker.plans.team = team
    team.on_plan = made.maker.plans.watch
    dialect = Dialect()
    dialect.note_roster(found.config)

    def say(text: str, level: str) -> None:
        log.emit(Notice(member=found.name, text=text, level=level))

    def sent(msg_id: str) -> bool:
        log.flush()
        told = (line for line in read_backward(log.path) if b'"message_sent"' in line)
        return bool(msg_id) and any(msg_id.encode() in line for line in told)

    postal, own = Postal(dialect, say, sent), found.home.inbox(found.directory, found.name)

    def inbox(path: Path, guard: Path, archive: Path) -> GuestInbox:
        return (OwnInbox if path == own else GuestInbox)(path, guard, archive, postal)

    team.inboxes = inbox
    return team, postal


async def _guest(made: _Made, team: Team, flags: MemberFlags, env: Mapping[str, str]) -> tuple[Guest, SpawnSpec | None]:
    """The member, on the roster; what a new one is made of."""
    found, lived, ground = made.found, made.lived, made.ground
    record, spec, told = lived.record, None, list[str]()
    if record is None:
        model = ground.options.model if isinstance(ground.options.model, str) else ""
        spec, life, told = new_life(found, flags, made.maker, lived.transcript)
        entry = found.config.find(found.name)
        wanted = entry or own_entry(found, flags, model, ground.cwd)
        record = _record(found, life, replace(wanted, agent_type=spec.agent_type, plan_mode_required=found.plans))
    record.write(lived.room)
    lead = lead_process(found.config, env)
    place = RosterPlace(team, found.name, lambda text, level: guest.say(text, level))
    entry = await place.take(record.entry)
    grace_s = ground.settings.places.grace_s
    presence = Presence(team.home.inbox(team.directory, LEAD), grace_s, lambda why: guest.deserted(why), lead)
    parts = (found.name, team, made.maker, made.log, lived.room, record, place, presence, _pane(entry, record, env))
    guest = Guest(*parts, warnings=(*made.warnings, *told))
    presence.noticed(found.config)
    return guest, spec


def _record(found: Found, life: Life, entry: Member) -> GuestRecord:
    there = found.config.find(found.name) is not None
    return GuestRecord(found.directory, found.config.created_at, life, entry, found=there)


def _pane(entry: Member, record: GuestRecord, env: Mapping[str, str]) -> str:
    """The pane that the lead may close: only where it wrote that itself, and this process is in it."""
    sure = record.found and entry.backend_type == "tmux" and entry.pane_id == env.get("TMUX_PANE")
    return entry.pane_id if sure else ""


def _noticed(dialect: Dialect, presence: Presence, config: TeamConfig | None) -> None:
    if config is not None:
        dialect.note_roster(config)
    presence.noticed(config)


def _take_mail(made: _Made, team: Team, guest: Guest, postal: Postal) -> Reception:
    """How what the lead writes is taken: grants, answers, requests."""
    maker, requests, record = made.maker, made.requests, guest.record
    grants = LeadGrants(guest.name, maker.policies, team.emit, lambda mode: guest.keep(mode=str(mode)))
    grants.may_bypass = maker.may_bypass = maker.policy.mode is Mode.BYPASS
    if record.mode and (Mode(record.mode) is not Mode.BYPASS or grants.may_bypass):
        maker.policy.mode = Mode(record.mode)
    maker.grant, maker.policies.lead_answers = grants, True
    requests.files.team = team
    requests.lead = ByMail(team, requests=requests)
    mailed = Mailed(requests, team, guest.name)
    since = record.entry.joined_at if record.found else 0
    reception = Reception(team, guest.name, since, mailed.heard, grants.in_mode)
    postal.sort = partial(reception.sort, team.inbox(guest.name))
    postal.look = guest.look_at_mail
    return reception


def _connect(made: _Made, team: Team, guest: Guest, stack: AsyncExitStack) -> None:
    """How this process notices what others write."""
    home, directory, watcher = team.home, team.directory, made.watcher
    team.watch = lambda path, look: watcher.follow(path, look)
    team.departed = guest.departed
    made.log.subscribe(guest.own, live=False)
    wire(made.maker.purse, team, made.log)
    stack.callback(watcher.follow(home.config(directory), guest.place.noticed))
    stack.callback(watcher.follow(home.inbox(directory, guest.name), guest.look_at_mail))
    stack.callback(watcher.follow(home.requests(directory), made.requests.look))
    known = team.tasks.outside(lambda _before, _after: None)
    stack.callback(known.close)
    follow: Any = partial(guest.look_at_tasks, known)
    stack.callback(watcher.follow_directory(team.tasks.directory, follow, _is_task))
    owners_of(None, team, made.maker.kit.jobs)


def _is_task(name: str) -> bool:
    return name.removesuffix(".json").isdigit()


async def _end_jobs(maker: Maker) -> None:
    await maker.plans.close()
    await maker.kit.agents.end_background()
    await maker.kit.agents.close()
