"""The member process of a Teamwright team, assembled from the same parts as its lead's process.

Request queue and budget tracker are the lead's. Only the lead does its own work on the team's files (declaring members
dead, releasing tasks, reporting external changes). A failed start leaves nothing behind. Depends on all packages below.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.settings import Settings
from teamwright.member_process.lead_connection import LeadConnection
from teamwright.member_process.lead_proxies import (
    MemberBudget,
    RemoteApprover,
    RemoteSpawnLimit,
    ShutdownRefusal,
)
from teamwright.member_process.led_member import LedMember, remote_state
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import SessionOpened
from teamwright.protocol.ids import SessionId
from teamwright.protocol.roster import RosterMember
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.session.agents.model_sources import SessionModels
from teamwright.session.control.remote_actions import ActionContext
from teamwright.session.reload_config import ConfigReloader
from teamwright.session.session_preparation import SessionContext, ask_timeout, load_member_context
from teamwright.session.spawn_file import SpawnFile, options_of
from teamwright.session.wiring.budget_wiring import connect_budget, take_tasks, totals_until
from teamwright.session.wiring.process_components import (
    AgentServices,
    make_agent_factory,
    make_models,
    make_policies,
    open_background_jobs,
    open_call_counter,
    start_services,
)
from teamwright.session.wiring.session_worktree import enter_session_worktree
from teamwright.session.wiring.team_factory import JoinedTeam, make_team
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.event_log import EventLog
from teamwright.storage.event_log_reader import log_path, read_recent
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.file_watcher import Watcher
from teamwright.subagents.reports import job_end_notice
from teamwright.tasks.task_store import TaskInterest
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.incarnation import Incarnation, process_directory
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.job_notices import connect_owners, notify_lost, notify_lost_subagents
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.plan_approval import resume_plan
from teamwright.teams.spawn import start_in_process
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import ReportEnd, TeamPorts

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent
    from teamwright.member_process.remote import RemoteMember

OnStarted: TypeAlias = Callable[[EventLog], object]
"""Called with a member's log before its first event."""


class RunningMember(Struct):
    """A member that lives in this process."""

    spawn: SpawnFile
    team: SessionTeam
    teammate: LocalTeammate
    agent_factory: AgentFactory
    log: EventLog
    line: LeadConnection
    watcher: Watcher
    led_member: LedMember
    settings: Settings
    warnings: tuple[str, ...] = ()


@asynccontextmanager
async def join_team(
    spawn: SpawnFile, line: LeadConnection, begun: OnStarted | None = None, remote: RemoteMember | None = None
) -> AsyncGenerator[RunningMember]:
    """Run the member for the block; `begun` receives its log. Raises TeamwrightError; then nothing is left behind.

    `remote` is the database side of a member on another machine than its lead.
    """
    async with AsyncExitStack() as stack:
        member = await _join(spawn, line, begun, remote, stack)
        yield member


