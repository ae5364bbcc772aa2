"""Opening a session: settings, trust, model, lease, log, team, lead; every port is filled here.

Either everything stands or nothing is left: what was opened is closed in reverse when a later part cannot be.
Knows all rooms below and the settings; knows no screen.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterable, Set
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from teamwright.agent.activity import Watchdog
from teamwright.agent.agent import Agent
from teamwright.agent.background import BackgroundJobs
from teamwright.agent.conversation import Conversation
from teamwright.agent.instructions import NestedInstructions, load_instructions
from teamwright.agent.limits import SpawnLimits
from teamwright.agent.prefix import load_conversation
from teamwright.agent.toolbox import CallNumbers
from teamwright.app.agents.opening import resolver_of
from teamwright.app.asking import Requests
from teamwright.app.builder import Maker
from teamwright.app.checking.making import checks_of
from teamwright.app.ended.former import Former
from teamwright.app.ended.naming import all_teams, named_team, require_adoptable
from teamwright.app.ended.retention import prune
from teamwright.app.ground import (
    Ground,
    ground_of,
    model_of_resumed,
    surroundings,
    teams_on,
    trust_warnings,
)
from teamwright.app.hooking.making import make_hooks
from teamwright.app.kit import PLAN_TOOLS, Kit
from teamwright.app.looking.sessions import LEASE
from teamwright.app.looking.system import mask_secrets
from teamwright.app.models_of import Models, Play, models_for
from teamwright.app.modes import Kept, keep, kept_mode, take_up
from teamwright.app.options import Options
from teamwright.app.outside.hearing import Outside
from teamwright.app.policies import Policies
from teamwright.app.policy import model_settings, policy_of
from teamwright.app.renewing.reload import Reloading
from teamwright.app.requests.making import grants_of, requests_of
from teamwright.app.serving.making import make_serving
from teamwright.app.session import Deadlines, Session
from teamwright.app.shell_line import run_line
from teamwright.app.shells.making import startup_of
from teamwright.app.skills.places import shelf_of, shelf_warnings
from teamwright.app.spending.purse import Purse
from teamwright.app.spending.wiring import books_until, wire
from teamwright.models.effort import asked_effort
from teamwright.models.resolve import key_variables
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import ModeChanged, SessionOpened
from teamwright.protocol.ids import LEAD, nearest
from teamwright.storage.lease import Lease
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import call_of, last_call, read_recent
from teamwright.storage.paths import make_private
from teamwright.storage.watch import Watcher
from teamwright.tasks.shared import list_name, share
from teamwright.teams.agents.book import Agents
from teamwright.teams.agents.telling import owners_of, tell_lost_agents
from teamwright.teams.agents.words import job_notification
from teamwright.teams.health.standing import Standing
from teamwright.teams.lead import Lead
from teamwright.teams.lost_jobs import tell_lost
from teamwright.teams.resuming import Resumed
from teamwright.teams.scribe.scribe import Scribe
from teamwright.teams.team import Team
from teamwright.tools.python import python_tools
from teamwright.tools.team.caller import Caller


@asynccontextmanager
async def open_session(options: Options) -> AsyncGenerator[Session, None]:
    """A session for the block. Raises CannotStart, UsageError, StorageError; then nothing is left behind."""
    async with AsyncExitStack() as stack:
        session = await _open(options, stack)
        try:
            yield session
        finally:
            await _close(session)


async def _close(session: Session) -> None:
    """Close to the end, whoever cancels meanwhile: it is bounded by what members and jobs are granted."""
    closing = asyncio.ensure_future(session.close())
    cancelled = False
    while not closing.done():
        try:
            await asyncio.wait({closing})
        except asyncio.CancelledError:
            cancelled = True
    closing.result()
    if cancelled:
        raise asyncio.CancelledError


async def _open(options: Options, stack: AsyncExitStack) -> Session:
    ground = ground_of(options)
    make_private(ground.directory)
    pruning = asyncio.create_task(prune(ground.home, ground.settings.retention_days, keep=ground.id), name="retention")
    stack.push_async_callback(asyncio.wait, {pruning})
    lease = Lease.take(ground.directory / LEASE, f"session {ground.id}")
    stack.callback(lease.release)
    undo = stack.enter_context(ExitStack())
    if not ground.resumed:
        undo.callback(_remove, ground)
    log, standing = _log(ground, stack)
    watcher = await stack.enter_async_context(Watcher())
    numbers = _numbers(ground, log)
    models = _models(ground, numbers)
    stack.push_async_callback(models.aclose)
    requests = requests_of(ground, log, watcher)
    jobs = _jobs(ground, stack)
    deadlines = Deadlines()
    maker = _maker(ground, models, requests, log, _kit(ground, jobs, requests, deadlines), numbers)
    make_hooks(ground, log, maker.kit, requests, maker.resolver.hooks_of)
    unserved = _equip(ground, log, maker, stack)
    grants = grants_of(ground, log, maker)
    team = _team(ground, log, maker)
    team.standing = standing
    team.check = checks_of(ground, maker, team)
    await stack.enter_async_context(Scribe(team, watcher))
    deadlines.team = team
    requests.led_by(team, always=ground.settings.lead_answers)
    outside = Outside(team, log.emit, watcher, deadlines.ask, on_ring=requests.look)
    team.hang = outside.hang
    agent = await maker.lead(team, _conversation(ground, maker))
    _check_rules(maker.policy.rules, PLAN_TOOLS | {tool.name for tool in maker.kit.tools(Caller(LEAD, team))})
    lead = _lead(ground, agent, team, jobs)
    warnings = (*trust_warnings(ground), *ground.settings.warnings, *unserved, *maker.resolver.warnings())
    warnings += tuple(shelf_warnings(maker.kit.shelf))
    parts = (lead, team, maker, models, log, lease, requests, deadlines, jobs, outside)
    session = Session(ground.id, options, *parts, warnings, reloading=Reloading(ground, maker))
    grants.modes = lambda: session.modes
    log.subscribe(lambda _number, event: session.tally.note(event), live=False)
    wire(maker.purse, team, log)
    await _take_up(session, ground, undo)
    return session


def _equip(ground: Ground, log: EventLog, maker: Maker, stack: AsyncExitStack) -> list[str]:
    """The watchdog, the shell's startup, and MCP servers; lines about servers that are left out."""
    kit = maker.kit
    kit.startup = startup_of(ground.home, ground.id, kit.bash, log.emit, kit.jobs.records)
    stack.push_async_callback(kit.startup.close)
    maker.watchdog = Watchdog(log.emit, stalled_s=ground.settings.stalled_after_s)
    stack.callback(maker.watchdog.close)
    return make_serving(ground, log, kit, stack)


