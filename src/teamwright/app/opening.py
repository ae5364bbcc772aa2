"""Opening a session: settings, trust, model, lease, log, team, lead; every port is filled here.

Either everything stands or nothing is left: what was opened is closed in reverse when a later part cannot be.
Knows all rooms below and the settings; knows no screen.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence, Set
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial

from teamwright.agent.agent import Agent
from teamwright.agent.background import BackgroundJobs
from teamwright.agent.conversation import Conversation
from teamwright.agent.prefix import load_conversation
from teamwright.agent.toolbox import CallNumbers
from teamwright.app.approver import require_person_for_mode
from teamwright.app.assembling import equip, jobs_of, kit_of, maker_of, models_in, numbers_of, team_of
from teamwright.app.checking.making import checks_of
from teamwright.app.ended.former import Former
from teamwright.app.ended.naming import all_teams, named_team, require_adoptable
from teamwright.app.ended.retention import prune
from teamwright.app.ground import (
    Ground,
    ground_of,
    trust_warnings,
)
from teamwright.app.hooking.making import make_hooks
from teamwright.app.kit import PLAN_TOOLS, Kit
from teamwright.app.looking.sessions import LEASE
from teamwright.app.making.maker import Maker
from teamwright.app.members.making import have_processes
from teamwright.app.models_of import Models
from teamwright.app.modes import Kept, keep, kept_mode, take_up
from teamwright.app.options import Options
from teamwright.app.outside.hearing import Outside
from teamwright.app.renewing.reload import Reloading
from teamwright.app.requests.granting import Grants
from teamwright.app.requests.making import ask_timeout, grants_of, requests_of
from teamwright.app.session import Deadlines, Session
from teamwright.app.shell_line import run_line
from teamwright.app.skills.places import shelf_warnings
from teamwright.app.spending.purse import Purse
from teamwright.app.spending.wiring import books_until, wire
from teamwright.app.wayback.journal import note_prompt
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import ModeChanged, Notice, SessionOpened, TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, nearest
from teamwright.storage.lease import Lease
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import read_recent
from teamwright.storage.paths import make_private
from teamwright.storage.watch import Watcher
from teamwright.teams.agents.telling import owners_of, tell_lost_agents
from teamwright.teams.agents.words import job_notification
from teamwright.teams.health.standing import Standing
from teamwright.teams.lead import Lead
from teamwright.teams.lost_jobs import tell_lost
from teamwright.teams.recovery import recover_teams
from teamwright.teams.resuming import Resumed
from teamwright.teams.scribe.scribe import Scribe
from teamwright.teams.team import Team
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
    lease = Lease.take(ground.directory / LEASE, f"session {ground.id}")
    stack.callback(lease.release)
    undo = stack.enter_context(ExitStack())
    if not ground.resumed:
        undo.callback(_remove, ground)
    log, standing = _log(ground, stack)
    pruning = _pruning(ground, log, stack)
    watcher = await stack.enter_async_context(Watcher())
    numbers = numbers_of(ground, log)
    models = models_in(ground, numbers)
    stack.push_async_callback(models.aclose)
    requests = requests_of(ground, log, watcher)
    jobs = jobs_of(ground, stack)
    deadlines = Deadlines()
    maker = _maker(ground, models, log, kit_of(ground, jobs, requests, deadlines, requests), numbers)
    make_hooks(ground, log, maker.kit, requests, maker.resolver.hooks_of)
    unserved = equip(ground, log, maker, stack)
    grants = grants_of(ground, log, maker)
    team = team_of(ground, log, maker)
    team.standing = standing
    team.check = checks_of(ground, maker, team)
    log.subscribe((await stack.enter_async_context(Scribe(team, watcher))).note, live=False)
    deadlines.team = team
    requests.led_by(team, always=ground.settings.lead_answers)
    outside = Outside(team, log.emit, watcher, deadlines.ask, on_ring=requests.look)
    team.hang = outside.hang
    agent = await maker.lead(team, _conversation(ground, maker))
    _check_rules(maker.policy.rules, PLAN_TOOLS | {tool.name for tool in maker.kit.tools(Caller(LEAD, team))})
    lead = _lead(ground, agent, team, jobs)
    warnings = (*_lost_lines(agent, log), *_warnings(ground, maker, unserved))
    parts = (lead, team, maker, models, log, lease, requests, deadlines, jobs, outside)
    exchange = await have_processes(ground, team, maker, log, grants, watcher.follow)
    session = Session(ground.id, options, *parts, warnings, reloading=Reloading(ground, maker), exchange=exchange)
    session.pruning = pruning
    _grant_in(session, grants)
    log.subscribe(partial(_note, session), live=False)
    wire(maker.purse, team, log)
    await _take_up(session, ground, undo)
    return session


def _warnings(ground: Ground, maker: Maker, unserved: Sequence[str]) -> tuple[str, ...]:
    """What was left out of the session, a line each."""
    settings, kinds = ground.settings.warnings, maker.resolver.warnings()
    return (*trust_warnings(ground), *settings, *unserved, *kinds, *shelf_warnings(maker.kit.shelf))


def _pruning(ground: Ground, log: EventLog, stack: AsyncExitStack) -> asyncio.Task[None]:
    task = asyncio.create_task(_prune(ground, log), name="retention")
    stack.push_async_callback(asyncio.wait, {task})
    return task


async def _prune(ground: Ground, log: EventLog) -> None:
    """Remove what is too old to keep, and say so."""
    removed = str(await prune(ground.home, ground.settings.retention_days, keep=ground.id))
    if removed:
        log.emit(Notice(member=LEAD, text=removed))


def _lost_lines(agent: Agent, log: EventLog) -> tuple[str, ...]:
    return tuple(str(lost) for lost in (agent.conversation.lost, log.lost) if lost is not None)


def _lead(ground: Ground, agent: Agent, team: Team, jobs: BackgroundJobs) -> Lead:
    """The lead of the team; whose background commands end is told, and they end with their owner."""
    team.lead_model, team.lead_effort = agent.model.card.name, agent.shown_effort
    known = team.standing.members.get(LEAD)
    if (mode := str(agent.policy.shown_mode)) != ((known.mode if known is not None else "") or Mode.DEFAULT):
        team.emit(ModeChanged(member=LEAD, mode=mode))
    lead = Lead(agent, team, owing=ground.resumed and agent.conversation.owes_round)
    owners_of(lead, team, jobs)
    lead.on_shell = partial(run_line, agent)
    lead.on_prompt = partial(note_prompt, ground.directory / "history")
    return lead


def _log(ground: Ground, stack: AsyncExitStack) -> tuple[EventLog, Standing]:
    """The session's log, which says that this process opened it; and how everybody stood by what it holds."""
    log = EventLog(ground.directory / "events.jsonl")
    stack.callback(log.close)
    standing = log.state = Standing.of(read_recent(log.path))
    log.emit(SessionOpened(member=LEAD, pid=os.getpid(), session=ground.id))
    return log, standing


