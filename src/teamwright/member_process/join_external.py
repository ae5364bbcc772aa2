"""Join a team that another program leads, with the same parts as other member processes.

Settings, tools, model and keys are the member's own. Its lead answers permission requests by mail; a hook or another
terminal of the user may answer too, and the first answer counts. A grant that comes with an approval is for this
incarnation: nothing is saved permanently, bypassPermissions is never granted at run time, and the deny rules of the
member's own settings always apply. A failed start leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.transcript import read_header
from teamwright.approvals.request_queue import LeadApprover, RequestQueue
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.config.model_settings_parser import model_settings
from teamwright.config.trust import require_person_for_mode
from teamwright.external.external_lead import LeadMail, LeadPresence, lead_process
from teamwright.external.inbox import ExternalMailFormat, ExternalTeamStores, InboxContext
from teamwright.external.roster import MembershipFile, MembershipRecord, OwnRosterEntry
from teamwright.member_process.external_membership import (
    ExternalMembership,
    ExternalTeam,
    MemberIncarnation,
    find_external_team,
    find_incarnation,
    find_team_of_failed_start,
    new_incarnation,
    own_entry,
    working_directory,
)
from teamwright.member_process.lead_connection import ShutdownRefusal
from teamwright.models.names import resolve_model
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.events import Emit, MemberChanged, MessageSent, ModeChanged, Notice, RequestAnswer
from teamwright.protocol.ids import LEAD, iso_time, message_id
from teamwright.protocol.mail import InboxEntry, PermissionResponse
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.policies import AgentPolicies, OnAlways
from teamwright.session.options import Options
from teamwright.session.preparation import SessionContext, load_member_context
from teamwright.session.wiring.process_assembly import AgentProcess, AgentServices, assemble, make_request_queue
from teamwright.session.wiring.team_factory import JoinedTeam, make_team, totals_until
from teamwright.storage.event_log import EventLog, log_path, read_recent
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.json_lines import read_backward
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.job_notices import connect_owners
from teamwright.teams.spawn import start_in_process
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_ports import ReportEnd, TeamPorts


async def join_external_team(flags: MemberFlags, env: Mapping[str, str], stack: AsyncExitStack) -> ExternalMembership:
    """Return the member that these flags name, which runs until the stack is closed.

    Raises TeamwrightError, after its lead was notified, unless another process is that member.
    """
    cwd = working_directory()
    try:
        found = await find_external_team(flags, env)
    except TeamwrightError as problem:
        if problem.slug not in {"backend", "unknown-team"}:  # another process's member, or an unknown one
            with suppress(TeamwrightError):
                await _report_start_failure(await find_team_of_failed_start(flags, env), flags, problem)
        raise
    _, guard, _ = FileStores(found.home).inbox_paths(found.directory, found.name)
    lease = Lease.take(guard.with_name(f"{guard.name}.member"), f"{found.name} of {flags.team_name}")
    stack.callback(lease.release)
    try:
        return await _join(found, flags, env, cwd, stack)
    except TeamwrightError as problem:
        await _report_start_failure(found, flags, problem)
        raise
    except Exception as problem:
        bug = TeamwrightError("bug", f"{type(problem).__name__}: {problem}")
        await _report_start_failure(found, flags, bug)
        raise


async def _report_start_failure(found: ExternalTeam, flags: MemberFlags, problem: TeamwrightError) -> None:
    """Notify the lead by mail of a failed start, and remove the roster entry without a process. Never raises."""
    mail_format = ExternalMailFormat()
    home = found.home
    mail_format.note_roster(found.config)
    text = f"{found.name} could not start: {problem.what}."
    entry = InboxEntry(found.name, text, text[:60], iso_time(), flags.agent_color or None, message_id())
    with suppress(TeamwrightError):
        inbox = FileStores(home).mailbox(found.directory, LEAD)
        for letter in mail_format.encode_entries(entry):
            await inbox.put(letter, runtime=True)
    with suppress(TeamwrightError):
        await FileStores(home).roster(found.directory).change(lambda config: config.without_member(found.name))


async def _join(
    found: ExternalTeam, flags: MemberFlags, env: Mapping[str, str], cwd: Path, stack: AsyncExitStack
) -> ExternalMembership:
    incarnation = find_incarnation(found, cwd)
    room = incarnation.room
    context, warnings = _context(_options(found, flags, cwd), found)
    context = replace(context, room=room, resumed=log_path(room).exists())
    lease = Lease.take(lease_path(room), f"member {found.name} of {found.config.name}")
    stack.callback(lease.release)

    async def report_end(name: str, cause: str, agreed_to: str | None) -> None:
        await membership.departed(name, cause, agreed_to)

    role = ExternalMemberRole(context, found, report_end)
    process = await assemble(role, stack)
    await process.jobs.wait_for_orphan_cleanup()
    team = process.team
    agent_factory = process.agent_factory
    requests = role.requests
    warnings = [*warnings, *found.warnings, *context.settings.warnings, *process.warnings]
    membership, spec = await _membership(role, process, incarnation, flags, env, warnings=warnings)
    membership.place.on_change = partial(_note_roster, role.mail.dialect, membership.presence)
    stack.push_async_callback(membership.close)
    for line in membership.warnings:
        membership.say(line, "warning")
    lead_mail = _take_mail(role, process, membership)
    _follow_changes(process, requests, membership, stack)
    stack.push_async_callback(_end_jobs, agent_factory)
    requests.close_abandoned()
    if membership.record.departure is not None:
        membership.has_ended.set()  # an exit that a kill interrupted is completed
        return membership
    entry = membership.place.entry or membership.record.entry
    member = replace(membership.record.entry, color=entry.color, pane_id=entry.pane_id, backend_type=entry.backend_type)
    resumed = read_header(Path(membership.record.incarnation.transcript)) is not None
    membership.teammate = await start_in_process(
        team, member, membership.record.incarnation, stack, None if resumed else spec, resumed=resumed
    )
    await lead_mail.resume_plan()
    await process.continue_jobs(None, {id for _, id in requests.calls_left_open()})
    membership.place.keep()
    membership.check_mail()
    return membership


class ExternalMemberRole:
    """The part of a member of a team that another program leads, in the assembly of its process.

    `report_end` receives the end of the member. The attributes exist once the method that makes them was called.
    """

    lead_answers: bool | None = True
    is_led_externally: bool = True
    on_always: OnAlways | None = None

    def __init__(self, context: SessionContext, found: ExternalTeam, report_end: ReportEnd) -> None:
        self.context = context
        self.member = found.name
        self.found = found
        self._report_end = report_end

    def open_log(self) -> EventLog:
        """Open the member's log."""
        return EventLog(log_path(self.context.directory))

    def make_services(self, log: EventLog, watcher: Watcher, policies: AgentPolicies) -> AgentServices:
        """Create the queue of requests, the lead's grants and the member's own budget."""
        context = self.context
        name = self.member
        self.requests = make_request_queue(context, log, watcher)
        self.file = MembershipFile(
            context.directory, lambda text, level: log.emit(Notice(member=name, text=text, level=level))
        )
        may_bypass = policies.session.mode is Mode.BYPASS
        self.grants = ExternalLeadGrants(name, policies, log.emit, self.file, may_bypass)
        budget_tracker = BudgetTracker(
            context.options.budget, each=context.settings.each, earlier=partial(totals_until, log.path, log.last_number)
        )
        return AgentServices(self.requests, ShutdownRefusal(), self.grants, budget_tracker)

    def set_mode(self, agent_factory: AgentFactory) -> None:
        """Keep the mode of the settings. Raises UsageError where only a person may begin in it."""
        require_person_for_mode(self.context.home, agent_factory.policy.mode)

    def make_team(self, log: EventLog, watcher: Watcher, agent_factory: AgentFactory) -> SessionTeam:
        """Join the team as the other program created it."""
        found = self.found
        mail_format = ExternalMailFormat()
        mail_format.note_roster(found.config)

        def say(text: str, level: str) -> None:
            log.emit(Notice(member=found.name, text=text, level=level))

        def was_sent(msg_id: str) -> bool:
            log.flush()
            sent_lines = (line for line in read_backward(log.path) if b'"message_sent"' in line)
            return bool(msg_id) and any(msg_id.encode() in line for line in sent_lines)

        self.mail = InboxContext(mail_format, say, was_sent)
        ports = TeamPorts(
            agent_factory.plans.watch,
            watch_mailbox=lambda name, look: team.mailbox(name).watch(watcher, look),
            report_end=self._report_end,
            remote_state=lambda _name: None,  # the state of other members is unknown here
        )
        stores = ExternalTeamStores(found.home, found.name, self.mail)
        joined = JoinedTeam(found.config.name, found.directory, led_externally=True, stores=stores)
        status = TeamStatus.from_log(read_recent(log.path))
        team = make_team(self.context, log, agent_factory, status, ports, joined)
        agent_factory.join_team(team)
        return team


