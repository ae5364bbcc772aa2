"""Run the member process of a Teamwright team: connect to the lead, join the team, run the member, report its end.

Request queue and budget tracker are the lead's, and only the lead does its own work on the team's files. The process
ends with the member, on the lead's command, at SIGTERM, SIGINT without a terminal and SIGHUP, and when the lead was
gone for longer than the grace period: then the member keeps its place. A failed start leaves nothing behind. The parts
for a team of another program load only for a member of one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.settings import Settings
from teamwright.member_process.lead_connection import (
    LEAD_GONE,
    LeadConnection,
    MemberBudget,
    RemoteApprover,
    RemoteSpawnLimit,
    ShutdownRefusal,
)
from teamwright.member_process.member import LedMember, remote_state
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import SessionId
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.members import RosterMember
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.policies import AgentPolicies, OnAlways
from teamwright.session.control.action_table import ActionContext
from teamwright.session.preparation import SessionContext, load_member_context
from teamwright.session.reload_config import ConfigReloader
from teamwright.session.spawn_file import VARIABLE, SpawnFile, discard, options_of, restore_variables
from teamwright.session.wiring.process_assembly import AgentServices, assemble
from teamwright.session.wiring.team_factory import JoinedTeam, make_team, take_tasks, totals_until
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.event_log import EventLog, log_path, read_recent
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.task_store import TaskInterest
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.team_state import Incarnation, process_directory
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.job_notices import connect_owners
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.plan_approval import resume_plan
from teamwright.teams.spawn import start_in_process
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import ReportEnd, TeamPorts

if TYPE_CHECKING:
    from teamwright.member_process.external_membership import ExternalMembership
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


def take_spawn_file(flags: MemberFlags, env: Mapping[str, str]) -> SpawnFile:
    """Read the spawn file of this process, and delete it.

    Raises CannotStart, and UsageError when flags and file name different members.
    """
    path = env.get(VARIABLE)
    if not path:
        raise CannotStart(
            "backend",
            "a member's process is started by its lead, with a spawn file",
            looked_at=[("variable", VARIABLE)],
            do=["teamwright starts one for each member with a process backend"],
            note="nothing was started",
        )
    spawn = SpawnFile.read(Path(path))
    discard(Path(path).parent)
    if (flags.agent_name, flags.team_name) != (spawn.member, spawn.team):
        raise UsageError("usage", f"the spawn file is for {spawn.member} of {spawn.team}", note="nothing was started")
    return spawn


@asynccontextmanager
async def running_member(spawn: SpawnFile, begun: OnStarted | None = None) -> AsyncGenerator[RunningMember]:
    """Run the member until the block or the member ends, and report its end. Raises TeamwrightError at the start.

    `begun` receives its log before the first event.
    """
    os.environ.pop(VARIABLE, None)
    restore_variables()
    async with AsyncExitStack() as stack:
        remote = None
        if spawn.database:
            from teamwright.member_process.remote import open_remote_member

            remote = await open_remote_member(spawn, stack)
        async with _connected_member(spawn, begun, remote) as member:
            yield member


@asynccontextmanager
async def _connected_member(
    spawn: SpawnFile, begun: OnStarted | None, remote: RemoteMember | None
) -> AsyncGenerator[RunningMember]:
    line = LeadConnection(spawn)
    await line.open()
    try:
        async with join_team(spawn, line, begun, remote) as member:
            keeping = asyncio.create_task(_keep(member), name="line to the lead")
            handle_signals(member.led_member.end)
            try:
                yield member
            finally:
                keeping.cancel()
                await _see_out(member)
                ignore_signals()
    except TeamwrightError as problem:
        await line.report_failure(problem)
        raise
    except BaseException as problem:
        if not line.is_closed:
            await line.close("failed", f"{type(problem).__name__}: {problem}")
        raise


async def _keep(member: RunningMember) -> None:
    """Keep the connection. Without a lead the member leaves, and a resume continues it."""

    def remove_locks(is_there: bool) -> None:
        if not is_there:
            FileStores(member.team.home).remove_dead_locks(member.team.directory)

    member.line.follow(remove_locks)
    await member.line.keep_connected(member.watcher)
    if member.line.gone.is_set():
        member.led_member.end("suspended", LEAD_GONE)


async def _see_out(member: RunningMember) -> None:
    """End the member's work, then notify the lead."""
    member.led_member.end("suspended", "its process was ended")
    ended = await member.led_member.wait_until_ended()
    task = member.teammate.run_task
    if task is not None:
        await asyncio.wait({task}, timeout=member.team.settings.cancel_grace_s)
    await end_work(member.agent_factory)
    await member.line.close(ended.how, ended.cause, ended.agreed_to)


@asynccontextmanager
async def run_external_member(flags: MemberFlags, env: Mapping[str, str]) -> AsyncGenerator[ExternalMembership]:
    """Run the member until the block or the member ends. Raises TeamwrightError when it cannot start."""
    from teamwright.member_process.join_external import join_external_team

    member: ExternalMembership | None = None
    early: list[tuple[str, str]] = []

    def end(how: str, why: str) -> None:
        if member is None:
            early.append((how, why))
        else:
            member.end(how, why)

    async with AsyncExitStack() as stack:
        # A signal that ended the process while it joins would leave its name on the roster of the external team.
        handle_signals(end)
        member = await join_external_team(flags, env, stack)
        for how, why in early[:1]:
            member.end(how, why)
        try:
            yield member
        finally:
            await member.finish()


ENDED_BY = {signal.SIGTERM: "was asked to end by SIGTERM", signal.SIGHUP: "its terminal was closed"}


