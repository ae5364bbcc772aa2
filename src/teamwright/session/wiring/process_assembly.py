"""The assembly of a process of a session: lead, member or external member, from its log to its team without members.

All roles are assembled by `assemble`, in one order, so agents behave alike in all processes. What a role does
differently is a value or a short method of its `ProcessRole`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.activity_monitor import Watchdog
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.instructions import SessionInstructions
from teamwright.agent.permission_gate import KeepGrant, LeftOpen, never_left_open
from teamwright.agent.spawn_limits import AdmitElsewhere, SpawnLimits
from teamwright.agent.tool import AnyTool
from teamwright.agent.toolbox import CallNumbers
from teamwright.agent.transcript import header_tag_key, read_header
from teamwright.approvals.request_files import RequestFiles
from teamwright.approvals.request_queue import RequestQueue
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.config.files_executed_by_settings import find_further_programs
from teamwright.config.model_settings_parser import model_settings
from teamwright.config.settings.merge import make_policy
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.config.trusted_skills import make_shelf
from teamwright.models.effort import parse_optional_effort
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_settings import LIMIT_HEADLESS_S
from teamwright.models.names import key_variables
from teamwright.processes.program_environment import add_changeable, own_variables
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import Emit, Notice, SessionOpened, TaskChanged, TeamChanged, TeamEvent
from teamwright.protocol.ids import LEAD, SessionId, did_you_mean
from teamwright.protocol.program_log import debug_categories, is_any_fact_logged, log_fact
from teamwright.protocol.runtime_tags import new_key
from teamwright.sandbox.policy import AUTO_ALLOW, SandboxMode
from teamwright.sandbox.temporary_files import TemporaryFiles
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.model_sources import ScriptOptions, SessionModels, open_models
from teamwright.session.agents.policies import AgentPolicies, OnAlways
from teamwright.session.agents.specs import SpecResolver, make_resolver
from teamwright.session.agents.toolset import PLAN_TOOLS, Toolset
from teamwright.session.command_start import mask_secrets
from teamwright.session.options import calls_per_agent
from teamwright.session.preparation import (
    SessionContext,
    are_teams_enabled,
    ask_timeout,
    is_unattended,
    resumed_model,
    session_environment,
    waits_for_answers,
)
from teamwright.session.process_state import write_sandbox
from teamwright.session.wiring.hooks_factory import AnsweringApprover, FindFactory, make_hooks
from teamwright.session.wiring.mcp_factory import make_mcp_servers
from teamwright.session.wiring.shell_startup import make_shell_startup
from teamwright.session.wiring.team_factory import connect_budget
from teamwright.session.wiring.telemetry import call_trace, caller_span, start_telemetry
from teamwright.session.wiring.worktree_use import enter_session_worktree
from teamwright.storage.event_log import EventLog, find_call_number, last_call_number
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.paths import Home
from teamwright.subagents.reports import job_end_notice
from teamwright.teams.job_notices import continue_waiting_subagents, notify_lost, notify_lost_subagents
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, BashSettings, remove_variables
from teamwright.tools.shell.startup import plain_shell

if TYPE_CHECKING:
    from teamwright.hooks.session_variables import SessionVariables
    from teamwright.sandbox.sandbox import Sandbox
    from teamwright.session.agents.web_search import SessionSearch
    from teamwright.session.mcp_servers import SessionMcpServers
    from teamwright.teams.lead_agent import Lead
    from teamwright.tools.team.send_message import PermissionAnswers, StopRequests
    from teamwright.worktrees.session_worktrees import SessionWorktrees


class ProcessRole(Protocol):
    """The role of a process: what differs in its assembly. The methods are called once each, from above to below."""

    context: SessionContext
    member: str
    """The agent whose process it is."""
    lead_answers: bool | None
    """True if the lead allows all requests of its members, False if it asks; None: the setting decides."""
    is_led_externally: bool
    """True when another program leads the team."""
    on_always: OnAlways | None
    """Called for each "always" that is answered here, when another process has the session's policy."""

    def open_log(self) -> EventLog:
        """Open the log of the process."""
        ...

    def make_services(self, log: EventLog, watcher: Watcher, policies: AgentPolicies) -> AgentServices:
        """Create what the role does for the agents of the process."""
        ...

    def set_mode(self, agent_factory: AgentFactory) -> None:
        """Set the permission mode of the process. Raises UsageError."""

    def make_team(self, log: EventLog, watcher: Watcher, agent_factory: AgentFactory) -> SessionTeam:
        """Create the team, or join it, without the members of this process."""
        ...