def _options(found: ExternalTeam, flags: MemberFlags, cwd: Path) -> Options:
    return Options(
        cwd=cwd,
        home=str(found.home.shared),
        model=flags.model or None,
        permission_mode=str(found.mode) if found.mode is not None else None,
        allowed_tools=flags.allowed_tools,
        disallowed_tools=flags.disallowed_tools,
        teams=True,
    )


def _context(options: Options, found: ExternalTeam) -> tuple[SessionContext, list[str]]:
    """Return the session context, with the model of the flags if available, else with one of the settings."""
    context = load_member_context(options, found.session, Path())
    requested_model = options.model
    if not isinstance(requested_model, str) or requested_model.startswith("scripted:"):
        return context, []
    try:
        resolve_model(requested_model, context.env, model_settings(context.settings))
    except CannotStart as problem:
        own = load_member_context(replace(options, model=None), found.session, Path())
        settings_model = own.settings.models.get("model")
        if not settings_model:
            raise
        return own, [f"{problem.what}: it has the model of your settings instead, {settings_model}"]
    return context, []


async def _membership(
    role: ExternalMemberRole,
    process: AgentProcess,
    saved: MemberIncarnation,
    flags: MemberFlags,
    env: Mapping[str, str],
    *,
    warnings: Sequence[str],
) -> tuple[ExternalMembership, SpawnSpec | None]:
    """Return the member, on the roster, and the spec of a new one."""
    found = role.found
    context = role.context
    team = process.team
    record = saved.record
    spec = None
    differences: list[str] = []
    if record is None:
        model = context.options.model if isinstance(context.options.model, str) else ""
        spec, incarnation, differences = new_incarnation(found, flags, process.agent_factory, saved.transcript)
        entry = found.config.find(found.name)
        roster_entry = entry or own_entry(found, flags, model, context.cwd)
        roster_entry = replace(roster_entry, agent_type=spec.agent_type, plan_mode_required=found.plans)
        record = MembershipRecord(
            found.directory, found.config.created_at, incarnation, roster_entry, found=entry is not None
        )
    role.file.write(record)
    lead = lead_process(found.config, env)
    place = OwnRosterEntry(team, found.name, lambda text, level: membership.say(text, level))
    entry = await place.join(record.entry)
    grace_s = context.settings.places.orphan_timeout_s
    presence = LeadPresence(team.mailbox(LEAD), grace_s, lambda why: membership.lead_is_gone(why), lead)
    membership = ExternalMembership(
        name=found.name,
        team=team,
        agent_factory=process.agent_factory,
        log=process.log,
        file=role.file,
        place=place,
        presence=presence,
        pane=_pane(entry, record, env),
        warnings=(*warnings, *differences),
    )
    presence.note_roster(found.config)
    return membership, spec


