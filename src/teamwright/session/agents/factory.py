"""The agent factory: it builds every agent of a session from a spec, ready for its first turn.

Implements the ports of `teams` and `tools`, so that all agents are built here. Depends on the agent parts.
[session/agents/agent_factory]

Forks: the conversation, prefix and bounds that a fork takes over from its caller.

A fork has its caller's prefix and history, the same restrictions, and the tools that a sub-agent may run.
[session/agents/fork_factory]

The skills and the memory in an agent's initial prompt, by its definition.

The agent's policy is extended by the directory of its memory only. Depends on definitions, skill catalogs and policies.
[session/agents/agent_skills]
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent import Agent, always_false
from teamwright.agent.agent_type import BUILT_IN, LEAD_ONLY, NOT_FOR_SUBAGENTS, TEAMMATE_TOOLS, AgentType, load_prompt
from teamwright.agent.conversation import Conversation
from teamwright.agent.fork_origin import contains_fork_prompt, is_fork
from teamwright.agent.plan_mode import PlanExit, ReminderRole
from teamwright.agent.prompt import lead_prompt, load_conversation, store_prefix, subagent_prompt, teammate_prompt
from teamwright.agent.tool import AnyTool, Workplace
from teamwright.agent.transcript import read_header
from teamwright.config.agent_type_fields import INHERIT
from teamwright.config.team_file import roles_text
from teamwright.hooks.hook_index import PERMISSION, POST_TOOL, PRE_TOOL, TOOL_FAILURE
from teamwright.hooks.payload import LEAD as LEAD_KIND
from teamwright.hooks.payload import SUBAGENT, TEAMMATE, HookAgent
from teamwright.models.model import Model
from teamwright.models.prefix_builder import tool_names
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Verdict
from teamwright.protocol.errors import CannotStart, StorageError, TeamRefused, UsageError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, session_list_name
from teamwright.protocol.messages import Block, tool_calls
from teamwright.sandbox.policy import SandboxSettings, narrow
from teamwright.session.agents.parts import AgentBasis, AgentParts, AgentTerms, start_reading_state
from teamwright.session.agents.policies import Inheritance
from teamwright.session.agents.specs import require_possible
from teamwright.session.agents.toolset import Toolset
from teamwright.session.mcp_servers import is_mcp_tool_name
from teamwright.skills.agent_memory import memory_directory, memory_prompt, parse_scope
from teamwright.skills.skill_catalog import SkillCatalog
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.blocked_callback import blocked_callback
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller

if TYPE_CHECKING:
    from teamwright.git.git_calls import GitState
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.team_records.team_state import Incarnation


TYPE_KEY = "agent_type"
"""The key of the lead's agent type in the first line of its transcript."""


WORKTREE_KEY = "worktree"
"""The key of the session's worktree in that line: its name, and the directory in it in which agents work."""


def _is_lead_tool(kind: AgentType, tool: str) -> bool:
    """Return True for a tool of a lead of this agent type: it always has the task list and messages, as teammates."""
    return kind.allows(tool) or tool in TEAMMATE_TOOLS


