"""Opening a session: settings, trust, model, lease, log, team and lead, with all ports connected.

A session opens completely or leaves nothing: after a failure, opened parts are closed in reverse order. Depends on all
packages below and the settings.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.conversation import Conversation
from teamwright.agent.prompt import load_conversation
from teamwright.approvals.request_queue import RequestQueue
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_confirmation import UsageMarks
from teamwright.config.trust import require_person_for_mode
from teamwright.config.trusted_skills import shelf_warnings
from teamwright.external.file_changes import TeamWatcher
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import ModeChanged, Notice, SessionOpened, TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.saved.retention import prune_hourly, remove_session
from teamwright.saved.run_repository import foreign_owner_warnings
from teamwright.saved.sessions import SessionView, save_title
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.factory_parts import start_reading_state
from teamwright.session.agents.model_sources import SessionModels, no_tools_warning
from teamwright.session.command_start import find_database
from teamwright.session.control.stop_listener import StopListener
from teamwright.session.modes_and_grants import SavedMode, load_mode, make_grants, restore_mode, save_mode
from teamwright.session.options import Options, mark_portions
from teamwright.session.preparation import SessionContext, ask_timeout, load_context, trust_warnings
from teamwright.session.reload_config import ConfigReloader
from teamwright.session.session import Session
from teamwright.session.shell_command import run_shell_command
from teamwright.session.wiring.integration import SessionIntegration
from teamwright.session.wiring.member_processes import MemberProcesses
from teamwright.session.wiring.process_parts import (
    AgentServices,
    make_agent_factory,
    make_models,
    make_policies,
    make_request_queue,
    open_background_jobs,
    open_call_counter,
    require_known_tools,
    start_services,
)
from teamwright.session.wiring.team_factory import connect_budget, make_team, totals_until
from teamwright.session.wiring.telemetry import caller_span, start_telemetry
from teamwright.session.wiring.worktrees import enter_session_worktree
from teamwright.storage.event_log import EventLog, Subscriber, log_path, read_recent
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.paths import make_private
from teamwright.subagents.reports import job_end_notice
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.job_notices import (
    connect_owners,
    continue_waiting_subagents,
    notify_lost,
    notify_lost_subagents,
)
from teamwright.teams.lead_agent import Lead
from teamwright.teams.resume_result import ResumeResult
from teamwright.teams.shutdown_deadlines import ShutdownDeadlines
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import TeamPorts
from teamwright.tools.files.edit_journal_writer import record_prompt


@asynccontextmanager
async def open_session(options: Options, end: Callable[[], None] | None = None) -> AsyncGenerator[Session, None]:
    """Open a session for the block. `end` ends the process as SIGTERM would, where a user interface owns it.

    Raises CannotStart, UsageError, StorageError; then nothing is left behind.
    """
    async with AsyncExitStack() as stack:
        session = await _open(options, stack, end)
        try:
            yield session
        finally:
            await _close(session)


async def _close(session: Session) -> None:
    """Close the session completely despite cancellation, bounded by the deadlines of members and jobs."""
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


async def _open(options: Options, stack: AsyncExitStack, end: Callable[[], None] | None) -> Session:
    context = load_context(options)
    await asyncio.sleep(0)  # between the larger steps of an opening other tasks of the loop run
    lease = _take_lease(context, stack)
    undo = stack.enter_context(ExitStack())
    if not context.resumed or options.fork:
        undo.callback(_remove, context)
    context, subscriber = await _open_stores(context, stack, end)
    log, team_status = _log(context, stack, subscriber)
    git = None if context.resumed else start_reading_state(context.cwd)
    pruning = _pruning(context, log, stack)
    watcher = await stack.enter_async_context(Watcher())
    numbers = open_call_counter(context, log)
    models = make_models(context, numbers)
    stack.push_async_callback(models.aclose)
    requests = make_request_queue(context, log, watcher)
    policies = make_policies(context)
    grants = make_grants(context, log, policies, lambda: session.modes)
    jobs = open_background_jobs(context, stack)
    deadlines = ShutdownDeadlines()
    await asyncio.sleep(0)
    services = AgentServices(
        policies, jobs, numbers, requests, deadlines, grants, permits=requests, left_open=requests.was_left_open
    )
    agent_factory = _agent_factory(context, models, log, requests, services)
    await asyncio.sleep(0)
    note, unserved = await _start_services(context, log, agent_factory, stack)
    requests.answerers.append(grants.answer)
    processes = MemberProcesses(
        context, agent_factory, log, watcher, agent_factory.policy.rules, requests.calls_left_open
    )
    integration = SessionIntegration(context, agent_factory, log)
    ports = TeamPorts(
        agent_factory.plans.watch,
        worktrees=lambda: agent_factory.worktrees,
        work_directory=agent_factory.work_directory,
        launcher_for=processes.launcher_for,
        is_integrating=lambda: integration.is_working,
        watch_mailbox=lambda name, look: files.follow(name, look),
        watch_file=watcher.follow,
        open_doorbell=lambda name, look: outside.open_doorbell(name, look),
    )
    team = make_team(context, log, agent_factory, team_status, ports)
    files = await stack.enter_async_context(TeamWatcher(team, watcher))
    log.subscribe(files.note_event, live=False)
    await asyncio.sleep(0)
    requests.set_team(team, always=context.settings.lead_answers)
    outside = StopListener(team, log.emit, watcher, deadlines, end, on_ring=requests.read_outside_answers)
    with _collect_notices(log) as notices:
        agent = await agent_factory.lead(team, git or _conversation(context, agent_factory))
    await asyncio.sleep(0)
    require_known_tools(agent_factory, team)
    if agent.toolbox.offered_tools and not agent.model.card.tools:
        notices.append(no_tools_warning(agent.model.card))
    lead = _lead(context, agent, team, jobs, agent_factory.budget_tracker.marks, note)
    warnings = (*_lost_lines(agent, log), *_warnings(context, agent_factory, (*unserved, *notices)))
    await processes.require_backends()
    session = Session(
        id=context.id,
        options=options,
        lead=lead,
        team=team,
        agent_factory=agent_factory,
        models=models,
        log=log,
        lease=lease,
        requests=requests,
        deadlines=deadlines,
        jobs=jobs,
        outside=outside,
        reloading=ConfigReloader(context, agent_factory),
        integration=integration,
        warnings=warnings,
        processes=processes,
        pruning=pruning,
    )
    log.subscribe(partial(_count_event, session), live=False)
    connect_budget(agent_factory.budget_tracker, team, log)
    await _resume_team(session, context, undo)
    return session


def _warnings(context: SessionContext, agent_factory: AgentFactory, unserved: Sequence[str]) -> tuple[str, ...]:
    """Return the ignored parts of the configuration, a line each."""
    settings = context.settings.warnings
    kinds = agent_factory.resolver.warnings()
    git = foreign_owner_warnings(context.cwd)
    lines = (*trust_warnings(context), *git, *settings, *unserved, *kinds, *shelf_warnings(agent_factory.toolset.shelf))
    return tuple(dict.fromkeys(lines))  # a warning of an agent type is also an event of the lead's creation


def _pruning(context: SessionContext, log: EventLog, stack: AsyncExitStack) -> asyncio.Task[None]:
    task = asyncio.create_task(_prune(context, log), name="retention")
    stack.push_async_callback(asyncio.wait, {task})
    return task


async def _prune(context: SessionContext, log: EventLog) -> None:
    """Remove old sessions and archives, and emit a notice. A try that removes none is not repeated within an hour."""
    removed = str(await prune_hourly(context.home, context.settings.retention_days, keep=context.id))
    if removed:
        log.emit(Notice(member=LEAD, text=removed))


def _lead(
    context: SessionContext, agent: Agent, team: SessionTeam, jobs: BackgroundJobs, marks: UsageMarks | None, note: str
) -> Lead:
    """Create the lead of the team, with a note. Background commands end with their owners, which are notified of each
    end.
    """
    team.set_lead_model(agent.model.card.name, agent.effort_text)
    known = team.status.members.get(LEAD)
    if (mode := str(agent.policy.display_mode)) != ((known.mode if known is not None else "") or Mode.DEFAULT):
        team.emit(ModeChanged(member=LEAD, mode=mode))
    lead = Lead(
        agent,
        team,
        owes_answer=context.resumed and agent.conversation.owes_answer,
        on_shell=partial(run_shell_command, agent),
        on_prompt=partial(_record_prompt, context.directory / "history", marks),
    )
    if note:
        lead.add_note(note)
    connect_owners(lead, team, jobs)
    return lead


async def _start_services(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, stack: AsyncExitStack
) -> tuple[str, list[str]]:
    """Start what agents use, in the session's worktree if it has one. Returns a note to the lead, and warnings."""
    with _collect_notices(log, "info", "warning") as lines:
        note = await enter_session_worktree(context, agent_factory, stack)
    return note, [*lines, *start_services(context, log, agent_factory, stack)]