class AgentServices(Struct, frozen=True):
    """The services of a role to the agents of its process.

    `approver` answers permission questions, `stopping` asks members to stop, `keep_grant` stores grants of an approval,
    `budget_tracker` has the budget of their calls. `admit_elsewhere` counts sub-agents in the process that counts all
    of the run. `left_open` returns True for a call that never ran, because its request was left open.
    """

    approver: AnsweringApprover
    stopping: StopRequests
    keep_grant: KeepGrant
    budget_tracker: BudgetTracker
    permits: PermissionAnswers | None = None
    admit_elsewhere: AdmitElsewhere | None = None
    left_open: LeftOpen = never_left_open


class AgentProcess(Struct, frozen=True):
    """An assembled process, which has no agent yet."""

    log: EventLog
    watcher: Watcher
    models: SessionModels
    jobs: BackgroundJobs
    agent_factory: AgentFactory
    team: SessionTeam
    note: str
    """A note for the lead about the worktree of the session; empty for none."""
    warnings: tuple[str, ...]

    async def continue_jobs(self, lead: Lead | None, left_open: Collection[str]) -> None:
        """Notify the owners of jobs that an earlier process lost, and continue sub-agents that waited for an answer.

        `left_open` has the calls whose request was left open.
        """
        agents = self.agent_factory.toolset.agents
        notify_lost(self.jobs, self.team, lead, job_end_notice)
        await continue_waiting_subagents(agents, self.team, lead, left_open)
        notify_lost_subagents(agents, self.team, lead)


async def assemble(role: ProcessRole, stack: AsyncExitStack) -> AgentProcess:
    """Assemble the process of this role; `stack` closes its parts in reverse order. Raises TeamwrightError."""
    context = role.context
    log = role.open_log()
    stack.callback(log.close)
    if role.member == LEAD:
        start_telemetry(context, log, stack)  # the lead's log has the events of all processes
    if (categories := debug_categories(context.options.debug, context.env)) or is_any_fact_logged():
        from teamwright.session.wiring.debug_log import start_debug_log  # only for a person who asks for facts

        start_debug_log(context, log, stack, categories, "" if role.member == LEAD else role.member)
    caller = caller_span(context)
    log.emit(SessionOpened(member=role.member, pid=os.getpid(), session=context.id, traceparent=caller))
    watcher = await stack.enter_async_context(Watcher())
    numbers = open_call_counter(context, log)
    models = make_models(context, numbers)
    stack.push_async_callback(models.aclose)
    policies = make_policies(context, lead_answers=role.lead_answers, on_always=role.on_always)
    jobs = open_background_jobs(context, stack)
    await asyncio.sleep(0)  # between the larger steps other tasks of the loop run
    services = role.make_services(log, watcher, policies)
    agent_factory = make_agent_factory(
        context, log, models=models, numbers=numbers, policies=policies, jobs=jobs, services=services
    )
    agent_factory.plans.configure(context.settings, ask_timeout(context), led_externally=role.is_led_externally)
    role.set_mode(agent_factory)
    await asyncio.sleep(0)
    with collect_notices(log, "info", "warning") as warnings:
        note = await enter_session_worktree(context, agent_factory, stack)
    warnings += start_services(context, log, agent_factory, stack)
    await asyncio.sleep(0)
    team = role.make_team(log, watcher, agent_factory)
    connect_budget(services.budget_tracker, team, log)
    return AgentProcess(log, watcher, models, jobs, agent_factory, team, note, tuple(warnings))


@contextmanager
def collect_notices(log: EventLog, *levels: str) -> Generator[list[str]]:
    """Collect the warnings, or the notices of these levels, of the block, before a user interface is attached."""
    texts: list[str] = []

    def note(_number: int, event: TeamEvent) -> None:
        if isinstance(event, Notice) and event.level in (levels or ("warning",)):
            texts.append(event.text)

    unsubscribe = log.subscribe(note, kinds=(Notice,))
    try:
        yield texts
    finally:
        unsubscribe()


def call_counter_path(home: Home, cwd: Path, session: SessionId) -> Path:
    """Return the file in which the processes of a session count their tool calls."""
    return home.session(cwd, session) / "calls"