def _note(session: Session, _number: int, event: TeamEvent) -> None:
    """Count the event. What a command of an agent was refused is logged once the command has ended."""
    session.tally.note(event)
    if isinstance(event, ToolCalled) and event.tool == "Bash":
        asyncio.get_running_loop().call_soon(session.requests.look)


@contextmanager
def _heard(session: Session) -> Generator[list[str]]:
    """Warnings of the block, in which no face looks yet."""
    told: list[str] = []

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            told.append(event.text)

    unsubscribe = session.log.subscribe(note, live=False)
    try:
        yield told
    finally:
        unsubscribe()


def _grant_in(session: Session, grants: Grants) -> None:
    """Let grants change modes of this session, and answer what was granted before."""
    grants.modes = lambda: session.modes
    session.requests.answerers.append(grants.answer)


async def _take_up(session: Session, ground: Ground, undo: ExitStack) -> None:
    """Take up the team, and tell who lost a background command. When that fails, those who are back are let go."""
    try:
        if (hooking := session.maker.kit.hooking) is not None:
            with _heard(session) as told:
                await hooking.started("resume" if ground.resumed else "startup", session.lead)
            session.warnings += tuple(told)
        if ground.resumed or ground.options.adopt is not None:
            session.warnings += await recover_teams(ground.home, ground.id if ground.resumed else "")
        if ground.options.adopt is not None:
            team = require_adoptable(named_team(ground.home, ground.options.adopt))
            why = f'You lead the team "{team.name}" now; its former lead is gone. Its teammates continue their work.'
            await _take_up_team(session, ground, team.directory, why)
        elif ground.resumed and (found := await session.team.teams.led_by(session.id)) is not None:
            why = f"Your session was interrupted and continues now ({iso()}) with its team."
            with _heard(session) as told:
                await _take_up_team(session, ground, found.directory, why)
            session.warnings += tuple(told)
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


def _maker(ground: Ground, models: Models, log: EventLog, kit: Kit, numbers: CallNumbers) -> Maker:
    """What makes the agents of the session, in the mode of its lead."""
    earlier = partial(books_until, log.path, log.last)
    purse = Purse(ground.options.budget, each=ground.settings.each, earlier=earlier)
    purse.assumed = ground.options.assumed
    made = maker_of(ground, models, purse, log, kit, numbers)
    made.plans.approved_by(ground.settings, ask_timeout(ground))
    return _in_mode(ground, made)


def _in_mode(ground: Ground, maker: Maker) -> Maker:
    """The lead's mode is what a flag says, else the one that the session was left in, else what settings say."""
    kept, said = kept_mode(ground.directory) if ground.resumed else None, ground.options.permission_mode
    require_person_for_mode(ground.home, maker.policy.mode)
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