async def _join(
    spawn: SpawnFile,
    line: LeadConnection,
    begun: OnStarted | None,
    remote: RemoteMember | None,
    stack: AsyncExitStack,
) -> RunningMember:
    home_context, incarnation = await _find_incarnation(spawn, remote)
    room = process_directory(Path(incarnation.transcript))
    await _take_files(room, spawn, home_context, remote, stack)
    context = replace(home_context, room=room, resumed=log_path(room).exists())
    log = line.log = EventLog(log_path(room))
    stack.callback(log.close)
    if begun is not None:
        begun(log)
    log.emit(SessionOpened(member=spawn.member, pid=os.getpid(), session=context.id))
    watcher = await stack.enter_async_context(Watcher())
    approver = RemoteApprover(line, log.emit)
    agent_factory, models, warnings = await _agent_factory(
        context, log, approver, stack, is_elsewhere=remote is not None
    )

    async def report_end(name: str, cause: str, agreed_to: str | None) -> None:
        await led_member.departed(name, cause, agreed_to)

    team = _team(spawn, context, agent_factory, _Connections(line, log, watcher, report_end, remote))
    actions = _action_context(context, agent_factory, models, team)
    led_member = LedMember(team, agent_factory, line, actions, approver.is_waiting, remote)
    agent_factory.policies.on_always = led_member.add_always_rules
    line.attach(led_member)
    line.forward_earlier_events()
    log.subscribe(led_member.record_mode, live=False)
    log.subscribe(line.forward_event, live=False)
    log.subscribe(led_member.record_event, live=False)
    if remote is not None:
        log.subscribe(remote.note_event, live=False)
    connect_budget(agent_factory.budget_tracker, team, log)
    _follow_tasks(team, watcher, led_member, TaskInterest(spawn.member, led_member.drop_tasks), stack)
    stack.push_async_callback(end_work, agent_factory)
    entry = await _entry(team, spawn, remote)
    led_member.require_wanted()
    teammate = await _start(team, entry, incarnation, spawn, stack)
    notify_lost(agent_factory.toolset.jobs, team, None, job_end_notice)
    notify_lost_subagents(agent_factory.toolset.agents, team, None)
    await take_tasks(agent_factory.budget_tracker, team)
    led_member.set_member(teammate)
    stack.push_async_callback(led_member.close)
    return RunningMember(
        spawn, team, teammate, agent_factory, log, line, watcher, led_member, context.settings, tuple(warnings)
    )


def _action_context(
    context: SessionContext, agent_factory: AgentFactory, models: SessionModels, team: SessionTeam
) -> Callable[[Agent], ActionContext]:
    """Return a function that creates the context of the lead's actions on an agent of this process."""
    reading = cache(partial(ConfigReloader, context, agent_factory))
    return lambda agent: ActionContext(team, agent_factory, models, agent, reading)


async def _agent_factory(
    context: SessionContext, log: EventLog, approver: RemoteApprover, stack: AsyncExitStack, *, is_elsewhere: bool
) -> tuple[AgentFactory, SessionModels, list[str]]:
    line, numbers = approver.line, open_call_counter(context, log)
    models = make_models(context, numbers)
    stack.push_async_callback(models.aclose)
    jobs = open_background_jobs(context, stack)
    policies, limit = make_policies(context), RemoteSpawnLimit(line)
    approver.own_policies = policies if is_elsewhere else None
    services = AgentServices(
        policies,
        jobs,
        numbers,
        approver,
        ShutdownRefusal(),
        approver.grant,
        admit_elsewhere=limit,
        left_open=approver.was_left_open,
    )
    budget_tracker = MemberBudget(line, context.settings.each, partial(totals_until, log.path, log.last_number))
    agent_factory = make_agent_factory(context, models, budget_tracker, log, services)
    agent_factory.plans.configure(context.settings, ask_timeout(context))
    await enter_session_worktree(context, agent_factory, stack)
    warnings = start_services(context, log, agent_factory, stack)
    await jobs.wait_for_orphan_cleanup()
    return agent_factory, models, warnings


class _Connections(NamedTuple):
    """The connections of this process to its lead and to the files of the team."""

    line: LeadConnection
    log: EventLog
    watcher: Watcher
    report_end: ReportEnd
    remote: RemoteMember | None


def _team(spawn: SpawnFile, context: SessionContext, agent_factory: AgentFactory, to: _Connections) -> SessionTeam:
    """Return the team as its lead created it, without this process's member."""
    home, directory, line = context.home, spawn.directory, to.line
    doorbells = TeamDoorbells(home, directory)
    status = TeamStatus.from_log(read_recent(log_path(home.session(context.cwd, context.id))))
    ports = TeamPorts(
        watch_mailbox=lambda name, look: team.mailbox(name).watch(to.watcher, look),
        report_end=to.report_end,
        on_plan=lambda request: line.notify("plan", request=request["id"], target=request["target"]),
        open_doorbell=doorbells.listen,
        wake_other_process=doorbells.ring,
        remote_state=partial(remote_state, status),
    )
    commits = to.remote.commits(spawn, line) if to.remote is not None else None
    joined = JoinedTeam(spawn.team, directory, spawn.model, commits=commits)
    team = make_team(context, to.log, agent_factory, status, ports, joined)
    agent_factory.team = team
    agent_factory.plans.join_team(team)
    return team