def _numbers(ground: Ground, log: EventLog) -> CallNumbers:
    """The numbers of tool calls: a session that goes on counts on, and knows those of its earlier lives."""
    return CallNumbers(last_call(log.path) if ground.resumed else 0, earlier=partial(call_of, log.path))


def _lead(ground: Ground, agent: Agent, team: Team, jobs: BackgroundJobs) -> Lead:
    """The lead of the team; whose background commands end is told, and they end with their owner."""
    team.lead_model, team.lead_effort = agent.model.card.name, agent.shown_effort
    known = team.standing.members.get(LEAD)
    if (mode := str(agent.policy.shown_mode)) != ((known.mode if known is not None else "") or Mode.DEFAULT):
        team.emit(ModeChanged(member=LEAD, mode=mode))
    lead = Lead(agent, team, owing=ground.resumed and agent.conversation.owes_round)
    owners_of(lead, team, jobs)
    lead.on_shell = partial(run_line, agent)
    return lead


def _log(ground: Ground, stack: AsyncExitStack) -> tuple[EventLog, Standing]:
    """The session's log, which says that this process opened it; and how everybody stood by what it holds."""
    log = EventLog(ground.directory / "events.jsonl")
    stack.callback(log.close)
    standing = log.state = Standing.of(read_recent(log.path))
    log.emit(SessionOpened(member=LEAD, pid=os.getpid(), session=ground.id))
    return log, standing


