"""Opening a session: settings, trust, model, lease, log, team and lead, with all ports connected.

A session opens completely or leaves nothing: after a failure, opened parts are closed in reverse order. Depends on all
packages below and the settings.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from functools import partial

from teamwright.agent.agent import Agent
from teamwright.agent.prompt import load_conversation
from teamwright.config.trusted_skills import shelf_warnings
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, ModeChanged, Notice, TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, iso_time
from teamwright.saved.retention import prune_hourly, remove_session
from teamwright.saved.run_repository import foreign_owner_warnings
from teamwright.saved.sessions import SessionView, save_title
from teamwright.session.agents.factory_parts import start_reading_state
from teamwright.session.agents.lead_build import build_lead
from teamwright.session.agents.model_sources import no_tools_warning
from teamwright.session.command_start import find_database
from teamwright.session.control.stop_listener import ELSEWHERE
from teamwright.session.lead_role import LeadRole
from teamwright.session.options import Options
from teamwright.session.preparation import SessionContext, load_context, trust_warnings
from teamwright.session.reload_config import ConfigReloader
from teamwright.session.session import Session
from teamwright.session.shell_command import run_shell_command
from teamwright.session.wiring.process_assembly import (
    AgentProcess,
    assemble,
    collect_notices,
    require_known_tools,
)
from teamwright.storage.event_log import EventLog, Subscriber
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.paths import make_private
from teamwright.subagents.reports import job_end_notice
from teamwright.teams.job_notices import connect_owners
from teamwright.teams.lead_agent import Lead
from teamwright.teams.resume_result import ResumeResult
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


async def _open(options: Options, stack: AsyncExitStack, end: Callable[[], None] | None) -> Session:
    context = load_context(options)
    await asyncio.sleep(0)  # between the larger steps of an opening other tasks of the loop run
    lease = _take_lease(context, stack)
    undo = stack.enter_context(ExitStack())
    if not context.resumed or options.fork:
        undo.callback(_remove, context)
    context, subscriber = await _open_stores(context, stack, end)
    git = None if context.resumed else start_reading_state(context.cwd)
    role = LeadRole(context, end, subscriber, current_modes=lambda: session.modes, ask=partial(_ask, lambda: session))
    process = await assemble(role, stack)
    log = process.log
    team = process.team
    agent_factory = process.agent_factory
    pruning = asyncio.create_task(_prune(context, log), name="retention")
    stack.push_async_callback(asyncio.wait, {pruning})
    await stack.enter_async_context(role.files)
    log.subscribe(role.files.note_event, kinds=(ModeChanged, MemberChanged))
    with collect_notices(log) as notices:
        transcript = context.home.transcript(context.cwd, context.id)
        agent = await build_lead(agent_factory, team, git or load_conversation(transcript, agent_factory.prefixes))
    await asyncio.sleep(0)
    require_known_tools(agent_factory, team)
    if agent.toolbox.offered_tools and not agent.model.card.tools:
        notices.append(no_tools_warning(agent.model.card))
    lead = _make_lead(context, agent, process)
    await role.processes.require_backends()
    session = Session(
        id=context.id,
        options=options,
        lead=lead,
        team=team,
        agent_factory=agent_factory,
        models=process.models,
        log=log,
        lease=lease,
        requests=role.requests,
        deadlines=role.deadlines,
        jobs=process.jobs,
        outside=role.outside,
        reloading=ConfigReloader(context, agent_factory),
        integration=role.integration,
        warnings=_warnings(context, process, agent, notices),
        processes=role.processes,
        pruning=pruning,
    )
    log.subscribe(partial(_count_event, session), live=False)
    await _resume_team(session, process, context, undo)
    return session


async def _ask(session: Callable[[], Session], question: str, name: str) -> str:
    """Return the answer to a question from another terminal."""
    from teamwright.session.control.action_table import ask_agent

    return await ask_agent(session(), question, name, ELSEWHERE)


def _make_lead(context: SessionContext, agent: Agent, process: AgentProcess) -> Lead:
    """Create the lead of the team. Background commands end with their owners, which are notified of each end."""
    team = process.team
    team.set_lead_model(agent.model.card.name, agent.effort_text)
    known = team.status.members.get(LEAD)
    if (mode := str(agent.policy.display_mode)) != ((known.mode if known is not None else "") or Mode.DEFAULT):
        team.emit(ModeChanged(member=LEAD, mode=mode))
    marks = process.agent_factory.budget_tracker.marks

    def note_prompt(id: str, text: str) -> None:
        record_prompt(context.directory / "history", id, text)
        if marks is not None:
            marks.note_prompt()

    lead = Lead(
        agent,
        team,
        owes_answer=context.resumed and agent.conversation.owes_answer,
        on_shell=partial(run_shell_command, agent),
        on_prompt=note_prompt,
    )
    if process.note:
        lead.add_note(process.note)
    connect_owners(lead, team, process.jobs)
    return lead


def _warnings(context: SessionContext, process: AgentProcess, agent: Agent, notices: Sequence[str]) -> tuple[str, ...]:
    """Return what was lost in damaged files, and the ignored parts of the configuration, a line each."""
    lost = [str(lines) for lines in (agent.conversation.lost_lines, process.log.lost_lines) if lines is not None]
    agent_factory = process.agent_factory
    lines = (
        *trust_warnings(context),
        *foreign_owner_warnings(context.cwd),
        *context.settings.warnings,
        *process.warnings,
        *notices,
        *agent_factory.resolver.warnings(),
        *shelf_warnings(agent_factory.toolset.shelf),
    )
    return (*lost, *dict.fromkeys(lines))  # a warning of an agent type is also an event of the lead's creation


def _count_event(session: Session, _number: int, event: TeamEvent) -> None:
    """Count the event. A refused action of an agent's command is logged once the command has ended."""
    session.tally.count(event)
    if isinstance(event, ToolCalled) and event.tool == "Bash":
        asyncio.get_running_loop().call_soon(session.requests.read_outside_answers)


async def _resume_team(session: Session, process: AgentProcess, context: SessionContext, undo: ExitStack) -> None:
    """Resume the team, and notify owners of lost background commands. After a failure, suspend resumed members."""
    try:
        hooking = session.agent_factory.toolset.hooking
        source = context.options.start_source or ("resume" if context.resumed else "startup")
        with collect_notices(session.log) as notices:
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
            with collect_notices(session.log) as notices:
                await _resume_team_in(session, context, found.directory, why)
            session.warnings += tuple(notices)
        elif context.resumed:
            session.resumed = ResumeResult(repaired=len(session.lead.agent.conversation.unanswered_calls()))
            session.warnings += _unreadable_teams(context)
        session.requests.close_abandoned()
        left_open = {id for _, id in session.requests.calls_left_open()}
        await process.continue_jobs(session.lead, left_open)
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
    shutil.rmtree(context.home.session_variables(context.id).parent, ignore_errors=True)
    context.home.transcript(context.cwd, context.id).unlink(missing_ok=True)


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


async def _prune(context: SessionContext, log: EventLog) -> None:
    """Remove old sessions and archives, and emit a notice. A try that removes none is not repeated within an hour."""
    removed = str(await prune_hourly(context.home, context.settings.retention_days, keep=context.id))
    if removed:
        log.emit(Notice(member=LEAD, text=removed))