def _record_prompt(history: Path, marks: UsageMarks | None, id: str, text: str) -> None:
    """Record a prompt of the user in the history of edits, and count the time of the marks from it."""
    record_prompt(history, id, text)
    if marks is not None:
        marks.note_prompt()


async def _open_stores(
    context: SessionContext, stack: AsyncExitStack, end: Callable[[], None] | None
) -> tuple[SessionContext, Subscriber | None]:
    """Return the context with the stores of its team, if they are in a database, and what follows the log then."""
    address = find_database(context.options.database, context.home, context.env)
    if address is None:
        return context, None
    from teamwright.session.database_session import open_database_session

    database = await open_database_session(context, address, stack, end)
    return database.context, database.note_event


def _log(context: SessionContext, stack: AsyncExitStack, subscriber: Subscriber | None) -> tuple[EventLog, TeamStatus]:
    """Open the session's log with an event of this process; return it with the states of all members."""
    path = log_path(context.directory)
    team_status = TeamStatus.from_log(read_recent(path))
    log = EventLog(path, team_status)
    stack.callback(log.close)
    if subscriber is not None:
        log.subscribe(subscriber, live=False)
    start_telemetry(context, log, stack)
    opened = SessionOpened(member=LEAD, pid=os.getpid(), session=context.id, traceparent=caller_span(context))
    log.emit(opened)
    return log, team_status