async def _take_up(session: Session, ground: Ground, undo: ExitStack) -> None:
    """Take up the team, and tell who lost a background command. When that fails, those who are back are let go."""
    try:
        if (hooking := session.maker.kit.hooking) is not None:
            await hooking.started("resume" if ground.resumed else "startup", session.lead)
        if ground.options.adopt is not None:
            team = require_adoptable(named_team(ground.home, ground.options.adopt))
            why = f'You lead the team "{team.name}" now; its former lead is gone. Its members go on with their work.'
            await _take_up_team(session, ground, team.directory, why)
        elif ground.resumed and (found := await session.team.teams.led_by(session.id)) is not None:
            why = f"Your session was interrupted, and goes on now ({iso()}) with its team."
            await _take_up_team(session, ground, found.directory, why)
        elif ground.resumed:
            session.resumed = Resumed(repaired=len(session.lead.agent.conversation.unanswered()))
            session.warnings += _left_out(ground)
        session.requests.close_left()
        tell_lost(session.jobs, session.team, session.lead, job_notification)
        tell_lost_agents(session.agents, session.team, session.lead)
    except BaseException:
        if await session.team.teams.led_by(session.id) is not None:
            undo.pop_all()  # it leads that team now: its files stay, so that it can be gone on with
        await _close(session)
        raise
    undo.pop_all()


def _left_out(ground: Ground) -> tuple[str, ...]:
    """Teams of this session that cannot be read: it goes on without them, but not without a word."""
    damaged = [team for team in all_teams(ground.home) if team.damaged and team.session == ground.id]
    return tuple(
        f'the team "{team.name}" of this session is left out, with its members: {team.damaged} ({team.place})'
        for team in damaged
    )


async def _take_up_team(session: Session, ground: Ground, directory: str, why: str) -> None:
    former = Former.of(ground.home, directory, ground.directory)
    try:
        await former.end()
        if (hooking := session.maker.kit.hooking) is not None:
            await hooking.stop_crashed(*former.places)
        await session.take_up(directory, why)
        former.tell(session.team, job_notification)
    finally:
        await former.close()


def _check_rules(rules: Iterable[Rule], tools: Set[str]) -> None:
    """A rule of a flag that names no tool of ours would guard nothing. Raises UsageError with the nearest."""
    known = tools | {"Task", "McpCall", "SendMessage", "ListAgents", "TeamCreate", "TeamDelete", "MultiEdit"}
    for rule in rules:
        if not rule.source.startswith("--") or rule.tool in known or "*" in rule.tool or "__" in rule.tool:
            continue
        close = nearest(rule.tool, known)
        do = [f"did you mean {close}?"] if close else [f"the tools are {', '.join(sorted(tools))}"]
        what = f"the rule {rule.text[:80]} names a tool that does not exist"
        raise UsageError("usage", what, looked_at=[("from", rule.source)], do=do, note="nothing was started")


def _remove(ground: Ground) -> None:
    """A session that could not be opened was never there."""
    shutil.rmtree(ground.directory, ignore_errors=True)
    ground.home.transcript(ground.cwd, ground.id).unlink(missing_ok=True)


def _jobs(ground: Ground, stack: AsyncExitStack) -> BackgroundJobs:
    """The background commands; what an earlier life of the session left running is ended meanwhile."""
    made = BackgroundJobs(session=ground.directory, shown=lambda command: mask_secrets(command, ground.env))
    stack.push_async_callback(made.close)
    made.take_over()
    return made