def open_call_counter(context: SessionContext, log: EventLog) -> CallNumbers:
    """Open the numbers of tool calls. A resumed session continues its numbers, and knows the earlier ones."""
    numbers = CallNumbers(
        last_call_number(log.path) if context.resumed else 0, find_earlier=partial(find_call_number, log.path)
    )
    together = call_counter_path(context.home, context.cwd, context.id)
    if context.room is not None or together.exists():
        numbers.share(together)
    return numbers


def make_models(context: SessionContext, numbers: CallNumbers) -> SessionModels:
    """Create the models that agents of this process open."""
    options = context.options
    model = options.model if options.model is not None else resumed_model(context)
    play = ScriptOptions(options.given, numbers.number_for, options.pace_s)
    settings = model_settings(context.settings)
    if options.headless:
        settings = replace(settings, limit_most_s=min(settings.limit_most_s, LIMIT_HEADLESS_S))
    stores = options.stores
    pool = ModelPool(context.home, stores.share_rate_limit if stores is not None else None)
    return open_models(model, settings, context.env, play, pool)


def make_policies(context: SessionContext, *, lead_answers: bool | None, on_always: OnAlways | None) -> AgentPolicies:
    """Create the policies of the session's agents. `lead_answers` has precedence over the setting."""
    settings = context.settings
    own = tuple(context.directory / name for name in ("output", "history"))
    further = find_further_programs(context.places, context.home, context.trust.root)
    temporary = make_temporary_files(context)
    session = make_policy(settings, context.home, context.cwd, context.trust, own, temporary, further=further)
    add_changeable(session.scope.directories)
    return AgentPolicies(
        session,
        context.definition,
        lead_answers=settings.lead_answers if lead_answers is None else lead_answers,
        on_always=on_always,
    )


def open_background_jobs(context: SessionContext, stack: AsyncExitStack) -> BackgroundJobs:
    """Open the background jobs, and end processes that an earlier incarnation left running."""
    jobs = BackgroundJobs(session=context.directory, redact=lambda command: mask_secrets(command, context.env))
    stack.push_async_callback(jobs.close)
    jobs.start_orphan_cleanup()
    return jobs


def make_agent_factory(
    context: SessionContext,
    log: EventLog,
    *,
    models: SessionModels,
    numbers: CallNumbers,
    policies: AgentPolicies,
    jobs: BackgroundJobs,
    services: AgentServices,
) -> AgentFactory:
    """Create the factory of all agents of this process."""
    options = context.options
    settings = context.settings
    trust = context.trust
    resolver = make_resolver(context, log.emit)
    sandbox = sandbox_maker(context, log.emit)
    approver = services.approver
    if _offers_auto_allow(context):
        from teamwright.session.wiring.auto_allow_offer import AutoAllowOffer

        approver = AutoAllowOffer(approver, context, sandbox, log.emit)
    style, problem = _style(context)

    def make_worktrees() -> SessionWorktrees:
        from teamwright.session.wiring import worktree_factory  # a session without worktree_use loads none

        return worktree_factory.make_worktrees(context, agent_factory)

    agent_factory = AgentFactory(
        home=context.home,
        session=context.id,
        cwd=context.cwd,
        models=models,
        toolset=_toolset(
            context,
            log,
            services,
            jobs=jobs,
            policies=policies,
            resolver=resolver,
            sandbox=sandbox,
            find_factory=lambda: agent_factory,
        ),
        policies=policies,
        approver=approver,
        keep_grant=services.keep_grant,
        budget_tracker=services.budget_tracker,
        emit=log.emit,
        limits=SpawnLimits(settings.limits, admit_elsewhere=services.admit_elsewhere),
        environment=session_environment(context),
        instructions=SessionInstructions.load(
            context.cwd, trust.root, context.home.own, settings.compat, trust.trusted_texts
        ),
        env=dict(settings.env),
        trace=call_trace(context),
        max_rounds=options.budget.turns,
        each_rounds=calls_per_agent(options, settings.each),
        effort=parse_optional_effort(options.effort),
        thinking_tokens=options.thinking_tokens,
        appended="\n\n".join(part for part in (style, options.append_system_prompt) if part),
        base=options.system_prompt,
        fallback_models=options.fallback_models,
        lead_type=options.agent,
        usual_lead_type=settings.lead_type,
        tag_key=_tag_key(context),
        numbers=numbers,
        attended=log.has_listeners,
        left_open=services.left_open,
        compact=settings.compact,
        resolver=resolver,
        make_worktrees=make_worktrees,
    )
    if problem:
        resolver.notify_once(problem)
    log.subscribe(policies.note_event, kinds=(TaskChanged, TeamChanged))
    return agent_factory