def _pane(entry: RosterMember, record: MembershipRecord, env: Mapping[str, str]) -> str:
    """Return the pane that the lead may close: only the one in its own roster entry, with this process in it."""
    sure = record.found and entry.backend_type == "tmux" and entry.pane_id == env.get("TMUX_PANE")
    return entry.pane_id if sure else ""


def _note_roster(mail_format: ExternalMailFormat, presence: LeadPresence, config: TeamConfig | None) -> None:
    if config is not None:
        mail_format.note_roster(config)
    presence.note_roster(config)


def _take_mail(role: ExternalMemberRole, process: AgentProcess, membership: ExternalMembership) -> LeadMail:
    """Create the handler of the lead's mail: grants, answers, requests."""
    agent_factory = process.agent_factory
    team = process.team
    requests = role.requests
    record = membership.record
    agent_factory.may_bypass = role.grants.may_bypass
    if record.mode and (Mode(record.mode) is not Mode.BYPASS or role.grants.may_bypass):
        agent_factory.policy.change_mode(Mode(record.mode))
    requests.join_team(team, MailApprover(team, requests=requests))
    mailed = MailedRequests(requests, team, membership.name)
    since = record.entry.joined_at if record.found else 0
    lead_mail = LeadMail(team, membership.name, since, mailed.heard, role.grants.in_mode)
    role.mail.attach(lead_mail)
    return lead_mail


def _follow_changes(
    process: AgentProcess, requests: RequestQueue, membership: ExternalMembership, stack: AsyncExitStack
) -> None:
    """Follow changes of files by others."""
    team = process.team
    watcher = process.watcher
    process.log.subscribe(membership.record_event, kinds=(MemberChanged, MessageSent))
    stack.callback(team.roster.document.follow(watcher, membership.place.note_change))
    stack.callback(team.mailbox(membership.name).watch(watcher, membership.check_mail))
    stack.callback(watcher.follow(team.requests.directory, requests.read_outside_answers))
    known = team.tasks.watch_external_changes(process.agent_factory.policies.note_outside_change)
    stack.callback(known.close)
    follow: Any = partial(membership.check_tasks, known)
    stack.callback(team.tasks.store.watch(watcher, follow))
    connect_owners(None, team, process.jobs)


async def _end_jobs(agent_factory: AgentFactory) -> None:
    await agent_factory.plans.close()
    await agent_factory.toolset.agents.end_background()
    await agent_factory.toolset.agents.close()


