"""The agent factory: what the agents of a process share, and the steps in which each of them is built.

`lead_build`, `teammate_build` and `subagent_build` use the steps; every agent of a process is built by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import AgentActivity, Watchdog
from teamwright.agent.agent import Agent
from teamwright.agent.agent_hooks import NO_HOOKS
from teamwright.agent.agent_type import BUILT_IN, AgentType
from teamwright.agent.compaction_state import Compaction, CompactSettings
from teamwright.agent.conversation import Conversation
from teamwright.agent.instructions import SessionInstructions
from teamwright.agent.permission_gate import Denial, KeepGrant, LeftOpen, PermissionGate, never_left_open
from teamwright.agent.plan_mode import PlanMode, Remind, no_reminder
from teamwright.agent.prompt import (
    PrefixCache,
    PrefixModel,
    PromptEnvironment,
    SessionNote,
    has_compact_prompt,
)
from teamwright.agent.spawn_limits import SpawnLimits
from teamwright.agent.tool import AnyTool, LastWriters, Workplace
from teamwright.agent.toolbox import CallNumbers, Toolbox
from teamwright.agent.transcript import TAG_KEY
from teamwright.approvals.plan_approvals import PlanApprovals
from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_meter import Meters
from teamwright.hooks.payload import SUBAGENT, HookAgent
from teamwright.models.effort import Effort, prefix_effort, supported_effort
from teamwright.models.model import Meter, Model, ModelCard, Prefix
from teamwright.models.request_prefix import prefix_for_model
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Approver
from teamwright.protocol.errors import CannotStart, StorageError
from teamwright.protocol.events import Emit, HasListeners, Notice, always_false, always_true
from teamwright.protocol.ids import LEAD, SessionId, session_list_name
from teamwright.protocol.messages import Block
from teamwright.protocol.runtime_tags import new_key
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.session.agents.factory_parts import (
    CompactionFactory,
    ServerReminder,
    read_memory,
)
from teamwright.session.agents.model_sources import SessionModels, require_price, require_price_beside
from teamwright.session.agents.model_switch import FallbackModels
from teamwright.session.agents.policies import AgentPolicies, Inheritance
from teamwright.session.agents.specs import (
    SpecResolver,
    missing_effort,
    name_requester,
)
from teamwright.session.agents.toolset import Toolset
from teamwright.session.session_hooks import HookedAgent
from teamwright.storage.paths import Home
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.job_notices import deliver_text
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.git.git_calls import GitState
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.worktrees.session_worktrees import SessionWorktrees


class AgentFactory(Struct, dict=True):
    """The factory of the agents of a process, with what all agents of a session share.

    The modules of the kinds (`lead_build`, `teammate_build`, `subagent_build`) put an agent together from the steps
    here, which are listed in their order.
    """

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
    environment: PromptEnvironment
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
    def lead_inheritance(self) -> Inheritance:
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
            return await self.open_model(self.models.bring_fallback(name), LEAD, self.budget_tracker.each)

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

    @property
    def transcript(self) -> Path:
        """The session's transcript."""
        return self.home.transcript(self.cwd, self.session)

    def transcript_path(self, id: str) -> Path:
        """Return the path of a sub-agent's transcript."""
        return self.home.agent_transcript(self.cwd, self.session, id)

    def enter_worktree(self, workspace: AgentWorkspace) -> None:
        """Let all agents that are built from now on work in this worktree, unless they have their own."""
        self.worktree = workspace
        self.instructions = workspace.instructions
        self.environment = workspace.environment(self.environment)
        self.env |= workspace.variables
        self.policies.session.enter_worktree(workspace.scope)

    def lead_team(self, team: SessionTeam) -> None:
        """Let the agents of the lead's process belong to this team."""
        self.team = team
        self.plans.lead_team(team)

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

    # ── the steps of building an agent, in their order ─────────────────────────────────────────────────────────────

    async def open_model(
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

    def offer_search(self, model: Model) -> Model:
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

    async def place_of(self, spec: SpawnSpec, wanted: Path | None = None) -> AgentWorkspace | None:
        """Return the worktree place of a new or resumed agent; None without one. `wanted` is the directory there that
        was named for it. Raises TeamwrightError."""
        if spec.worktree is None:
            return None
        from teamwright.session.agents.agent_workspace import open_workspace  # not loaded without worktrees

        home = self.home.own
        return await open_workspace(self.worktrees, spec.worktree, self.instructions, home, wanted=wanted)

    async def offered_tools(
        self, own: Sequence[AnyTool], card: ModelCard, kind: AgentType | None, inherited: Inheritance
    ) -> list[AnyTool]:
        """Return the tools of a member in the form for its model: these, and those of MCP servers."""
        tools = self.visible_tools([*own, *await self.server_tools(card, kind, inherited)])
        return self.toolset.offer(tools, card, kind)

    async def server_tools(
        self, card: ModelCard, kind: AgentType | None, inherited: Inheritance, denied: tuple[str, ...] = ()
    ) -> list[AnyTool]:
        """Return an agent's tools of MCP servers, in its worktree or in that of the session."""
        place = inherited.place or self.worktree
        return await self.toolset.mcp_tools(
            self.policy.hides, kind, denied, place, inherited.sandbox, compact=self.toolset.is_compact(card, kind)
        )

    def visible_tools(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Return the tools that no rule hides."""
        return self.toolset.without_subagent_skills([tool for tool in tools if not self.policy.hides(tool.name)])

    def make_workplace(self, inherited: Inheritance, model: Model, cwd: Path | None = None) -> Workplace:
        """Return where an agent works: in `cwd`, else in its worktree, else in the session's directory."""
        place = inherited.place
        return Workplace(
            cwd or (self.work_directory if place is None else place.cwd),
            lambda: inherited.current_policy().directories,
            self.session_directory / "output",
            self.session_directory / "history",
            last_writers=self.edits,
            env=self.env if place is None else {**self.env, **place.variables},
            accepts_images=model.card.images,
            instructions=self._surroundings(inherited)[1],
            withholds=lambda file: inherited.current_policy().withholds(file),
            temporary=inherited.current_policy().scope.temporary,
            sandbox=inherited.sandbox,
            trace=self.trace,
        )

    def make_activity(self, who: HookAgent) -> AgentActivity:
        """Return the monitor of an agent's work. The watchdog reports stalled members, but no sub-agents."""
        if self.watchdog is None or who.kind == SUBAGENT:
            return AgentActivity()
        return self.watchdog.activity(who.name)

    def new_prefix(self, model: Model, system: list[Block], tools: Sequence[AnyTool], effort: Effort | None) -> Prefix:
        """Return the prefix of a new agent, which is stored and shared by agents with the same bytes."""
        return self.prefix_cache.prefix(
            self.prefixes, PrefixModel(model.card, self.toolset.model_settings, effort), system, tools
        )

    def header(self, who: HookAgent, model: Model, workplace: Workplace, git: GitState | None = None) -> dict[str, Any]:
        """Return the first line of a new transcript. `git` is the state of the repository when the agent started."""
        about = {
            "session": self.session,
            "member": who.name,
            "agent_id": who.agent_id,
            "cwd": str(workplace.cwd),
            "model": model.card.name,
            TAG_KEY: self.tag_key,
        }
        return about if git is None else {**about, "git_head": git.head, "git_dirty": git.dirty}

    def continue_conversation(
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
        prefix = conversation.prefix
        card = model.card
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

    def rounds_left(self, spec: SpawnSpec, budget: Budget, conversation: Conversation) -> int | None:
        """Return the model calls that an agent has left, of its cap over all resumes, else of the run's cap."""
        cap = budget.smaller_caps(Budget(turns=spec.max_turns)).turns
        return self.each_rounds if cap is None else max(0, cap - conversation.answer_count)

    def session_note_text(
        self, policy: Policy, kind: AgentType | None, inherited: Inheritance, identity: str = ""
    ) -> str:
        """Return the note at the beginning of an agent's conversation. `kind` is its type, whose memory it has."""
        environment, instructions = self._surroundings(inherited)
        memory = read_memory(kind, policy, self.home.own)
        return SessionNote(environment, instructions.initial_for(policy.withholds), identity, memory).text()

    def _surroundings(self, inherited: Inheritance) -> tuple[PromptEnvironment, SessionInstructions]:
        """Return the environment part of an agent's prompt, and its instructions."""
        place, cwd = inherited.place, inherited.cwd
        environment = self.environment if place is None else place.environment(self.environment)
        instructions = self.instructions if place is None else place.instructions
        if cwd is None:
            return environment, instructions
        return replace(environment, cwd=cwd), instructions.at(cwd, self.home.own)

    def make_agent(
        self,
        *,
        who: HookAgent,
        model: Model,
        inherited: Inheritance,
        workplace: Workplace,
        activity: AgentActivity,
        tools: Sequence[AnyTool],
        conversation: Conversation,
        meter: Meter,
        plan: PlanMode,
        compaction: Compaction,
        model_calls_left: int | None,
        emit: Emit | None = None,
        remind: Remind = no_reminder,
        session_note: Callable[[], str] = str,
        wants_hour_cache: Callable[[], bool] = always_false,
        caller: str = "",
        parent_call: str | None = None,
    ) -> Agent:
        """Return the agent of these parts, which is found by its name as long as it lives."""
        hooks = NO_HOOKS
        if not (inherited.definition is not None and inherited.definition.is_hook):
            later = partial(deliver_text, lambda: self.team, who)
            hooked = HookedAgent(who, inherited.display_name, workplace, inherited.current_policy(), later)
            hooks = self.toolset.hooking.make(hooked, self.denials, inherited.own_hooks)
        gate = PermissionGate(
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
        toolbox = Toolbox(
            who.name,
            tools,
            workplace,
            gate=gate,
            numbers=self.numbers,
            emit=self.emit,
            has_listeners=self.attended,
            short_refusals=self.toolset.is_compact(model.card, inherited.definition),
            activity=activity,
            record=conversation,
            wrap=hooks.wrap,
        )
        agent = self.living[who.name] = Agent(
            who.name,
            who.agent_id,
            model,
            conversation,
            toolbox,
            meter,
            emit or self.emit,
            model_calls_left=model_calls_left,
            model_calls_cap=model_calls_left,
            parent_call=parent_call,
            has_listeners=self.attended,
            activity=activity,
            remind=ServerReminder(remind, lambda: toolbox.tools, lambda: conversation.items),
            session_note=session_note,
            caller=caller,
            hooks=hooks,
            policy=inherited.current_policy(),
            plan=plan,
            compaction=compaction,
            effort=prefix_effort(conversation.prefix),
            wants_hour_cache=wants_hour_cache,
            watched_directories=lambda: () if self.team is None else self.team.tasks.store.directories,
            fallback=self.fallback,
        )
        inherited.effort = agent.effort
        return agent
