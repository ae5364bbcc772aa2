"""The agent factory: builds the lead, teammates, sub-agents and forks of a session, ready for their first turn.

It implements the ports of `teams` and `tools` through which agents are made. Every agent of a process is built here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import AgentActivity, Watchdog
from teamwright.agent.agent import Agent
from teamwright.agent.agent_hooks import NO_HOOKS, AgentHooks
from teamwright.agent.agent_type import BUILT_IN, LEAD_ONLY, NOT_FOR_SUBAGENTS, TEAMMATE_TOOLS, AgentType, load_prompt
from teamwright.agent.compaction_state import Compaction, CompactSettings
from teamwright.agent.conversation import Conversation
from teamwright.agent.instructions import SessionInstructions
from teamwright.agent.permission_gate import Denial, KeepGrant, LeftOpen, PermissionGate, never_left_open
from teamwright.agent.plan_mode import ModeReminder, PlanExit, PlanMode, Remind, ReminderRole, no_reminder
from teamwright.agent.prompt import (
    PrefixCache,
    PrefixModel,
    PromptEnvironment,
    SessionNote,
    has_compact_prompt,
    lead_prompt,
    load_conversation,
    subagent_prompt,
    teammate_identity,
    teammate_prompt,
)
from teamwright.agent.spawn_limits import SpawnLimits
from teamwright.agent.tool import AnyTool, LastWriters, Workplace
from teamwright.agent.toolbox import CallNumbers, Toolbox
from teamwright.agent.transcript import TAG_KEY, WORKTREE_KEY, read_header
from teamwright.approvals.plan_approvals import PlanApprovals
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_meter import Meters
from teamwright.config.agent_type_fields import INHERIT
from teamwright.config.team_file import roles_text
from teamwright.hooks.payload import LEAD as LEAD_KIND
from teamwright.hooks.payload import SUBAGENT, TEAMMATE, HookAgent
from teamwright.models.effort import Effort, effort_for_tokens, prefix_effort, supported_effort
from teamwright.models.model import Meter, Model, ModelCard, Prefix
from teamwright.models.request_prefix import prefix_for_model
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Approver, Verdict
from teamwright.protocol.errors import CannotStart, StorageError, UsageError
from teamwright.protocol.events import Emit, HasListeners, Notice, always_false, always_true
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, SessionId, display_name, session_list_name
from teamwright.protocol.messages import Block
from teamwright.protocol.runtime_tags import new_key
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.sandbox.policy import SandboxSettings, narrow
from teamwright.session.agents.factory_parts import (
    CompactionFactory,
    ServerReminder,
    allow_memory,
    fork_definition,
    read_memory,
    start_fork,
    start_reading_state,
    starting_point,
    with_skills,
)
from teamwright.session.agents.model_sources import SessionModels, require_price, require_price_beside, require_tools
from teamwright.session.agents.model_switch import FallbackModels
from teamwright.session.agents.policies import AgentPolicies, Inheritance
from teamwright.session.agents.specs import (
    SpecResolver,
    missing_effort,
    name_requester,
    require_possible,
    required_effort,
)
from teamwright.session.agents.toolset import Toolset
from teamwright.session.session_hooks import HookedAgent
from teamwright.storage.paths import Home
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.blocked_state import blocked_callback
from teamwright.teams.job_notices import deliver_text
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller

if TYPE_CHECKING:
    from teamwright.git.git_calls import GitState
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.team_records.team_state import Incarnation
    from teamwright.worktrees.session_worktrees import SessionWorktrees


TYPE_KEY = "agent_type"
"""The key of the lead's agent type in the first line of its transcript."""


class AgentBasis(Struct, frozen=True):
    """The parts of an agent that come before its tools and its conversation. `who` has its name and id."""

    who: HookAgent
    model: Model
    inherited: Inheritance
    workplace: Workplace
    hooks: AgentHooks
    activity: AgentActivity