class AgentFactory(AgentParts):
    """The factory of the lead, teammates and sub-agents."""

    kept_worktrees: list[str] = field(default_factory=list[str])
    """Sentences about the worktrees that were not removed when the session was closed."""

    def enter_worktree(self, workspace: AgentWorkspace) -> None:
        """Let all agents that are built from now on work in this worktree, unless they have their own."""
        self.worktree, self.instructions = workspace, workspace.instructions
        self.place = workspace.environment(self.place)
        self.env |= workspace.variables
        self.policies.session.enter_worktree(workspace.scope)

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
        record = self.home.session(self.cwd, self.session) / "plans" / f"{LEAD}.json"
        plan = self.plans.make_plan_mode(self.policy, self.home.plans, record, name=LEAD, gate=policy)

        async def tools() -> list[AnyTool]:
            own = [t for t in self.toolset.tools(Caller(LEAD, team)) if kind is None or _is_lead_tool(kind, t.name)]
            own += self.toolset.plan_tools(LEAD, plan, self.plans)
            return self._visible_tools([*own, *await self._server_tools(kind, self.first)])

        def system() -> list[Block]:
            appended = "\n\n".join(part for part in (roles_text(self.policies.definition), self.appended) if part)
            base = self.base or (kind.prompt if kind is not None else "")
            return lead_prompt(self.toolset.teams, self._session_part(header, policy), appended, base)

        who = HookAgent(self.session, self._transcript, LEAD_KIND, LEAD, LEAD, own=self._transcript)
        basis = self._basis(who, model, replace(self.first, policy=lambda: policy, display_name=LEAD))
        own = await tools()
        if isinstance(start, Conversation):
            asks = self.effort is not None or self.thinking_tokens is not None
            requested_effort = self._lead_effort(model.card) if asks else None
            conversation = self._go_on(start, model, requested_effort)
        else:
            prefix = self._prefix(model, system(), own, self._lead_effort(model.card, kind))
            about = await self._lead_header(basis, start, kind)
            conversation = Conversation.start(self._transcript, prefix, about)
        is_new = conversation.lines <= 1
        terms = AgentTerms(
            self.meters.lead(),
            self.emit,
            self.plans.restore_plan_mode(LEAD, plan, basis.workplace, new=is_new, begins=plan.is_on),
            self.compacting.make(team, system, self.prefixes, tools),
            self.max_rounds if kind is None or self.max_rounds is not None else kind.max_turns,
            self._reminder(policy, ReminderRole.LEAD),
            wants_hour_cache=lambda: bool(team.running_members),
        )
        agent = self._agent(basis, own, conversation, terms)
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

    async def _server_tools(
        self, kind: AgentType | None, inherited: Inheritance, denied: tuple[str, ...] = ()
    ) -> list[AnyTool]:
        """Return an agent's tools of MCP servers, in its worktree or in that of the session."""
        place = inherited.place or self.worktree
        return await self.toolset.mcp_tools(self.policy.hides, kind, denied, place, inherited.sandbox)

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
        kind = with_skills(
            kind, self.policy, self.toolset.shelf, self.home.own, self.emit, otherwise=load_prompt("base")
        )
        if kind.mode is not None:
            self.resolver.notify_once(f"the mode {kind.mode} of {source} is not used: the lead has the session's mode")
        self.first.definition, self.first.read_only = kind, kind.read_only
        self.first.disallowed, self.first.kind = kind.disallowed_tools, kind.name if kind.role else ""
        self.first.sandbox = narrow(self.first.sandbox, kind.sandbox)
        return kind

    async def build_teammate(self, spec: SpawnSpec, team: SessionTeam, incarnation: Incarnation) -> Agent:
        """Build a teammate (port of `teams`): new, or with the transcript of its incarnation."""
        kind = self.resolver.definition(spec)
        budget = spec.budget.smaller_caps(self.budget_tracker.each)
        model = self._offer_search(await self._open(spec.model, spec.name, budget))
        await self.open_fallback()
        path = Path(incarnation.transcript)
        header, prefixes = read_header(path), path.parent.parent / "prefixes"
        git = start_reading_state(spec.cwd or self.work_directory) if header is None else None
        is_new = header is None
        effort = self.resolver.resolve_effort(spec, kind, model.card, self.first.effort) if is_new else None
        place = await self._place_of(spec)
        await self.policies.read_tasks(team)
        policy = self.policies.make_policy(spec, lambda: self.policy, kind.name, kind.denied, place, spec.name)
        kind = with_skills(kind, policy(), self.toolset.shelf, self.home.own, self.emit)
        waiting = blocked_callback(team, spec.name)
        inherited = self.inheritances[spec.name] = self.first.for_member(spec, kind, policy, waiting)
        inherited.place = place
        record = path.parent.parent / "plans" / f"{path.stem}.json"
        plan = self.plans.make_plan_mode(policy(), self.home.plans, record, name=spec.name)

        async def tools() -> list[AnyTool]:
            own = [t for t in self.toolset.tools(Caller(spec.name, team)) if t.name not in LEAD_ONLY]
            own = [t for t in own if kind.allows(t.name) or t.name in TEAMMATE_TOOLS]
            own += self.toolset.plan_tools(spec.name, plan, self.plans)
            return self._visible_tools([*own, *await self._server_tools(kind, inherited)])

        def system() -> list[Block]:
            return teammate_prompt(spec.name, team.name, kind, self._session_part(header, policy(), place))

        agent_id = f"{spec.name}@{team.name}"
        who = HookAgent(self.session, self._transcript, TEAMMATE, spec.name, agent_id, kind.name, team.name, LEAD_ALIAS)
        who = replace(who, generation=incarnation.incarnation, own=path)
        basis, own = self._basis(who, model, inherited, None if place is not None else spec.cwd), await tools()
        if git is None:
            conversation = self._go_on(load_conversation(path, prefixes), model)
        else:
            prefix = self._prefix(model, system(), own, effort)
            conversation = Conversation.start(path, prefix, self._about(basis, await git))
        activity = basis.activity  # the time counter outlives the member, and must not keep a reference to it
        terms = AgentTerms(
            self.meters.member(spec.name, budget, lambda: activity.worked_s, is_resumed=not is_new),
            self.emit,
            self.plans.restore_plan_mode(spec.name, plan, basis.workplace, new=is_new, begins=spec.starts_in_plan_mode),
            self.compacting.make(team, system, prefixes, tools),
            self._rounds_left(spec, budget, conversation),
            self._reminder(inherited.current_policy(), ReminderRole.MEMBER),
        )
        return self._agent(basis, own, conversation, terms)

    async def build_subagent(
        self, spec: SpawnSpec, caller: str, run: SubagentRun, emit: Emit, *, resumed: bool = False
    ) -> Agent:
        """Build a sub-agent (port of `teams`): new, or with its whole conversation. Raises TeamwrightError."""
        spec, agent_id, path = self.resolve(spec), run.id, self.transcript_path(run.id)
        parent = self.inheritances.get(caller, self.first)
        kind = fork_definition(self.resolver.definition(spec), parent) if spec.fork else self.resolver.definition(spec)
        budget = spec.budget.smaller_caps(self.budget_tracker.each)
        start = await starting_point(spec, run, self.living.get(caller), path, self.prefixes, is_resumed=resumed)
        model = await self._open(spec.model or parent.model, caller, budget, spec)
        model = await start.model(model, lambda name: self._open(name, caller, budget))
        effort = self.resolver.resolve_effort(spec, kind, model.card, parent.effort) if start.is_new else None
        await self.limits.admit_subagent(parent.depth + 1, is_hook=kind.is_hook)
        spec, place = await self._subagent_place(spec, parent, run)
        policy = self.policies.make_policy(spec, parent.policy, parent.role_of(kind), kind.denied, place, parent.root)
        kind = with_skills(kind, policy(), self.toolset.shelf, self.home.own, self.emit, otherwise=load_prompt("base"))
        plan = self.plans.make_plan_mode(policy(), self.home.plans, None)
        inherited = self.inheritances[agent_id] = parent.child(kind, policy, spec.model, run)
        inherited.place = place
        below = None if spec.fork or inherited.depth >= self.limits.settings.depth else self.team
        tools = self.toolset.subagent_tools(agent_id, below, parent.disallowed)
        tools = [t for t in (*tools, *self.toolset.plan_tools(agent_id, plan, self.plans)) if kind.allows(t.name)]
        tools = [
            *tools,
            *await self._server_tools(kind, inherited, (*NOT_FOR_SUBAGENTS, *parent.disallowed)),
        ]
        tools = self._visible_tools(start.tools(tools, self.toolset))
        system = subagent_prompt(kind, self._session_part(start.header, policy(), place))
        above, cwd = LEAD_ALIAS if caller == LEAD else caller, None if spec.worktree is not None else spec.cwd
        whose = (SUBAGENT, agent_id, agent_id, kind.name, "", above, run.generation, path)
        basis = self._basis(HookAgent(self.session, self._transcript, *whose), model, inherited, cwd)
        if start.conversation is None:
            prefix = self._prefix(model, system, tools, effort)
            conversation = Conversation.start(path, prefix, self._about(basis), with_next=True)
        else:
            conversation = self._continue(start, basis, path)
        if spec.starts_in_plan_mode:
            plan.start(PlanExit.NEVER)
        activity, fork, compacting = basis.activity, self.living.get(caller) if spec.fork else None, self.compacting
        terms = AgentTerms(
            self.meters.subagent(agent_id, caller, budget, lambda: activity.worked_s),
            emit,
            plan,
            compacting.make_for_fork(path) if spec.fork else compacting.make(None, lambda: system, self.prefixes),
            self._rounds_left(spec, budget, conversation),
            wants_hour_cache=always_false if fork is None else fork.wants_hour_cache,
            caller=caller,
            parent_call=run.call,
        )
        return self._agent(basis, tools, conversation, terms)

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

    def _continue(self, start: StartingPoint, basis: AgentBasis, path: Path) -> Conversation:
        """Return the conversation of a resumed sub-agent or of a new fork."""
        if start.origin is not None:
            return start_fork(start.origin, path, self._about(basis), basis.workplace, self.prefixes)
        assert start.former is not None
        return self._go_on(start.former, basis.model)

    def transcript_path(self, id: str) -> Path:
        """Return the path of a sub-agent's transcript (port of `teams`)."""
        return self.home.agent_transcript(self.cwd, self.session, id)

    async def wire_model(self, spec: SpawnSpec) -> str:
        """Return the model that a teammate will use (port of `teams`). Raises UsageError for an unsupported effort."""
        card = (await self._open(spec.model, spec.name, spec.budget, spec)).card
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