def _offers_auto_allow(context: SessionContext) -> bool:
    """Return True when a person is at the terminal of the lead, has not set the setting, and the sandbox is on."""
    at_terminal = context.options.interactive and context.room is None
    is_open = AUTO_ALLOW not in context.settings.origins
    return at_terminal and is_open and context.settings.sandbox.mode is not SandboxMode.OFF


def _toolset(
    context: SessionContext,
    log: EventLog,
    services: AgentServices,
    *,
    jobs: BackgroundJobs,
    policies: AgentPolicies,
    resolver: SpecResolver,
    sandbox: Callable[[], Sandbox],
    find_factory: FindFactory,
) -> Toolset:
    """Create the toolset, with the hooks, the MCP servers and the web search of the process."""
    settings = context.settings
    options = context.options
    models = model_settings(settings)
    bash = replace(settings.bash, hidden=(*settings.bash.hidden, *key_variables(models)))
    variables = _session_variables(context)
    hooks = make_hooks(
        context,
        log,
        variables=variables,
        approver=services.approver,
        bash=bash,
        records=jobs.records,
        own_of=resolver.hooks_of,
        find_factory=find_factory,
    )
    servers = make_mcp_servers(context, log, bash, find_factory)
    return Toolset(
        jobs,
        services.approver,
        services.stopping,
        bash,
        models,
        _proves_read_only,
        context.env,
        hooks,
        servers,
        _search(context, bash, services.budget_tracker, log.emit, servers),
        teams=are_teams_enabled(context),
        attended=not is_unattended(context),
        notify=partial(_notify_from_thread, asyncio.get_running_loop(), log),
        extra=_python_tools(options.tools, find_factory),
        variables=lambda: variables().values(),
        sandbox=sandbox,
        permits=services.permits,
        agent_types=partial(resolver.agent_types.tool_description, policies.may_start),
        agent_type_names=partial(resolver.agent_types.type_names, policies.may_start),
        shelf=make_shelf(settings, context.home, context.trust, context.places.plugins, context.id),
        startup=make_shell_startup(context.home, context.id, bash, context.env, log.emit, jobs.records),
    )


def _session_variables(context: SessionContext) -> Callable[[], SessionVariables]:
    """Return a function that returns the variables that hooks set; the first command or hook loads them."""

    @cache
    def make() -> SessionVariables:
        from teamwright.session.wiring.session_variables import make_session_variables

        return make_session_variables(context)

    return make


def _notify_from_thread(loop: asyncio.AbstractEventLoop, log: EventLog, text: str) -> None:
    """Emit a warning for the person from any thread, as long as the session's loop runs."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(log.emit, Notice(member=LEAD, text=text, level="warning"))


def _describe_caller(found: FindFactory, caller: str) -> tuple[str, str, str]:
    """Return the lead or the member that an agent works for, the name of its team and the number of its task."""
    factory = found()
    inherited = factory.inheritances.get(caller)
    team = factory.team
    member = caller if inherited is None else inherited.root
    return member, team.name if team is not None and team.exists else "", factory.budget_tracker.task_of(member)


def _python_tools(functions: Sequence[Callable[..., Any]], found: FindFactory) -> Sequence[AnyTool]:
    """Return the program's own functions as tools. Their module is imported with the first function."""
    if not functions:
        return ()
    from teamwright.tools.python_tool import python_tools

    return python_tools(functions, partial(_describe_caller, found))


def _proves_read_only(command: str, cwd: Path) -> bool:
    """Return True when a shell command certainly changes nothing. The parser is imported at the first command."""
    from teamwright.permissions.shell_verdict import is_proven_read_only

    return is_proven_read_only(command, cwd)


def _style(context: SessionContext) -> tuple[str, str]:
    """Return the text of the chosen output style, and what is wrong with the choice. Most sessions have none."""
    name = context.settings.output_style
    compat = context.settings.compat
    if not name or context.room is not None:
        return "", ""
    from teamwright.config.output_styles import output_styles, style_text

    return style_text(name, output_styles(context.home, context.trust.root, compat=compat))