def handle_signals(end: Callable[[str, str], None]) -> None:
    """End the member on signals: `end` receives how, and the reason."""
    loop = asyncio.get_running_loop()
    for number, why in ENDED_BY.items():
        with suppress(ValueError, RuntimeError):  # not the main thread, whose signals belong to the program
            loop.add_signal_handler(number, end, "suspended", why)


def ignore_signals() -> None:
    """Ignore signals to end, because the member is ending and its terminal may be closed at any moment."""
    loop = asyncio.get_running_loop()
    for number in ENDED_BY:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


@asynccontextmanager
async def join_team(
    spawn: SpawnFile, line: LeadConnection, begun: OnStarted | None = None, remote: RemoteMember | None = None
) -> AsyncGenerator[RunningMember]:
    """Run the member for the block; `begun` receives its log. Raises TeamwrightError; then nothing is left behind.

    `remote` is the database side of a member on another machine than its lead.
    """
    async with AsyncExitStack() as stack:
        yield await _join(spawn, line, begun, remote, stack)


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

    async def report_end(name: str, cause: str, agreed_to: str | None) -> None:
        await led_member.departed(name, cause, agreed_to)

    role = MemberRole(
        context,
        spawn,
        line,
        remote,
        begun=begun,
        report_end=report_end,
        on_always=lambda text, rules: led_member.add_always_rules(text, rules),
    )
    process = await assemble(role, stack)
    log = process.log
    team = process.team
    agent_factory = process.agent_factory
    await process.jobs.wait_for_orphan_cleanup()
    approver = role.approver
    reading = cache(partial(ConfigReloader, context, agent_factory))
    led_member = LedMember(
        team,
        agent_factory,
        line,
        lambda agent: ActionContext(team, agent_factory, process.models, agent, reading),
        approver.is_waiting,
        remote,
    )
    line.attach(led_member)
    line.forward_earlier_events()
    log.subscribe(led_member.record_mode, kinds=(ModeChanged,))
    log.subscribe(line.forward_event, live=False)
    log.subscribe(led_member.record_event, live=False)
    if remote is not None:
        log.subscribe(remote.note_event, live=False)
    known = team.tasks.watch_external_changes(led_member.note_outside_change)
    stack.callback(known.close)
    interest = TaskInterest(spawn.member, led_member.drop_tasks)
    stack.callback(team.tasks.store.watch(process.watcher, partial(led_member.check_tasks, known), interest))
    connect_owners(None, team, process.jobs)
    stack.push_async_callback(end_work, agent_factory)
    entry = await _entry(team, spawn, remote)
    led_member.require_wanted()
    teammate = await _start(team, entry, incarnation, spawn, stack)
    await process.continue_jobs(None, approver.calls_left_open())
    await take_tasks(agent_factory.budget_tracker, team)
    led_member.set_member(teammate)
    stack.push_async_callback(led_member.close)
    return RunningMember(
        spawn=spawn,
        team=team,
        teammate=teammate,
        agent_factory=agent_factory,
        log=log,
        line=line,
        watcher=process.watcher,
        led_member=led_member,
        settings=context.settings,
        warnings=process.warnings,
    )


class MemberRole:
    """The part of a member, which its lead controls over the line, in the assembly of its process.

    `begun` receives its log before the first event, `report_end` the end of the member, `on_always` the rules of an
    "always" that is answered here. `approver` exists once the
    services are made.
    """

    lead_answers: bool | None = None
    is_led_externally: bool = False

    def __init__(
        self,
        context: SessionContext,
        spawn: SpawnFile,
        line: LeadConnection,
        remote: RemoteMember | None,
        *,
        begun: OnStarted | None,
        report_end: ReportEnd,
        on_always: OnAlways,
    ) -> None:
        self.context = context
        self.member = spawn.member
        self._spawn = spawn
        self._line = line
        self._remote = remote
        self._begun = begun
        self._report_end = report_end
        self.on_always: OnAlways | None = on_always

    def open_log(self) -> EventLog:
        """Open the member's log, whose events the line forwards."""
        log = self._line.log = EventLog(log_path(self.context.directory))
        if self._begun is not None:
            self._begun(log)
        return log

    def make_services(self, log: EventLog, watcher: Watcher, policies: AgentPolicies) -> AgentServices:
        """Create the services, which ask the lead's process."""
        line = self._line
        self.approver = approver = RemoteApprover(line, log.emit)
        approver.own_policies = None if self._remote is None else policies
        return AgentServices(
            approver,
            ShutdownRefusal(),
            approver.grant,
            MemberBudget(line, self.context.settings.each, partial(totals_until, log.path, log.last_number)),
            admit_elsewhere=RemoteSpawnLimit(line),
            left_open=approver.was_left_open,
        )

    def set_mode(self, agent_factory: AgentFactory) -> None:
        """Do nothing: the member has the mode of its spec, and the lead's policy comes over the line."""

    def make_team(self, log: EventLog, watcher: Watcher, agent_factory: AgentFactory) -> SessionTeam:
        """Join the team as its lead created it."""
        context = self.context
        spawn = self._spawn
        line = self._line
        doorbells = TeamDoorbells(context.home, spawn.directory)
        status = TeamStatus.from_log(read_recent(log_path(context.home.session(context.cwd, context.id))))
        ports = TeamPorts(
            watch_mailbox=lambda name, look: team.mailbox(name).watch(watcher, look),
            report_end=self._report_end,
            on_plan=lambda request: line.notify("plan", request=request["id"], target=request["target"]),
            open_doorbell=doorbells.listen,
            wake_other_process=doorbells.ring,
            remote_state=partial(remote_state, status),
        )
        commits = self._remote.commits(spawn, line) if self._remote is not None else None
        joined = JoinedTeam(spawn.team, spawn.directory, spawn.model, commits=commits)
        team = make_team(context, log, agent_factory, status, ports, joined)
        agent_factory.join_team(team)
        return team


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