_OF_CALLS = frozenset({PRE_TOOL, POST_TOOL, TOOL_FAILURE, PERMISSION})
"""Events whose hooks guard calls. The caller's hooks for starts, stops and goals do not apply to a fork."""

_CALLERS = NOT_FOR_SUBAGENTS | {"Agent"}
"""Tools that act in the name of a fork's caller, or would delegate its job, at any depth."""


def fork_definition(kind: AgentType, parent: Inheritance) -> AgentType:
    """Return the agent type of a fork: the caller's tool restrictions, servers and hooks, and their origin."""
    definition = parent.definition
    if definition is None:
        return kind
    hooks = tuple(hook for hook in definition.hooks if hook.event in _OF_CALLS)
    return replace(
        kind,
        tools=definition.tools,
        disallowed_tools=definition.disallowed_tools,
        read_only=definition.read_only,
        sandbox=definition.sandbox,
        mcp_servers=definition.mcp_servers,
        source=definition.source,
        file=definition.file,
        hooks=hooks,
    )


class StartingPoint(Struct, frozen=True):
    """The starting point of a sub-agent: its own conversation (`former`), or for a new fork that of `origin`.

    A new sub-agent has neither. `fork`: it is a fork, new or resumed.
    """

    fork: bool = False
    former: Conversation | None = None
    origin: Agent | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The conversation from which it continues."""
        return self.former if self.origin is None else self.origin.conversation

    @property
    def is_new(self) -> bool:
        """True for a new sub-agent that continues no conversation."""
        return self.conversation is None

    @property
    def header(self) -> Mapping[str, Any] | None:
        """The first line of the transcript from which it continues."""
        return None if self.conversation is None else self.conversation.header

    async def model(self, model: Model, opened: Callable[[str], Awaitable[Model]]) -> Model:
        """Return the model: for a fork its caller's, or its earlier one, which `opened` opens by name.

        Raises TeamRefused for a new fork whose caller's model cannot be opened a second time.
        """
        talk = self.conversation
        if not self.fork or talk is None or model.card.wire == talk.prefix.model:
            return model
        name = self.origin.model.card.name if self.origin is not None else str(talk.header.get("model"))
        with suppress(CannotStart, UsageError):
            other = await opened(name)
            if other.card.wire == talk.prefix.model:
                return other
        if self.origin is None:
            return model
        what = f"a fork has the very model of its caller, and {name} cannot be opened again"
        raise TeamRefused("team-refused", what, do=["Name a subagent_type."], note="nothing was started")

    def tools(self, tools: Sequence[AnyTool], toolset: Toolset) -> list[AnyTool]:
        """Return a fork's tools, as its prefix names them; a missing tool is replaced by one that reports its
        absence.
        """
        talk = self.conversation
        if not self.fork or talk is None:
            return list(tools)
        from teamwright.tools.subagent.agent_without_team import ForbiddenInFork

        named = tool_names(talk.prefix)
        have = toolset.without_subagent_skills(
            [tool for tool in tools if tool.name in named and tool.name not in _CALLERS]
        )
        known = {tool.name for tool in have}
        return [*have, *(ForbiddenInFork(name) for name in named if name not in known and not is_mcp_tool_name(name))]


_NOTHING = StartingPoint()


def start_fork(
    origin: Agent, path: Path, about: Mapping[str, Any], workplace: Workplace, prefixes: Path
) -> Conversation:
    """Start a fork's conversation where its caller's is; files that the caller has read count as read."""
    store_prefix(prefixes, origin.conversation.prefix)
    workplace.seen_files.update(origin.toolbox.workplace.seen_files)
    return origin.conversation.fork(path, about)


async def starting_point(
    spec: SpawnSpec, run: SubagentRun, caller: Agent | None, path: Path, prefixes: Path, *, is_resumed: bool
) -> StartingPoint:
    """Return the starting point of a sub-agent; `path` is its transcript. Raises StorageError, TeamRefused."""
    if is_resumed:
        former = await asyncio.to_thread(load_conversation, path, prefixes)
        return StartingPoint(spec.fork, former)
    return StartingPoint(spec.fork, origin=_origin_of_fork(caller, run)) if spec.fork else _NOTHING


def _origin_of_fork(caller: Agent | None, run: SubagentRun) -> Agent:
    """Return the agent to fork, whose call asks for the fork. Raises TeamRefused."""
    if caller is None or all(call.id != run.call for call in tool_calls(caller.conversation.last_content())):
        what, do = "a fork begins at a call of the agent that it is made of, and there is none", "Name a subagent_type."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    talk = caller.conversation
    if is_fork(talk.header) or contains_fork_prompt(talk.items):
        what, do = "a fork cannot be forked", "Do the job yourself."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    return caller


def with_skills(
    kind: AgentType, policy: Policy, shelf: SkillCatalog, home: Path, emit: Emit, *, otherwise: str = ""
) -> AgentType:
    """Return the agent type with its skills and memory in its prompt. Unavailable ones are left out and reported.

    `policy` is the agent's own, which allows the memory from now on. `home` is the user's state root; `otherwise` is
    the prompt of an agent type without one.
    """
    if kind.memory is None and not kind.skills:
        return kind
    texts, missing = shelf.preload(kind.skills)
    for what in missing:
        _warn(emit, f"the agent type {kind.name} begins without a skill: {what}")
    parts = (kind.prompt or otherwise, texts, _memory(kind, policy, home, emit))
    return replace(kind, prompt="\n\n".join(part for part in parts if part))


def _memory(kind: AgentType, policy: Policy, home: Path, emit: Emit) -> str:
    if kind.memory is None:
        return ""
    root = policy.scope.base
    try:
        prompt = memory_prompt(kind.memory, kind.name, root, home)
        policy.allow_memory(memory_directory(parse_scope(kind.memory), kind.name, root, home))
    except UsageError as problem:
        _warn(emit, f"the agent type {kind.name} begins without memory: {problem.what}")
        return ""
    return prompt


def _warn(emit: Emit, text: str) -> None:
    emit(Notice(member=LEAD, text=text, level="warning"))
