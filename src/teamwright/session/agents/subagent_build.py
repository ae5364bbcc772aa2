"""The construction of a sub-agent or a fork: new, or with its whole conversation.

A fork begins with the prefix and the history of its caller, under the same restrictions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.agent_type import NOT_FOR_SUBAGENTS, AgentType, load_prompt
from teamwright.agent.conversation import Conversation
from teamwright.agent.fork_origin import contains_fork_prompt, is_fork
from teamwright.agent.plan_mode import PlanExit, PlanMode
from teamwright.agent.prompt import load_conversation, store_prefix, subagent_prompt
from teamwright.agent.tool import AnyTool, Workplace
from teamwright.hooks.hook_definitions import PERMISSION, POST_TOOL, PRE_TOOL, TOOL_FAILURE
from teamwright.hooks.payload import SUBAGENT, HookAgent
from teamwright.models.model import Model, ModelCard
from teamwright.models.request_prefix import tool_names
from teamwright.protocol.errors import CannotStart, TeamRefused, UsageError
from teamwright.protocol.events import Emit, always_false
from teamwright.protocol.ids import display_name
from teamwright.protocol.messages import Block, tool_calls
from teamwright.sandbox.policy import narrow
from teamwright.session.agents.factory_parts import allow_memory, with_skills
from teamwright.session.agents.policies import Inheritance
from teamwright.session.agents.toolset import Toolset
from teamwright.session.mcp_servers import is_mcp_tool_name
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.tools.deferred_tools import SEARCH

if TYPE_CHECKING:
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.session.agents.factory import AgentFactory
    from teamwright.teams.team import SessionTeam
    from teamwright.worktrees.worktree_record import WorktreeRecord


async def build_subagent(
    factory: AgentFactory, spec: SpawnSpec, caller: str, run: SubagentRun, emit: Emit, *, resumed: bool
) -> Agent:
    """Build a sub-agent or a fork of a resolved spec. `emit` takes its events. Raises TeamwrightError."""
    agent_id = run.id
    path = factory.transcript_path(agent_id)
    parent = factory.inheritances.get(caller, factory.lead_inheritance)
    kind = factory.resolver.definition(spec)
    if spec.fork:
        kind = fork_definition(kind, parent)
    budget = spec.budget.smaller_caps(factory.budget_tracker.each)
    start = await starting_point(spec, run, factory.living.get(caller), path, factory.prefixes, is_resumed=resumed)
    model = await factory.open_model(spec.model or parent.model, caller, budget, spec)
    model = await start.model(model, lambda name: factory.open_model(name, caller, budget))
    effort = factory.resolver.resolve_effort(spec, kind, model.card, parent.effort) if start.is_new else None
    await factory.limits.admit_subagent(parent.depth + 1, is_hook=kind.is_hook)
    spec, place = await _enter_worktree(factory, spec, parent, run)
    cwd = spec.cwd or parent.cwd if spec.worktree is None else None
    policy = factory.policies.make_policy(spec, parent.policy, parent.role_of(kind), kind.denied, place, parent.root)
    kind = with_skills(kind, factory.toolset.shelf, factory.emit, otherwise=load_prompt("base"))
    allow_memory(kind, policy(), factory.home.own, factory.emit)
    plan = factory.plans.make_plan_mode(policy(), factory.home.plans, None)
    inherited = parent.child(kind, policy, spec.model, run, place=place, cwd=None if spec.fork else cwd)
    factory.inheritances[agent_id] = inherited
    below = None if spec.fork or inherited.depth >= factory.limits.settings.depth else factory.team
    tools = await _find_tools(
        factory, agent_id, model.card, kind, inherited, plan, below=below, denied=parent.disallowed
    )
    tools = start.tools(factory.toolset.offer(factory.visible_tools(tools), model.card, kind), factory.toolset)

    def system(card: ModelCard) -> list[Block]:
        return subagent_prompt(kind, compact=factory.toolset.is_compact(card, kind))

    who = HookAgent(
        factory.session,
        factory.transcript,
        SUBAGENT,
        agent_id,
        agent_id,
        kind.name,
        parent=display_name(caller),
        generation=run.generation,
        own=path,
    )
    workplace = factory.make_workplace(inherited, model, cwd)
    header = factory.header(who, model, workplace)
    if start.origin is not None:
        conversation = start_fork(run, start.origin, path, header, workplace, factory.prefixes)
    elif start.former is not None:
        make_prefix = None if spec.fork else partial(factory.new_prefix, model, system(model.card), tools)
        conversation = factory.continue_conversation(start.former, model, kind, make_prefix)
    else:
        prefix = factory.new_prefix(model, system(model.card), tools, effort)
        conversation = Conversation.start(path, prefix, header, with_next=True)
    if spec.starts_in_plan_mode:
        plan.start(PlanExit.NEVER)
    if spec.fork:
        compaction = factory.compacting.make_for_fork(path)
    else:
        compaction = factory.compacting.make(None, kind, system, factory.prefixes)
    activity = factory.make_activity(who)
    forked = factory.living.get(caller) if spec.fork else None
    return factory.make_agent(
        who=who,
        model=model,
        inherited=inherited,
        workplace=workplace,
        activity=activity,
        tools=tools,
        conversation=conversation,
        meter=factory.meters.subagent(agent_id, caller, budget, lambda: activity.worked_s),
        emit=emit,
        plan=plan,
        compaction=compaction,
        model_calls_left=factory.rounds_left(spec, budget, conversation),
        session_note=str if spec.fork else lambda: factory.session_note_text(policy(), kind, inherited),
        wants_hour_cache=always_false if forked is None else forked.wants_hour_cache,
        caller=caller,
        parent_call=run.call,
    )


async def _find_tools(
    factory: AgentFactory,
    agent_id: str,
    card: ModelCard,
    kind: AgentType,
    inherited: Inheritance,
    plan: PlanMode,
    *,
    below: SessionTeam | None,
    denied: tuple[str, ...],
) -> list[AnyTool]:
    """Return the tools that its type allows a sub-agent, without those that are denied to its caller.

    `below` is the team of an agent that may start others.
    """
    own = factory.toolset.subagent_tools(agent_id, below, denied)
    own += factory.toolset.plan_tools(agent_id, plan, factory.plans, is_subagent=True)
    own = [tool for tool in own if kind.allows(tool.name)]
    return [*own, *await factory.server_tools(card, kind, inherited, (*NOT_FOR_SUBAGENTS, *denied))]


async def _enter_worktree(
    factory: AgentFactory, spec: SpawnSpec, parent: Inheritance, run: SubagentRun
) -> tuple[SpawnSpec, AgentWorkspace | None]:
    """Return the spec and the worktree of a sub-agent: its own, else its caller's. Raises TeamwrightError.

    A new one is at the commit of its caller. A resumed sub-agent keeps its worktree, unless it ended without work.
    """
    if spec.worktree is None and not spec.wants_worktree:
        return spec, factory.inheritances.get(spec.beside, parent).place
    from teamwright.worktrees.worktree_record import has_record

    if spec.worktree is None or not has_record(spec.worktree):
        start = None if parent.place is None else parent.place.scope.tree
        bounds = narrow(parent.sandbox, factory.resolver.definition(spec).sandbox)
        team = factory.team.name if factory.team is not None else ""
        record = await factory.worktrees.create(team, run.id, start, bounds)
        spec = replace(spec, worktree=record.tree, cwd=await _find_in_worktree(factory, spec, start, record))
    place = await factory.place_of(spec, spec.cwd)
    if place is not None:
        run.enter_worktree(place.record.path, spec.cwd, place.fork_notice)
    return spec, place


async def _find_in_worktree(
    factory: AgentFactory, spec: SpawnSpec, start: Path | None, record: WorktreeRecord
) -> Path | None:
    """Return the directory in a new worktree that corresponds to the one of the call; None when it names none.

    Raises UsageError where there is none, without the worktree.
    """
    from teamwright.session.agents.agent_workspace import find_in_worktree

    if spec.cwd is None:
        return None
    former = (spec.worktree, start, factory.worktrees.checkout_of(record))
    try:
        return find_in_worktree(spec.cwd, record.tree, [one for one in former if one is not None])
    except UsageError:
        await factory.worktrees.discard(record)
        raise


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
            [
                tool
                for tool in tools
                if (tool.name in named or (tool.is_deferred and SEARCH in named)) and tool.name not in _CALLERS
            ]
        )
        known = {tool.name for tool in have}
        return [*have, *(ForbiddenInFork(name) for name in named if name not in known and not is_mcp_tool_name(name))]


async def starting_point(
    spec: SpawnSpec, run: SubagentRun, caller: Agent | None, path: Path, prefixes: Path, *, is_resumed: bool
) -> StartingPoint:
    """Return the starting point of a sub-agent; `path` is its transcript. Raises StorageError, TeamRefused."""
    if is_resumed:
        former = await asyncio.to_thread(load_conversation, path, prefixes)
        return StartingPoint(spec.fork, former)
    return StartingPoint(spec.fork, origin=_origin_of_fork(caller, run)) if spec.fork else StartingPoint()


def _origin_of_fork(caller: Agent | None, run: SubagentRun) -> Agent:
    """Return the agent to fork, whose call asks for the fork. Raises TeamRefused."""
    if caller is None or all(call.id != run.call for call in tool_calls(caller.conversation.last_content())):
        what = "a fork begins at a call of the agent that it is made of, and there is none"
        do = "Name a subagent_type."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    talk = caller.conversation
    if is_fork(talk.header) or contains_fork_prompt(talk.items):
        what = "a fork cannot be forked"
        do = "Do the job yourself."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    return caller


def start_fork(
    run: SubagentRun, origin: Agent, path: Path, about: Mapping[str, Any], workplace: Workplace, prefixes: Path
) -> Conversation:
    """Start a fork's conversation where its caller's is; files that the caller has read count as read."""
    run.note_directory(workplace.cwd, origin.toolbox.workplace.cwd)
    store_prefix(prefixes, origin.conversation.prefix)
    workplace.seen_files.update(origin.toolbox.workplace.seen_files)
    return origin.conversation.fork(path, about)


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
        prompt_size=definition.prompt_size,
        source=definition.source,
        file=definition.file,
        hooks=hooks,
    )