def _follow_tasks(
    team: SessionTeam, watcher: Watcher, led_member: LedMember, interest: TaskInterest, stack: AsyncExitStack
) -> None:
    """Follow changes of the task list by others, and connect owners with their jobs."""
    known = team.tasks.watch_external_changes(led_member.note_outside_change)
    stack.callback(known.close)
    follow = partial(led_member.check_tasks, known)
    stack.callback(team.tasks.store.watch(watcher, follow, interest))
    connect_owners(None, team, led_member.agent_factory.toolset.jobs)


async def _start(
    team: SessionTeam, member: RosterMember, incarnation: Incarnation, spawn: SpawnFile, stack: AsyncExitStack
) -> LocalTeammate:
    teammate = await start_in_process(team, member, incarnation, stack, resumed=spawn.resumed)
    if spawn.resumed:
        await resume_plan(team, teammate)
        for request in team.requests.open_requests():
            if request.get("kind") == "shutdown" and request.get("incarnation") == incarnation.incarnation:
                teammate.note_stop_request(str(request["id"]))
    return teammate


async def end_work(agent_factory: AgentFactory) -> None:
    """End all jobs here except the member, and let their stop hooks run. May be called twice."""
    toolset = agent_factory.toolset
    await agent_factory.plans.close()
    await toolset.agents.end_background()
    await toolset.agents.close()
    await toolset.jobs.close()
    await toolset.hooking.hooks.close()


async def _find_incarnation(spawn: SpawnFile, remote: RemoteMember | None) -> tuple[SessionContext, Incarnation]:
    """Return the context without a directory, and the incarnation with the path of its transcript here."""
    context = load_member_context(options_of(spawn), SessionId(spawn.session), Path())
    if remote is None:
        return context, await _read_incarnation(context, spawn)
    context = remote.add_stores(context)
    return context, remote.place(context, await _read_incarnation(context, spawn))


async def _take_files(
    directory: Path, spawn: SpawnFile, context: SessionContext, remote: RemoteMember | None, stack: AsyncExitStack
) -> None:
    """Take the lease of the member's files, and fetch those that another machine has shipped. Raises CannotStart."""
    owner = f"member {spawn.member} of {spawn.team}"
    if remote is None:
        stack.callback(Lease.take(lease_path(directory), owner).release)
        return
    stack.callback((await remote.take_local_lease(directory, owner)).release)
    await remote.fetch_files(context, spawn, directory.name)


async def _read_incarnation(context: SessionContext, spawn: SpawnFile) -> Incarnation:
    """Return the incarnation to resume or to begin. Raises CannotStart when it has ended."""
    stores = context.options.stores or FileStores(context.home)
    file = await stores.state(spawn.directory).read()
    incarnation = file.incarnation_records.get(spawn.member.lower()) if file is not None else None
    if incarnation is None or incarnation.incarnation != spawn.incarnation:
        raise CannotStart("backend", f"{spawn.member} is no longer a member of {spawn.team}", note="nothing was begun")
    return incarnation


async def _entry(team: SessionTeam, spawn: SpawnFile, remote: RemoteMember | None) -> RosterMember:
    config = await team.roster.read()
    member = config.find(spawn.member)
    if member is None:
        raise CannotStart("backend", f"{spawn.member} is not on the roster of {spawn.team}", note="nothing was begun")
    return member if remote is None else remote.place_entry(member)