class AgentFactory(Struct, dict=True):
    """The factory of the lead, teammates and sub-agents, with what all agents of a session share."""

    home: Home
    session: SessionId
    cwd: Path
    models: SessionModels
    toolset: Toolset
    policies: AgentPolicies
    approver: Approver
    keep_grant: KeepGrant
    budget_tracker: BudgetTracker
    emit: Emit
    limits: SpawnLimits
    place: PromptEnvironment
    instructions: SessionInstructions
    env: dict[str, str] = field(default_factory=dict[str, str])
    trace: Callable[[str], str] | None = None
    """Returns the span of a tool call, by the model's id of it, for what the call runs; None without telemetry."""
    max_rounds: int | None = None
    each_rounds: int | None = None
    """Maximum model calls of each agent but the lead, where it has no other cap."""
    effort: Effort | None = None
    """The lead's effort, as a flag or a program set it for this run."""
    thinking_tokens: int | None = None
    """The tokens that the lead may think with, where it has no effort."""
    appended: str = ""
    base: str = ""
    """The text that replaces the base of the lead's system prompt; empty for the usual one."""
    lead_type: str = ""
    """The agent type of the lead of a new session; empty: it has none."""
    usual_lead_type: str = ""
    """The agent type of the lead that the settings name for new sessions."""
    fallback_models: tuple[str, ...] = ()
    """The names of the models that agents use, in order, when their own model is not available."""
    tag_key: str = field(default_factory=new_key)
    """The key of the runtime's tags, for agents that are created in this process."""
    numbers: CallNumbers = field(default_factory=CallNumbers)
    edits: LastWriters = field(default_factory=LastWriters)
    denials: list[Denial] = field(default_factory=list[Denial])
    attended: HasListeners = always_true
    team: SessionTeam | None = None
    inheritances: WeakValueDictionary[str, Inheritance] = field(default_factory=WeakValueDictionary[str, "Inheritance"])
    """The values that a sub-agent inherits from its caller, by the caller's name, while the caller lives."""
    living: WeakValueDictionary[str, Agent] = field(default_factory=WeakValueDictionary[str, Agent])
    """The live agents by name."""
    make_worktrees: Callable[[], SessionWorktrees] | None = None
    """Makes the worktrees of this process when the first agent needs one."""
    worktree: AgentWorkspace | None = None
    """The worktree in which the whole session works; None: its agents work in `cwd`."""
    watchdog: Watchdog | None = None
    left_open: LeftOpen = never_left_open
    """Says which calls waited for an answer when an earlier process of the session ended."""
    mode_untold: bool = False
    """True when the lead's conversation may not contain the present mode."""
    may_bypass: bool = False
    """True when a person allowed bypassPermissions at the start, because it cannot be allowed later."""
    resolver: SpecResolver = field(default_factory=SpecResolver)
    compact: CompactSettings = field(default_factory=CompactSettings)
    prefix_cache: PrefixCache = field(default_factory=PrefixCache)
    kept_worktrees: list[str] = field(default_factory=list[str])
    """Sentences about the worktrees that were not removed when the session was closed."""

    @property
    def work_directory(self) -> Path:
        """The directory in which the session's agents work."""
        return self.cwd if self.worktree is None else self.worktree.cwd

    @cached_property
    def first(self) -> Inheritance:
        """The values that the lead's sub-agents inherit."""
        return Inheritance(lambda: self.policy, None)

    @cached_property
    def meters(self) -> Meters:
        return Meters(self.budget_tracker)

    @cached_property
    def plans(self) -> PlanApprovals:
        """The plans that wait for approval."""
        return PlanApprovals(self.approver, self.emit)

    @cached_property
    def compacting(self) -> CompactionFactory:
        """The factory of compactions; a reload replaces it."""
        return CompactionFactory(self.compact, self.toolset)

    @cached_property
    def fallback(self) -> FallbackModels | None:
        """The models that agents use when their own model is not available; None without one."""
        if not self.fallback_models:
            return None

        async def open_model(name: str) -> Model:
            return await self._open(self.models.bring_fallback(name), LEAD, self.budget_tracker.each)

        settings = self.toolset.model_settings
        return FallbackModels(self.fallback_models, open_model, lambda: self.team, settings, self.prefixes)

    async def open_fallback(self) -> None:
        """Open the fallback models. Raises CannotStart for one that is not available."""
        if self.fallback is not None:
            await self.fallback.open()

    @property
    def policy(self) -> Policy:
        """The session's policy."""
        return self.policies.session

    @cached_property
    def worktrees(self) -> SessionWorktrees:
        """The worktrees of this process's agents. Their modules are loaded with the first one."""
        if self.make_worktrees is None:
            raise CannotStart("no-git", "worktrees are not available here", note="nothing was started")
        return self.make_worktrees()

    @cached_property
    def session_directory(self) -> Path:
        """The session's directory, also in a member process, which has its own directory in it."""
        return self.home.session(self.cwd, self.session)

    @cached_property
    def prefixes(self) -> Path:
        """The directory of the session's prefixes."""
        return self.session_directory / "prefixes"

    @cached_property
    def _output(self) -> Path:
        """The directory of long outputs of tools."""
        return self.session_directory / "output"

    @cached_property
    def _history(self) -> Path:
        """The directory of former contents of files."""
        return self.session_directory / "history"

    @property
    def _transcript(self) -> Path:
        """The session's transcript."""
        return self.home.transcript(self.cwd, self.session)

    def enter_worktree(self, workspace: AgentWorkspace) -> None:
        """Let all agents that are built from now on work in this worktree, unless they have their own."""
        self.worktree = workspace
        self.instructions = workspace.instructions
        self.place = workspace.environment(self.place)
        self.env |= workspace.variables
        self.policies.session.enter_worktree(workspace.scope)

    def join_team(self, team: SessionTeam) -> None:
        """Let the agents of a member process belong to this team."""
        self.team = team
        self.plans.join_team(team)

    def note_team(self, name: str) -> None:
        """Record that an automatically named worktree of the session is one of this team, which integrates it."""
        if self.worktree is None or self.worktree.record.team != session_list_name(self.session):
            return
        with suppress(StorageError):
            replace(self.worktree.record, session=self.session, team=name).save()

    async def close_worktrees(self, team: SessionTeam) -> None:
        """Remove the worktrees without work, and report the others. Members on the roster keep theirs.

        Those of member processes that a resume took over, and of earlier runs, are among them.
        """
        if "worktrees" in vars(self) or self.home.worktrees.is_dir():
            there = (await team.roster.read()).teammates if team.exists else ()
            keep = frozenset(one.worktree_path for one in there if one.worktree_path)
            self.kept_worktrees += await self.worktrees.end_session(keep)

    async def lead(self, team: SessionTeam, start: Conversation | Awaitable[GitState | None]) -> Agent:
        """Build the lead with the resumed conversation, or with a new one in a repository of that state."""
        header = start.header if isinstance(start, Conversation) else None
        kind = self._lead_kind(header)
        if kind is not None and kind.model not in {None, INHERIT}:
            self.models.use_type_model(str(kind.model))
        model = self._offer_search(await self._open(None, LEAD))
        await self.open_fallback()
        self.team = team
        self.plans.lead_team(team)
        await self.policies.read_tasks(team)
        policy = self.policies.with_ownership(self.policy, kind.name if kind is not None and kind.role else "", LEAD)
        record = self.session_directory / "plans" / f"{LEAD}.json"
        plan = self.plans.make_plan_mode(self.policy, self.home.plans, record, name=LEAD, gate=policy)

        async def tools(card: ModelCard) -> list[AnyTool]:
            own = [
                t
                for t in self.toolset.tools(Caller(LEAD, team))
                if kind is None or kind.allows(t.name) or t.name in TEAMMATE_TOOLS
            ]
            own += self.toolset.plan_tools(LEAD, plan, self.plans)
            return await self._offered(own, card, kind, self.first)

        def system(card: ModelCard) -> list[Block]:
            appended = "\n\n".join(part for part in (roles_text(self.policies.definition), self.appended) if part)
            base = self.base or (kind.prompt if kind is not None else "")
            compact = self.toolset.is_compact(card, kind)
            return lead_prompt(self.toolset.teams, appended, base, compact=compact)

        who = HookAgent(self.session, self._transcript, LEAD_KIND, LEAD, LEAD, own=self._transcript)
        basis = self._basis(who, model, replace(self.first, policy=lambda: policy, display_name=LEAD))
        own = await tools(model.card)
        if isinstance(start, Conversation):
            asks = self.effort is not None or self.thinking_tokens is not None
            requested_effort = self._lead_effort(model.card) if asks else None
            conversation = self._go_on(
                start, model, kind, partial(self._prefix, model, system(model.card), own), requested_effort
            )
        else:
            prefix = self._prefix(model, system(model.card), own, self._lead_effort(model.card, kind))
            about = await self._lead_header(basis, start, kind)
            conversation = Conversation.start(self._transcript, prefix, about)
        is_new = conversation.lines <= 1
        agent = self._agent(
            basis,
            own,
            conversation,
            meter=self.meters.lead(),
            emit=self.emit,
            plan=self.plans.restore_plan_mode(LEAD, plan, basis.workplace, new=is_new, begins=plan.is_on),
            compaction=self.compacting.make(team, kind, system, self.prefixes, tools),
            model_calls_left=self.max_rounds if kind is None or self.max_rounds is not None else kind.max_turns,
            remind=self._reminder(policy, ReminderRole.LEAD),
            session_note=lambda: self._session_note(policy, kind),
            wants_hour_cache=lambda: bool(team.running_members),
        )
        self.first.effort = agent.effort
        return agent

    async def _lead_header(
        self, basis: AgentBasis, start: Awaitable[GitState | None], kind: AgentType | None
    ) -> dict[str, Any]:
        """Return the first line of the lead's new transcript. `start` is the state of the repository of `cwd`."""
        state = start if self.worktree is None else start_reading_state(self.work_directory)
        about = self._about(basis, await state) | ({} if kind is None else {TYPE_KEY: kind.name})
        if self.worktree is None:
            return about
        place = {"name": self.worktree.record.team, "cwd": str(self.work_directory)}
        return about | {"cwd": str(self.cwd), WORKTREE_KEY: place}

    async def _offered(
        self, own: Sequence[AnyTool], card: ModelCard, kind: AgentType | None, inherited: Inheritance
    ) -> list[AnyTool]:
        """Return the tools of a member in the form for its model: these, and those of MCP servers."""
        tools = self._visible_tools([*own, *await self._server_tools(card, kind, inherited)])
        return self.toolset.offer(tools, card, kind)

    async def _server_tools(
        self, card: ModelCard, kind: AgentType | None, inherited: Inheritance, denied: tuple[str, ...] = ()
    ) -> list[AnyTool]:
        """Return an agent's tools of MCP servers, in its worktree or in that of the session."""
        place = inherited.place or self.worktree
        compact = self.toolset.is_compact(card, kind)
        return await self.toolset.mcp_tools(self.policy.hides, kind, denied, place, inherited.sandbox, compact=compact)

    def _offer_search(self, model: Model) -> Model:
        """Choose the way to search the web with the first model of this process, and return the model.

        Without a way, agent types that name the tool are reported.
        """
        search = self.toolset.search
        if search.model is not None:
            return model
        search.model = model
        if not search.is_available:
            active = self.resolver.agent_types.active().values()
            naming = [kind.name for kind in active if kind.source != BUILT_IN and "WebSearch" in (kind.tools or ())]
            if naming:
                types = ", ".join(naming[:5]) + (f" and {len(naming) - 5} more" if len(naming) > 5 else "")
                self.resolver.notify_once(
                    f"there is no web search here, which {types} should have: web_search.command or web_search.tool in "
                    "your settings provides one"
                )
        return model

    def _lead_kind(self, header: Mapping[str, Any] | None) -> AgentType | None:
        """Return the lead's agent type, of the flag, the settings or its resumed conversation; None without one.

        Its deny rules apply to all agents from now on. Raises UsageError for an agent type that is unknown or cannot be
        honoured, and for another one than that of the resumed conversation.
        """
        chosen = self.lead_type or self.usual_lead_type
        stored = chosen if header is None else str(header.get(TYPE_KEY, ""))
        if self.lead_type and self.lead_type.lower() != stored.lower():
            had = f"with the agent type {stored}" if stored else "without an agent type"
            raise UsageError(
                "usage",
                f"this session began {had}, which does not change",
                looked_at=[("flag", f"--agent {self.lead_type[:80]}")],
                do=["leave --agent out", f"a new session: teamwright --agent {self.lead_type[:80]}"],
                note="nothing was started",
            )
        if not stored:
            return None
        try:
            kind = self.resolver.agent_types.find(stored)
            require_possible(kind)
        except UsageError as problem:
            if self.lead_type or header is not None:
                raise
            self.resolver.notify_once(f"the setting agent ({stored[:80]}) is not used: {problem.what}")
            return None
        source = f"agent type {kind.name}"
        self.policy.add_rules(*parse_rules(kind.denied, Verdict.DENY, source, self.policy.scope.base))
        kind = with_skills(kind, self.toolset.shelf, self.emit, otherwise=load_prompt("base"))
        allow_memory(kind, self.policy, self.home.own, self.emit)
        if kind.mode is not None:
            self.resolver.notify_once(f"the mode {kind.mode} of {source} is not used: the lead has the session's mode")
        self.first.definition = kind
        self.first.read_only = kind.read_only
        self.first.disallowed = kind.disallowed_tools
        self.first.kind = kind.name if kind.role else ""
        self.first.sandbox = narrow(self.first.sandbox, kind.sandbox)
        return kind

    async def build_teammate(self, spec: SpawnSpec, team: SessionTeam, incarnation: Incarnation) -> Agent:
        """Build a teammate (port of `teams`): new, or with the transcript of its incarnation."""
        kind = self.resolver.definition(spec)
        budget = spec.budget.smaller_caps(self.budget_tracker.each)
        model = self._offer_search(await self._open(spec.model, spec.name, budget))
        await self.open_fallback()
        path = Path(incarnation.transcript)
        prefixes = path.parent.parent / "prefixes"
        header = read_header(path)
        is_new = header is None
        git = start_reading_state(spec.cwd or self.work_directory) if is_new else None
        effort = self.resolver.resolve_effort(spec, kind, model.card, self.first.effort) if is_new else None
        place = await self._place_of(spec)
        await self.policies.read_tasks(team)
        policy = self.policies.make_policy(spec, lambda: self.policy, kind.name, kind.denied, place, spec.name)
        kind = with_skills(kind, self.toolset.shelf, self.emit)
        allow_memory(kind, policy(), self.home.own, self.emit)
        waiting = blocked_callback(team, spec.name)
        inherited = self.inheritances[spec.name] = self.first.for_member(spec, kind, policy, waiting)
        inherited.place = place
        record = path.parent.parent / "plans" / f"{path.stem}.json"
        plan = self.plans.make_plan_mode(policy(), self.home.plans, record, name=spec.name)

        async def tools(card: ModelCard) -> list[AnyTool]:
            own = [t for t in self.toolset.tools(Caller(spec.name, team)) if t.name not in LEAD_ONLY]
            own = [t for t in own if kind.allows(t.name) or t.name in TEAMMATE_TOOLS]
            own += self.toolset.plan_tools(spec.name, plan, self.plans)
            return await self._offered(own, card, kind, inherited)

        def system(card: ModelCard) -> list[Block]:
            return teammate_prompt(kind, compact=self.toolset.is_compact(card, kind))

        who = HookAgent(
            self.session,
            self._transcript,
            TEAMMATE,
            spec.name,
            f"{spec.name}@{team.name}",
            kind.name,
            team.name,
            LEAD_ALIAS,
            generation=incarnation.incarnation,
            own=path,
        )
        basis = self._basis(who, model, inherited, None if place is not None else spec.cwd)
        own = await tools(model.card)
        if git is None:
            former = load_conversation(path, prefixes)
            conversation = self._go_on(former, model, kind, partial(self._prefix, model, system(model.card), own))
        else:
            prefix = self._prefix(model, system(model.card), own, effort)
            conversation = Conversation.start(path, prefix, self._about(basis, await git))
        activity = basis.activity  # the time counter outlives the member, and must not keep a reference to it
        return self._agent(
            basis,
            own,
            conversation,
            meter=self.meters.member(spec.name, budget, lambda: activity.worked_s, is_resumed=not is_new),
            emit=self.emit,
            plan=self.plans.restore_plan_mode(
                spec.name, plan, basis.workplace, new=is_new, begins=spec.starts_in_plan_mode
            ),
            compaction=self.compacting.make(team, kind, system, prefixes, tools),
            model_calls_left=self._rounds_left(spec, budget, conversation),
            remind=self._reminder(inherited.current_policy(), ReminderRole.MEMBER),
            session_note=lambda: self._session_note(policy(), kind, place, teammate_identity(spec.name, team.name)),
        )

    async def build_subagent(
        self, spec: SpawnSpec, caller: str, run: SubagentRun, emit: Emit, *, resumed: bool = False
    ) -> Agent:
        """Build a sub-agent (port of `teams`): new, or with its whole conversation. Raises TeamwrightError."""
        spec = self.resolve(spec)
        agent_id = run.id
        path = self.transcript_path(agent_id)
        parent = self.inheritances.get(caller, self.first)
        kind = self.resolver.definition(spec)
        if spec.fork:
            kind = fork_definition(kind, parent)
        budget = spec.budget.smaller_caps(self.budget_tracker.each)
        start = await starting_point(spec, run, self.living.get(caller), path, self.prefixes, is_resumed=resumed)
        model = await self._open(spec.model or parent.model, caller, budget, spec)
        model = await start.model(model, lambda name: self._open(name, caller, budget))
        effort = self.resolver.resolve_effort(spec, kind, model.card, parent.effort) if start.is_new else None
        await self.limits.admit_subagent(parent.depth + 1, is_hook=kind.is_hook)
        spec, place = await self._subagent_place(spec, parent, run)
        policy = self.policies.make_policy(spec, parent.policy, parent.role_of(kind), kind.denied, place, parent.root)
        kind = with_skills(kind, self.toolset.shelf, self.emit, otherwise=load_prompt("base"))
        allow_memory(kind, policy(), self.home.own, self.emit)
        plan = self.plans.make_plan_mode(policy(), self.home.plans, None)
        inherited = self.inheritances[agent_id] = parent.child(kind, policy, spec.model, run)
        inherited.place = place
        below = None if spec.fork or inherited.depth >= self.limits.settings.depth else self.team
        tools = self.toolset.subagent_tools(agent_id, below, parent.disallowed)
        tools += self.toolset.plan_tools(agent_id, plan, self.plans, is_subagent=True)
        tools = [tool for tool in tools if kind.allows(tool.name)]
        tools += await self._server_tools(model.card, kind, inherited, (*NOT_FOR_SUBAGENTS, *parent.disallowed))
        tools = start.tools(self.toolset.offer(self._visible_tools(tools), model.card, kind), self.toolset)

        def system(card: ModelCard) -> list[Block]:
            return subagent_prompt(kind, compact=self.toolset.is_compact(card, kind))

        who = HookAgent(
            self.session,
            self._transcript,
            SUBAGENT,
            agent_id,
            agent_id,
            kind.name,
            parent=display_name(caller),
            generation=run.generation,
            own=path,
        )
        basis = self._basis(who, model, inherited, None if spec.worktree is not None else spec.cwd)
        if start.origin is not None:
            conversation = start_fork(start.origin, path, self._about(basis), basis.workplace, self.prefixes)
        elif start.former is not None:
            anew = None if spec.fork else partial(self._prefix, model, system(model.card), tools)
            conversation = self._go_on(start.former, model, kind, anew)
        else:
            prefix = self._prefix(model, system(model.card), tools, effort)
            conversation = Conversation.start(path, prefix, self._about(basis), with_next=True)
        if spec.starts_in_plan_mode:
            plan.start(PlanExit.NEVER)
        if spec.fork:
            compaction = self.compacting.make_for_fork(path)
        else:
            compaction = self.compacting.make(None, kind, system, self.prefixes)
        activity = basis.activity  # the time counter outlives the agent, and must not keep a reference to it
        forked = self.living.get(caller) if spec.fork else None
        return self._agent(
            basis,
            tools,
            conversation,
            meter=self.meters.subagent(agent_id, caller, budget, lambda: activity.worked_s),
            emit=emit,
            plan=plan,
            compaction=compaction,
            model_calls_left=self._rounds_left(spec, budget, conversation),
            session_note=str if spec.fork else lambda: self._session_note(policy(), kind, place),
            wants_hour_cache=always_false if forked is None else forked.wants_hour_cache,
            caller=caller,
            parent_call=run.call,
        )

    async def _subagent_place(
        self, spec: SpawnSpec, parent: Inheritance, run: SubagentRun
    ) -> tuple[SpawnSpec, AgentWorkspace | None]:
        """Return the spec and the worktree place of a sub-agent: its own, else its caller's. Raises TeamwrightError."""
        if spec.worktree is None and not spec.wants_worktree:
            return spec, self.inheritances.get(spec.beside, parent).place
        spec = await self._with_worktree(spec, parent, run)
        place = await self._place_of(spec)
        if place is not None:
            run.enter_worktree(place.record.path, place.fork_notice)
        return spec, place

    async def _with_worktree(self, spec: SpawnSpec, parent: Inheritance, run: SubagentRun) -> SpawnSpec:
        """Create the worktree of a sub-agent, at the commit of its caller. Raises TeamwrightError.

        A resumed sub-agent keeps its worktree; one that ended without work gets a new one.
        """
        from teamwright.worktrees.worktree_record import has_record

        if spec.worktree is not None and has_record(spec.worktree):
            return spec
        start = None if parent.place is None else parent.place.scope.tree
        bounds = narrow(parent.sandbox, self.resolver.definition(spec).sandbox)
        record = await self.worktrees.create(self.team.name if self.team is not None else "", run.id, start, bounds)
        return replace(spec, worktree=record.tree, cwd=None)

    async def end_subagent(self, run: SubagentRun) -> None:
        """Remove the worktree of an ended sub-agent, or tell its caller where its work is (port of `teams`)."""
        path = run.spec_fields.get("worktree")
        if path:
            await self.toolset.serving.leave_worktree(Path(os.path.realpath(str(path))))
        if path and (notice := await self.worktrees.end(Path(str(path)))):
            run.add_text(notice)

    def transcript_path(self, id: str) -> Path:
        """Return the path of a sub-agent's transcript (port of `teams`)."""
        return self.home.agent_transcript(self.cwd, self.session, id)

    async def wire_model(self, spec: SpawnSpec) -> str:
        """Return the model that a teammate will use (port of `teams`).

        Raises UsageError for an unsupported effort, CannotStart for a model that does not call tools.
        """
        card = (await self._open(spec.model, spec.name, spec.budget, spec)).card
        require_tools(card)
        self.resolver.resolve_effort(spec, self.resolver.definition(spec), card, self.first.effort)
        return card.name

    def command_bounds(self, spec: SpawnSpec) -> SandboxSettings:
        """Return the bounds of a teammate's commands in the sandbox (port of `teams`)."""
        return narrow(self.first.sandbox, self.resolver.definition(spec).sandbox)

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """Return the spec completed by role and agent type (port of `teams` and `tools`); a resolved spec unchanged.

        Raises UsageError for an agent type that is unknown or cannot be honoured.
        """
        return self.resolver.resolve(spec)

    async def _open(
        self, name: str | None, agent: str, budget: Budget = NO_CAPS, spec: SpawnSpec | None = None
    ) -> Model:
        """Open the model for an agent. Raises CannotStart, also when its price must be known and is not: when money is
        capped, and when only a call of a model names the model.
        """
        try:
            model = await self.models.open(name, agent)
        except CannotStart as problem:
            raise name_requester(problem, spec) if spec is not None else problem from None
        require_price(self.budget_tracker.stated_budget.smaller_caps(budget).usd, model.card)
        if spec is not None and name == spec.model:
            of_type = spec.definition.model if spec.definition is not None else None
            is_named_by_call_only = spec.model not in (None, of_type) and not self.models.is_named(str(spec.model))
            if is_named_by_call_only:
                require_price_beside(model.card, (await self.models.open(None, LEAD)).card)
        return model

    def _reminder(self, policy: Policy, role: ReminderRole) -> ModeReminder:
        """Return the mode reminder of an agent. The lead is reminded of a new mode here, members by mail."""
        if role is ReminderRole.LEAD:
            known_mode = None if self.mode_untold else policy.display_mode
            return ModeReminder(lambda: policy.display_mode, role, known_mode, announces=True)
        return ModeReminder(lambda: policy.mode, role, None, announces=False)

    def _go_on(
        self,
        conversation: Conversation,
        model: Model,
        kind: AgentType | None,
        make_prefix: Callable[[Effort | None], Prefix] | None,
        effort: Effort | None = None,
    ) -> Conversation:
        """Prepare a conversation for a resume: its prefix is kept, except for another model or effort.

        For a model that gets the other prompt, full or compact, it is the one of `make_prefix`; None for a fork.
        """
        prefix, card = conversation.prefix, model.card
        if conversation.lost_lines is not None:
            member = str(conversation.header.get("member", LEAD))
            self.emit(Notice(member=member, text=str(conversation.lost_lines), level="warning"))
        had = prefix_effort(prefix)
        if prefix.model != card.wire or effort not in {None, had}:
            if effort is None and had is not None and supported_effort(card, had) is None:
                self.resolver.notify_once(
                    f"the effort {had} of a resumed conversation is not used: {missing_effort(card)}"
                )
            is_other = prefix.model != card.wire and has_compact_prompt(prefix) != self.toolset.is_compact(card, kind)
            if make_prefix is not None and is_other:
                conversation.replace_prefix(make_prefix(supported_effort(card, had) if effort is None else effort))
            else:
                conversation.replace_prefix(prefix_for_model(prefix, card, self.toolset.model_settings, effort=effort))
        return conversation

    def _lead_effort(self, card: ModelCard, kind: AgentType | None = None) -> Effort | None:
        """Return the effort of a flag, which the model must support, else of the lead's type, else of the settings."""
        if self.effort is not None:
            return required_effort(card, self.effort)
        if self.thinking_tokens is not None:
            return effort_for_tokens(card, self.thinking_tokens)
        who, effort = "the settings", self.toolset.model_settings.effort
        if kind is not None and kind.effort is not None:
            who, effort = f"the agent type {kind.name}", kind.effort
        if effort is not None and supported_effort(card, effort) is None:
            self.resolver.notify_once(f"the effort {effort} of {who} is not used: {missing_effort(card)}")
        return supported_effort(card, effort)

    def _rounds_left(self, spec: SpawnSpec, budget: Budget, conversation: Conversation) -> int | None:
        """Return the model calls that an agent has left, of its cap over all resumes, else of the run's cap."""
        cap = budget.smaller_caps(Budget(turns=spec.max_turns)).turns
        return self.each_rounds if cap is None else max(0, cap - conversation.answer_count)

    async def _place_of(self, spec: SpawnSpec) -> AgentWorkspace | None:
        """Return the worktree place of a new or resumed agent; None without one. Raises TeamwrightError."""
        if spec.worktree is None:
            return None
        from teamwright.session.agents.agent_workspace import open_workspace  # not loaded without worktrees

        return await open_workspace(self.worktrees, spec.worktree, self.instructions, self.home.own)

    def _basis(self, who: HookAgent, model: Model, inherited: Inheritance, cwd: Path | None = None) -> AgentBasis:
        """Return the parts of an agent that come before its tools and its conversation."""
        place = inherited.place
        workplace = Workplace(
            cwd or (self.work_directory if place is None else place.cwd),
            lambda: inherited.current_policy().directories,
            self._output,
            self._history,
            last_writers=self.edits,
            env=self.env if place is None else {**self.env, **place.variables},
            accepts_images=model.card.images,
            instructions=self.instructions if place is None else place.instructions,
            withholds=lambda file: inherited.current_policy().withholds(file),
            temporary=inherited.current_policy().scope.temporary,
            sandbox=inherited.sandbox,
            trace=self.trace,
        )
        hooks = NO_HOOKS
        if not (inherited.definition is not None and inherited.definition.is_hook):
            later = partial(deliver_text, lambda: self.team, who)
            agent = HookedAgent(who, inherited.display_name, workplace, inherited.current_policy(), later)
            hooks = self.toolset.hooking.make(agent, self.denials, inherited.own_hooks)
        is_watched = self.watchdog is not None and who.kind != SUBAGENT
        activity = self.watchdog.activity(who.name) if self.watchdog is not None and is_watched else AgentActivity()
        return AgentBasis(who, model, inherited, workplace, hooks, activity)

    def _gate(self, inherited: Inheritance) -> PermissionGate:
        """Return the permission gate of an agent with these inherited values."""
        return PermissionGate(
            inherited.display_name,
            inherited.current_policy,
            self.approver,
            self.denials,
            self.policies.keep_always,
            on_waiting=inherited.waiting,
            read_only=inherited.read_only,
            owner=inherited.root,
            lead_may_allow=self.policies.lead_may,
            keep_grant=self.keep_grant,
            left_open=self.left_open,
        )

    def _visible_tools(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Return the tools that no rule hides."""
        return self.toolset.without_subagent_skills([tool for tool in tools if not self.policy.hides(tool.name)])

    def _prefix(self, model: Model, system: list[Block], tools: Sequence[AnyTool], effort: Effort | None) -> Prefix:
        return self.prefix_cache.prefix(
            self.prefixes, PrefixModel(model.card, self.toolset.model_settings, effort), system, tools
        )

    def _about(self, basis: AgentBasis, git: GitState | None = None) -> dict[str, Any]:
        """Return the first line of a new transcript. `git` is the state of the repository when the agent started."""
        about = {
            "session": self.session,
            "member": basis.who.name,
            "agent_id": basis.who.agent_id,
            "cwd": str(basis.workplace.cwd),
            "model": basis.model.card.name,
            TAG_KEY: self.tag_key,
        }
        return about if git is None else {**about, "git_head": git.head, "git_dirty": git.dirty}

    def _session_note(
        self, policy: Policy, kind: AgentType | None, place: AgentWorkspace | None = None, identity: str = ""
    ) -> str:
        """Return the note at the beginning of an agent's conversation. `kind` is its type, whose memory it has."""
        environment = self.place if place is None else place.environment(self.place)
        instructions = self.instructions if place is None else place.instructions
        memory = read_memory(kind, policy, self.home.own)
        return SessionNote(environment, instructions.initial_for(policy.withholds), identity, memory).text()

    def _agent(
        self,
        basis: AgentBasis,
        tools: Sequence[AnyTool],
        conversation: Conversation,
        *,
        meter: Meter,
        emit: Emit,
        plan: PlanMode,
        compaction: Compaction,
        model_calls_left: int | None,
        remind: Remind = no_reminder,
        session_note: Callable[[], str] = str,
        wants_hour_cache: Callable[[], bool] = always_false,
        caller: str = "",
        parent_call: str | None = None,
    ) -> Agent:
        """Return the agent of these parts, which is found by its name as long as it lives."""
        who = basis.who
        toolbox = Toolbox(
            who.name,
            tools,
            basis.workplace,
            gate=self._gate(basis.inherited),
            numbers=self.numbers,
            emit=self.emit,
            has_listeners=self.attended,
            short_refusals=self.toolset.is_compact(basis.model.card, basis.inherited.definition),
            activity=basis.activity,
            record=conversation,
            wrap=basis.hooks.wrap,
        )
        agent = self.living[who.name] = Agent(
            who.name,
            who.agent_id,
            basis.model,
            conversation,
            toolbox,
            meter,
            emit,
            model_calls_left=model_calls_left,
            model_calls_cap=model_calls_left,
            parent_call=parent_call,
            has_listeners=self.attended,
            activity=basis.activity,
            remind=ServerReminder(remind, lambda: toolbox.tools, lambda: conversation.items),
            session_note=session_note,
            caller=caller,
            hooks=basis.hooks,
            policy=basis.inherited.current_policy(),
            plan=plan,
            compaction=compaction,
            effort=prefix_effort(conversation.prefix),
            wants_hour_cache=wants_hour_cache,
            watched_directories=lambda: () if self.team is None else self.team.tasks.store.directories,
            fallback=self.fallback,
        )
        basis.inherited.effort = agent.effort
        return agent