def _count_event(session: Session, _number: int, event: TeamEvent) -> None:
    """Count the event. A refused action of an agent's command is logged once the command has ended."""
    session.tally.count(event)
    if isinstance(event, ToolCalled) and event.tool == "Bash":
        asyncio.get_running_loop().call_soon(session.requests.read_outside_answers)


@contextmanager
def _collect_notices(log: EventLog, *levels: str) -> Generator[list[str]]:
    """Collect the warnings, or the notices of these levels, of the block, before a user interface is attached."""
    texts: list[str] = []

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, Notice) and event.level in (levels or ("warning",)):
            texts.append(event.text)

    unsubscribe = log.subscribe(note, live=False)
    try:
        yield texts
    finally:
        unsubscribe()


async def _resume_team(session: Session, context: SessionContext, undo: ExitStack) -> None:
    """Resume the team, and notify owners of lost background commands. After a failure, suspend resumed members."""
    try:
        hooking = session.agent_factory.toolset.hooking
        source = context.options.start_source or ("resume" if context.resumed else "startup")
        with _collect_notices(session.log) as notices:
            await hooking.fire_start(source, session.lead, context.options.setup)
        session.warnings += tuple(notices)
        if context.resumed or context.options.adopt is not None:
            from teamwright.teams.team_recovery import recover_teams

            session.warnings += await recover_teams(context.home, context.id if context.resumed else "")
        if context.options.adopt is not None:
            from teamwright.saved.teams import find_team_to_adopt

            name, directory = await find_team_to_adopt(context.home, context.options.stores, context.options.adopt)
            why = f'You lead the team "{name}" now; its former lead is gone. Its teammates continue their work.'
            await _resume_team_in(session, context, directory, why)
        elif context.resumed and (found := await session.team.teams.find_led_by(session.id)) is not None:
            why = f"Your session was interrupted and continues now ({iso_time()}) with its team."
            with _collect_notices(session.log) as notices:
                await _resume_team_in(session, context, found.directory, why)
            session.warnings += tuple(notices)
        elif context.resumed:
            session.resumed = ResumeResult(repaired=len(session.lead.agent.conversation.unanswered_calls()))
            session.warnings += _unreadable_teams(context)
        session.requests.close_abandoned()
        notify_lost(session.jobs, session.team, session.lead, job_end_notice)
        left_open = {id for _, id in session.requests.calls_left_open()}
        await continue_waiting_subagents(session.agents, session.team, session.lead, left_open)
        notify_lost_subagents(session.agents, session.team, session.lead)
    except BaseException:
        if await session.team.teams.find_led_by(session.id) is not None:
            undo.pop_all()  # it leads that team now: its files stay, so that it can be resumed
        await _close(session)
        raise
    undo.pop_all()