def _team(ground: Ground, log: EventLog, maker: Maker) -> Team:
    made = Team(ground.home, ground.id, ground.cwd, log.emit, maker, maker.limits, ground.settings.team)
    made.lead_policy = maker.policy
    kit, more = maker.kit, (maker.limits, log.emit, ground.settings.agents)
    made.agents = kit.agents = Agents(ground.directory, maker, kit.jobs, *more)
    if (wanted := ground.options.task_list) is not None:
        made.outside.shared_list = list_name(wanted)
        share(ground.home.tasks(made.outside.shared_list))
    made.lease, made.log = str(ground.directory / LEASE), str(ground.directory / "events.jsonl")
    return made


def _kit(ground: Ground, jobs: BackgroundJobs, requests: Requests, deadlines: Deadlines) -> Kit:
    settings, options = ground.settings, ground.options
    models = model_settings(settings)
    return Kit(
        jobs,
        requests,
        deadlines,
        replace(settings.bash, hidden=(*settings.bash.hidden, *key_variables(models))),
        models,
        _proves_read_only,
        teams=teams_on(ground),
        extra=python_tools(options.tools),
        permits=requests,
        shelf=shelf_of(settings, ground.home, ground.trust, ground.places.plugins),
    )


def _proves_read_only(command: str, cwd: Path) -> bool:
    """Whether a shell command is certain to change nothing; the parser loads at the first one."""
    from teamwright.permissions.commands import proves_read_only

    return proves_read_only(command, cwd)


def _models(ground: Ground, numbers: CallNumbers) -> Models:
    options = ground.options
    model = options.model if options.model is not None else model_of_resumed(ground)
    play = Play(options.given, numbers.of, options.pace_s)
    return models_for(model, model_settings(ground.settings), ground.env, play, ground.home.governors)


def _maker(ground: Ground, models: Models, requests: Requests, log: EventLog, kit: Kit, numbers: CallNumbers) -> Maker:
    options, settings = ground.options, ground.settings
    own = tuple(ground.directory / name for name in ("output", "history"))
    root, compat, trusted = ground.trust.root, settings.compat, ground.trust.trusted
    known = load_instructions(ground.cwd, root, ground.home.ours, compat, trusted)
    made = Maker(
        ground.home,
        ground.id,
        ground.cwd,
        models,
        kit,
        Policies(policy_of(settings, ground.home, ground.cwd, ground.trust, own), ground.definition),
        requests,
        Purse(options.budget, each=settings.each, earlier=partial(books_until, log.path, log.last)),
        log.emit,
        SpawnLimits(settings.limits),
        surroundings(ground),
        known,
        nested=lambda: NestedInstructions(ground.cwd, root, known, compat, trusted).nested_for,
        env=dict(settings.env),
        max_rounds=options.budget.turns,
        effort=asked_effort(options.effort),
        appended=options.append_system_prompt,
        numbers=numbers,
        attended=log.attended,
        compact=settings.compact,
        resolver=resolver_of(ground, log.emit),
    )
    kit.agent_types = partial(made.resolver.kinds.for_tool, made.policies.may_start)
    made.plans.approved_by(settings, requests.timeout_s)
    return _in_mode(ground, made)


def _in_mode(ground: Ground, maker: Maker) -> Maker:
    """The lead's mode is what a flag says, else the one that the session was left in, else what settings say."""
    kept, said = kept_mode(ground.directory) if ground.resumed else None, ground.options.permission_mode
    maker.may_bypass = maker.policy.mode is Mode.BYPASS
    maker.mode_untold = kept is not None
    if said is None and kept is not None:
        take_up(maker.policy, kept)
    elif said is not None:
        keep(ground.directory, Kept(maker.policy.shown_mode, maker.policy.mode))
    if maker.policy.delegating and not maker.kit.teams:
        raise UsageError("usage", "a lead cannot delegate while teams are switched off", note="nothing was started")
    return maker


def _conversation(ground: Ground, maker: Maker) -> Conversation | None:
    if not ground.resumed:
        return None
    return load_conversation(ground.home.transcript(ground.cwd, ground.id), maker.prefixes)