LEAD_SAYS = "lead"
"""The approver of a request that the lead's mail answers."""


class MailedRequests(Struct):
    """Requests of the member of this name, and the answers in its lead's mail."""

    requests: RequestQueue
    team: SessionTeam
    name: str

    async def heard(self, message: PermissionResponse) -> bool:
        """Take an answer. Return False for a request that was never this member's."""
        id = message.request_id
        box = self.team.requests
        over = box.get_retired(id)
        row = over[0] if over is not None else box.get(id)
        if row is None or row.get("requester") != self.name or row.get("target") != LEAD:
            return False
        await self.requests.answer(id, _answer(message, cast("Mapping[str, Any]", row.get("input") or {})))
        return True


class MailApprover(LeadApprover):
    """The external lead as approver, asked by mail alone."""

    requests: RequestQueue | None = None

    def answers(self, question: Question) -> bool:
        """Return True for every call, and False for questions that only a person can answer."""
        return question.kind == "permission" and self.team.exists

    async def notify(self, id: str, question: Question, suggestions: tuple[Mapping[str, Any], ...]) -> None:
        """Ask the lead by mail. A request that cannot be sent is denied at once, because the lead would never see
        it.
        """
        if not self.answers(question):
            return
        try:
            await self.ask(id, question, suggestions, question.input)
        except TeamwrightError as problem:
            reason = f"the lead could not be asked: {problem.what}"
            if self.requests is not None:
                await self.requests.answer(id, RequestAnswer(verdict="deny", text=reason, by="policy"))

    async def notify_expired(self, id: str, question: Question, reason: str) -> None:
        """Do nothing: the lead's program shows the request as it likes."""


def _answer(message: PermissionResponse, requested_input: Mapping[str, Any]) -> RequestAnswer:
    """Return the answer in the mail. An unchanged input is dropped; every other text than an approval denies."""
    response = cast("object", message.response)
    if message.subtype != "success" or not isinstance(response, dict):
        return RequestAnswer(verdict="deny", text=str(message.error or "Permission denied"), by=LEAD_SAYS)
    fields = cast("dict[str, Any]", response)
    updated: Any = fields.get("updated_input")
    updates = fields.get("permission_updates")
    changed = (
        cast("dict[str, Any]", updated)
        if isinstance(updated, dict) and updated and updated != requested_input
        else None
    )
    granted = tuple(cast("list[Mapping[str, Any]]", updates)) if isinstance(updates, list) else ()
    return RequestAnswer(verdict="allow", input=changed, updates=granted, by=LEAD_SAYS)


_SOURCE = "granted by the lead's mail"


class ExternalLeadGrants(Struct):
    """Grants to the member of this name. `file` keeps its mode for its next process."""

    name: str
    policies: AgentPolicies
    emit: Emit
    file: MembershipFile
    may_bypass: bool

    async def __call__(self, owner: str, policy: Policy, answer: PermissionAnswer) -> None:
        """Implement the grant port of `agent`. A grant that fails is reported and left out. Never raises."""
        for update in answer.updates:
            try:
                if update.kind == "setMode":
                    self._enter(check_mode(update, policy.effective_mode))
                else:
                    for one in list(self.policies):
                        if one.mode is not Mode.BUBBLE:
                            one.apply_update(replace(update, destination="session"), _SOURCE, by_user=False)
            except TeamwrightError as problem:
                self._tell(f"not granted: {problem.what}")

    def in_mode(self, text: str) -> None:
        """Set the mode that the lead named with the approval of a plan, as far as it is allowed."""
        wished = next((mode for mode in Mode if mode == text), None)
        if wished is Mode.BYPASS and not self.may_bypass:
            self._tell(f"{Mode.BYPASS} is not granted to a running member: the mode is {Mode.ACCEPT_EDITS}")
            wished = Mode.ACCEPT_EDITS
        try:
            if wished is not Mode.BYPASS:
                wished = check_mode(
                    PermissionUpdate("setMode", mode=text if wished is None else str(wished)), Mode.DEFAULT
                )
            self._enter(wished, is_announced=True)
        except TeamwrightError as problem:
            self._tell(f"the mode stays as it was: {problem.what}")

    def _enter(self, mode: Mode, *, is_announced: bool = False) -> None:
        """Bound the member and its sub-agents by this mode from the next call on. Raises UsageError."""
        session = self.policies.session
        if mode is Mode.PLAN:
            raise UsageError("usage", "only the member can enter plan mode, or it is started in it")
        if session.mode is mode:
            return
        session.change_mode(mode)
        self.file.change(mode=str(mode))
        if not is_announced:
            self.emit(ModeChanged(member=self.name, mode=str(mode), by="lead"))

    def _tell(self, text: str) -> None:
        self.emit(Notice(member=self.name, text=text, level="warning"))