def _unreadable_teams(context: SessionContext) -> tuple[str, ...]:
    """Return warnings about teams of this session that cannot be read, which it leaves out."""
    from teamwright.saved.teams import all_teams

    damaged = [team for team in all_teams(context.home) if team.damaged and team.session == context.id]
    return tuple(
        f'the team "{team.name}" of this session is left out, with its members: {team.damaged} ({team.directory_path})'
        for team in damaged
    )


async def _resume_team_in(session: Session, context: SessionContext, directory: str, why: str) -> None:
    from teamwright.session.former_sessions import FormerSessions

    former = FormerSessions.of_team(context.home, directory, context.directory)
    try:
        await former.end()
        await session.agent_factory.toolset.hooking.stop_crashed(*former.places)
        await session.resume_team(directory, why)
        former.notify_owners(session.team, job_end_notice)
    finally:
        await former.close()


def _take_lease(context: SessionContext, stack: AsyncExitStack) -> Lease:
    """Take the lease of the session's directory, and store a new title. Without persistence its files are removed at
    the end.
    """
    if not context.options.persists:
        stack.push_async_callback(_remove_ended, context)
    make_private(context.directory)
    lease = Lease.take(lease_path(context.directory), f"session {context.id}")
    stack.callback(lease.release)
    if context.options.title:
        save_title(context.directory, context.options.title)
    return lease


async def _remove_ended(context: SessionContext) -> None:
    """Remove the files of a session that has ended. What cannot be removed stays until the next cleaning."""
    view = SessionView(context.id, context.home.transcript(context.cwd, context.id))
    with suppress(TeamwrightError, OSError):
        await remove_session(context.home, view, force=True)


def _remove(context: SessionContext) -> None:
    """Remove the files of a session that could not be opened."""
    shutil.rmtree(context.directory, ignore_errors=True)
    context.home.transcript(context.cwd, context.id).unlink(missing_ok=True)


def _agent_factory(
    context: SessionContext,
    models: SessionModels,
    log: EventLog,
    requests: RequestQueue,
    services: AgentServices,
) -> AgentFactory:
    """Create the agent factory of the session, in the mode of its lead."""
    earlier = partial(totals_until, log.path, log.last_number)
    options = context.options
    each = context.settings.each
    portions = mark_portions(options, context.settings.run_defaults)
    marks = UsageMarks(portions, requests) if portions else None
    budget_tracker = BudgetTracker(
        options.budget, each=each, earlier=earlier, assumed=options.assumed, marks=marks, spent=options.spent
    )
    agent_factory = make_agent_factory(context, models, budget_tracker, log, services)
    agent_factory.plans.configure(context.settings, ask_timeout(context))
    return _in_mode(context, agent_factory)


def _in_mode(context: SessionContext, agent_factory: AgentFactory) -> AgentFactory:
    """Set the lead's mode: the flag's, else the saved one, else the settings'."""
    saved_mode = load_mode(context.directory) if context.resumed else None
    requested_mode = context.options.permission_mode
    may_bypass = context.options.may_bypass
    require_person_for_mode(context.home, Mode.BYPASS if may_bypass else agent_factory.policy.mode)
    agent_factory.may_bypass = may_bypass or agent_factory.policy.mode is Mode.BYPASS
    agent_factory.mode_untold = saved_mode is not None
    if requested_mode is None and saved_mode is not None:
        restore_mode(agent_factory.policy, saved_mode)
    elif requested_mode is not None:
        save_mode(context.directory, SavedMode(agent_factory.policy.display_mode, agent_factory.policy.mode))
    if agent_factory.policy.is_delegating and not agent_factory.toolset.teams:
        raise UsageError("usage", "a lead cannot delegate while teams are switched off", note="nothing was started")
    return agent_factory


def _lost_lines(agent: Agent, log: EventLog) -> tuple[str, ...]:
    return tuple(str(lost) for lost in (agent.conversation.lost_lines, log.lost_lines) if lost is not None)


def _conversation(context: SessionContext, agent_factory: AgentFactory) -> Conversation:
    return load_conversation(context.home.transcript(context.cwd, context.id), agent_factory.prefixes)