def _search(
    context: SessionContext, bash: BashSettings, budget_tracker: BudgetTracker, emit: Emit, servers: SessionMcpServers
) -> SessionSearch:
    """Create the web search of a session; which way it has is known when its model is."""
    from teamwright.session.agents.web_search import SessionSearch

    own = own_variables({**remove_variables(bash.hidden, context.env), **context.settings.env})
    env = {**own, **context.settings.person_env, **COMMAND_ENVIRONMENT}
    return SessionSearch(
        context.settings.web_search,
        budget_tracker,
        emit,
        context.cwd,
        env,
        plain_shell(),
        lambda: servers.tools_of(None, lambda _name: True),
    )


def _tag_key(context: SessionContext) -> str:
    """Return the key of the runtime's tags: a new one for a new session, else the one in its lead's transcript."""
    if not context.resumed and context.room is None:
        return new_key()
    header = read_header(context.home.transcript(context.cwd, context.id))
    return header_tag_key(header or {}) or new_key()


def sandbox_maker(context: SessionContext, emit: Emit) -> Callable[[], Sandbox]:
    """Return a function that makes the sandbox at the first command. A required one is made now: it may not work."""
    make = _make_once(context, emit)
    if context.settings.sandbox.mode is SandboxMode.REQUIRED:
        make()
    return make


def start_sandbox_report(context: SessionContext, sandbox: Callable[[], Sandbox], stack: AsyncExitStack) -> None:
    """Probe the sandbox while the session begins, warn of what it does not enforce, and save it for other processes."""

    async def report() -> None:
        found = await sandbox().report()
        log_fact("sandbox", "%s", found, session=context.id)
        write_sandbox(context.directory, found)

    task = asyncio.create_task(report(), name="sandbox report")
    stack.push_async_callback(asyncio.wait, {task})


def make_temporary_files(context: SessionContext) -> TemporaryFiles | None:
    """Return the session's temporary files; None when the sandbox is off."""
    if context.settings.sandbox.mode is SandboxMode.OFF:
        return None
    directory = context.home.session(context.cwd, context.id) / "tmp"
    return TemporaryFiles(os.path.realpath(directory), _make_once(context, lambda _event: None))


def _make_once(context: SessionContext, emit: Emit) -> Callable[[], Sandbox]:
    @cache
    def make() -> Sandbox:
        from teamwright.session.wiring.sandbox_factory import make_sandbox  # a session without commands needs none

        return make_sandbox(context, emit)

    return make


def start_services(
    context: SessionContext, log: EventLog, agent_factory: AgentFactory, stack: AsyncExitStack
) -> list[str]:
    """Start the watchdog, and let the stack end what the agents share. Return lines about servers that are left out."""
    toolset = agent_factory.toolset
    if toolset.startup is not None:
        stack.push_async_callback(toolset.startup.close)
    stack.push_async_callback(toolset.close_sandbox)
    if context.room is None and toolset.sandbox is not None:
        start_sandbox_report(context, toolset.sandbox, stack)
    agent_factory.watchdog = Watchdog(log.emit, stalled_s=context.settings.stalled_after_s)
    stack.callback(agent_factory.watchdog.close)
    stack.push_async_callback(toolset.serving.close)
    return toolset.serving.load()


def make_request_queue(context: SessionContext, log: EventLog, watcher: Watcher) -> RequestQueue:
    """Create the request queue of the run, with its files."""
    options = context.options
    files = RequestFiles(context.directory, context.id, watch=watcher.follow)
    return RequestQueue(
        log.emit,
        lambda: options.interactive,
        files,
        ask_timeout(context),
        options.on_request,
        answerer="terminal" if options.interactive else "program",
        waits=waits_for_answers(context),
        settings=context.home.settings,
    )


def require_known_tools(agent_factory: AgentFactory, team: SessionTeam) -> None:
    """Raise UsageError, with the nearest name, for a rule of a flag that names no known tool, which would guard
    nothing.
    """
    tools = PLAN_TOOLS | {tool.name for tool in agent_factory.toolset.tools(Caller(LEAD, team))}
    known = tools | KNOWN_TOOLS | {"Unconfined", "Task", "MultiEdit"}
    for rule in agent_factory.policy.rules:
        if not rule.source.startswith("--") or rule.tool in known or "*" in rule.tool or "__" in rule.tool:
            continue
        do = did_you_mean(rule.tool, known, [f"the tools are {', '.join(sorted(tools))}"])
        what = f"the rule {rule.text[:80]} names a tool that does not exist"
        raise UsageError("usage", what, looked_at=[("from", rule.source)], do=do, note="nothing was started")
